"""The commands about keys, as a person uses them: made, listed, shown, written for other programs."""

import base64
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import told
from tests.trust_files import Key, document, entry, envelope

FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
HOSTILE = ["[red]x[/red]", "\x1b]0;x\a", "\u202eevil", "=HYPERLINK(1)", "<script>alert(1)</script>", "{{7*7}}", "a\nb"]


def output_of(*arguments, folder):
    return subprocess.run(arguments, cwd=folder, capture_output=True, check=True).stdout


def folder(home):
    return home / ".config" / "provstore"


def golden(home):
    path = home / "golden.hex"
    path.write_text("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8\n")
    return path


def test_generate_makes_an_encrypted_file_for_its_owner_only_and_prints_only_the_fingerprint(keys, home, monkeypatch):
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
    answer = keys("generate", "alice")
    path = folder(home) / "keys" / "alice.key"

    # Where the file is stands beside the answer, so that a script still reads nothing but the fingerprint.
    assert (answer.code, answer.err) == (0, f"private key: {path}\n")
    assert FINGERPRINT.fullmatch(answer.out.strip())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "PROVSTORE_KEY_PASSPHRASE" not in os.environ
    assert b"correct horse" not in path.read_bytes()


def test_generate_refuses_to_overwrite_before_it_asks_for_a_passphrase(keys, make, home):
    make("alice")
    before = (folder(home) / "keys" / "alice.key").read_bytes()
    answer = keys("generate", "alice")

    assert (answer.code, answer.out) == (2, "")
    assert "never overwritten" in answer.err
    assert "hint: choose another name; provstore keys rotate alice NEW" in " ".join(answer.err.split())
    assert (folder(home) / "keys" / "alice.key").read_bytes() == before


def test_generate_without_a_passphrase_and_without_a_terminal_says_what_to_set(keys, home, monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        answer = keys("generate", "alice")

    assert answer.code == 2
    assert "PROVSTORE_KEY_PASSPHRASE" in answer.err
    assert not (folder(home) / "keys" / "alice.key").exists()


def test_an_empty_passphrase_is_told_with_what_helps(keys, home, monkeypatch):
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "")

    answer = keys("generate", "alice")
    assert answer.code == 2
    assert "--unencrypted" in answer.err


def test_where_a_hint_names_an_option_the_command_has_it(keys, make, home, monkeypatch):
    secret = home / "secret"
    secret.write_text("correct horse\n")
    secret.chmod(0o644)
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE_FILE", str(secret))

    assert "--insecure-key-mode" in keys("generate", "alice").err
    assert keys("generate", "alice", "--insecure-key-mode").code == 0
    exported = ("export", "alice", "--private", "-o", "out")
    assert "--insecure-key-mode" in keys(*exported).err
    assert keys(*exported, "--insecure-key-mode").code == 0


@pytest.mark.parametrize("name", ["ab" * 32, "two words", "", "-", "a\nb", "é", "x" * 200])
def test_generate_takes_no_seed_and_no_strange_name(keys, home, name):
    answer = keys("generate", "--unencrypted", "--", name)

    assert (answer.code, answer.out) == (2, "")
    assert "ab" * 32 not in answer.err
    assert "Traceback" not in answer.err
    assert not list(home.rglob("*.key"))


def test_no_command_has_an_option_that_takes_a_key_a_seed_or_a_passphrase(command):
    for name in ("generate", "list", "show", "export", "trust", "rotate", "revoke"):
        answer = command("keys", name, "--help")
        assert answer.code == 0
        options = set(re.findall(r"--[a-z-]+", answer.out))
        assert not options & {"--key", "--seed", "--passphrase", "--password", "--secret", "--private-key"}
        assert "Exit code:" in " ".join(answer.out.split())
        assert "Example" in answer.out


def test_a_trust_file_of_somebody_else_needs_its_fingerprint_once(keys, home):
    root = Key()
    (home / "theirs.json").write_bytes(envelope(document([root], [entry(Key(), alias="dora")]), [root]))

    answer = keys("list", "--trust", "theirs.json")
    assert (answer.code, answer.out) == (2, "")
    assert "--pin FINGERPRINT" in answer.err
    assert keys("list", "--trust", "theirs.json", "--pin", Key().keyid).code == 1
    assert keys("list", "--trust", "theirs.json", "--pin", root.keyid).code == 0
    assert keys("list", "--trust", "theirs.json").code == 0


