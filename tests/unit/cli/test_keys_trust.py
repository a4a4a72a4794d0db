"""The trust file, as a person changes it: alice trusts herself, then bob, replaces keys, revokes one."""

import base64

import pytest

from tests.documented import told
from tests.trust_files import Key


def folder(home):
    return home / ".config" / "provstore"


def test_a_first_trusted_key_makes_a_trust_file_with_itself_as_root(keys, make, home):
    keyid = make("alice")
    answer = keys("trust", "alice", "--role", "run")

    assert answer.code == 0
    assert "version 1" in answer.out
    assert answer.out.count(keyid) == 3
    listed = told(keys("list", "--json"), "keys-list")
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

    change = told(keys("trust", Key().public_key.hex(), "--root-key", "carol", "--json"), "keys-trust")
    assert change["action"] == "created"


@pytest.mark.parametrize(
    "form", ["hex", "openssh", "pem", "der", "jwk", "vkey", "did-key", "minisign", "allowed_signers"]
)
def test_bob_is_trusted_by_any_form_of_his_public_key(keys, alice, home, form):
    bob = Key()
    (home / "bob.pub").write_text(f"ssh-ed25519 {bob.blob} bob@example.org\n")
    assert keys("export", home / "bob.pub", "--form", form, "-o", home / "forms").code == 0
    (file,) = (home / "forms").iterdir()

    change = told(keys("trust", file, "--alias", "bob", "--role", "run", "--runs", "exp-*", "--json"), "keys-trust")

    (row,) = change["keys"]
    assert (row["keyid"], row["alias"], row["runs"], row["roles"]) == (bob.keyid, "bob", "exp-*", ["run"])
    assert (change["trust"]["version"], change["signed_by"]) == (2, [alice])


def test_a_public_key_may_stand_on_the_command_line(keys, alice):
    bob = Key()
    change = told(keys("trust", bob.public_key.hex(), "--role", "agent", "--alias", "bot", "--json"), "keys-trust")

    assert [(row["keyid"], row["roles"]) for row in change["keys"]] == [(bob.keyid, ["agent"])]


def test_a_file_of_allowed_signers_is_trusted_line_by_line(keys, alice, home):
    rows = [(f"p{number}@example.org", Key()) for number in range(3)]
    lines = [f'{name} namespaces="git" ssh-ed25519 {key.blob}' for name, key in rows]
    (home / "signers").write_text("\n".join([*lines, "carol ssh-rsa AAAA"]))

    change = told(keys("trust", "signers", "--role", "agent", "--json"), "keys-trust")

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
    change = told(keys("trust", "bob", "--alias", "robert", "--json"), "keys-trust")

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

    change = told(keys("rotate", "alice", "alice2", "--json"), "keys-rotate")

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
    change = told(keys("rotate", "bob", new.public_key.hex(), "--json"), "keys-rotate")

    assert {row["keyid"]: (row["runs"], row["status"]) for row in change["keys"]} == {
        bob.keyid: ("exp-*", "retired"),
        new.keyid: ("exp-*", "active"),
    }
    assert change["signed_by"] == [alice]


def test_revoking_states_since_when_and_why(keys, alice):
    bob = Key()
    keys("trust", bob.public_key.hex(), "--alias", "bob")
    change = told(
        keys("revoke", "bob", "--since", "2026-11-01T12:00:00+01:00", "--reason", "stolen", "--json"), "keys-revoke"
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


def test_a_revocation_from_a_moment_on_that_has_not_come_yet_must_be_meant(keys, alice):
    keys("trust", Key().public_key.hex(), "--alias", "bob")
    revoking = ("revoke", "bob", "--since", "2099-01-01", "--reason", "stolen")

    answer = keys(*revoking)
    assert (answer.code, answer.out) == (2, "")
    assert "2099-01-01" in answer.err
    assert "--force" in answer.err
    assert keys(*revoking, "--force").code == 0


@pytest.mark.parametrize("name", ["bob", "no/such/file.pub", "bob@example.org"])
def test_a_name_that_nobody_has_is_told_once_and_with_what_helps(keys, alice, name):
    answer = keys("trust", name)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"provstore: {name}: keys: no own key, no key of the trust file, no file")
    assert "hint: provstore keys list shows them; provstore keys generate NAME" in " ".join(answer.err.split())


