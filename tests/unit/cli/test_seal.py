"""Signing on the command line: which key may, what is said of it, and what a person is told who asks for nothing."""

from __future__ import annotations

import json

import pytest

from tests.documented import told
from tests.trust_files import Key

PAST, FUTURE = "2020-01-31", "2099-01-31"


@pytest.fixture
def command(command, home, samples, monkeypatch):
    """The command line of a person with two keys, of whom alice's is the root of the trust file."""

    def call(*arguments):
        # Reading it takes it out of the environment.
        monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "only for this test")
        return command(*arguments)

    for arguments in (
        ["ingest", samples / "hang", samples / "healthy"],
        ["keys", "generate", "alice", "--unencrypted"],
        ["keys", "generate", "bob", "--unencrypted"],
        ["keys", "trust", "alice"],
        ["keys", "trust", "bob", "--root-key", "alice"],
    ):
        assert call(*arguments).code == 0
    return call


def flat(text):
    return " ".join(text.split())


def keyid_of(command, name):
    return json.loads(command("keys", "show", name, "--json").out)["key"]["keyid"]


# The key


@pytest.mark.parametrize(
    "arguments",
    [("seal", "hang", "--close", "aborted", "--key", "bob"), ("ingest", "more", "--seal", "--key", "bob")],
    ids=["seal", "ingest"],
)
def test_a_revoked_key_signs_nothing_and_an_active_one_is_named(command, samples, home, arguments):
    (home / "more").symlink_to(samples / "mismatch", target_is_directory=True)
    assert command("keys", "revoke", "bob", "--since", PAST, "--reason", "laptop stolen").code == 0

    answer = command(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "bob (SHA256:" in answer.err
    assert "revoked since 2020-01-31T00:00:00Z (laptop stolen)" in flat(answer.err)
    assert "hint: --key alice is active" in flat(answer.err)
    assert command("verify", "hang").code == 4, "nothing was signed"
    assert command("seal", "hang", "--close", "aborted", "--key", "alice").code == 0


def test_without_another_key_the_hint_is_to_make_one(command, home):
    assert command("keys", "revoke", "bob", "--since", PAST, "--reason", "lost").code == 0
    (home / ".config" / "provstore" / "keys" / "alice.key").unlink()

    assert "provstore keys generate NAME" in flat(command("seal", "hang", "--key", "bob").err)


def test_a_retired_key_signs_with_a_remark(command):
    assert command("keys", "generate", "carol", "--unencrypted").code == 0
    assert command("keys", "rotate", "bob", "carol").code == 0

    answer = command("seal", "hang", "--key", "bob")
    assert answer.code == 0
    assert "is retired" in flat(answer.err)
    assert command("seal", "healthy", "--key", "carol").err == ""


@pytest.mark.parametrize("how", ["seal", "ingest"])
def test_a_key_that_the_trust_file_does_not_list_signs_with_a_remark(command, samples, how):
    assert command("keys", "generate", "dora", "--unencrypted").code == 0
    what = ["seal", "hang"] if how == "seal" else ["ingest", samples / "mismatch", "--seal"]

    answer = command(*what, "--key", "dora")
    assert answer.code == 0
    assert f"does not list {keyid_of(command, 'dora')}" in flat(answer.err)
    assert command(*(what[:1] if how == "seal" else what), "--key", "alice").err == ""


def test_what_an_unlisted_key_signed_last_stops_the_signing_until_it_is_trusted_or_looked_at(command, home, tmp_path):
    assert command("keys", "generate", "dora", "--unencrypted").code == 0
    for run in ("hang", "healthy"):
        assert command("seal", run, "--key", "dora").code == 0

    answer = command("seal", "hang", "--close", "aborted", "--key", "alice")
    assert (answer.code, answer.out) == (1, "")
    assert f"names key {keyid_of(command, 'dora')}" in flat(answer.err)
    assert "hint: provstore seal --trust FILE names more keys" in flat(answer.err)
    assert command("seal", "hang", "--close", "aborted", "--key", "alice", "--after-unknown-key").code == 0

    own = home / ".config" / "provstore" / "trust.json"
    before = tmp_path / "before.json"
    before.write_bytes(own.read_bytes())
    assert command("keys", "trust", "dora", "--root-key", "alice").code == 0
    closing = ("seal", "healthy", "--close", "finished", "--key", "alice")
    assert command(*closing, "--trust", before).code == 1
    assert command(*closing).code == 0


@pytest.mark.parametrize("how", ["seal", "ingest"])
def test_a_key_for_other_runs_signs_with_a_remark_that_names_the_run(command, samples, how):
    assert command("keys", "trust", "bob", "--runs", "exp-*").code == 0
    name, what = (
        ("hang", ["seal", "hang"]) if how == "seal" else ("mismatch", ["ingest", samples / "mismatch", "--seal"])
    )

    answer = command(*what, "--key", "bob")
    assert answer.code == 0
    assert "only for runs exp-*" in flat(answer.err)
    assert f"for {name}" in flat(answer.err)


@pytest.mark.parametrize("window", [("--not-after", PAST), ("--not-before", FUTURE)])
def test_a_key_outside_its_window_signs_with_a_remark(command, window):
    assert command("keys", "trust", "bob", *window).code == 0

    answer = command("seal", "hang", "--key", "bob")
    assert answer.code == 0
    assert "is valid from" in flat(answer.err)
    assert window[1] in answer.err


def test_a_key_that_is_listed_for_something_else_signs_with_a_remark(command):
    assert command("keys", "trust", "bob", "--role", "log").code == 0

    assert "only as log" in flat(command("seal", "hang", "--key", "bob").err)


def test_a_key_in_good_standing_signs_without_a_word(command):
    answer = command("seal", "hang", "--key", "bob")
    assert (answer.code, answer.err) == (0, "")


# What there is to sign


def test_a_closed_run_without_anything_new_is_left_as_it_is(command):
    first = told(command("seal", "hang", "--close", "aborted", "--key", "bob", "--json"), "seal")["runs"][0]

    answer = command("seal", "hang", "--key", "alice")
    assert answer.code == 0
    assert "closed, and nothing was unsigned; 9 records signed before" in flat(answer.out)
    again = told(command("seal", "hang", "--key", "alice", "--json"), "seal")["runs"][0]
    assert again == first | {"epochs": [], "records": 0}


def test_a_closed_run_is_not_closed_again(command):
    command("seal", "hang", "--close", "aborted", "--key", "bob")

    answer = command("seal", "hang", "--close", "finished", "--key", "bob")
    assert (answer.code, answer.out) == (2, "")
    assert "is closed already" in answer.err


def test_ingest_of_known_files_of_a_closed_run_can_be_repeated(command, samples):
    command("seal", "hang", "--close", "aborted", "--key", "bob")

    answer = command("ingest", samples / "hang", "--seal", "--key", "bob")
    assert (answer.code, answer.err) == (0, "")
    assert "nothing was unsigned" in flat(answer.out)


def test_the_key_id_of_a_report_without_a_new_signature_is_that_of_the_last_bundle(command):
    command("seal", "hang", "--key", "bob")

    again = told(command("seal", "hang", "--key", "alice", "--json"), "seal")["runs"][0]
    assert (again["epochs"], again["keyid"]) == ([], keyid_of(command, "bob"))


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["hagn"], "did you mean hang?"),
        (["something-else"], "there are hang, healthy"),
        (["hang", "--attempt", "7"], "of run hang there are the attempts 0"),
    ],
)
def test_a_run_that_is_not_there_is_told_with_those_that_are(command, arguments, hint):
    answer = command("seal", *arguments, "--key", "bob")

    assert (answer.code, answer.out) == (2, "")
    assert hint in flat(answer.err)


