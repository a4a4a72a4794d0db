"""SSH, minisign and signify files are read in their one spelling only, and any change is an error of trust."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.errors import TrustError
from provstore.evidence import keys, minisign, sshsig

KEY = keys.PrivateKey.generate()
OTHER = keys.PrivateKey.generate()
MESSAGE = b"SHA256 (epoch-0.jsonl) = 00\n"
Check = Callable[[bytes, bytes, bytes], object]
FORMS: dict[str, tuple[bytes, Check]] = {
    "ssh": (sshsig.sign(MESSAGE, KEY), sshsig.check),
    "minisign": (minisign.sign(MESSAGE, KEY, "comment é"), minisign.check),
    "signify": (minisign.sign_raw(MESSAGE, KEY, {"file"}), minisign.check_raw),
}
# The first line of these two is a comment that nothing signs.
UNSIGNED = {"ssh": 0, "minisign": FORMS["minisign"][0].index(b"\n"), "signify": FORMS["signify"][0].index(b"\n")}


def code(check: Check, signature: bytes, message: bytes = MESSAGE, public: bytes = KEY.public_key) -> str:
    with pytest.raises(TrustError) as caught:
        check(signature, message, public)
    return caught.value.code


@pytest.mark.parametrize("form", FORMS)
def test_what_we_sign_we_accept(form: str) -> None:
    signature, check = FORMS[form]
    check(signature, MESSAGE, KEY.public_key)


@pytest.mark.parametrize("form", FORMS)
def test_every_changed_bit_is_an_error_of_trust(form: str) -> None:
    signature, check = FORMS[form]
    for at in range(UNSIGNED[form], len(signature)):
        for bit in range(8):
            changed = signature[:at] + bytes([signature[at] ^ 1 << bit]) + signature[at + 1 :]
            assert code(check, changed)


@pytest.mark.parametrize("form", FORMS)
def test_every_cut_is_an_error_of_trust(form: str) -> None:
    signature, check = FORMS[form]
    for end in range(len(signature)):
        assert code(check, signature[:end])
    for more in (b"\n", b" ", b"x", signature):
        assert code(check, signature + more)


@pytest.mark.parametrize("form", FORMS)
@given(junk=st.binary(max_size=300))
def test_junk_is_an_error_of_trust(form: str, junk: bytes) -> None:
    signature, check = FORMS[form]
    assert code(check, junk)
    assert code(check, signature[:40] + junk)


@pytest.mark.parametrize("form", FORMS)
def test_another_file_and_another_key_are_told_apart(form: str) -> None:
    signature, check = FORMS[form]
    assert code(check, signature, MESSAGE + b"x") == "bad-signature"
    assert code(check, signature, MESSAGE, OTHER.public_key) == "untrusted-key"


@pytest.mark.parametrize("form", FORMS)
def test_a_huge_file_is_refused_before_it_is_decoded(form: str) -> None:
    signature, check = FORMS[form]
    assert code(check, signature + b"A" * 50_000_000) == "envelope-malformed"


def test_the_namespace_is_part_of_what_is_signed() -> None:
    signature = sshsig.sign(MESSAGE, KEY, "git")
    assert code(sshsig.check, signature) == "bad-signature"
    sshsig.check(signature, MESSAGE, KEY.public_key, "git")
    assert sshsig.parse(signature).namespace == "git"


def test_a_key_of_small_order_is_refused_in_an_ssh_signature() -> None:
    """RFC 8032's neutral element: every signature R = neutral, S = 0 would hold for it."""
    neutral = bytes([1]) + bytes(31)
    body = "".join(FORMS["ssh"][0].decode().split("\n")[1:-2])
    forged = base64.b64decode(body).replace(KEY.public_key, neutral)[:-64] + neutral + bytes(32)
    text = base64.b64encode(forged).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    armored = "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""]).encode()
    assert code(sshsig.check, armored, MESSAGE, neutral) == "untrusted-key"


def test_the_trusted_comment_is_what_was_signed() -> None:
    signature = FORMS["minisign"][0]
    assert minisign.check(signature, MESSAGE, KEY.public_key) == "comment é"
    assert code(minisign.check, signature.replace("é".encode(), b"e")) == "bad-signature"


def test_a_comment_is_not_moved_from_one_file_to_another() -> None:
    first = FORMS["minisign"][0].splitlines(keepends=True)
    second = minisign.sign(b"another", KEY, "another").splitlines(keepends=True)
    assert code(minisign.check, b"".join([*first[:2], *second[2:]])) == "bad-signature"


def test_the_raw_form_is_no_prehashed_signature_and_the_other_way_round() -> None:
    raw, prehashed = FORMS["signify"][0], FORMS["minisign"][0]
    lines = prehashed.splitlines(keepends=True)
    assert code(minisign.check, b"".join([*raw.splitlines(keepends=True), *lines[2:]])) == "unsupported-legacy"
    assert code(minisign.check_raw, b"".join(lines[:2])) == "envelope-malformed"


def test_key_numbers_differ_between_keys_and_stay() -> None:
    assert minisign.key_number(KEY.public_key) == minisign.key_number(KEY.public_key)
    assert minisign.key_number(KEY.public_key) != minisign.key_number(OTHER.public_key)
    assert len(minisign.key_number(KEY.public_key)) == 8
