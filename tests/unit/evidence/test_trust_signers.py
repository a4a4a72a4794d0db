"""allowed_signers files, judged by ssh-keygen."""

import base64
import shutil
import subprocess

import pytest

from provstore.errors import InputError, TrustError
from provstore.evidence.trust import changes
from provstore.evidence.trust import signers as trust_signers
from provstore.evidence.trust.keys import TrustedKey
from tests.trust_files import Key

A, BOB = Key(), Key()

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def blob(key):
    return base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + key.public_key).decode()


def imported(text, role="run"):
    return trust_signers.import_lines(text.encode(), "signers", role=role, runs="*")


def make_ssh_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "c", "-f", path], check=True)
    return base64.b64decode(path.with_suffix(".pub").read_text().split()[1])[-32:]


def verifies(folder, signers, moment=None, revoked=None):
    (folder / "signers").write_bytes(signers)
    options = ["-O", f"verify-time={moment}"] if moment else []
    options += ["-r", revoked] if revoked else []
    return (
        subprocess.run(
            ["ssh-keygen", "-Y", "verify", "-f", "signers", "-I", "bob", "-n", "provstore", "-s", "text.sig", *options],
            input=b"text", cwd=folder, capture_output=True, check=False,
        ).returncode
        == 0
    )  # fmt: skip


@needs_ssh
def test_ssh_keygen_takes_an_exported_line_and_respects_window_and_revocation(tmp_path):
    public = make_ssh_key(tmp_path / "key")
    (tmp_path / "text").write_bytes(b"text")
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", "key", "-n", "provstore", "text"], cwd=tmp_path, check=True)
    key = TrustedKey(
        trust_signers.fingerprint(public), "ed25519", public, "run", alias="bob",
        not_before="2026-01-01T00:00:00Z", not_after="2026-12-31T00:00:00Z",
    )  # fmt: skip
    trust = changes.with_keys(changes.first([A.public_key]), [key])
    lines = trust_signers.export_lines(trust)

    assert verifies(tmp_path, lines, "20260601000000Z")
    assert not verifies(tmp_path, lines, "20251231235959Z")
    assert not verifies(tmp_path, lines, "20270101000000Z")
    assert not verifies(tmp_path, lines.replace(b'namespaces="provstore"', b'namespaces="git"'), "20260601000000Z")
    revoked = changes.revoked(trust, key.keyid, "2026-01-31T00:00:00Z", "stolen")
    (tmp_path / "revoked").write_bytes(trust_signers.revoked_lines(revoked))
    assert not verifies(tmp_path, lines, "20260601000000Z", "revoked")
    assert trust_signers.export_lines(revoked) == b""


def test_what_is_exported_is_imported_alike():
    keys = (
        TrustedKey(A.keyid, "ed25519", A.public_key, "run", alias="alice@example.org"),
        TrustedKey(BOB.keyid, "ed25519", BOB.public_key, "run", not_after="2026-12-31T23:59:59Z", alias="bob",
                   namespaces=("git", "provstore")),
    )  # fmt: skip
    trust = changes.with_keys(changes.first([A.public_key]), keys)

    assert imported(trust_signers.export_lines(trust).decode()).keys == keys


def test_an_alias_that_would_break_the_line_gives_way_to_the_key_id():
    for alias in ("two words", "a,b", "x\nssh-ed25519 AAAA", '"', "*", "!b", "# no", None):
        line = trust_signers.line(TrustedKey(A.keyid, "ed25519", A.public_key, "run", alias=alias))

        assert line == f'{A.keyid} namespaces="provstore" ssh-ed25519 {blob(A)}'


def test_lines_as_people_write_them_are_read():
    text = f"""# team
alice@example.org ssh-ed25519 {blob(A)} a comment with blanks

bob,robert  namespaces="provstore,git",valid-before=20270101Z  ssh-ed25519 {blob(BOB)}\r
carol ssh-rsa AAAAB3NzaC1yc2E=
*@example.org cert-authority ssh-ed25519 {blob(Key())}
"""
    found = imported(text, "agent")

    assert [(key.alias, key.role, key.namespaces, key.not_after) for key in found.keys] == [
        ("alice@example.org", "agent", ("provstore",), None),
        ("bob,robert", "agent", ("git", "provstore"), "2027-01-01T00:00:00Z"),
    ]
    assert [one.split(": ", 2)[1] for one in found.skipped] == ["line 5", "line 6"]


def test_a_time_without_zone_is_the_machines_as_for_ssh(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        found = imported(f"a valid-after=202601010100 ssh-ed25519 {blob(A)}").keys[0]
        assert found.not_before == "2025-12-31T23:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "line",
    [
        "alice", "alice ssh-ed25519", "alice ssh-ed25519 !!", "alice ssh-ed25519 AAAA", 'a "ssh-ed25519 x',
        "a verify-required ssh-ed25519 KEY", "a namespaces=a,namespaces=b ssh-ed25519 KEY",
        "a valid-after=2026 ssh-ed25519 KEY", "a valid-after=20260231 ssh-ed25519 KEY", "a = ssh-ed25519 KEY",
        "a ,, ssh-ed25519 KEY", "\x00",
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_refused_with_its_number(line):
    with pytest.raises(InputError, match=r"^signers: line 2: "):
        imported("# first\n" + line.replace("KEY", blob(A)))


def test_a_key_twice_or_unsafe_is_refused():
    weak = Key()
    weak.public_key = bytes(32)

    for text in (f"a ssh-ed25519 {blob(A)}\nb ssh-ed25519 {blob(A)}", f"a ssh-ed25519 {blob(weak)}"):
        with pytest.raises(TrustError):
            imported(text)


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"x" * (8 * 1024 * 1024 + 1), b"\n" * 10_000], ids=["no text", "large", "long"]
)
def test_no_text_or_too_much_of_it_is_refused(data):
    with pytest.raises(InputError, match=r"^signers: allowed_signers: "):
        trust_signers.import_lines(data, "signers", role="run", runs="*")
