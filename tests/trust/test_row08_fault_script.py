"""Any write, sync or rename of a script of ingests, records, seals and a close may fail (matrix row 8).

The journal's own tests do this for batches; here the script signs. What holds after every fault: all that was
acknowledged is there, nothing is there that was not tried, and the evidence verifies against every checkpoint that was
handed out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import evidence_seeds
import pytest
from evidence_seeds import ATTEMPT, RUN
from journal_fakes import Crash, FaultyDisk, number, small
from order import is_within

from provstore.errors import ProvstoreError, StoreError
from provstore.journal import Journal, recovery, writer

SESSIONS = (
    ("batch", "records", "seal", "records", "batch", "seal"),
    ("seal", "records", "batch", "records", "seal"),
    ("records", "close", "seal"),
)


@pytest.fixture(autouse=True)
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROLL_BYTES", 4_000)
    monkeypatch.setattr(recovery, "RESERVE_BYTES", 100)


class Script:
    """A fixed sequence of operations that a user does, and what the user was told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "journal"
        self.tried: list[bytes] = []
        self.lines: list[bytes] = []
        self.tried_batches: list[int] = []
        self.batches: list[int] = []
        self.notes: list[bytes] = []
        self.signed: list[bytes] = []
        self._made = 0

    def run(self, disk: FaultyDisk) -> None:
        for steps in SESSIONS:
            try:
                with Journal.open(self.directory, writable=True, disk=disk) as journal:
                    for step in steps:
                        with contextlib.suppress(StoreError):
                            getattr(self, step)(journal)
            except StoreError:
                continue

    def batch(self, journal: Journal) -> None:
        self._made += 1
        self.tried_batches.append(self._made)
        journal.append(small(self._made))
        self.batches.append(self._made)

    def records(self, journal: Journal) -> None:
        self._made += 1
        first = journal.evidence_size(RUN, ATTEMPT).records
        self._append(journal, [evidence_seeds.observation(first + at, None, f"{self._made}") for at in range(3)])

    def close(self, journal: Journal) -> None:
        size = journal.evidence_size(RUN, ATTEMPT).records
        self._append(journal, [evidence_seeds.closing(size, size, len(self.batches))], closes=True)

    def seal(self, journal: Journal) -> None:
        sealed = evidence_seeds.seal(journal)
        if sealed:
            self.notes += [note for _, note in sealed]
            self.signed = [record.line for record in journal.evidence(RUN, ATTEMPT).records()]

    def judge(self) -> None:
        """Open twice with a sound disk, as next processes would; look at everything."""
        with Journal.open(self.directory, writable=True, disk=FaultyDisk()):
            pass
        with Journal.open(self.directory, writable=False) as journal:
            assert [problem for problem in journal.check() if problem.is_loss] == []
            found = list(journal.evidence(RUN, ATTEMPT).records())
            assert [record.index for record in found] == list(range(len(found)))
            lines, batches = [record.line for record in found], [number(block) for _, block in journal.blocks()]
            assert is_within(self.lines, lines)
            assert is_within(lines, self.tried)
            assert is_within(self.batches, batches)
            assert is_within(batches, self.tried_batches)
            assert evidence_seeds.faults(journal, [evidence_seeds.anchor(note) for note in self.notes]) == set()

    def _append(self, journal: Journal, lines: list[bytes], *, closes: bool = False) -> None:
        self.tried += lines
        journal.append_records(RUN, ATTEMPT, lines, closes=closes)
        self.lines += lines


def operations(directory: Path) -> int:
    directory.mkdir()
    disk, script = FaultyDisk(), Script(directory)
    script.run(disk)
    assert (len(script.lines), len(script.batches), len(script.notes)) == (16, 3, 4)
    script.judge()
    return disk.count


def each(tmp_path: Path, fault: str, check: Callable[[Script, FaultyDisk], None]) -> None:
    count = operations(tmp_path / "sound")
    assert count >= 60
    for at in range(count):
        directory = tmp_path / f"{fault}-{at}"
        directory.mkdir()
        script, disk = Script(directory), FaultyDisk(at, fault)
        with contextlib.suppress(Crash):
            script.run(disk)
        try:
            check(script, disk)
        except (AssertionError, ProvstoreError) as error:
            raise AssertionError(f"{fault} at operation {at} of {count}") from error


@pytest.mark.parametrize("power", [True, False], ids=["the process ends", "then the power goes"])
@pytest.mark.parametrize("fault", ["fail", "full", "shorten"])
def test_after_any_failure_nothing_acknowledged_is_lost_and_all_verifies(
    tmp_path: Path, fault: str, power: bool
) -> None:
    def check(script: Script, disk: FaultyDisk) -> None:
        disk.lose_power(keep=power)
        script.judge()
        if fault == "shorten":
            assert len(script.lines) == 16

    each(tmp_path, fault, check)


@pytest.mark.parametrize("keep", [True, False], ids=["the process dies", "the power goes"])
@pytest.mark.parametrize("fault", ["crash", "tear"])
def test_after_a_crash_at_any_operation_the_acknowledged_is_there_and_all_verifies(
    tmp_path: Path, fault: str, keep: bool
) -> None:
    def check(script: Script, disk: FaultyDisk) -> None:
        disk.lose_power(keep=keep)
        script.judge()

    each(tmp_path, fault, check)


def test_a_disk_that_lies_about_one_operation_leads_to_a_clean_answer(tmp_path: Path) -> None:
    """No program can keep what a disk drops; what was signed is there, or somebody says that it is not."""

    def check(script: Script, disk: FaultyDisk) -> None:
        disk.lose_power(keep=False)
        with contextlib.suppress(StoreError), Journal.open(script.directory, writable=True, disk=FaultyDisk()):
            pass
        with contextlib.suppress(StoreError), Journal.open(script.directory, writable=False) as journal:
            problems = [problem for problem in journal.check() if problem.is_loss]
            lines = [record.line for record in journal.evidence(RUN, ATTEMPT).records()]
            anchors = [evidence_seeds.anchor(note) for note in script.notes]
            codes = evidence_seeds.faults(journal, anchors)
            assert is_within(lines, script.tried)
            assert problems or codes or lines[: len(script.signed)] == script.signed

    each(tmp_path, "drop", check)
