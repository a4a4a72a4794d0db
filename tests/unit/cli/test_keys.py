"""The commands about keys, as a person uses them: alice trusts herself, then bob, replaces keys, revokes one."""

import base64
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.trust_files import Key, document, entry, envelope

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
HOSTILE = ["[red]x[/red]", "\x1b]0;x\a", "\u202eevil", "=HYPERLINK(1)", "<script>alert(1)</script>", "{{7*7}}", "a\nb"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PROVSTORE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def keys(command, home):
    return lambda *arguments: command("keys", *arguments)


@pytest.fixture
def make(keys):
    def made(*names):
        ids = []
        for name in names:
            answer = keys("generate", name, "--unencrypted")
            assert answer.code == 0, answer.err
            ids.append(answer.out.strip())
        return ids[0] if len(ids) == 1 else ids

    return made


@pytest.fixture
def alice(keys, make):
    """Alice has a key, and a trust file whose root it is."""
    keyid = make("alice")
    assert keys("trust", "alice", "--role", "run").code == 0
    return keyid


def told(answer, name):
    assert answer.code == 0, answer.err
    value = json.loads(answer.out)
    jsonschema.validate(value, strict(json.loads((SCHEMAS / f"keys-{name}.json").read_text())))
    return value


def strict(schema):
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: strict(value) for key, value in schema.items()}
    return {**copy, "additionalProperties": False} if "properties" in copy and "required" in copy else copy


def blob(key):
    return base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + key.public_key).decode()


def output_of(*arguments, folder):
    return subprocess.run(arguments, cwd=folder, capture_output=True, check=True).stdout


def folder(home):
    return home / ".config" / "provstore"


def test_generate_makes_an_encrypted_file_for_its_owner_only_and_prints_only_the_fingerprint(keys, home, monkeypatch):
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
    answer = keys("generate", "alice")
    path = folder(home) / "keys" / "alice.key"

    assert (answer.code, answer.err) == (0, "")
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
    assert (folder(home) / "keys" / "alice.key").read_bytes() == before


def test_generate_without_a_passphrase_and_without_a_terminal_says_what_to_set(keys, home, monkeypatch):
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        answer = keys("generate", "alice")

    assert answer.code == 2
    assert "PROVSTORE_KEY_PASSPHRASE" in answer.err
    assert not (folder(home) / "keys" / "alice.key").exists()


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
        assert "Exit code:" in answer.out
        assert "Example" in answer.out


def test_a_first_trusted_key_makes_a_trust_file_with_itself_as_root(keys, make, home):
    keyid = make("alice")
    answer = keys("trust", "alice", "--role", "run")

    assert answer.code == 0
    assert "version 1" in answer.out
    assert answer.out.count(keyid) == 3
    listed = told(keys("list", "--json"), "list")
    assert listed["trust"] == {
        "path": str(folder(home) / "trust.json"), "version": 1, "expires": None, "threshold": 1, "root": [keyid],
        "first_use": False,
    }  # fmt: skip
    assert [(row["name"], row["roles"], row["runs"], row["status"]) for row in listed["keys"]] == [
        ("alice", ["root", "run"], "*", "active")
    ]


def test_without_any_key_there_is_nothing_to_be_root(keys, home):
    answer = keys("trust", Key().public_key.hex(), "--alias", "bob")

    assert answer.code == 2
    assert "keys generate NAME" in answer.err
    assert not folder(home).joinpath("trust.json").exists()


def test_with_several_own_keys_the_root_must_be_named(keys, make):
    make("alice", "carol")
    answer = keys("trust", Key().public_key.hex())
    assert answer.code == 2
    assert "--root-key" in answer.err

    change = told(keys("trust", Key().public_key.hex(), "--root-key", "carol", "--json"), "trust")
    assert change["action"] == "created"


@pytest.mark.parametrize(
    "form", ["hex", "openssh", "pem", "der", "jwk", "vkey", "did-key", "minisign", "allowed_signers"]
)
def test_bob_is_trusted_by_any_form_of_his_public_key(keys, alice, home, form):
    bob = Key()
    (home / "bob.pub").write_text(f"ssh-ed25519 {blob(bob)} bob@example.org\n")
    assert keys("export", home / "bob.pub", "--form", form, "-o", home / "forms").code == 0
    (file,) = (home / "forms").iterdir()

    change = told(keys("trust", file, "--alias", "bob", "--role", "run", "--runs", "exp-*", "--json"), "trust")

    (row,) = change["keys"]
    assert (row["keyid"], row["alias"], row["runs"], row["roles"]) == (bob.keyid, "bob", "exp-*", ["run"])
    assert (change["trust"]["version"], change["signed_by"]) == (2, [alice])


def test_a_public_key_may_stand_on_the_command_line(keys, alice):
    bob = Key()
    change = told(keys("trust", bob.public_key.hex(), "--role", "agent", "--alias", "bot", "--json"), "trust")

    assert [(row["keyid"], row["roles"]) for row in change["keys"]] == [(bob.keyid, ["agent"])]


