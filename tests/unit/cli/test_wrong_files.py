"""A file in the place of another is a wrong option, told by what the file is, and never a sign of tampering."""

import pytest


@pytest.fixture
def signed(filled, home):
    for arguments in (
        ["keys", "generate", "alice", "--unencrypted"],
        ["keys", "trust", "alice"],
        ["keys", "export", "alice", "--form", "all", "-o", "public"],
        ["seal", "hang"],
    ):
        assert filled(*arguments).code == 0
    return filled


FORMS = ("pem", "pub", "minisign.pub", "jwk.json", "allowed_signers", "vkey", "did-key")


@pytest.mark.parametrize("form", FORMS)
def test_a_public_key_in_the_place_of_a_trust_file_is_told(signed, home, form):
    for command in (["verify", "hang"], ["keys", "list"]):
        answer = signed(*command, "--trust", home / "public" / f"alice.{form}")
        assert (answer.code, answer.out) == (2, "")
        assert "this is a public key, no trust file: use --public-key FILE" in " ".join(answer.err.split())
    assert signed("verify", "hang", "--public-key", home / "public" / f"alice.{form}").code == 3


def test_a_private_key_and_a_checkpoint_in_the_place_of_a_trust_file_are_told(signed, home):
    assert signed("evidence", "export", "hang", "-o", home / "out").code == 0
    anchor = home / "out" / "checkpoint"
    for path, said in ((home / ".config/provstore/keys/alice.key", "a private key"), (anchor, "a checkpoint")):
        answer = signed("verify", "hang", "--trust", path)
        assert (answer.code, answer.out) == (2, "")
        assert f"this is {said}, no trust file" in " ".join(answer.err.split())


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (".config/provstore/trust.json", "a trust file, no checkpoint: use --trust FILE"),
        ("public/alice.pub", "a public key, no checkpoint: use --public-key FILE"),
    ],
)
def test_another_file_in_the_place_of_an_anchor_is_told(signed, home, file, said):
    answer = signed("verify", "hang", "--anchor", home / file)

    assert (answer.code, answer.out) == (2, "")
    assert f"this is {said}" in " ".join(answer.err.split())


def test_a_damaged_trust_file_is_still_told_as_one_that_does_not_hold(signed, home):
    damaged = home / "damaged.json"
    damaged.write_bytes((home / ".config/provstore/trust.json").read_bytes().replace(b'"sig"', b'"sgi"'))

    assert signed("verify", "hang", "--trust", damaged).code == 1


@pytest.mark.parametrize("keyid", [f"SHA256:{'a' * 43}", f"SHA256:a//{'b' * 40}"])
def test_a_fingerprint_in_the_place_of_a_public_key_is_told_with_where_it_goes(signed, keyid):
    answer = signed("verify", "hang", "--public-key", keyid)

    assert (answer.code, answer.out) == (2, "")
    assert "--pin FINGERPRINT goes with --trust FILE" in " ".join(answer.err.split())


def test_a_large_file_in_the_place_of_a_public_key_is_refused_by_its_size(signed, home):
    large = home / "large.bin"
    with large.open("wb") as file:
        file.truncate(1 << 40)

    answer = signed("verify", "hang", "--public-key", large)

    assert (answer.code, answer.out) == (2, "")
    assert "public key: more than 1048576 bytes" in " ".join(answer.err.split())
