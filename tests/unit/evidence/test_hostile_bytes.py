"""Whatever bytes come in, a parser of evidence answers, or refuses with a code; it never trips over them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from provstore.errors import InputError, TrustError
from provstore.evidence import checkpoint, dsse, keys, merkle, records, statement
from provstore.model import canonical
from provstore.model.evidence import Observation, RankHead

A = "a" * 64
KEY = keys.PrivateKey.generate()
LEAVES = merkle.leaf_hashes([b"%d" % number for number in range(9)])
NOTE = checkpoint.make("provstore/s/r/0", 9, merkle.root_of(LEAVES), KEY)
PAYLOAD = statement.Epoch(
    run="r",
    attempt=0,
    store="s",
    number=0,
    first=0,
    size=9,
    root=merkle.root_of(LEAVES).hex(),
    prev=statement.NO_DIGEST,
    subject_sha256=A,
    train_epoch=None,
    steps=(1, 2),
    world=2,
    ranks=(RankHead(0, 9, A, "SHA256:x", "AA=="),),
    ranks_sha256=None,
    policy=statement.Policy(A, "full", "é"),
    wall="2026-08-01T12:00:00Z",
    mono_ns=1,
    clock_source="c",
    anchors=(statement.AnchorClaim("o", 1, A, None),),
    closed=False,
).payload()
LINE = records.observation(
    "r", 0, 0, Observation("é", {"a": 0.5, "b": 2**62, "c": "😀", "d": None, "e": True}, 1, 2, 3)
)
ENVELOPE = dsse.sign(PAYLOAD, dsse.INTOTO, KEY)
CODES = {
    "envelope-malformed",
    "base64-noncanonical",
    "payload-noncanonical",
    "unknown-schema",
    "cap-exceeded",
    "root-mismatch",
}


@dataclass(frozen=True)
class Parser:
    """A parser, something it takes, and the bytes that its answer stands for."""

    read: Callable[[bytes], object]
    seed: bytes
    again: Callable[[object], bytes]


def proof(data: bytes) -> object:
    index, hashes, head = checkpoint.parse_tlog_proof(data)
    merkle.check_inclusion(LEAVES[4], index, head.size, head.root, hashes)
    return index, hashes, head


PARSERS = {
    "envelope": Parser(dsse.parse, ENVELOPE.encode(), lambda found: found.encode()),
    "foreign envelope": Parser(dsse.parse_foreign, ENVELOPE.encode(), lambda found: found[0].encode()),
    "statement": Parser(statement.parse, PAYLOAD, lambda found: found.payload()),
    "record": Parser(records.parse, LINE, canonical.encode),
    "checkpoint": Parser(checkpoint.parse, NOTE, lambda found: found.note),
    "proof": Parser(
        proof,
        checkpoint.tlog_proof(4, merkle.inclusion(LEAVES, 4, 9), NOTE),
        lambda found: checkpoint.tlog_proof(found[0], found[1], found[2].note),
    ),
}
STRICT = ("envelope", "statement", "record", "checkpoint")


def judged(name: str, data: bytes) -> bool:
    """Return whether the parser takes the bytes; it may refuse them with a known code and do nothing else."""
    parser = PARSERS[name]
    try:
        found = parser.read(data)
    except TrustError as error:
        code, text = error.code, str(error)
    else:
        if name in STRICT:
            assert parser.again(found) == data
        return True
    assert code in CODES
    assert len(text) < 2_000
    return False


def mutations(seed: bytes) -> st.SearchStrategy[bytes]:
    """Give the seed with pieces cut out, repeated, moved or replaced, as an attacker would try."""
    at = st.integers(0, len(seed))
    pieces = st.binary(max_size=8) | st.sampled_from(
        [
            b"\0",
            b"\n",
            b"\n\n",
            b'"',
            b"\\",
            b"\\ud800",
            b"\xed\xa0\x80",
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"NaN",
            b"1e999",
            b"-0",
            b"{",
            b"}",
            b"[" * 40,
            b"[]",
            b",",
            b":",
            b"9" * 30,
            b"null",
            b"true",
            b"=",
            b"==",
            b" ",
            b"\xe2\x80\x94 ",
            b"+",
            b"_",
        ]
    )

    def edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
        for start, length, piece in edits:
            data = data[:start] + piece + data[start + length :]
        return data

    edits = st.lists(st.tuples(at, st.integers(0, 12), pieces), min_size=1, max_size=3)
    swapped = (
        st.tuples(at, at, at)
        .map(sorted)
        .map(lambda c: seed[: c[0]] + seed[c[1] : c[2]] + seed[c[0] : c[1]] + seed[c[2] :])
    )
    return (
        edits.map(lambda found: edited(seed, found))
        | swapped
        | at.map(lambda end: seed[:end])
        | at.map(lambda start: seed[start:] + seed)
    )


@pytest.mark.parametrize("name", PARSERS)
def test_the_seed_is_taken(name):
    assert judged(name, PARSERS[name].seed)


@pytest.mark.parametrize("name", PARSERS)
def test_arbitrary_bytes_are_answered_or_refused(name):
    @settings(max_examples=200)
    @given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
    @example(b"")
    @example(b"\0" * 70_000)
    @example(b"[" * 60_000)
    @example(b"9" * 5_000)
    @example(b'{"a":' * 10_000)
    @example(b'"' * 9_999)
    @example(b"\\" * 9_999)
    def check(data):
        assert not judged(name, data)

    check()


@pytest.mark.parametrize("name", PARSERS)
def test_altered_good_bytes_are_answered_or_refused(name):
    @settings(max_examples=300)
    @given(mutations(PARSERS[name].seed))
    def check(data):
        judged(name, data)

    check()


def documents():
    leaf = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from([A, "i64:1", "r"])
    )
    names = st.text(max_size=6) | st.sampled_from(
        [
            "payload",
            "payloadType",
            "signatures",
            "keyid",
            "sig",
            "_type",
            "predicate",
            "predicateType",
            "schema",
            "kind",
            "n",
            "subject",
            "run",
            "at",
            "values",
            "perRank",
        ]
    )
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6), max_leaves=12
    )


@pytest.mark.parametrize("name", ["envelope", "foreign envelope", "statement", "record"])
def test_any_json_document_is_answered_or_refused(name):
    @settings(max_examples=200)
    @given(documents(), st.booleans())
    def check(value, sort):
        judged(
            name,
            json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=not sort).encode(
                "utf-8", "surrogatepass"
            ),
        )

    check()


@pytest.mark.parametrize("name", ["statement", "record"])
def test_a_member_of_any_value_is_answered_or_refused(name):
    """One member of a good document is replaced by anything canonical JSON can say."""
    whole = canonical.parse(PARSERS[name].seed)
    places = list(paths(whole))
    in_profile = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["n", "t", "v", "sha256"]), inner, max_size=3)
        ),
        max_leaves=6,
    )

    @settings(max_examples=300)
    @given(st.sampled_from(places), in_profile)
    def check(place, value):
        judged(name, canonical.encode(replaced(whole, place, value)))

    check()


def paths(value, before=()):
    """Yield the way to every value inside."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*before, key)
        yield from paths(inner, (*before, key))