def test_a_file_of_allowed_signers_is_trusted_line_by_line(keys, alice, home):
    rows = [(f"p{number}@example.org", Key()) for number in range(3)]
    lines = [f'{name} namespaces="git" ssh-ed25519 {blob(key)}' for name, key in rows]
    (home / "signers").write_text("\n".join([*lines, "carol ssh-rsa AAAA"]))

    change = told(keys("trust", "signers", "--role", "agent", "--json"), "trust")

    assert {row["alias"]: row["keyid"] for row in change["keys"]} == {name: key.keyid for name, key in rows}
    assert ["ssh-rsa" in note for note in change["notes"]] == [True]


def test_what_is_no_key_is_refused_and_leaves_the_trust_file_alone(keys, alice, home):
    before = folder(home).joinpath("trust.json").read_bytes()
    (home / "empty").touch()
    (home / "garbage").write_bytes(bytes(range(256)))

    for who in ("nobody", "empty", "garbage", ".", "/nonexistent", "SHA256:" + "A" * 43, "00" * 32, "[red]"):
        answer = keys("trust", who)
        assert answer.code in {1, 2}, who
        assert answer.out == ""
        assert "Traceback" not in answer.err
    for wrong in (["--role", "root"], ["--role", "owner"], ["--runs", ""], ["--alias", ""], ["--alias", "x" * 300],
                  ["--not-after", "soon"], ["--expires", "2020-01-01"], ["--threshold", "2"]):  # fmt: skip
        answer = keys("trust", Key().public_key.hex(), *wrong)
        assert answer.code == 2, wrong
    assert folder(home).joinpath("trust.json").read_bytes() == before


def test_a_private_key_is_not_taken_for_a_public_one(keys, alice, home):
    key = Key()
    from cryptography.hazmat.primitives import serialization as form

    secret = key.private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (home / "bob.pem").write_bytes(secret)
    answer = keys("trust", "bob.pem")

    assert answer.code == 2
    assert "private key" in answer.err
    assert base64.b64encode(key.private.private_bytes_raw()).decode() not in answer.err


def test_trusting_a_listed_key_again_keeps_what_no_option_changes(keys, alice):
    bob = Key()
    keys("trust", bob.public_key.hex(), "--role", "rank", "--runs", "exp-*", "--alias", "bob")
    change = told(keys("trust", "bob", "--alias", "robert", "--json"), "trust")

    (row,) = change["keys"]
    assert (row["roles"], row["runs"], row["alias"]) == (["rank"], "exp-*", "robert")


def test_only_a_root_key_can_change_the_trust_file(keys, alice, make, home):
    make("mallory")
    before = folder(home).joinpath("trust.json").read_bytes()
    answer = keys("trust", "mallory", "--root-key", "mallory")

    assert answer.code == 1
    assert "signed by 0 of its root keys" in answer.err
    assert folder(home).joinpath("trust.json").read_bytes() == before
    folder(home).joinpath("keys", "alice.key").unlink()
    answer = keys("trust", "mallory")
    assert answer.code == 2
    assert "--root-key" in answer.err


def test_rotating_a_root_key_needs_both_private_keys(keys, alice, make, home):
    assert keys("rotate", "alice", "alice2").code == 2
    assert keys("rotate", "alice", Key().public_key.hex()).code == 2
    new = make("alice2")
    assert keys("rotate", "alice", "alice2", "--root-key", "alice2").code == 1

    change = told(keys("rotate", "alice", "alice2", "--json"), "rotate")

    assert change["trust"]["root"] == [new]
    assert change["signed_by"] == sorted([alice, new])
    assert {row["keyid"]: (row["roles"], row["status"]) for row in change["keys"]} == {
        alice: (["run"], "retired"),
        new: (["root", "run"], "active"),
    }
    assert any("grants nothing by itself" in note for note in change["notes"])
    assert keys("list").code == 0


def test_rotating_another_persons_key_needs_only_the_new_public_key(keys, alice, home):
    bob, new = Key(), Key()
    keys("trust", bob.public_key.hex(), "--alias", "bob", "--runs", "exp-*")
    change = told(keys("rotate", "bob", new.public_key.hex(), "--json"), "rotate")

    assert {row["keyid"]: (row["runs"], row["status"]) for row in change["keys"]} == {
        bob.keyid: ("exp-*", "retired"),
        new.keyid: ("exp-*", "active"),
    }
    assert change["signed_by"] == [alice]


def test_revoking_states_since_when_and_why(keys, alice):
    bob = Key()
    keys("trust", bob.public_key.hex(), "--alias", "bob")
    change = told(
        keys("revoke", "bob", "--since", "2026-11-01T12:00:00+01:00", "--reason", "stolen", "--json"), "revoke"
    )

    (row,) = change["keys"]
    assert (row["keyid"], row["status"], row["revoked_since"], row["revoked_because"]) == (
        bob.keyid, "revoked", "2026-11-01T11:00:00Z", "stolen",
    )  # fmt: skip
    answer = keys("trust", bob.public_key.hex())
    assert answer.code == 2
    assert "not taken back" in answer.err


