"""Histories of a store on a disk that tears, reorders and forgets what was not synced (matrix row 12).

A history is a sequence of batches, records, seals, reopenings, jumps of the clock, failing operations and power cuts.
After each cut the store must open by itself, hold all that was acknowledged and at most the one thing under way, and
verify against every checkpoint that was acknowledged.
"""

from __future__ import annotations

import contextlib
import errno
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import evidence_seeds
import pytest
from evidence_seeds import ATTEMPT, RUN
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from journal_fakes import large, number, small
from order import is_within
from scale import seed, times
from simulated_disk import PowerCutError, SimulatedDisk

from provstore.errors import InputError, StoreError
from provstore.journal import Journal, block_lines, recovery, writer

HISTORIES = times("HISTORIES", 100, 2_000)
YEAR_NS = 365 * 86_400 * 10**9

STEPS = st.one_of(
    st.tuples(st.just("batch"), st.sampled_from((2, 2, 12))),
    st.tuples(st.just("records"), st.integers(1, 5)),
    st.tuples(st.just("records"), st.integers(1, 5)),
    st.tuples(st.just("seal")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("close")),
    st.tuples(st.just("clock"), st.sampled_from((-10 * YEAR_NS, -1, 10**9, 3_700 * 10**9, 10 * YEAR_NS))),
    st.tuples(st.just("fail"), st.integers(0, 12), st.sampled_from((errno.EIO, errno.ENOSPC))),
    st.tuples(st.just("cut"), st.integers(0, 14)),
    st.tuples(st.just("cut"), st.integers(0, 14)),
)