def replaced(value, path, by):
    if not path:
        return by
    if isinstance(value, dict):
        return {key: replaced(inner, path[1:], by) if key == path[0] else inner for key, inner in value.items()}
    return [replaced(inner, path[1:], by) if at == path[0] else inner for at, inner in enumerate(value)]


def flips(data: bytes, most: int) -> list[bytes]:
    bits = range(len(data) * 8)
    chosen = bits if len(bits) <= most else sorted(random.Random(len(data)).sample(bits, most))
    return [data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :] for bit in chosen]


def test_every_flipped_bit_of_a_bundle_is_refused_or_spoils_its_signature_or_changes_only_the_hint():
    for data in flips(ENVELOPE.encode(), 3_000):
        if not judged("envelope", data):
            continue
        found = dsse.parse(data)
        if keys.is_signed(KEY.public_key, found.signed_bytes(), found.signatures[0].sig):
            assert found.payload == PAYLOAD
            assert found.signatures[0].sig == ENVELOPE.signatures[0].sig
            assert found.signatures[0].keyid != keys.fingerprint(KEY.public_key)


def test_every_flipped_bit_of_a_checkpoint_is_refused_or_spoils_its_signature():
    for data in flips(NOTE, 3_000):
        if judged("checkpoint", data):
            assert not checkpoint.check(checkpoint.parse(data), KEY.public_key)


def test_every_flipped_bit_of_a_proof_is_refused_or_spoils_its_signature():
    seed = PARSERS["proof"].seed
    for data in flips(seed, 4_000):
        if judged("proof", data):
            assert not checkpoint.check(checkpoint.parse_tlog_proof(data)[2], KEY.public_key)


def test_every_flipped_bit_of_a_record_changes_its_leaf():
    for data in flips(LINE, 3_000):
        assert merkle.leaf_hash(data) != merkle.leaf_hash(LINE)
        judged("record", data)


@settings(max_examples=300)
@given(
    st.binary(max_size=40),
    st.integers(-5, 2**70),
    st.integers(-5, 2**70),
    st.binary(max_size=40),
    st.lists(st.binary(max_size=40)),
)
def test_any_proof_is_answered_or_refused(leaf, index, size, root, hashes):
    for check in (
        lambda: merkle.check_inclusion(leaf, index, size, root, hashes),
        lambda: merkle.check_consistency(index, leaf, size, root, hashes),
    ):
        try:
            check()
        except TrustError as error:
            assert error.code in {"root-mismatch", "cap-exceeded"}  # noqa: PT017
        else:
            assert leaf == root or (index, size, hashes) == (0, 1, [])


@settings(max_examples=200)
@given(
    st.text(max_size=40)
    | st.tuples(
        st.sampled_from(["f64:", "i64:", "u64:", "b64:", "f32:", "f16:", "bf16:", "f32:nan:"]),
        st.text("0123456789abcdefxp+-.infA=/ ", max_size=24),
    ).map("".join)
)
def test_any_text_is_a_tagged_value_in_its_one_spelling_or_none(text):
    for read, write in (
        (canonical.tagged_double, canonical.tag_double),
        (canonical.tagged_integer, canonical.tag_integer),
        (canonical.tagged_unsigned, canonical.tag_unsigned),
        (canonical.tagged_bytes, canonical.tag_bytes),
        (canonical.tagged_bits, lambda found: canonical.tag_bits(*found)),
    ):
        try:
            value = read(text)
        except InputError:
            continue
        assert write(value) == text
