"""Small files of ours that a later version wrote: exit 4, one error with the file, its version and what is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provstore.evidence import anchors
from provstore.evidence.recording import orders
from provstore.journal import control

Command = Callable[..., Any]
ESCALATE = ("admin", "escalate", "--scope", "run", "--reason", "y")
CONTROL = "control.json: control file: schema: 'provstore-control/2' is not known; known is provstore-control/1"
WATCH = "watch-state.json: state of a watcher: schema: 'provstore-watch/2' is not known; known is provstore-watch/1"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    directory = tmp_path / "capture"
    directory.mkdir()
    (directory / "capture-rank0.jsonl").write_text('{"t":"step","step":41}\n')
    return directory


@pytest.mark.parametrize(
    "arguments", [ESCALATE, ("admin", "deescalate"), ("admin", "deescalate", "--scope", "run")], ids=" ".join
)
def test_a_control_file_of_a_later_version_is_exit_4_and_stays_as_it_is(
    command: Command, home: Path, capture: Path, arguments: tuple[str, ...]
) -> None:
    later = '{"schema":"provstore-control/2","orders":[]}'
    (capture / orders.FILE).write_text(later)
    answer = command(*arguments, "--directory", capture)

    assert (answer.code, answer.out) == (4, "")
    assert f"provstore: {capture}/{CONTROL}" in words(answer.err)
    assert (capture / orders.FILE).read_text() == later


def test_what_is_seen_beside_a_control_file_of_a_later_version_is_exit_4(
    command: Command, home: Path, capture: Path
) -> None:
    (capture / orders.FILE).write_text('{"schema":"provstore-control/2"}')
    log = home / "kern.log"
    log.write_text("[    7.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n")
    answer = command("watch", "--directory", capture, "--once", "--kernel-log", log)

    assert answer.code == 4
    assert CONTROL in words(answer.err)


def test_the_state_of_a_watcher_of_a_later_version_is_exit_4_and_stays_as_it_is(
    command: Command, home: Path, capture: Path
) -> None:
    later = '{"schema":"provstore-watch/2","cursors":{}}'
    (capture / "watch-state.json").write_text(later)
    answer = command("watch", "--directory", capture, "--once")

    assert (answer.code, answer.out) == (4, "")
    assert f"provstore: {capture}/{WATCH}" in words(answer.err)
    assert (capture / "watch-state.json").read_text() == later


@pytest.mark.parametrize("schema", ["other", "provstore-control", None, 2])
def test_a_control_file_that_names_no_version_of_the_format_is_bad_input(
    command: Command, home: Path, capture: Path, schema: object
) -> None:
    (capture / orders.FILE).write_text(json.dumps({"schema": schema, "escalations": []}))
    answer = command(*ESCALATE, "--directory", capture)

    assert answer.code == 2
    assert "control.json: control file: schema:" in words(answer.err)


def switched(command: Command, samples: Path) -> Path:
    """Return where a store keeps what was switched, safe mode on."""
    assert command("ingest", samples / "healthy").code == 0
    assert command("admin", "safe-mode", "on", "--reason", "a disk is copied").code == 0
    return Path(".provstore/journal/control")


@pytest.mark.parametrize("name", ["state.json", "spool/00000000000000000007-later.json"])
def test_safe_mode_kept_by_a_later_version_is_exit_4_and_nothing_is_written(
    command: Command, home: Path, samples: Path, name: str
) -> None:
    folder = switched(command, samples)
    (home / "more").symlink_to(samples / "hang", target_is_directory=True)
    (folder / name).write_bytes(b'{"modes":[],"schema":2}')
    before = {path: path.read_bytes() for path in sorted(folder.parent.rglob("*")) if path.is_file()}

    for arguments in ("admin safe-mode status", "admin safe-mode off", "admin resume", "ingest more", "seal --key k"):
        answer = command(*arguments.split())
        assert (answer.code, answer.out) == (4, ""), arguments
        assert f"journal/control/{name}: control: schema: 2 is not known; known is 1" in words(answer.err)
    assert {path: path.read_bytes() for path in sorted(folder.parent.rglob("*")) if path.is_file()} == before


def test_what_only_reads_answers_beside_safe_mode_of_a_later_version(
    command: Command, home: Path, samples: Path
) -> None:
    folder = switched(command, samples)
    (folder / "state.json").write_bytes(b'{"modes":[],"schema":2}')

    assert command("query", "runs/list").code == 0


def test_a_damaged_state_of_safe_mode_is_read_from_the_journal(command: Command, home: Path, samples: Path) -> None:
    folder = switched(command, samples)
    (folder / "state.json").write_bytes(b'{"changes":[],"sche')
    answer = command("admin", "safe-mode", "status", "--json")

    assert (answer.code, json.loads(answer.out)["safe_mode"]) == (0, control.ON)


def test_a_change_says_its_version_from_now_on_and_one_without_is_of_the_first(
    command: Command, home: Path, samples: Path
) -> None:
    folder = switched(command, samples)
    (only,) = (folder / "spool").iterdir()
    said = json.loads(only.read_bytes())
    assert said.pop("schema") == 1
    only.write_text(json.dumps(said, sort_keys=True, separators=(",", ":")))
    (folder / "state.json").unlink()

    assert "safe mode is on" in words(command("admin", "safe-mode", "status").out).lower()


def test_what_is_remembered_of_a_trust_file_by_a_later_version_names_both_versions(
    command: Command, home: Path, alice: str
) -> None:
    (remembered,) = home.rglob("state/provstore/trust/*.json")
    said = json.loads(remembered.read_bytes())
    remembered.write_text(json.dumps({**said, "schema": 2}, sort_keys=True, separators=(",", ":")) + "\n")
    answer = command("keys", "list")

    assert f"{remembered.name}: state: schema: 2 is not known; known is 1" in words(answer.err + answer.out)


def test_a_key_file_of_a_later_version_names_both_versions(command: Command, home: Path, alice: str) -> None:
    (path,) = home.rglob("keys/alice*")
    said = json.loads(path.read_bytes())
    path.write_text(json.dumps({**said, "version": 2}, sort_keys=True, separators=(",", ":")) + "\n")
    answer = command("seal", "--key", "alice")

    assert answer.code == 4
    assert "key file: version: 2 is not known; known is 1" in words(answer.err)


def test_an_anchor_of_a_later_version_is_exit_4_whatever_else_it_holds(
    command: Command, home: Path, samples: Path, alice: str
) -> None:
    assert command("ingest", samples / "healthy", "--seal", "--key", "alice").code == 0
    assert command("verify").code in {0, 3}
    (path,) = home.rglob(f"anchors/*{anchors.SUFFIX}")
    header, _, note = path.read_bytes().partition(b"\n")
    later = {**json.loads(header), "schema": 2, "witnesses": []}
    path.write_bytes(json.dumps(later, sort_keys=True, separators=(",", ":")).encode() + b"\n" + note)
    answer = command("verify")

    assert answer.code == 4
    assert f"{path.name}: anchor: schema: 2 is not known; known is 1" in words(answer.err + answer.out)
