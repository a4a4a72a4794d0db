"""Safe mode: switched on once, it holds for every process on a store until it is switched off."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from provstore import errors
from provstore.api.control import require_allowed, safe_mode, switch
from provstore.journal import Journal, control


@pytest.fixture
def stored(command, home, samples, monkeypatch):
    """The command line of a person with one stored run."""
    monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "only for this test")
    for arguments in (
        ["ingest", samples / "healthy"],
        ["keys", "generate", "alice", "--unencrypted"],
        ["keys", "trust", "alice"],
    ):
        assert command(*arguments).code == 0
    return command


def on(command, reason="a disk is being copied"):
    answer = command("admin", "safe-mode", "on", "--reason", reason)
    assert answer.code == 0, answer.err
    return answer


@pytest.mark.parametrize(
    "arguments",
    [["ingest", "more"], ["seal", "--key", "alice"], ["ingest", "more", "--seal", "--key", "alice"]],
    ids=" ".join,
)
def test_what_writes_is_refused_with_exit_6_and_says_who_when_and_why(stored, samples, home, arguments):
    (home / "more").symlink_to(samples / "hang", target_is_directory=True)
    on(stored)
    answer = stored(*arguments)
    assert (answer.code, answer.out) == (6, "")
    assert "refused by safe mode" in answer.err
    assert "a disk is being copied" in answer.err
    assert "hint: provstore admin safe-mode off" in answer.err

    assert stored("admin", "safe-mode", "off").code == 0
    assert stored(*arguments).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["seal", "--key", "gone"],
        ["ingest", "more", "--seal", "--key", "gone"],
        ["record", "more", "--epoch", "0", "--key", "gone"],
    ],
    ids=" ".join,
)
def test_it_is_told_before_a_key_is_looked_for(stored, arguments):
    on(stored)
    answer = stored(*arguments)
    assert answer.code == 6, answer.err
    assert "refused by safe mode" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["store", "rebuild"],
        ["keys", "rotate", "alice", "bob"],
        ["keys", "revoke", "alice", "--since", "2026-01-01T00:00:00Z", "--reason", "compromised"],
    ],
    ids=" ".join,
)
def test_no_graph_is_thrown_away_and_no_trust_changed(stored, arguments):
    on(stored)
    answer = stored(*arguments)

    assert (answer.code, answer.out) == (6, "")
    assert f"{arguments[0]} {arguments[1]}: refused by safe mode" in answer.err


def test_reading_listing_and_verifying_go_on(stored):
    on(stored)
    for arguments in (["store", "info"], ["diagnose", "run:healthy"], ["evidence", "list"], ["store", "check"]):
        assert stored(*arguments).code == 0, arguments
    assert stored("verify", "healthy").code == 4, "nothing is signed, and that is what it says"


def test_it_holds_in_another_process_and_after_the_cache_file_is_lost(stored, home):
    on(stored)
    (home / ".provstore" / "journal" / "control" / "state.json").unlink()
    program = "import sys; from provstore.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, "seal"], capture_output=True, text=True, check=False, cwd=home
    )
    assert done.returncode == 6, done.stderr
    assert "a disk is being copied" in done.stderr


def test_both_changes_stand_in_the_journal_and_the_state_is_found_there_alone(stored, home):
    journal = home / ".provstore" / "journal"
    on(stored)
    Journal.open(journal, writable=True).close()
    assert not list((journal / "control" / "spool").iterdir()), "the holder of the journal has taken it over"
    (journal / "control" / "state.json").unlink()
    assert safe_mode(None).is_on
    assert stored("admin", "resume").code == 0
    with Journal.open(journal, writable=True) as found:
        said = [(one["state"], one["reason"]) for _, one in found.events() if one["event"] == "control"]
    assert said == [("on", "a disk is being copied"), ("off", "")]
    assert not safe_mode(None).is_on


def test_a_damaged_cache_file_is_no_way_out(stored, home):
    on(stored)
    with Journal.open(home / ".provstore" / "journal", writable=True):
        pass
    for damage in (b"", b"{", b'{"changes":[],"schema":1', b'{"changes":{},"schema":1}'):
        (home / ".provstore" / "journal" / "control" / "state.json").write_bytes(damage)
        with pytest.raises(errors.SafeModeError, match="a disk is being copied"):
            require_allowed("seal", None)


def test_switching_off_on_a_host_whose_clock_lags_counts(stored, home):
    on(stored)
    journal = home / ".provstore" / "journal"
    control.announce(journal, control.Change(control.SAFE_MODE, "off", "", "bob", "node-2", at_ns=1))
    assert not safe_mode(None).is_on


def test_switching_needs_no_hold_of_the_journal(stored, home):
    with Journal.open(home / ".provstore" / "journal", writable=True):
        on(stored)
        assert safe_mode(None).is_on


def test_it_is_shown_with_who_and_why_and_never_without_a_reason(stored):
    answer = stored("admin", "safe-mode", "on")
    assert (answer.code, "--reason" in answer.err) == (2, True)
    assert "nobody ever switched it on" in stored("admin", "safe-mode", "status").out
    on(stored, "[/red] why \x1b]0;x\x07")
    shown = stored("admin", "safe-mode", "status").out
    assert "[/red] why" in shown
    assert "\x1b" not in shown
    said = json.loads(stored("admin", "safe-mode", "status", "--json").out)
    assert said["safe_mode"] == "on"
    assert set(said) == {"safe_mode", "reason", "who", "host", "since"}


def test_an_unknown_state_or_a_store_without_journal_is_a_clear_error(command, home):
    assert command("admin", "safe-mode", "maybe").code == 2
    answer = command("admin", "safe-mode", "on", "--reason", "x")
    assert (answer.code, "no such directory" in answer.err) == (7, True)
    assert command("admin", "safe-mode", "status").code == 0
    with pytest.raises(errors.ConfigError, match="in memory"):
        switch("memory:", on=True, reason="x")
