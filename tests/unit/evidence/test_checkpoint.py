"""A checkpoint is a signed note with one spelling; a proof carries it as it is."""

from __future__ import annotations

import base64
import hashlib

import nacl.exceptions
import nacl.signing
import pytest

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import checkpoint, keys, merkle

KEY = keys.PrivateKey.generate()
ORIGIN = "provstore/s-1/run/0"
ROOT = bytes(range(32))
DASH = "— "


def b64(data):
    return base64.b64encode(data).decode()


def note(origin=ORIGIN, size="7", root=None, lines=None):
    """Return a note by the words of the standard."""
    body = f"{origin}\n{size}\n{b64(ROOT) if root is None else root}\n"
    return (body + "\n" + "".join(lines or [line(origin, body)])).encode()


def line(name=ORIGIN, body="", key=KEY, kind=b"\x01"):
    short = hashlib.sha256(name.encode() + b"\n" + kind + key.public_key).digest()[:4]
    return f"{DASH}{name} {b64(short + key.sign(body.encode()))}\n"


BODY = f"{ORIGIN}\n7\n{b64(ROOT)}\n"


def refusal(parse, data):
    with pytest.raises(TrustError) as refused:
        parse(data)
    return refused.value.code


def test_a_note_is_made_as_the_standard_says_and_read_back():
    made = checkpoint.make(ORIGIN, 7, ROOT, KEY)

    assert made == note()
    found = checkpoint.parse(made)
    assert (found.origin, found.size, found.root, found.note) == (ORIGIN, 7, ROOT, made)
    assert found.text == BODY.encode()
    assert checkpoint.check(found, KEY.public_key)
    assert not checkpoint.check(found, keys.PrivateKey.generate().public_key)


def test_the_verifier_key_is_that_of_the_published_example():
    """The documentation of Go's sumdb/note shows this key, and a note that it signed."""
    published = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    raw = base64.b64decode(published.split("+", 2)[2])
    said = b"If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    sig = base64.b64decode(
        "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    )

    assert checkpoint.vkey("PeterNeumann", raw[1:]) == published
    assert checkpoint.key_hash("PeterNeumann", raw[1:]).hex() == "c74f20a3"
    assert sig[:4] == checkpoint.key_hash("PeterNeumann", raw[1:])
    assert keys.is_signed(raw[1:], said, sig[4:])


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("provstore", "s", "run-1", 0), "provstore/s/run-1/0"),
        (("o", "s", "a b+c/d", 3), "o/s/a%20b%2Bc%2Fd/3"),
        (("o", "s", "", 0), "o/s/%/0"),
        (("o", "s", "%", 0), "o/s/%25/0"),
        (("o", "s", "é😀", 0), "o/s/%C3%A9%F0%9F%98%80/0"),
        (("o", "s", "a.b_c~d-e\n\0", 0), "o/s/a.b_c~d-e%0A%00/0"),
        (("o/p", "s t", "r", 0), "o%2Fp/s%20t/r/0"),
    ],
)
def test_an_origin_keeps_letters_digits_and_four_signs(parts, name):
    assert checkpoint.origin(*parts) == name


def test_different_runs_have_different_origins():
    runs = ["", "%", "a", "a/0", "a%2F0", "A", "a ", "a+", "a%20", "%25", "..", "."]

    assert len({checkpoint.origin("o", "s", run, 0) for run in runs}) == len(runs)


def test_an_origin_of_a_lone_surrogate_is_refused():
    with pytest.raises(InputError, match="surrogate"):
        checkpoint.origin("o", "s", "\ud800", 0)


