"""A statement has exactly the members, types and ranges of its version; another version is unknown, not wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from google.protobuf.json_format import ParseDict
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import statement
from provstore.model.evidence import RankHead

A, B, C, ZEROS = "a" * 64, "b" * 64, "c" * 64, "0" * 64
EPOCH = statement.Epoch(
    run="job/7", attempt=1, store="s-1", number=2, first=80, size=120, root=A, prev=B, subject_sha256=C,
    train_epoch=3, steps=(10, 19), world=8,
    ranks=(RankHead(0, 5, A), RankHead(3, 7, B, "SHA256:x", "AA==")), ranks_sha256=None,
    policy=statement.Policy(A, "delta", "loss rose"),
    wall="2026-08-01T12:00:00.123456789Z", mono_ns=-5, clock_source="time.time_ns",
    anchors=(statement.AnchorClaim("provstore/s-1/job%2F7/1", 40, C, "2026-08-01T11:00:00Z"),), closed=False,
)  # fmt: skip

WRITTEN = {
    "_type": "https://in-toto.io/Statement/v1",
    "predicateType": "https://w3id.org/provstore/predicate/epoch/v1",
    "subject": [{"name": "job/7/1/epoch-2", "digest": {"sha256": C}}],
    "predicate": {
        "schema": 1, "run": "job/7", "attempt": 1, "store": "s-1", "epoch": 2, "trainEpoch": 3, "steps": [10, 19],
        "world": 8, "first": 80, "size": 120, "root": A, "prev": B,
        "perRank": [
            {"rank": 0, "count": 5, "head": A, "keyid": None, "sig": None},
            {"rank": 3, "count": 7, "head": B, "keyid": "SHA256:x", "sig": "AA=="},
        ],
        "perRankSha256": None,
        "policy": {"digest": A, "mode": "delta", "reason": "loss rose"},
        "clock": {"wall": "2026-08-01T12:00:00.123456789Z", "mono": "i64:-5", "source": "time.time_ns"},
        "anchors": [
            {"origin": "provstore/s-1/job%2F7/1", "root": C, "seen": "2026-08-01T11:00:00Z", "size": 40}
        ],
        "closed": False,
    },
}  # fmt: skip
"""The same epoch, written by hand from the specification."""


def refusal(payload: bytes) -> str:
    with pytest.raises(TrustError) as refused:
        statement.parse(payload)
    return refused.value.code


def edited(edit: Callable[[Any], object]) -> bytes:
    """Return the canonical text of the statement after an edit, by rfc8785."""
    value = json.loads(json.dumps(WRITTEN))
    edit(value)
    return rfc8785.dumps(value)


def test_the_payload_is_the_canonical_form_of_the_statement_written_by_hand() -> None:
    assert EPOCH.payload() == rfc8785.dumps(WRITTEN)
    assert statement.parse(rfc8785.dumps(WRITTEN)) == EPOCH


def test_in_toto_attestation_takes_it_for_a_statement() -> None:
    parsed = ParseDict(json.loads(EPOCH.payload()), statement_pb2.Statement())
    Statement.copy_from_pb(parsed).validate()


@pytest.mark.parametrize(
    "change",
    [
        {"train_epoch": None, "steps": None, "world": None, "anchors": (), "ranks": (), "closed": True},
        {"run": "", "store": "", "number": 0, "first": 0, "size": 1, "attempt": 0, "prev": ZEROS},
        {"run": 'é😀\0\u202e"\\', "policy": statement.Policy(ZEROS, "full", "\n")},
        {"ranks": (), "ranks_sha256": A},
        {"anchors": (statement.AnchorClaim("", 0, A, None),)},
        {"wall": "2016-12-31T23:59:60Z", "mono_ns": 2**63 - 1},
        {"size": 2**53 - 1, "steps": (0, 0)},
    ],
)  # fmt: skip
def test_what_is_signed_is_read_back(change: dict[str, Any]) -> None:
    epoch = dataclasses.replace(EPOCH, **change)

    assert statement.parse(epoch.payload()) == epoch


@pytest.mark.parametrize(
    "change",
    [
        {"size": 80}, {"size": 2**53}, {"first": -1}, {"root": "A" * 64}, {"prev": ""}, {"steps": (2, 1)},
        {"wall": "now"},
        {"mono_ns": 2**63}, {"ranks": (RankHead(1, 1, A), RankHead(0, 1, A))}, {"ranks": (RankHead(0, 1, A, "x"),)},
        {"run": "\ud800"}, {"policy": statement.Policy(A, "none", "")}, {"closed": 1}, {"world": 1.5},
        {"attempt": True},
    ],
)  # fmt: skip
def test_an_epoch_that_nobody_could_read_is_not_written(change: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, InputError), match=r"statement|record"):
        dataclasses.replace(EPOCH, **change).payload()


def put(*path: str | int, to: object) -> Callable[[Any], None]:
    def edit(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = to

    return edit


def drop(*path: str | int) -> Callable[[Any], None]:
    def edit(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        del value[path[-1]]

    return edit


P = "predicate"
_MEMBERS = [(P, name) for name in WRITTEN[P]]  # type: ignore[attr-defined]
_INNER = [
    *((P, "policy", name) for name in ("digest", "mode", "reason")),
    *((P, "clock", name) for name in ("wall", "mono", "source")),
    *((P, "perRank", 0, name) for name in ("rank", "count", "head", "keyid", "sig")),
    *((P, "anchors", 0, name) for name in ("origin", "root", "seen", "size")),
    *(("subject", 0, name) for name in ("name", "digest")),
    ("subject", 0, "digest", "sha256"),
    *((name,) for name in ("_type", "predicateType", "subject", "predicate")),
]


@pytest.mark.parametrize("path", [*_MEMBERS, *_INNER], ids=str)
def test_a_statement_without_one_of_its_members_is_malformed(path: tuple[str | int, ...]) -> None:
    assert refusal(edited(drop(*path))) == "envelope-malformed"


_OBJECTS = [
    (),
    (P,),
    *((P, name) for name in ("policy", "clock")),
    *((P, name, 0) for name in ("perRank", "anchors")),
    ("subject", 0),
    ("subject", 0, "digest"),
]


@pytest.mark.parametrize("path", _OBJECTS, ids=str)
def test_a_statement_with_an_unknown_member_is_malformed(path: tuple[str | int, ...]) -> None:
    assert refusal(edited(put(*path, "extra", to=1))) == "envelope-malformed"


@pytest.mark.parametrize("path", [*_MEMBERS, *_INNER], ids=str)
@pytest.mark.parametrize("value", [-1, True, "x", [], {}, [None], {"a": 1}], ids=repr)
def test_no_member_takes_a_value_of_another_type(path: tuple[str | int, ...], value: object) -> None:
    """Every member refuses at least all but the types it has; what it takes is a text, a truth or a list it may be."""
    takes = {
        "x": {"run", "store", "reason", "source", "origin", "seen"},
        "True": {"closed"},
        "[]": {"perRank", "anchors"},
    }
    if path[-1] in takes.get(str(value), set()):
        return
    if path[-1] in {"_type", "predicateType"} and value == "x":
        assert refusal(edited(put(*path, to=value))) == "unknown-schema"
        return
    if path[-1] == "schema" and value == -1:
        assert refusal(edited(put(*path, to=value))) == "unknown-schema"
        return
    if path[-1] in {"run", "attempt", "epoch"} and value == "x":
        return
    assert refusal(edited(put(*path, to=value))) == "envelope-malformed"


@pytest.mark.parametrize(
    "edit",
    [
        put(P, "size", to=80), put(P, "size", to=79), put(P, "first", to=120), put(P, "root", to="A" * 64),
        put(P, "root", to="a" * 63), put(P, "root", to="a" * 65), put(P, "prev", to="a" * 63 + "\n"),
        put(P, "prev", to="ａ" * 64), put("subject", to=[]), put("subject", to=WRITTEN["subject"] * 2),
         # type: ignore[operator]
        put("subject", 0, "name", to="job/7/1/epoch-3"), put(P, "epoch", to=3), put(P, "run", to="job"),
        put(P, "attempt", to=2),
        put("subject", 0, "digest", "sha512", to=A), put(P, "steps", to=[1]), put(P, "steps", to=[1, 2, 3]),
        put(P, "steps", to=[2, 1]), put(P, "steps", to=[-1, 1]), put(P, "perRank", 1, "rank", to=0),
        put(P, "perRank", 0, "rank", to=4), put(P, "perRank", 0, "keyid", to="x"), put(P, "perRank", 1, "sig",
        to=None),
        put(P, "perRankSha256", to=A), put(P, "policy", "mode", to="Full"), put(P, "clock", "mono", to="i64:05"),
        put(P, "clock", "mono", to="u64:5"), put(P, "clock", "mono", to="i64:9223372036854775808"),
        *(put(P, "clock", "wall", to=wall) for wall in (
            "", "2026-08-01", "2026-08-01T12:00:00", "2026-08-01T12:00:00+00:00", "2026-13-01T12:00:00Z",
            "2026-08-32T12:00:00Z",
            "2026-08-01T24:00:00Z", "2026-08-01T12:60:00Z", "2026-08-01T12:00:61Z", "2026-08-01T12:00:00.Z",
            "2026-08-01T12:00:00.1234567890Z", "2026-08-01t12:00:00z", "2026-08-01T12:00:00Z\n",
            "٢026-08-01T12:00:00Z",
        )),
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_malformed(edit: Callable[[Any], None]) -> None:
    assert refusal(edited(edit)) == "envelope-malformed"


@pytest.mark.parametrize(
    "edit",
    [
        put("_type", to="https://in-toto.io/Statement/v2"), put("predicateType", to="https://slsa.dev/provenance/v1"),
        put(P, "schema", to=2), put(P, "schema", to=0), lambda value: value[P].update(schema=2, more="x"),
        lambda value: value.update(_type="x", more=1),
    ],
)  # fmt: skip
def test_another_type_or_version_is_unknown_whatever_else_it_holds(edit: Callable[[Any], None]) -> None:
    assert refusal(edited(edit)) == "unknown-schema"


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"{", b"\xff", b"\xef\xbb\xbf" + EPOCH.payload(), EPOCH.payload() + b"\n", b" " + EPOCH.payload(),
        json.dumps(WRITTEN).encode(), EPOCH.payload() + b" ",
        EPOCH.payload().replace(b'"closed":false', b'"closed":false,"closed":false'),
        EPOCH.payload().replace(b'"size":120', b'"size":120.0'),
        EPOCH.payload().replace(b'"size":120', b'"size":1.2e2'),
        EPOCH.payload().replace(b'"size":120', b'"size":9007199254740992'),
        EPOCH.payload().replace(b'"size":120', b'"size":-0'),
        EPOCH.payload().replace(b'"size":120', b'"Size":120'), EPOCH.payload().replace(b"job/7", b"job\\/7"),
        EPOCH.payload().replace(b"loss rose", b"\\ud800"), EPOCH.payload().replace(b"loss rose", b"\xed\xa0\x80"),
        EPOCH.payload().replace(b"false", b"NaN"), EPOCH.payload().decode().encode("utf-16"),
    ],
)  # fmt: skip
def test_a_payload_in_another_spelling_is_not_canonical(payload: bytes) -> None:
    assert refusal(payload) == "payload-noncanonical"


@pytest.mark.parametrize("payload", [b"[]", b"{}", b"1", b"null", b'"x"', b'{"predicate":[]}'])
def test_canonical_json_of_something_else_is_malformed(payload: bytes) -> None:
    assert refusal(payload) == "envelope-malformed"


@pytest.mark.parametrize(("size", "fits"), [(-1, True), (0, True), (1, False)])
def test_a_statement_has_a_mebibyte_at_most(size: int, fits: bool) -> None:
    short = dataclasses.replace(EPOCH, policy=statement.Policy(A, "full", ""))
    room = (1 << 20) - len(short.payload()) + size
    payload = short.payload().replace(b'"reason":""', b'"reason":"' + b"x" * room + b'"')
    assert len(payload) == (1 << 20) + size
    if fits:
        assert len(statement.parse(payload).policy.reason) == room
    else:
        assert refusal(payload) == "cap-exceeded"


@pytest.mark.parametrize("depth", [33, 100_000])
def test_a_deep_statement_is_not_looked_at(depth: int) -> None:
    assert refusal(EPOCH.payload().replace(b"false", b"[" * depth + b"]" * depth)) == "cap-exceeded"


@pytest.mark.parametrize(("count", "inside"), [(0, True), (1_999, True), (2_000, True), (2_001, False)])
def test_two_thousand_ranks_are_listed_and_more_stand_as_a_digest(count: int, inside: bool) -> None:
    heads = [RankHead(rank, 1, A) for rank in range(count)]
    ranks, digest = statement.listed(heads[::-1])
    text = rfc8785.dumps([{"count": 1, "head": A, "keyid": None, "rank": rank, "sig": None} for rank in range(count)])

    assert statement.ranks_digest(heads) == hashlib.sha256(text).hexdigest()
    assert (ranks, digest) == ((tuple(heads), None) if inside else ((), hashlib.sha256(text).hexdigest()))
    epoch = dataclasses.replace(EPOCH, ranks=ranks, ranks_sha256=digest)
    assert statement.parse(epoch.payload()) == epoch
    if not inside:
        everyone = [{"count": 1, "head": A, "keyid": None, "rank": rank, "sig": None} for rank in range(count)]
        assert refusal(edited(put(P, "perRank", to=everyone))) == "envelope-malformed"


@pytest.mark.parametrize("count", [1, 2, 511, 512, 513, 1_024, 1_500])
def test_the_digest_of_an_epoch_is_that_of_its_file(count: int) -> None:
    lines = [b'{"n":%d}' % number for number in range(count)]
    file = b"".join(line + b"\n" for line in lines)

    assert statement.epoch_digest(lines) == hashlib.sha256(file).hexdigest()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("extra",), 1, "statement: needs exactly the members _type, predicate, predicateType, subject"),
        ((P, "extra"), 1, "predicate: needs exactly the members anchors, attempt, clock, closed, epoch, first, "),
        (("_type",), 1, "_type: is missing, or of another type"),
        (("predicateType",), None, "predicateType: is missing, or of another type"),
        ((P, "schema"), "1", "schema: is missing, or of another type"),
        ((P, "schema"), True, "schema: is missing, or of another type"),
        (("_type",), "x" * 99, f"_type: '{'x' * 80}' is not known here"),
        ((P, "schema"), 2, "schema: '2' is not known here"),
        (("subject",), {}, "subject: is no list"),
        (("subject",), [], "subject: 0 are not one"),
        (("subject", 0), 1, "subject: needs exactly the members digest, name"),
        (("subject", 0, "digest"), 1, "digest: needs exactly the members sha256"),
        (("subject", 0, "digest", "sha256"), "x", "subject: sha256: is not 64 hex digits"),
        (("subject", 0, "name"), "x", "subject: is not named after run, attempt and epoch of the predicate"),
        ((P, "policy"), 1, "policy: needs exactly the members digest, mode, reason"),
        ((P, "policy", "digest"), "x", "policy: digest: is not 64 hex digits"),
        ((P, "policy", "mode"), "x", "policy: mode: is not one of validation, delta, full"),
        ((P, "policy", "reason"), 1, "reason: is no string"),
        ((P, "clock"), 1, "clock: needs exactly the members mono, source, wall"),
        ((P, "clock", "wall"), 1, "wall: is no string"),
        ((P, "clock", "wall"), "now", "clock: wall: is no time in UTC"),
        ((P, "clock", "mono"), 1, "clock: mono: is no string"),
        ((P, "clock", "mono"), "5", "clock: mono: is no tagged integer"),
        ((P, "clock", "source"), 1, "clock: source: is no string"),
        ((P, "closed"), 1, "closed: is neither true nor false"),
        ((P, "first"), -1, "first: is no number from 0"),
        ((P, "size"), True, "size: is no number from 0"),
        ((P, "size"), 80, "size: 80 is not above first, 80"),
        ((P, "run"), 1, "run: is no string"),
        ((P, "store"), 1, "store: is no string"),
        ((P, "attempt"), "1", "attempt: is no number from 0"),
        ((P, "epoch"), -1, "epoch: is no number from 0"),
        ((P, "trainEpoch"), -1, "trainEpoch: is no number from 0"),
        ((P, "world"), "8", "world: is no number from 0"),
        ((P, "root"), 1, "root: is not 64 hex digits"),
        ((P, "prev"), "x", "prev: is not 64 hex digits"),
        ((P, "steps"), 1, "steps: is no list"),
        ((P, "steps"), [1], "steps: are not two"),
        ((P, "steps"), [1, -1], "steps: is no number from 0"),
        ((P, "steps"), [2, 1], "steps: 1 is before 2"),
        ((P, "perRank"), 1, "perRank: is no list"),
        ((P, "perRank", 0), 1, "perRank: needs exactly the members count, head, keyid, rank, sig"),
        ((P, "perRank", 0, "rank"), -1, "perRank: rank: is no number from 0"),
        ((P, "perRank", 0, "count"), -1, "perRank: count: is no number from 0"),
        ((P, "perRank", 0, "head"), "x", "perRank: head: is not 64 hex digits"),
        ((P, "perRank", 1, "keyid"), 1, "perRank: keyid: is no string"),
        ((P, "perRank", 1, "sig"), 1, "perRank: sig: is no string"),
        ((P, "perRank", 1, "sig"), None, "perRank: a head has a signature without a key, or a key without a signature"),
        ((P, "perRank", 1, "rank"), 0, "perRank: ranks are not in order, once each"),
        ((P, "perRankSha256"), A, "perRankSha256: stands beside listed ranks"),
        ((P, "anchors"), 1, "anchors: is no list"),
        ((P, "anchors", 0), 1, "anchors: needs exactly the members origin, root, seen, size"),
        ((P, "anchors", 0, "origin"), 1, "anchors: origin: is no string"),
        ((P, "anchors", 0, "seen"), 1, "anchors: seen: is no string"),
        ((P, "anchors", 0, "root"), "x", "anchors: root: is not 64 hex digits"),
        ((P, "anchors", 0, "size"), -1, "anchors: size: is no number from 0"),
    ],
    ids=lambda one: ".".join(map(str, one)) if isinstance(one, tuple) else None,
)
def test_a_refusal_of_a_statement_begins_with_the_place(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    with pytest.raises(TrustError) as refused:
        statement.parse(edited(put(*path, to=value)))
    assert str(refused.value).startswith(f"statement: {message}")


def test_a_digest_of_unlisted_ranks_that_is_none_is_named() -> None:
    def edit(value: Any) -> None:
        value[P].update(perRank=[], perRankSha256="x")

    with pytest.raises(TrustError, match="statement: perRankSha256: is not 64 hex digits"):
        statement.parse(edited(edit))


def test_the_reason_why_a_statement_cannot_be_written_is_that_for_which_it_could_not_be_read() -> None:
    with pytest.raises(ConfigError, match="statement: size: 80 is not above first, 80"):
        dataclasses.replace(EPOCH, size=80).payload()


@pytest.mark.parametrize("payload", [b"\xff", b"[" * 40, b" {}"])
def test_a_text_that_is_no_statement_is_named_as_one(payload: bytes) -> None:
    with pytest.raises(TrustError) as refused:
        statement.parse(payload)
    assert str(refused.value).startswith("statement: ")


def test_heads_are_put_in_order_and_their_digest_leaves_out_who_signed_them() -> None:
    plain, signed = RankHead(3, 7, B), RankHead(3, 7, B, "SHA256:x", "AA==")
    text = rfc8785.dumps([{"count": 7, "head": B, "keyid": None, "rank": 3, "sig": None}])

    assert statement.ranks_digest([signed]) == statement.ranks_digest([plain]) == hashlib.sha256(text).hexdigest()
    assert statement.listed([signed, RankHead(0, 1, A)]) == ((RankHead(0, 1, A), signed), None)


@pytest.mark.parametrize(
    ("digest", "weakest", "effective"),
    [
        (A, None, ("full", "audit")),
        (A, ("full", "first"), ("full", "audit")),
        (A, ("delta", "load"), ("delta", "load")),
        (ZEROS, None, ("full", "audit")),
        (ZEROS, ("full", "first"), ("full", "first")),
    ],
)
def test_the_weakest_mode_of_the_records_counts_and_else_what_the_policy_states(
    digest: str, weakest: tuple[str, str] | None, effective: tuple[str, str]
) -> None:
    stated = statement.Policy(digest, "full", "audit")

    assert statement.effective(stated, weakest) == statement.Policy(digest, *effective)