def test_a_folder_that_was_handed_over_never_vouches_for_itself(keys, alice, home, monkeypatch):
    handed = home / "handed"
    handed.mkdir()
    for name in ("trust.json", "trust.json.pin"):
        shutil.copy(folder(home) / name, handed)
    monkeypatch.setenv("HOME", str(home / "another"))

    answer = keys("list", "--trust", "handed/trust.json")
    assert (answer.code, answer.out) == (2, "")
    assert "trust.json.pin beside it counts for nothing" in " ".join(answer.err.split())
    assert keys("list", "--trust", "handed/trust.json", "--first-use").code == 0
    monkeypatch.setenv("HOME", str(home / "a-third"))
    assert keys("list", "--trust", "handed/trust.json").code == 2
    assert keys("list", "--trust", "handed/trust.json", "--pin", alice).code == 0
    assert sorted(path.name for path in handed.iterdir()) == ["trust.json", "trust.json.pin"]


def test_first_use_is_said_in_every_list(keys, home):
    root = Key()
    (home / "theirs.json").write_bytes(envelope(document([root]), [root]))
    assert keys("list", "--trust", "theirs.json", "--first-use").code == 0

    answer = keys("list", "--trust", "theirs.json")
    assert "believed on first use" in " ".join(answer.out.split())
    assert told(keys("list", "--trust", "theirs.json", "--json"), "keys-list")["trust"]["first_use"] is True


def test_an_older_trust_file_put_back_is_refused_by_every_command(keys, alice, home):
    path = folder(home) / "trust.json"
    old = path.read_bytes()
    assert keys("trust", Key().public_key.hex(), "--alias", "bob").code == 0
    path.write_bytes(old)

    for arguments in (["list"], ["show", "alice"], ["trust", "alice"], ["export", "alice"],
                      ["revoke", "alice", "--since", "2026-01-01", "--reason", "x"]):  # fmt: skip
        answer = keys(*arguments)
        assert (answer.code, answer.out) == (1, ""), arguments
        assert "older than version 2" in answer.err


def test_public_keys_are_exported_in_every_form_and_openssl_reads_them(keys, alice, home):
    exported = told(keys("export", "alice", "--form", "all", "-o", "out", "--json"), "keys-export")

    assert len(exported["files"]) == len(list((home / "out").iterdir())) == 12
    read = output_of("openssl", "pkey", "-pubin", "-in", "out/alice.pem", "-outform", "DER", folder=home)
    assert read == (home / "out" / "alice.der").read_bytes()
    listed = output_of("ssh-keygen", "-l", "-f", "out/alice.pub", folder=home)
    assert listed.decode().split()[1] == alice


def test_an_export_overwrites_nothing_of_other_content(keys, alice, home):
    (home / "alice.pub").write_text("mine")

    answer = keys("export", "alice", "--form", "openssh", "-o", ".")
    assert answer.code == 2
    assert (home / "alice.pub").read_text() == "mine"
    assert keys("export", "alice", "--form", "pem", "-o", ".").code == 0
    assert keys("export", "alice", "--form", "pem", "-o", ".").code == 0
    assert keys("export", "alice", "--form", "pgp", "-o", ".").code == 2
    assert keys("export", "alice", "--form", "all").code == 2
    assert keys("export", "--form", "pem").code == 2


def test_all_keys_are_exported_as_allowed_signers_without_the_revoked(keys, alice, home):
    bob, eve = Key(), Key()
    keys("trust", bob.public_key.hex(), "--alias", "bob", "--runs", "exp-*")
    keys("trust", eve.public_key.hex(), "--alias", "eve")
    keys("revoke", "eve", "--since", "2026-11-01", "--reason", "stolen")

    answer = keys("export", "--form", "allowed_signers")
    assert [line.split()[0] for line in answer.out.splitlines()] == sorted(
        ["alice", "bob"], key=lambda name: alice if name == "alice" else bob.keyid
    )
    assert "bob would be trusted for all of them" in answer.err
    told(keys("export", "--form", "allowed_signers", "-o", "out", "--json"), "keys-export")
    assert base64.b64decode((home / "out" / "revoked_keys").read_text().split()[1])[-32:] == eve.public_key