@pytest.mark.parametrize(
    ("origin", "size", "root"), [("", 1, ROOT), ("a b", 1, ROOT), ("a+b", 1, ROOT), ("a", -1, ROOT), ("a", 1, b"")]
)
def test_what_no_note_can_hold_is_not_signed(origin, size, root):
    with pytest.raises(ConfigError, match="checkpoint"):
        checkpoint.make(origin, size, root, KEY)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n", b"\n\n", b"\xff", note()[:-1], note() + b"\n", note() + b"x", b"\n" + note(),
        note()[1:].replace(b"\n\n", b"\n"),
        *(note(origin=name, lines=[line()]) for name in ("", "a b", "a+b", "a\u00a0b", "a\u2003b")),
        note(origin=""), note(origin="a b"), note(origin="a+b"), note(origin="a\u00a0b"), note(origin="a\tb"),
        note(origin="a\rb"),
        note(origin="a\u2003b"),
        note(size=""), note(size="07"), note(size="-1"), note(size="+7"), note(size="7 "), note(size="7.0"),
        note(size="0x7"),
        note(size="٧"), note(size="1" * 20), note(size="9" * 5_000), note(size="1_0"),
        note(root=""), note(root=b64(ROOT[:31])), note(root=b64(ROOT + b"\0")), note(root=b64(ROOT)[:-1]),
        note(root=b64(ROOT).replace("8=", "9=")), note(root=b64(ROOT) + " "),
        note(root=b64(bytes([255] * 32)).replace("/", "_")),
        note(root=b64(ROOT) + "\nextension"), note(root=b64(ROOT) + "\n"),
        note(lines=["\n"]), note(lines=["x\n"]), note(lines=[DASH + "\n"]), note(lines=[f"{DASH}{ORIGIN}\n"]),
        note(lines=[f"{DASH}{ORIGIN} \n"]), note(lines=[f"{DASH}{ORIGIN} AAAA\n"]),
        note(lines=[f"{DASH}{ORIGIN} {b64(bytes(4))}\n"]),
        note(lines=[f"{DASH}{ORIGIN} !!!!\n"]), note(lines=[f"- {ORIGIN} {b64(bytes(68))}\n"]),
        note(lines=[f"{DASH}{ORIGIN}  {b64(bytes(68))}\n"]), note(lines=[f"{DASH} {b64(bytes(68))}\n"]),
        note(lines=[f"{DASH}a+b {b64(bytes(68))}\n"]), note(lines=[line(), "garbage\n"]),
        note(lines=[line() + "\r\n"]),
        note(lines=[f"{DASH}{ORIGIN} {b64(bytes(68))} x\n"]), note(lines=[f"{DASH}{ORIGIN} {b64(bytes(67))[:-1]}\n"]),
    ],
)  # fmt: skip
def test_what_is_not_exactly_a_checkpoint_is_malformed(data):
    assert refusal(checkpoint.parse, data) == "envelope-malformed"


def test_signature_lines_of_unknown_keys_are_ignored():
    other = keys.PrivateKey.generate()
    witness = f"{DASH}witness.example {b64(bytes(4) + bytes(72))}\n"
    later = f"{DASH}{ORIGIN} {b64(bytes(4) + bytes(2_420))}\n"
    cosigned = line(body=BODY, kind=b"\x04")
    found = checkpoint.parse(note(lines=[witness, later, line(body="x", key=other), cosigned, line(body=BODY)]))

    assert len(found.signatures) == 5
    assert checkpoint.check(found, KEY.public_key)
    assert not checkpoint.check(found, other.public_key)


def test_a_line_of_the_known_key_that_does_not_hold_spoils_the_note():
    assert not checkpoint.check(checkpoint.parse(note(lines=[line(body=BODY), line(body=BODY + "x")])), KEY.public_key)
    assert not checkpoint.check(checkpoint.parse(note(lines=[line(body="x")])), KEY.public_key)


def test_a_line_under_another_name_does_not_count():
    found = checkpoint.parse(note(lines=[line(name="other", body=BODY)]))

    assert not checkpoint.check(found, KEY.public_key)


@pytest.mark.parametrize(("count", "fits"), [(63, True), (64, True), (65, False)])
def test_a_note_has_64_signature_lines_at_most(count, fits):
    data = note(lines=[f"{DASH}w{number} {b64(bytes(68))}\n" for number in range(count - 1)] + [line(body=BODY)])
    if fits:
        assert checkpoint.check(checkpoint.parse(data), KEY.public_key)
    else:
        assert refusal(checkpoint.parse, data) == "cap-exceeded"


@pytest.mark.parametrize(("size", "fits"), [(65_535, True), (65_536, True), (65_537, False)])
def test_a_note_has_64_kib_at_most(size, fits):
    lines = [line(body=BODY), f"{DASH}w {b64(bytes(36_000))}\n"]
    short = len(note(lines=lines))
    lines.append(f"{DASH}{'x' * (size - short - 10)} {b64(bytes(5))[:4]}\n")
    lines[-1] = f"{DASH}{'x' * (size - short - len(DASH.encode()) - 1 - 8 - 1)} {b64(bytes(5))}\n"
    data = note(lines=lines)
    assert len(data) == size
    if fits:
        assert checkpoint.parse(data).size == 7
    else:
        assert refusal(checkpoint.parse, data) == "cap-exceeded"


@pytest.mark.parametrize("size", [0, 1, 2**53, 10**19 - 1])
def test_sizes_are_decimal_without_leading_zeros(size):
    assert checkpoint.parse(checkpoint.make(ORIGIN, size, ROOT, KEY)).size == size


def proof(head=checkpoint.PROOF_HEAD, index="index 3", hashes=2, extra=None, data=None):
    lines = [head, *([] if extra is None else [extra]), index, *[b64(ROOT)] * hashes, "", ""]
    return "\n".join(lines).encode() + (note() if data is None else data)


