"""What limits leave for the moment that matters: the ring, the step that escalates, and both sides of a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from clocks import MILLISECOND, Clock

from provstore.capture.content.budget import CLONE, DIGEST, RING_CLONE, STATISTICS, Budget
from provstore.capture.content.digest import TensorBytes
from provstore.capture.content.limits import Limits
from provstore.capture.content.snapshot import SnapshotFile
from provstore.capture.recording.content_maker import ContentMaker
from provstore.capture.recording.contents import Content, Side
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.judging import Judged
from provstore.capture.recording.ring import Ring
from provstore.capture.recording.snapshots import Place, Snapshots
from provstore.capture.recording.worker import Worker
from provstore.model.recording import DELTA, MUTATE_LOCAL, RecordingPolicy

PLENTY, MIB = 1 << 50, 1 << 20
CALM = Judged(MUTATE_LOCAL, RecordingPolicy(DELTA, "local mutation, low risk", "6"))


class Lines:
    """Stands for the outbox."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put(self, line: dict[str, Any], *, needs_step: bool = False) -> None:
        self.lines.append(line)


def budget(clock: Clock, **limits: Any) -> Budget:
    one = Budget(
        Limits(reserve_bytes=0, reserve_share=0.0, **limits), "nowhere", clock_ns=clock, work_ns=clock,
        disk=lambda: (PLENTY, PLENTY),
    )  # fmt: skip
    one.step()
    return one


def hooks_take_too_much(one: Budget, clock: Clock, steps: int = 30) -> None:
    """Steps of 100 ms in which hooks alone take five times the 2 % that there are."""
    for _ in range(steps):
        one.own_time(10 * MILLISECOND)
        clock.pass_ms(100)
        one.step()


def test_what_calm_steps_took_too_much_does_not_keep_the_step_that_escalates_from_being_recorded() -> None:
    clock = Clock()
    one = budget(clock)
    hooks_take_too_much(one, clock)
    one.own_time(10 * MILLISECOND)
    assert one.ask(DIGEST, 1_000).reason == "time-budget"

    one.escalate(True)

    assert one.ask(DIGEST, 1_000).reason is None
    one.escalate(False)
    assert one.ask(DIGEST, 1_000).reason == "time-budget", "calm steps still repay what they took"


def test_the_ring_has_half_a_share_of_each_step_whatever_hooks_took_and_no_more() -> None:
    clock = Clock()
    one = budget(clock)
    hooks_take_too_much(one, clock)
    for _ in range(3):
        one.own_time(10 * MILLISECOND)
        grants = [one.ask(RING_CLONE, 0) for _ in range(200)]
        granted = [grant for grant in grants if grant.reason is None]

        # A copy takes 0.02 ms at first sight; a step without what recording took has 90 ms, half of 2 % of it is 0.9.
        assert len(granted) == 45
        assert {grant.reason for grant in grants} == {None, "time-budget"}
        for grant in granted:
            one.settle(grant, 20_000)
        clock.pass_ms(100)
        one.step()


def test_copies_for_the_ring_that_looked_slow_are_tried_again() -> None:
    clock = Clock()
    one = budget(clock)
    for _ in range(9):
        one.settle(one.ask(RING_CLONE, 0), 10 * MILLISECOND)
    refused = 0
    while one.ask(RING_CLONE, 0).reason is not None:
        refused += 1
        assert refused < 100
        clock.pass_ms(100)
        one.step()

    assert refused > 0


def test_large_copies_for_the_ring_do_not_make_other_copies_look_slow() -> None:
    clock = Clock()
    one = budget(clock, steady_share=1.0)
    for _ in range(9):
        one.settle(one.ask(RING_CLONE, 16 * MIB), 8 * MILLISECOND)

    # 0.02 ms and 0.5 ns a byte at first sight.
    assert one.ask(CLONE, MIB).predicted_ns == 20_000 + MIB // 2
    assert one.ask(RING_CLONE, 16 * MIB).predicted_ns == pytest.approx(8 * MILLISECOND, rel=0.1)


@pytest.mark.parametrize("limits", [{"digest_bytes_step": 0}, {"escalated_share": 0.0}])
def test_where_nothing_may_be_written_late_nothing_is_held(limits: dict[str, Any], tmp_path: Path) -> None:
    maker, one, _ = maker_of(tmp_path, **limits)
    one.own_time(1_000 * MILLISECOND)

    assert maker.wish(call_of(4_000), CALM, "0@0-3", 1).in_ring is False


