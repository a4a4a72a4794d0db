"""OpenSSH checks our SSH signatures: who, for what, when, and whether the key was revoked."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from provstore.errors import TrustError
from provstore.evidence import keys, sshsig
from tests.foreign import tools

MESSAGE = b'{"n":0}\n' * 1000
WHO = "training@example.org"


def line(public: bytes) -> str:
    """A public key as OpenSSH writes it: the type, and the wire form in base64."""
    return "ssh-ed25519 " + base64.b64encode(keys.wire_form(public)).decode()


@pytest.fixture
def key() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


def verify(
    folder: Path, signature: bytes, allowed: str, *, message: bytes = MESSAGE, who: str = WHO, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run ``ssh-keygen -Y verify``; ``more`` holds ``at`` (verify-time), ``namespace`` and ``revoked``."""
    (folder / "allowed_signers").write_text(allowed)
    (folder / "file.sshsig").write_bytes(signature)
    order = [tools.program("ssh-keygen"), "-Y", "verify", "-f", folder / "allowed_signers", "-I", who]
    order += ["-n", more.get("namespace", "provstore"), "-s", folder / "file.sshsig"]
    if "at" in more:
        order += ["-O", f"verify-time={more['at']}"]
    if "revoked" in more:
        (folder / "revoked").write_text(more["revoked"])
        order += ["-r", folder / "revoked"]
    return tools.run(order, stdin=message)


def test_ssh_keygen_accepts_our_signature(tmp_path: Path, key: keys.PrivateKey) -> None:
    allowed = f'{WHO} namespaces="provstore" {line(key.public_key)}\n'
    shown = verify(tmp_path, sshsig.sign(MESSAGE, key), allowed)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(f'Good "provstore" signature for {WHO} with ED25519 key SHA256:'.encode())


@pytest.mark.parametrize("size", [0, 1, 65_536])
def test_ssh_keygen_accepts_files_of_any_size(tmp_path: Path, key: keys.PrivateKey, size: int) -> None:
    message = bytes(size)
    allowed = f"{WHO} {line(key.public_key)}\n"
    assert verify(tmp_path, sshsig.sign(message, key), allowed, message=message).returncode == 0


def test_ssh_keygen_rejects_a_changed_bit(tmp_path: Path, key: keys.PrivateKey) -> None:
    allowed = f"{WHO} {line(key.public_key)}\n"
    changed = bytes([MESSAGE[0] ^ 1]) + MESSAGE[1:]
    shown = verify(tmp_path, sshsig.sign(MESSAGE, key), allowed, message=changed)
    assert shown.returncode != 0
    assert b"incorrect signature" in shown.stderr


def test_ssh_keygen_rejects_another_namespace(tmp_path: Path, key: keys.PrivateKey) -> None:
    allowed = f"{WHO} {line(key.public_key)}\n"
    assert verify(tmp_path, sshsig.sign(MESSAGE, key), allowed, namespace="git").returncode != 0
    only_git = f'{WHO} namespaces="git" {line(key.public_key)}\n'
    assert verify(tmp_path, sshsig.sign(MESSAGE, key), only_git).returncode != 0


def test_ssh_keygen_rejects_another_identity(tmp_path: Path, key: keys.PrivateKey) -> None:
    allowed = f"{WHO} {line(key.public_key)}\n"
    assert verify(tmp_path, sshsig.sign(MESSAGE, key), allowed, who="somebody@example.org").returncode != 0


@pytest.mark.parametrize(
    ("at", "accepted"), [("20260101000000", False), ("20260601000000", True), ("20270101000000", False)]
)
def test_ssh_keygen_rejects_a_time_outside_the_window(
    tmp_path: Path, key: keys.PrivateKey, at: str, accepted: bool
) -> None:
    window = 'valid-after="20260201000000",valid-before="20261201000000"'
    shown = verify(tmp_path, sshsig.sign(MESSAGE, key), f"{WHO} {window} {line(key.public_key)}\n", at=at)
    assert (shown.returncode == 0) is accepted, shown.stderr


def test_ssh_keygen_rejects_a_revoked_key(tmp_path: Path, key: keys.PrivateKey) -> None:
    allowed = f"{WHO} {line(key.public_key)}\n"
    other = keys.PrivateKey.generate()
    signature = sshsig.sign(MESSAGE, key)
    assert verify(tmp_path, signature, allowed, revoked=f"{line(other.public_key)}\n").returncode == 0
    assert verify(tmp_path, signature, allowed, revoked=f"{line(key.public_key)}\n").returncode != 0


def test_we_accept_what_ssh_keygen_signs(tmp_path: Path) -> None:
    path = tmp_path / "id_ed25519"
    program = tools.program("ssh-keygen")
    assert tools.run([program, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]).returncode == 0
    shown = tools.run([program, "-Y", "sign", "-q", "-f", path, "-n", "provstore", "-"], stdin=MESSAGE)
    public = base64.b64decode(path.with_suffix(".pub").read_text().split()[1])[-32:]
    sshsig.check(shown.stdout, MESSAGE, public)
    with pytest.raises(TrustError) as caught:
        sshsig.check(shown.stdout, MESSAGE + b"x", public)
    assert caught.value.code == "bad-signature"


def test_our_armor_is_that_of_ssh_keygen(tmp_path: Path) -> None:
    from provstore.evidence import key_files

    path = tmp_path / "id_ed25519"
    program = tools.program("ssh-keygen")
    assert tools.run([program, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path]).returncode == 0
    theirs = tools.run([program, "-Y", "sign", "-q", "-f", path, "-n", "provstore", "-"], stdin=MESSAGE).stdout
    # Ed25519 has one signature for one key and text.
    assert sshsig.sign(MESSAGE, key_files.load(path, lambda: b"")) == theirs