def test_a_proof_is_written_as_the_standard_says_and_read_back():
    made = checkpoint.tlog_proof(3, [ROOT, ROOT], note())

    assert made == proof()
    index, hashes, found = checkpoint.parse_tlog_proof(made)
    assert (index, hashes, found) == (3, (ROOT, ROOT), checkpoint.parse(note()))


def test_the_extra_line_of_others_is_dropped_and_none_is_written():
    assert checkpoint.parse_tlog_proof(proof(extra="extra AAAA")) == checkpoint.parse_tlog_proof(proof())
    assert b"extra" not in checkpoint.tlog_proof(0, [], note())


@pytest.mark.parametrize(
    "data",
    [
        b"", note(), proof()[1:], proof(head="c2sp.org/tlog-proof@v2"), proof(head=""), proof(index="index"),
        proof(index="index "),
        proof(index="index -1"), proof(index="index 03"), proof(index="index +3"), proof(index="index 3 "),
        proof(index="Index 3"),
        proof(index="3"), proof(index=b64(ROOT)), proof(index="index 3\nindex 3"),
        proof(index="index " + "9" * 5_000),
        proof(extra="extra"), proof(extra="extra !"), proof(extra="extra AAAA\nextra AAAA"), proof(extra="comment"),
        proof(index="index 3\n" + b64(ROOT[:31])), proof(index="index 3\n" + b64(ROOT + b"x")),
        proof(index="index 3\nAAAA"),
        proof(index="index 3\n" + b64(ROOT) + " "), proof(index="index 3\n" + b64(ROOT)[:-2] + "9="),
        proof(data=b""), proof(data=note()[:-1]), proof(data=b"\n" + note()), proof().replace(b"\n", b"\r\n"),
        proof(hashes=0).replace(b"index 3", b"index \xff"),
    ],
)  # fmt: skip
def test_what_is_not_exactly_a_proof_is_malformed(data):
    assert refusal(checkpoint.parse_tlog_proof, data) == "envelope-malformed"


@pytest.mark.parametrize(("count", "fits"), [(63, True), (64, True), (65, False)])
def test_a_proof_has_64_hashes_at_most(count, fits):
    if fits:
        assert len(checkpoint.parse_tlog_proof(proof(hashes=count))[1]) == count
    else:
        assert refusal(checkpoint.parse_tlog_proof, proof(hashes=count)) == "cap-exceeded"


def check_by_hand(data, line, public):
    """Return whether a proof holds, by C2SP tlog-proof and RFC 6962 and nothing of this package."""
    head, _, signed = data.partition(b"\n\n")
    first, index, *hashes = head.decode().split("\n")
    text, _, signatures = signed.rpartition(b"\n\n")
    text += b"\n"
    name, size, root = text.decode().split("\n")[:3]
    index, size, root = int(index.removeprefix("index ")), int(size), base64.b64decode(root)
    path = [base64.b64decode(one) for one in hashes]

    def climb(leaf, at, width, path):
        if width == 1:
            return leaf if not path else None
        if not path:
            return None
        k = 1 << (width - 1).bit_length() - 1
        if at < k:
            below = climb(leaf, at, k, path[:-1])
            return below and hashlib.sha256(b"\x01" + below + path[-1]).digest()
        below = climb(leaf, at - k, width - k, path[:-1])
        return below and hashlib.sha256(b"\x01" + path[-1] + below).digest()

    if first != "c2sp.org/tlog-proof@v1" or index >= size or any(len(one) != 32 for one in path):
        return False
    if climb(hashlib.sha256(b"\x00" + line).digest(), index, size, path) != root:
        return False
    named, encoded = signatures.decode().removeprefix(DASH).rstrip("\n").split(" ")
    said = base64.b64decode(encoded)
    if named != name or said[:4] != hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]:
        return False
    try:
        nacl.signing.VerifyKey(public).verify(text, said[4:])
    except nacl.exceptions.BadSignatureError:
        return False
    return True


def test_the_proof_of_every_record_of_a_thousand_checks_with_an_independent_verifier():
    lines = [b'{"n":%d}' % number for number in range(1_000)]
    tree = merkle.Tree(merkle.leaf_hashes(lines))
    signed = checkpoint.make(ORIGIN, 1_000, tree.root(), KEY)
    proofs = [checkpoint.tlog_proof(index, tree.inclusion(index, 1_000), signed) for index in range(1_000)]

    assert all(check_by_hand(data, line, KEY.public_key) for data, line in zip(proofs, lines))