@dataclass
class World:
    """A store on a simulated disk, and what its user knows."""

    root: Path
    chance: random.Random
    now_ns: int = 1_800_000_000 * 10**9
    lines: list[bytes] = field(default_factory=list)
    """Acknowledged records; likewise below."""
    batches: list[int] = field(default_factory=list)
    notes: list[bytes] = field(default_factory=list)
    tried: list[bytes] = field(default_factory=list)
    """All records, also those that were refused or under way; likewise below."""
    tried_batches: list[int] = field(default_factory=list)
    closed: bool = False
    made: int = 0
    disk: SimulatedDisk | None = None
    journal: Journal | None = None

    def clock_ns(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def open(self) -> None:
        if self.disk is None:
            self.disk = SimulatedDisk(self.root, self.chance)
        self.journal = Journal.open(self.root, writable=True, disk=self.disk)

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()
            self.journal = None

    def take(self, step: tuple[Any, ...]) -> None:
        """Do one step; the power may go in it."""
        try:
            getattr(self, f"do_{step[0]}")(*step[1:])
        except StoreError:
            if self.journal is None:
                self.disk = self._next_life()

    def do_batch(self, rows: int) -> None:
        self.made += 1
        self.tried_batches.append(self.made)
        if self.closed:
            with pytest.raises(InputError, match="is closed"):
                self._open_journal().append(small(self.made, rows))
            return
        self._open_journal().append(large(self.made, rows) if rows > 10 else small(self.made, rows))
        self.batches.append(self.made)

    def do_records(self, count: int) -> None:
        self.made += 1
        first = len(self.lines)
        lines = [evidence_seeds.observation(first + at, None, f"{self.made}", self.clock_ns()) for at in range(count)]
        self.tried += lines
        if self.closed:
            with pytest.raises(InputError, match="is closed"):
                self._open_journal().append_records(RUN, ATTEMPT, lines)
            return
        self._open_journal().append_records(RUN, ATTEMPT, lines)
        self.lines += lines

    def do_seal(self) -> None:
        sealed = evidence_seeds.seal(self._open_journal(), self.clock_ns)
        self.notes += [checkpoint for _, checkpoint in sealed]

    def do_close(self) -> None:
        if self.closed:
            return
        lines = [evidence_seeds.closing(len(self.lines), len(self.lines), len(self.batches))]
        self.tried += lines
        self._open_journal().append_records(RUN, ATTEMPT, lines, closes=True)
        self.lines += lines
        self.closed = True

    def do_reopen(self) -> None:
        self.close()
        self.open()

    def do_clock(self, delta_ns: int) -> None:
        self.now_ns += delta_ns

    def do_fail(self, after: int, error: int) -> None:
        assert self.disk is not None
        self.disk._fails_at = {self.disk.count + after: error}

    def do_cut(self, after: int) -> None:
        assert self.disk is not None
        self.disk._ends_after = self.disk.count + after

    def come_back(self) -> None:
        """The machine starts again; compare what is there with what was acknowledged."""
        assert self.disk is not None
        self.close()
        self.disk.cut_power()
        self.disk = None
        self.open()
        lines, batches = self._recovered()
        assert is_within(self.lines, lines), (len(self.lines), len(lines))
        assert is_within(lines, self.tried)
        assert is_within(self.batches, batches), (self.batches, batches)
        assert is_within(batches, self.tried_batches)
        self.lines, self.batches = lines, batches
        self.closed = any(b'"kind":"run-close"' in line for line in lines)

    def judge(self) -> None:
        """The store is sound, and every checkpoint that was acknowledged still holds."""
        journal = self._open_journal()
        assert [str(problem) for problem in journal.check() if problem.is_loss] == []
        anchors = [evidence_seeds.anchor(checkpoint) for checkpoint in self.notes]
        assert evidence_seeds.faults(journal, anchors) <= {"clock-odd"}

    def _recovered(self) -> tuple[list[bytes], list[int]]:
        journal = self._open_journal()
        records = list(journal.evidence(RUN, ATTEMPT).records())
        assert [record.index for record in records] == list(range(len(records)))
        return [record.line for record in records], [number(block) for _, block in journal.blocks()]

    def _open_journal(self) -> Journal:
        if self.journal is None:
            self.open()
        assert self.journal is not None
        return self.journal

    def _next_life(self) -> SimulatedDisk:
        assert self.disk is not None
        before, self.disk = self.disk, None
        before.end()
        return SimulatedDisk(self.root, self.chance)


@pytest.fixture(autouse=True)
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROLL_BYTES", 4_000)
    monkeypatch.setattr(recovery, "RESERVE_BYTES", 100)
    monkeypatch.setattr(block_lines, "MAX_FACTS", 12)


def history(steps: list[tuple[Any, ...]], chance: random.Random, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(root, chance)
    monkeypatch.setattr(writer, "time", SimpleNamespace(time_ns=world.clock_ns))
    try:
        world.open()
        for step in steps:
            try:
                world.take(step)
            except PowerCutError:
                world.come_back()
                world.judge()
        with contextlib.suppress(PowerCutError):
            world.close()
            world.under_way = [], []
        world.come_back()
        world.judge()
    finally:
        world.close()
        if world.disk is not None:
            world.disk.end()


def test_no_history_loses_what_was_acknowledged_or_breaks_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = seed("histories")

    @hypothesis_seed(chosen)
    @settings(
        max_examples=HISTORIES,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(STEPS, min_size=5, max_size=30), st.integers(0, 1 << 30))
    def hold(steps: list[tuple[Any, ...]], luck: int) -> None:
        note(f"steps {steps}, luck {luck}")
        with tempfile.TemporaryDirectory(prefix="provstore-history-") as folder:
            history(steps, random.Random(luck), Path(folder) / "journal", monkeypatch)

    hold()


GIVEN_UP = [("batch", 2)] * 20 + [("cut", 8), ("fail", 1, errno.ENOSPC), ("batch", 2)]
GIVEN_UP_AT_ONCE = [("seal",), ("fail", 6, errno.ENOSPC), ("cut", 10), ("batch", 2), ("batch", 2)]


@pytest.mark.parametrize("steps", [GIVEN_UP, GIVEN_UP_AT_ONCE], ids=["with a tail", "without"])
def test_a_segment_given_up_before_a_power_cut_is_no_alarm_and_takes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[Any, ...]]
) -> None:
    history(steps, random.Random(0), tmp_path / "journal", monkeypatch)