def test_a_key_is_shown_with_the_ids_other_programs_give_it(keys, home):
    # The golden key of the specification of key ids: OpenSSH, SPKI and securesystemslib.
    shown = told(keys("show", golden(home), "--json"), "keys-show")

    assert shown["forms"]["fingerprint"] == "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"
    assert shown["forms"]["spki-sha256"] == "a050837d85070582ccf7394b0988847cc312cb88259b894899f6f239cf1791a5"
    assert shown["forms"]["securesystemslib-id"] == "63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9"


@pytest.mark.parametrize("name", HOSTILE)
def test_markup_and_controls_in_names_are_shown_not_obeyed(keys, alice, home, name):
    bob = Key()
    assert keys("trust", bob.public_key.hex(), "--alias", name).code == 0
    assert keys("revoke", name, "--since", "2026-11-01", "--reason", name).code == 0

    for arguments in (["list"], ["show", name], ["list", "--json"]):
        answer = keys(*arguments)
        assert answer.code == 0
        assert not set(answer.out + answer.err) & {"\x1b", "\a", "\u202e"}
    assert name.replace("\x1b", "\\x1b").replace("\a", "\\x07").replace("\n", "\\x0a").replace("\u202e", "\\u202e") in (
        keys("show", name).out
    )
    assert keys("export", name, "--form", "openssh", "-o", "out").code == 0
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", path.name) for path in (home / "out").iterdir())


@pytest.mark.parametrize("alias", ["../../evil", "/abs", "..", ".hidden", "a/../../b", "C:\\x"])
def test_a_name_from_the_trust_file_leaves_no_folder(keys, alice, home, alias):
    keys("trust", Key().public_key.hex(), "--alias", alias)
    (home / "deep" / "out").mkdir(parents=True)
    assert keys("export", alias, "--form", "pem", "-o", "deep/out").code == 0

    assert len(list((home / "deep" / "out").iterdir())) == 1
    assert sorted(path.name for path in (home / "deep").iterdir()) == ["out"]


def test_an_unknown_algorithm_is_listed_and_never_used(keys, home):
    root = Key()
    rows = [entry(Key(), alg="ml-dsa-44", public="ab" * 1312, alias="future")]
    (home / "theirs.json").write_bytes(envelope(document([root], rows), [root]))
    assert keys("list", "--trust", "theirs.json", "--pin", root.keyid).code == 0

    assert "not known here: never used" in " ".join(keys("list", "--trust", "theirs.json").out.split())
    assert told(keys("show", "future", "--trust", "theirs.json", "--json"), "keys-show")["forms"] == {}
    assert keys("export", "future", "--trust", "theirs.json").code == 2


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", 1), (b"{}", 1), (b"\x80\x04.", 1), (pickle.dumps({"a": 1}), 1), (b"[" * 10_000, 1), (b"x" * 13_000_000, 4)],
    ids=["empty", "object", "pickle opcode", "pickle", "deep", "large"],
)
def test_a_damaged_trust_file_ends_in_one_line(keys, home, content, code):
    folder(home).mkdir(parents=True)
    folder(home).joinpath("trust.json").write_bytes(content)

    for arguments in (["list"], ["show", "x"], ["trust", "00" * 32]):
        answer = keys(*arguments)
        assert (answer.code, answer.out) == (code, "")
        assert answer.err.startswith(f"provstore: {folder(home)}/trust.json: ")
        assert answer.err.count("\n") == 1


def test_a_newer_schema_is_not_understood(keys, home):
    root = Key()
    folder(home).mkdir(parents=True)
    folder(home).joinpath("trust.json").write_bytes(envelope(document([root], schema=2), [root]))

    answer = keys("list", "--pin", root.keyid)
    assert (answer.code, answer.out) == (4, "")