@pytest.mark.parametrize("secret", ["c2VjcmV0IHNlZWQgb2YgYSBwcml2YXRlIGtleSEhISE=", "f" * 60, "x" * 43])
def test_what_could_be_a_secret_is_never_shown(keys, alice, secret):
    answer = keys("trust", secret)

    assert answer.code in {1, 2}
    assert secret not in answer.err
    assert answer.err.count("public key: public key") == 0


def test_a_key_that_is_to_follow_and_is_not_there_is_told_with_what_makes_it(keys, alice):
    answer = keys("rotate", "alice", "alice-2027")

    assert (answer.code, answer.out) == (2, "")
    assert "provstore keys generate alice-2027" in " ".join(answer.err.split())


def test_an_expired_trust_file_can_be_extended_by_its_root_and_only_so(keys, make, home):
    from provstore.evidence import key_files
    from provstore.evidence.trust import changes
    from provstore.evidence.trust import file as trust_file

    make("alice")
    signer = key_files.load(folder(home) / "keys" / "alice.key", lambda: b"")
    path = folder(home) / "trust.json"
    trust_file.publish(path, changes.first([signer.public_key], expires="2026-01-01T00:00:00Z"), [signer], old=None)

    assert keys("list").code == 1
    assert keys("trust", "alice").code == 2
    assert (
        told(keys("trust", "--expires", "2099-01-01", "--json"), "keys-trust")["trust"]["expires"]
        == "2099-01-01T00:00:00Z"
    )
    assert keys("list").code == 0
    assert told(keys("trust", "--expires", "never", "--json"), "keys-trust")["trust"]["expires"] is None


def test_two_of_three_root_keys_sign(keys, make, home):
    a, b, c = make("a", "b", "c")
    roots = ("--root-key", "a", "--root-key", "b", "--root-key", "c")
    assert keys("trust", "a", *roots, "--threshold", "4").code == 2
    change = told(keys("trust", "a", *roots, "--threshold", "2", "--json"), "keys-trust")
    assert (change["trust"]["threshold"], change["trust"]["root"]) == (2, sorted([a, b, c]))

    assert keys("trust", "b", "--root-key", "a").code == 1
    assert keys("trust", "b", "--root-key", "a", "--root-key", "a").code == 2
    assert len(told(keys("trust", "b", "--json"), "keys-trust")["signed_by"]) == 2
    make("d")
    assert (
        told(keys("rotate", "a", "d", "--root-key", "b", "--root-key", "c", "--json"), "keys-rotate")["trust"][
            "version"
        ]
        == 3
    )


def test_a_file_without_exactly_one_key_replaces_none(keys, alice, home):
    keys("trust", Key().public_key.hex(), "--alias", "bob")
    lines = [f"p{number} ssh-ed25519 {Key().blob}" for number in range(2)]
    (home / "two").write_text("\n".join(lines))
    (home / "none").write_text("carol ssh-rsa AAAA ssh-ed25519")
    (home / "other").write_text(f"carol ssh-ed25519 {Key().blob}\ncarol ssh-rsa AAAA")

    assert keys("rotate", "bob", "two").code == 2
    assert keys("rotate", "bob", "none").code == 2
    assert keys("trust", "none").code == 2
    assert keys("trust", "two", "--alias", "both").code == 2
    assert keys("rotate", "bob", "other").code == 0


def test_one_passphrase_of_the_environment_serves_all_keys_of_one_command(keys, home, monkeypatch):
    for arguments in (["generate", "alice"], ["generate", "alice2"], ["trust", "alice", "--root-key", "alice"],
                      ["rotate", "alice", "alice2"]):  # fmt: skip
        monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "correct horse")
        assert keys(*arguments).code == 0


def test_times_need_a_zone_and_dates_do_not(keys, alice):
    bob = Key().public_key.hex()

    assert keys("trust", bob, "--not-before", "2026-01-01T10:00:00").code == 2
    window = ("--not-before", "2026-01-01", "--not-after", "2026-12-31T00:00:00-01:00")
    change = told(keys("trust", bob, *window, "--json"), "keys-trust")
    (row,) = change["keys"]
    assert (row["not_before"], row["not_after"]) == ("2026-01-01T00:00:00Z", "2026-12-31T01:00:00Z")


def test_the_root_key_cannot_be_one_for_raw_files(keys, alice, home):
    before = folder(home).joinpath("trust.json").read_bytes()
    answer = keys("trust", "alice", "--role", "file")

    assert answer.code == 1
    assert "raw files" in answer.err
    assert folder(home).joinpath("trust.json").read_bytes() == before