# The file of the key


def test_a_key_file_that_others_can_read_signs_when_that_is_agreed_to(command, home, samples):
    (home / ".config" / "provstore" / "keys" / "bob.key").chmod(0o644)
    refused = command("seal", "hang", "--key", "bob")

    assert refused.code == 2
    assert "--insecure-key-mode" in refused.err
    assert command("seal", "hang", "--key", "bob", "--insecure-key-mode").code == 0
    assert command("ingest", samples / "mismatch", "--seal", "--key", "bob", "--insecure-key-mode").code == 0
    exported = ("evidence", "export", "hang", "-o", home / "out", "--sign", "sshsig", "--key", "bob")
    assert command(*exported).code == 2
    assert command(*exported, "--insecure-key-mode").code == 0


@pytest.mark.parametrize("form", ["pem", "openssh", "minisign", "jwk", "allowed_signers", "vkey"])
def test_a_public_key_in_the_place_of_the_private_one_is_told_as_such(command, home, form):
    from provstore.evidence import public_forms

    path = home / "bob.pub"
    path.write_bytes(public_forms.FORMS[form](Key().public_key, name="bob"))
    path.chmod(0o644)

    answer = command("seal", "hang", "--key", path)
    assert (answer.code, answer.out) == (2, "")
    assert "this is a public key" in answer.err
    assert "chmod" not in answer.err


def test_a_key_that_is_not_there_is_told_with_what_helps(command):
    answer = command("seal", "--key", "dave")

    assert answer.code == 2
    assert "provstore keys generate dave" in flat(answer.err)
    assert "provstore keys list" in flat(answer.err)