def test_a_key_file_that_others_can_read_does_not_sign(keys, alice, home):
    (folder(home) / "keys" / "alice.key").chmod(0o644)

    answer = keys("trust", Key().public_key.hex())
    assert answer.code == 2
    assert "0644" in answer.err
    assert keys("trust", Key().public_key.hex(), "--insecure-key-mode").code == 0


def test_a_damaged_key_file_is_noted_and_the_others_are_listed(keys, alice, home):
    (folder(home) / "keys" / "broken.key").write_text("{}")
    (folder(home) / "keys" / "broken.key").chmod(0o600)
    listed = told(keys("list", "--json"), "keys-list")

    assert [row["name"] for row in listed["keys"]] == ["alice"]
    assert ["broken.key" in note for note in listed["notes"]] == [True]


def test_an_encrypted_root_key_signs_with_the_passphrase_from_the_environment(keys, home, monkeypatch):
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
    assert keys("generate", "alice").code == 0
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "wrong")
    answer = keys("trust", "alice")
    assert (answer.code, answer.out) == (2, "")
    assert "wrong passphrase" in answer.err
    assert not (folder(home) / "trust.json").exists()
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
    assert keys("trust", "alice").code == 0


def test_help_of_the_group_starts_quickly_and_loads_no_cryptography(home):
    code = """import sys; from provstore.cli._app import run; run(["keys", "--help"])
print(sorted({"nacl", "cryptography", "pyarrow", "kglite"} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_key_made_by_ssh_keygen_is_trusted_and_signs(keys, home):
    ssh = home / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@host", "-f", ssh], check=True)

    change = told(keys("trust", "id.pub", "--alias", "alice", "--root-key", str(ssh), "--json"), "keys-trust")
    assert change["trust"]["root"] == [row["keyid"] for row in change["keys"]]


def test_a_private_key_is_exported_for_ssh_keygen_and_openssl_only_when_asked(keys, alice, home):
    for arguments in (["--form", "openssh"], ["--form", "pem", "-o", "out"], ["--form", "pkcs8", "-o", "out"]):
        assert keys("export", "alice", "--private", *arguments).code == 2
    assert not (home / "out").exists()

    for form in ("openssh", "pkcs8"):
        told(
            keys("export", "alice", "--private", "--form", form, "--unencrypted", "-o", "out", "--json"), "keys-export"
        )
    public = keys("export", "alice").out.split()[1]

    assert output_of("ssh-keygen", "-y", "-f", "out/alice.openssh", folder=home).decode().split()[1] == public
    der = output_of("openssl", "pkey", "-in", "out/alice.pkcs8.pem", "-pubout", "-outform", "DER", folder=home)
    assert der[-32:] == base64.b64decode(public)[-32:]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (home / "out").iterdir()} == {0o600}
    assert keys("export", "alice", "--private", "--form", "pkcs8", "--unencrypted", "-o", "out").code == 2


def test_an_encrypted_private_key_keeps_its_passphrase_as_openssh(keys, home, monkeypatch):
    pytest.importorskip("bcrypt")
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
    keyid = keys("generate", "alice").out.strip()
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
    assert keys("export", "alice", "--private", "--form", "openssh", "-o", "out").code == 0

    read = ("ssh-keygen", "-y", "-f", "out/alice.openssh", "-P")
    public = output_of(*read, "correct horse", folder=home).decode().split()[1]
    assert subprocess.run([*read, ""], cwd=home, capture_output=True, check=False).returncode != 0
    assert public == keys("export", "alice").out.split()[1]
    assert told(keys("list", "--json"), "keys-list")["keys"][0]["keyid"] == keyid


def test_a_name_that_means_two_keys_is_asked_back(keys, alice, make):
    make("bob")
    assert keys("trust", Key().public_key.hex(), "--alias", "bob").code == 0

    for arguments in (["show", "bob"], ["trust", "bob"], ["revoke", "bob", "--since", "2026-01-01", "--reason", "x"]):
        answer = keys(*arguments)
        assert (answer.code, answer.out) == (2, "")
        assert "several keys have this name" in answer.err


def test_a_folder_that_cannot_be_made_is_named(keys, alice, home):
    (home / "file").touch()
    answer = keys("export", "alice", "--form", "pem", "-o", "file/out")

    assert (answer.code, answer.out) == (2, "")
    assert "file" in answer.err