@pytest.mark.parametrize(
    ("who", "since", "reason"),
    [("alice", "2026-11-01", "x"), ("nobody", "2026-11-01", "x"), ("bob", "yesterday", "x"), ("bob", "2026-11-01", "")],
    ids=["a root key", "no such key", "no time", "no reason"],
)
def test_what_cannot_be_revoked_is_said(keys, alice, who, since, reason):
    keys("trust", Key().public_key.hex(), "--alias", "bob")
    answer = keys("revoke", who, "--since", since, "--reason", reason)

    assert (answer.code, answer.out) == (2, "")


def test_a_trust_file_of_somebody_else_needs_its_fingerprint_once(keys, home):
    root = Key()
    (home / "theirs.json").write_bytes(envelope(document([root], [entry(Key(), alias="dora")]), [root]))

    answer = keys("list", "--trust", "theirs.json")
    assert (answer.code, answer.out) == (2, "")
    assert "--pin FINGERPRINT" in answer.err
    assert keys("list", "--trust", "theirs.json", "--pin", Key().keyid).code == 1
    assert keys("list", "--trust", "theirs.json", "--pin", root.keyid).code == 0
    assert keys("list", "--trust", "theirs.json").code == 0


def test_first_use_is_said_in_every_list(keys, home):
    root = Key()
    (home / "theirs.json").write_bytes(envelope(document([root]), [root]))
    assert keys("list", "--trust", "theirs.json", "--first-use").code == 0

    answer = keys("list", "--trust", "theirs.json")
    assert "believed on first use" in " ".join(answer.out.split())
    assert told(keys("list", "--trust", "theirs.json", "--json"), "list")["trust"]["first_use"] is True


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


def test_an_expired_trust_file_can_be_extended_by_its_root_and_only_so(keys, make, home):
    from provstore.evidence import key_files, trust, trust_changes

    make("alice")
    signer = key_files.load(folder(home) / "keys" / "alice.key", lambda: b"")
    path = folder(home) / "trust.json"
    trust.publish(path, trust_changes.first([signer.public_key], expires="2026-01-01T00:00:00Z"), [signer], old=None)

    assert keys("list").code == 1
    assert keys("trust", "alice").code == 2
    assert (
        told(keys("trust", "--expires", "2099-01-01", "--json"), "trust")["trust"]["expires"] == "2099-01-01T00:00:00Z"
    )
    assert keys("list").code == 0
    assert told(keys("trust", "--expires", "never", "--json"), "trust")["trust"]["expires"] is None


def test_two_of_three_root_keys_sign(keys, make, home):
    a, b, c = make("a", "b", "c")
    roots = ("--root-key", "a", "--root-key", "b", "--root-key", "c")
    assert keys("trust", "a", *roots, "--threshold", "4").code == 2
    change = told(keys("trust", "a", *roots, "--threshold", "2", "--json"), "trust")
    assert (change["trust"]["threshold"], change["trust"]["root"]) == (2, sorted([a, b, c]))

    assert keys("trust", "b", "--root-key", "a").code == 1
    assert keys("trust", "b", "--root-key", "a", "--root-key", "a").code == 2
    assert len(told(keys("trust", "b", "--json"), "trust")["signed_by"]) == 2
    make("d")
    assert (
        told(keys("rotate", "a", "d", "--root-key", "b", "--root-key", "c", "--json"), "rotate")["trust"]["version"]
        == 3
    )


def test_public_keys_are_exported_in_every_form_and_openssl_reads_them(keys, alice, home):
    exported = told(keys("export", "alice", "--form", "all", "-o", "out", "--json"), "export")

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
    told(keys("export", "--form", "allowed_signers", "-o", "out", "--json"), "export")
    assert base64.b64decode((home / "out" / "revoked_keys").read_text().split()[1])[-32:] == eve.public_key


def test_a_key_is_shown_with_the_ids_other_programs_give_it(keys, home):
    # The golden key of the specification of key ids: OpenSSH, SPKI and securesystemslib.
    shown = told(keys("show", golden(home), "--json"), "show")

    assert shown["forms"]["fingerprint"] == "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"
    assert shown["forms"]["spki-sha256"] == "a050837d85070582ccf7394b0988847cc312cb88259b894899f6f239cf1791a5"
    assert shown["forms"]["securesystemslib-id"] == "63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9"


def golden(home):
    path = home / "golden.hex"
    path.write_text("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8\n")
    return path


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
    assert told(keys("show", "future", "--trust", "theirs.json", "--json"), "show")["forms"] == {}
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
    listed = told(keys("list", "--json"), "list")

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

    change = told(keys("trust", "id.pub", "--alias", "alice", "--root-key", str(ssh), "--json"), "trust")
    assert change["trust"]["root"] == [row["keyid"] for row in change["keys"]]
