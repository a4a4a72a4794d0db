"""minisign and py-minisign check our prehashed signatures and the comment that is signed along."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from pathlib import Path

import pytest

from provstore.errors import ConfigError, TrustError
from provstore.evidence import keys, minisign
from tests.foreign import tools

MESSAGE = b'{"n":0}\n' * 1000
COMMENT = "provstore: run π, epoch 3"


@pytest.fixture
def key() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


def verify(
    folder: Path, public: bytes, signature: bytes, *options: str, message: bytes = MESSAGE
) -> subprocess.CompletedProcess[bytes]:
    (folder / "minisign.pub").write_bytes(minisign.public_file(public))
    (folder / "file").write_bytes(message)
    (folder / "file.minisig").write_bytes(signature)
    order = [tools.program("minisign"), "-V", *options, "-p", folder / "minisign.pub", "-m", folder / "file"]
    return tools.run(order)


def test_minisign_accepts_our_signature_and_shows_the_comment(tmp_path: Path, key: keys.PrivateKey) -> None:
    shown = verify(tmp_path, key.public_key, minisign.sign(MESSAGE, key, COMMENT))
    assert shown.returncode == 0, shown.stderr
    assert f"Trusted comment: {COMMENT}".encode() in shown.stdout + shown.stderr


def test_minisign_accepts_it_when_only_prehashed_ones_are_allowed(tmp_path: Path, key: keys.PrivateKey) -> None:
    assert verify(tmp_path, key.public_key, minisign.sign(MESSAGE, key, COMMENT), "-H").returncode == 0


def test_minisign_rejects_a_raw_signature_when_only_prehashed_ones_are_allowed(
    tmp_path: Path, key: keys.PrivateKey
) -> None:
    raw = minisign.sign_raw(MESSAGE, key, {"file"})
    over_comment = key.sign(base64.b64decode(raw.splitlines()[1])[10:] + b"legacy")
    legacy = raw + b"trusted comment: legacy\n" + base64.b64encode(over_comment) + b"\n"
    assert verify(tmp_path, key.public_key, legacy).returncode == 0
    assert verify(tmp_path, key.public_key, legacy, "-H").returncode != 0
    with pytest.raises(TrustError) as caught:
        minisign.check(legacy, MESSAGE, key.public_key)
    assert caught.value.code == "unsupported-legacy"


def test_minisign_rejects_a_changed_bit(tmp_path: Path, key: keys.PrivateKey) -> None:
    signature = minisign.sign(MESSAGE, key, COMMENT)
    changed = bytes([MESSAGE[0] ^ 1]) + MESSAGE[1:]
    assert verify(tmp_path, key.public_key, signature, message=changed).returncode != 0


def test_minisign_rejects_an_edited_trusted_comment(tmp_path: Path, key: keys.PrivateKey) -> None:
    signature = minisign.sign(MESSAGE, key, COMMENT)
    edited = signature.replace(b"epoch 3", b"epoch 4")
    assert verify(tmp_path, key.public_key, edited).returncode != 0
    with pytest.raises(TrustError, match="trusted comment"):
        minisign.check(edited, MESSAGE, key.public_key)


def test_minisign_rejects_another_key(tmp_path: Path, key: keys.PrivateKey) -> None:
    other = keys.PrivateKey.generate()
    assert verify(tmp_path, other.public_key, minisign.sign(MESSAGE, key, COMMENT)).returncode != 0


def test_py_minisign_accepts_ours_and_rejects_a_changed_bit(key: keys.PrivateKey) -> None:
    tools.python_package("py-minisign", "minisign")
    import minisign as peer

    public = peer.PublicKey.from_bytes(minisign.public_file(key.public_key))
    signature = minisign.sign(MESSAGE, key, COMMENT)
    public.verify(MESSAGE, peer.Signature.from_bytes(signature))
    with pytest.raises(peer.VerifyError):
        public.verify(MESSAGE[:-1] + b"\x0b", peer.Signature.from_bytes(signature))
    with pytest.raises(peer.VerifyError):
        public.verify(MESSAGE, peer.Signature.from_bytes(signature.replace(b"epoch 3", b"epoch 4")))


def test_we_accept_what_minisign_signs(tmp_path: Path) -> None:
    program = tools.program("minisign")
    (tmp_path / "file").write_bytes(MESSAGE)
    made = tools.run([program, "-G", "-W", "-p", tmp_path / "k.pub", "-s", tmp_path / "k.key"])
    assert made.returncode == 0, made.stderr
    assert tools.run([program, "-S", "-s", tmp_path / "k.key", "-m", tmp_path / "file", "-t", COMMENT]).returncode == 0
    signature = (tmp_path / "file.minisig").read_bytes()
    found = minisign.parse(signature)
    assert found.trusted_comment == COMMENT
    # minisign numbers its keys at random, so the number is not ours: only the signatures are compared.
    public = base64.b64decode((tmp_path / "k.pub").read_text().splitlines()[1])[10:]
    assert keys.is_signed(public, hashlib.blake2b(MESSAGE).digest(), found.signature)
    assert keys.is_signed(public, found.signature + COMMENT.encode(), found.comment_signature)


@pytest.mark.parametrize("comment", ["two\nlines", "bell\x07", "\u202e", "x" * 8192])
def test_a_comment_that_minisign_does_not_read_is_refused(comment: str, key: keys.PrivateKey) -> None:
    with pytest.raises(ConfigError, match="trusted comment"):
        minisign.sign(MESSAGE, key, comment)


def test_the_longest_comment_is_read_by_minisign(tmp_path: Path, key: keys.PrivateKey) -> None:
    longest = "x" * (8192 - len("trusted comment: ") - 2)
    assert verify(tmp_path, key.public_key, minisign.sign(MESSAGE, key, longest)).returncode == 0
