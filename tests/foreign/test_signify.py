"""signify checks our raw signatures, which only keys of their own make, never over what is signed elsewhere."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from provstore.errors import TrustError
from provstore.evidence import checkpoint, dsse, keys, minisign
from tests.foreign import tools

MESSAGE = b"SHA256 (epoch-0.jsonl) = " + b"0" * 64 + b"\n"


@pytest.fixture
def key() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


def verify(
    folder: Path, public: bytes, signature: bytes, message: bytes = MESSAGE
) -> subprocess.CompletedProcess[bytes]:
    (folder / "signify.pub").write_bytes(minisign.public_file(public))
    (folder / "file").write_bytes(message)
    (folder / "file.sig").write_bytes(signature)
    order = [tools.program("signify"), "-V", "-p", folder / "signify.pub", "-x", folder / "file.sig"]
    return tools.run([*order, "-m", folder / "file"])


def test_signify_accepts_our_signature(tmp_path: Path, key: keys.PrivateKey) -> None:
    shown = verify(tmp_path, key.public_key, minisign.sign_raw(MESSAGE, key, {"file"}))
    assert shown.returncode == 0, shown.stderr
    assert b"Signature Verified" in shown.stdout


def test_signify_rejects_a_changed_bit(tmp_path: Path, key: keys.PrivateKey) -> None:
    signature = minisign.sign_raw(MESSAGE, key, {"file"})
    changed = bytes([MESSAGE[0] ^ 1]) + MESSAGE[1:]
    shown = verify(tmp_path, key.public_key, signature, changed)
    assert shown.returncode != 0
    assert b"verification failed" in shown.stderr


def test_signify_rejects_another_key(tmp_path: Path, key: keys.PrivateKey) -> None:
    other = keys.PrivateKey.generate()
    assert verify(tmp_path, other.public_key, minisign.sign_raw(MESSAGE, key, {"file"})).returncode != 0


def test_we_accept_what_signify_signs(tmp_path: Path) -> None:
    program = tools.program("signify")
    (tmp_path / "file").write_bytes(MESSAGE)
    made = tools.run([program, "-G", "-n", "-p", tmp_path / "k.pub", "-s", tmp_path / "k.sec"])
    assert made.returncode == 0, made.stderr
    assert tools.run([program, "-S", "-s", tmp_path / "k.sec", "-m", tmp_path / "file"]).returncode == 0
    public = base64.b64decode((tmp_path / "k.pub").read_text().splitlines()[1])[10:]
    signature = base64.b64decode((tmp_path / "file.sig").read_text().splitlines()[1])
    assert signature[:2] == b"Ed"
    assert keys.is_signed(public, MESSAGE, signature[10:])


@pytest.mark.parametrize("roles", [set(), {"run"}, {"file", "run"}, {"log"}])
def test_a_key_that_is_not_for_files_alone_signs_no_raw_file(roles: set[str], key: keys.PrivateKey) -> None:
    with pytest.raises(TrustError, match="role") as caught:
        minisign.sign_raw(MESSAGE, key, roles)
    assert caught.value.code == "untrusted-key"


def test_a_raw_signature_over_signed_bytes_would_be_that_of_an_envelope(key: keys.PrivateKey) -> None:
    payload_type, payload = "application/vnd.in-toto+json", b"{}"
    pae = dsse.pae(payload_type, payload)
    # Why the refusal is needed: signify itself would sign these bytes, and this is a valid envelope.
    assert keys.is_signed(key.public_key, pae, key.sign(pae))
    with pytest.raises(TrustError, match="envelope"):
        minisign.sign_raw(pae, key, {"file"})


def test_what_is_signed_elsewhere_is_not_signed_raw(key: keys.PrivateKey) -> None:
    note = checkpoint.make("example.org/store/run/0", 5, bytes(32), key)
    signed_text = note[: note.index(b"\n\n") + 1]
    for message in (signed_text, b"SSHSIG" + bytes(80), bytes(64)):
        with pytest.raises(TrustError, match="not signed raw"):
            minisign.sign_raw(message, key, {"file"})
    minisign.sign_raw(b"", key, {"file"})