def test_a_call_that_fits_into_no_step_does_not_make_the_others_rarer(tmp_path: Path) -> None:
    maker, one, clock = maker_of(tmp_path, steady_share=1e6, digest_bytes_step=MIB)
    for step in range(20):
        large, small = call_of(600_000), call_of(4_000)
        assert maker.wish(large, CALM, "0@0-3", 2 * step).in_ring
        assert large.shortfall == {"byte-budget"}, "both sides of it are 1.2 MB"

        assert {work for _, work in maker.wish(small, CALM, "0@0-3", 2 * step + 1).grants} == {DIGEST, STATISTICS}
        assert not small.shortfall
        clock.pass_ms(100)
        maker.end_step(is_escalated=False)
    assert one.k == 0


def test_a_call_that_takes_longer_than_any_step_has_does_not_make_the_others_rarer(tmp_path: Path) -> None:
    maker, one, clock = maker_of(tmp_path)
    for step in range(20):
        large = call_of(100 * MIB)
        assert maker.wish(large, CALM, "0@0-3", step).in_ring
        assert large.shortfall == {"byte-budget"}
        large = call_of(20 * MIB)
        assert maker.wish(large, CALM, "0@0-3", step).in_ring
        assert large.shortfall == {"time-budget"}, "100 ms of work, and 4 ms at most in a step"
        clock.pass_ms(100)
        maker.end_step(is_escalated=False)
    assert one.k == 0


def test_what_is_left_for_snapshots_is_shared_by_both_sides_so_that_neither_is_stored_alone(tmp_path: Path) -> None:
    clock = Clock()
    one = budget(clock, steady_share=1e6, snapshot_bytes_step=7 * MIB // 2)
    lines = Lines()
    snapshots = Snapshots(SnapshotFile(tmp_path, 0), "a run", one, lines)  # type: ignore[arg-type]
    content = Content(side_with(bytes(3 * MIB)), side_with(b"1" * 3 * MIB))

    snapshots.keep(None, content, Place("0@0-3", 1, "all_reduce", 0, 0, ranks=4))

    # All of one side would leave half a chunk for the other.
    chunks: dict[str, list[int]] = {"in": [], "out": []}
    for line in lines.lines:
        chunks[line["side"]].append(line["chunk"])
    assert chunks == {"in": [0], "out": [0]}
    assert content.inputs is not None
    assert content.outputs is not None
    assert len(content.inputs.snapshot or ()) == len(content.outputs.snapshot or ()) == 1


def test_a_snapshot_of_which_one_side_does_not_fit_stores_nothing_and_gives_its_bytes_back(tmp_path: Path) -> None:
    clock = Clock()
    one = budget(clock, steady_share=1e6, snapshot_bytes_step=3 * MIB // 2)
    lines = Lines()
    snapshots = Snapshots(SnapshotFile(tmp_path, 0), "a run", one, lines)  # type: ignore[arg-type]
    content = Content(side_with(bytes(3 * MIB)), side_with(b"1" * 3 * MIB))

    with pytest.raises(Exception, match="not a chunk of each tensor fits") as raised:
        snapshots.keep(None, content, Place("0@0-3", 1, "all_reduce", 0, 0, ranks=4))

    assert getattr(raised.value, "reason", None) == "byte-budget"
    assert lines.lines == []
    assert one.snapshot_room() == (3 * MIB // 2, "byte-budget")


def maker_of(folder: Path, **limits: Any) -> tuple[ContentMaker, Budget, Clock]:
    clock = Clock()
    one = budget(clock, **limits)
    guard = Guard(lambda *fault: None)
    snapshots = Snapshots(SnapshotFile(folder, 0), "a run", one, Lines())  # type: ignore[arg-type]
    maker = ContentMaker(
        None,
        ("a run", 0),
        guard=guard,
        budget=one,
        worker=Worker(guard, lambda: None),
        ring=Ring(),
        snapshots=snapshots,
    )
    return maker, one, clock


def call_of(size: int) -> Content:
    """Return a call in place of so many bytes."""
    return Content(Side([[size]], ["uint8"], size), Side([[size]], ["uint8"], size))


def side_with(data: bytes) -> Side:
    held = TensorBytes("uint8", (len(data),), memoryview(data))
    return Side([[len(data)]], ["uint8"], len(data), bytes_of=(held,), trees=(held.tree(),))