@pytest.mark.parametrize("index", [0, 1, 511, 512, 767, 998, 999])
def test_a_proof_with_a_wrong_index_size_root_or_hash_is_rejected_by_both(index):
    lines = [b'{"n":%d}' % number for number in range(1_000)]
    tree = merkle.Tree(merkle.leaf_hashes(lines))
    good = tree.inclusion(index, 1_000)
    signed = checkpoint.make(ORIGIN, 1_000, tree.root(), KEY)

    def verdicts(data, line=lines[index]):
        try:
            at, hashes, head = checkpoint.parse_tlog_proof(data)
            merkle.check_inclusion(merkle.leaf_hash(line), at, head.size, head.root, hashes)
            ours = checkpoint.check(head, KEY.public_key)
        except TrustError:
            ours = False
        return ours, check_by_hand(data, line, KEY.public_key)

    assert verdicts(checkpoint.tlog_proof(index, good, signed)) == (True, True)
    wrong = [
        checkpoint.tlog_proof((index + 1) % 1_000, good, signed),
        checkpoint.tlog_proof(index, good, checkpoint.make(ORIGIN, 2_000, tree.root(), KEY)),
        checkpoint.tlog_proof(index, good, checkpoint.make(ORIGIN, 1_000, tree.root(999), KEY)),
        checkpoint.tlog_proof(index, good[:-1], signed),
        checkpoint.tlog_proof(index, [*good, bytes(32)], signed),
        checkpoint.tlog_proof(index, [good[0][:31], *good[1:]], signed),
        checkpoint.tlog_proof(index, good, signed.replace(b"\n1000\n", b"\n1001\n")),
        checkpoint.tlog_proof(index, good, checkpoint.make(ORIGIN, 1_000, tree.root(), keys.PrivateKey.generate())),
    ]
    assert [verdicts(data) for data in wrong] == [(False, False)] * len(wrong)
    assert verdicts(checkpoint.tlog_proof(index, good, signed), b"{}") == (False, False)


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (note(size="x"), "checkpoint: size: 'x' is not a decimal number"),
        (note(size=""), "checkpoint: size: '' is not a decimal number"),
        (note(size="1" * 50), f"checkpoint: size: '{'1' * 40}' is not"),
        (note(root="!"), "checkpoint: root: "),
        (note(root="AAAA"), "checkpoint: root: 3 bytes are not 32"),
        (note(origin="a b"), "checkpoint: origin: 'a b' is empty or holds a blank"),
        (b"a\nb\n\n", "checkpoint: lines: "),
        (b"\xff", "checkpoint: encoding: byte 0 is not UTF-8"),
        (b"a\0", "checkpoint: text: holds a control character"),
        (b"x" * 65_537, "checkpoint: size: 65537 bytes are more than 65536"),
        (note(lines=["garbage\n"]), "checkpoint: signature line: 'garbage' is none"),
        (note(lines=[f"witness {b64(bytes(68))}\n"]), "checkpoint: signature line: 'witness AAAA"),
        (note(lines=[f"{DASH}a b {b64(bytes(68))}\n"]), "checkpoint: signature: "),
        (note(lines=[f"{DASH}a !\n"]), "checkpoint: signature: "),
        (note(lines=[f"{DASH}a {b64(bytes(4))}\n"]), "checkpoint: signature: too short"),
        (note(lines=[line()] * 65), "checkpoint: signatures: more than 64 lines"),
    ],
)
def test_a_refusal_of_a_checkpoint_begins_with_the_place(data, start):
    with pytest.raises(TrustError) as refused:
        checkpoint.parse(data)
    assert str(refused.value).startswith(start)


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (note(), "proof: first line: is not c2sp.org/tlog-proof@v1"),
        (b"\xff\n\n", "proof: encoding: byte 0 is not UTF-8"),
        (b"x" * 131_073, "proof: size: 131073 bytes are more than 131072"),
        (proof(extra="extra !"), "proof: extra: "),
        (proof(index="Index 3"), "proof: index: is missing"),
        (proof(index="index x"), "proof: index: 'x' is not a decimal number"),
        (proof(index="index 3\n!"), "proof: hash: "),
        (proof(index="index 3\nAAAA"), "proof: hash: 3 bytes are not 32"),
        (proof(hashes=65), "proof: hashes: more than 64"),
        (proof(data=b"x"), "checkpoint: lines: "),
    ],
)
def test_a_refusal_of_a_proof_begins_with_the_place(data, start):
    with pytest.raises(TrustError) as refused:
        checkpoint.parse_tlog_proof(data)
    assert str(refused.value).startswith(start)


def test_a_signature_of_one_byte_behind_the_hash_of_its_key_has_the_form_of_one():
    found = checkpoint.parse(note(lines=[f"{DASH}a {b64(b'abcde')}\n"]))

    assert found.signatures == (("a", b"abcd", b"e"),)
