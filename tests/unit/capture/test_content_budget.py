"""Budgets: no limit in bytes is ever exceeded, each gives its own reason, and time over the limit makes rarer."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from clocks import MILLISECOND, Clock
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.capture.content.budget import (
    CALL_FLAG,
    CLONE,
    DEVICE_CLONE,
    DIGEST,
    FLAG,
    SNAPSHOT,
    STATISTICS,
    Budget,
    Grant,
)
from provstore.capture.content.limits import GIB, Limits
from provstore.errors import ConfigError

PLENTY = 1 << 50
ROOMY: dict[str, Any] = {
    "steady_share": 1e6, "escalated_share": 1e6, "digest_bytes_step": PLENTY, "clone_bytes": PLENTY,
    "ring_bytes": PLENTY, "snapshot_bytes_tensor": PLENTY, "snapshot_bytes_step": PLENTY,
    "snapshot_bytes_epoch": PLENTY, "snapshot_bytes_run": PLENTY, "reserve_bytes": 0, "reserve_share": 0.0,
}  # fmt: skip


def budget(clock: Clock | None = None, disk: tuple[int, int] = (PLENTY, PLENTY), **limits: Any) -> Budget:
    now = clock or Clock()
    return Budget(Limits(**ROOMY | limits), "nowhere", clock_ns=now, work_ns=now, disk=lambda: disk)


def granted(grant: Grant) -> int:
    return grant.size_bytes if grant.reason is None else 0


def test_the_defaults_are_the_documented_ones() -> None:
    assert Limits().to_dict() == {
        "steady_share": 0.02,
        "escalated_share": 0.25,
        "digest_bytes_step": 64 * 2**20,
        "clone_bytes": 256 * 2**20,
        "ring_bytes": 64 * 2**20,
        "snapshot_bytes_tensor": 16 * 2**20,
        "snapshot_bytes_step": 64 * 2**20,
        "snapshot_bytes_epoch": 2 * 2**30,
        "snapshot_bytes_run": 20 * 2**30,
        "reserve_bytes": 5 * 2**30,
        "reserve_share": 0.10,
    }


@pytest.mark.parametrize("value", [-1, float("nan"), "1", True])
def test_what_is_no_limit_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="clone_bytes"):
        Limits(clone_bytes=value)


@pytest.mark.parametrize("limit", [0, 1, 1_000, 5_500])
@pytest.mark.parametrize(
    ("name", "work", "reason", "refill"),
    [
        ("digest_bytes_step", DIGEST, "byte-budget", "step"),
        ("clone_bytes", CLONE, "clone-budget", None),
        ("snapshot_bytes_step", SNAPSHOT, "byte-budget", "step"),
        ("snapshot_bytes_epoch", SNAPSHOT, "byte-budget", "begin_epoch"),
        ("snapshot_bytes_run", SNAPSHOT, "byte-budget", None),
    ],
)
def test_a_limit_in_bytes_is_never_exceeded_and_fills_again_when_it_should(
    limit: int, name: str, work: str, reason: str, refill: str | None
) -> None:
    one = budget(**{name: limit})
    grants = [one.ask(work, 1_000) for _ in range(100)]
    first = sum(map(granted, grants))

    assert first == limit // 1_000 * 1_000
    assert {grant.reason for grant in grants if grant.reason} == {reason}
    for kind in ("step", "begin_epoch"):
        getattr(one, kind)()
        again = sum(granted(one.ask(work, 1_000)) for _ in range(100))
        assert again == (first if kind == refill else 0)


@pytest.mark.parametrize("limit", [0, 999])
def test_one_tensor_stores_no_more_than_its_limit(limit: int) -> None:
    one = budget(snapshot_bytes_tensor=limit)

    assert one.snapshot_room() == (limit, "byte-budget")
    assert one.ask(SNAPSHOT, limit).reason is None
    assert one.ask(SNAPSHOT, limit + 1).reason == "byte-budget"
    assert one.ask(SNAPSHOT, limit).reason is None, "another tensor has a limit of its own"


def test_the_ring_holds_no_more_than_its_limit() -> None:
    one = budget(ring_bytes=100)

    assert [one.take_ring(60), one.take_ring(60), one.take_ring(40)] == [None, "byte-budget", None]
    one.release_ring(60)
    assert one.take_ring(60) is None
    assert budget(ring_bytes=0).take_ring(1) == "byte-budget"


def test_copies_that_are_gone_make_room_for_others() -> None:
    one = budget(clone_bytes=100)
    first = one.ask(CLONE, 80)
    one.settle(first, 1)
    assert one.ask(CLONE, 80).reason == "clone-budget"
    one.release_clone(80)
    dropped = one.ask(CLONE, 80)
    one.drop(dropped)

    assert one.ask(CLONE, 80).reason is None


def test_copies_on_a_device_count_with_those_on_the_host_and_take_time_for_their_number_alone() -> None:
    one = budget(clone_bytes=100 << 20, steady_share=0.002)

    assert one.ask(DEVICE_CLONE, 60 << 20).reason is None, "a step of 100 ms has 0.2 ms for it"
    assert one.ask(CLONE, 41 << 20).reason == "clone-budget"
    assert one.ask(DEVICE_CLONE, 41 << 20).reason == "clone-budget"
    one.release_clone(60 << 20)
    assert one.ask(DEVICE_CLONE, 100 << 20).reason is None


@pytest.mark.parametrize(
    ("disk", "room"),
    [
        # The larger of 5 GiB and a tenth of the disk stays free.
        ((40 * GIB, 6 * GIB), GIB),
        ((100 * GIB, 11 * GIB), GIB),
        ((100 * GIB, 10 * GIB), 0),
        ((40 * GIB, 0), 0),
    ],
)
def test_the_reserve_of_the_disk_stays_free(disk: tuple[int, int], room: int) -> None:
    one = budget(disk=disk, reserve_bytes=5 * GIB, reserve_share=0.1)

    assert one.disk_room() == room
    assert one.snapshot_room() == (room, "disk-reserve")
    assert one.ask(SNAPSHOT, room + 1).reason == "disk-reserve"
    assert one.ask(SNAPSHOT, room).reason is None


def test_a_directory_that_is_gone_has_no_room(tmp_path: Path) -> None:
    there = Budget(Limits(reserve_bytes=0, reserve_share=0), tmp_path)
    gone = Budget(Limits(), tmp_path / "gone")

    assert 0 < there.disk_room() <= shutil.disk_usage(tmp_path).total
    assert gone.disk_room() == 0
    assert gone.ask(SNAPSHOT, 1).reason == "disk-reserve"


def test_what_earlier_processes_stored_counts_for_the_run() -> None:
    one = Budget(Limits(**ROOMY | {"snapshot_bytes_run": 100}), "x", snapshot_bytes=90, disk=lambda: (PLENTY, PLENTY))

    assert one.ask(SNAPSHOT, 11).reason == "byte-budget"
    assert one.ask(SNAPSHOT, 10).reason is None


def test_a_snapshot_that_was_not_stored_gives_its_bytes_back() -> None:
    one = budget(snapshot_bytes_run=100)
    one.drop(one.ask(SNAPSHOT, 100))

    assert one.ask(SNAPSHOT, 100).reason is None


def run_steps(one: Budget, clock: Clock, *, steps: int, work_ms: float, works: int, nap_ms: float = 100) -> list[float]:
    """Run steps of a job that asks for pieces of work of one length; return the own time of each, in ms."""
    spent = []
    for _ in range(steps):
        own = 0.0
        for _ in range(works):
            grant = one.ask(DIGEST, 1_000)
            if grant.reason is None:
                with one.working(grant):
                    clock.pass_ms(work_ms)
                own += work_ms
            else:
                assert grant.reason == "time-budget"
        clock.pass_ms(nap_ms)
        one.step()
        spent.append(own)
    return spent


@pytest.mark.parametrize(("share", "escalated"), [(0.02, False), (0.25, True), (0.001, False)])
def test_own_time_stays_within_its_share_of_the_median_step(share: float, escalated: bool) -> None:
    clock = Clock()
    one = budget(clock, **{"escalated_share" if escalated else "steady_share": share})
    one.escalate(escalated)
    one.step()
    spent = run_steps(one, clock, steps=200, work_ms=0.5, works=100)

    settled = spent[20:]
    assert sum(settled) / len(settled) <= share * 100
    assert max(settled) <= share * 100 + 0.5
    if share >= 0.02:
        assert sum(settled) > 0.5 * share * 100 * len(settled), "the time that there is is used"


@pytest.mark.parametrize("work", [CALL_FLAG, FLAG, DIGEST, STATISTICS, CLONE, DEVICE_CLONE, SNAPSHOT])
def test_without_time_nothing_is_done(work: str) -> None:
    one = budget(steady_share=0)

    assert one.ask(work, 0).reason == "time-budget"


def test_the_limit_on_time_is_that_of_the_median_step_whatever_one_long_step_took() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.1)
    one.step()
    run_steps(one, clock, steps=9, work_ms=0, works=0)
    clock.pass_ms(60_000)
    one.step()
    spent = run_steps(one, clock, steps=20, work_ms=1, works=100)

    # The steps without work left their shares, 16 at most; a step takes twice its share at most.
    assert max(spent) <= 2 * 0.1 * 100
    assert sum(spent) <= (20 + 16) * 0.1 * 100


def test_time_that_the_hooks_took_is_not_there_for_digests() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.1)
    one.own_time(10 * MILLISECOND)

    assert one.ask(DIGEST, 1_000).reason == "time-budget"


def test_what_was_granted_and_is_not_done_yet_is_taken() -> None:
    one = budget(steady_share=0.001)
    grants = [one.ask(DIGEST, 0) for _ in range(100)]

    # 0.1 ms for pieces of 0.04 ms.
    assert sum(grant.reason is None for grant in grants) == 2
    one.drop(grants[0])
    assert one.ask(DIGEST, 0).reason is None


def test_time_that_flags_took_in_the_last_step_is_kept_for_flags() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    for _ in range(2):
        for _ in range(30):
            digest, flag = one.ask(DIGEST, 10), one.ask(FLAG, 10)
            for grant in (digest, flag):
                if grant.reason is None:
                    with one.working(grant):
                        clock.pass_ms(0.05)
        clock.pass_ms(100)
        one.step()
    grants = [one.ask(DIGEST, 10) for _ in range(100)]
    flag = one.ask(FLAG, 10)

    assert {grant.reason for grant in grants} == {None, "time-budget"}
    assert flag.reason is None


def test_a_rank_over_its_limit_selects_more_rarely_and_an_idle_one_more_often_again() -> None:
    clock = Clock()
    one = budget(clock, digest_bytes_step=1_000)
    seen = []
    for _ in range(3):
        one.ask(DIGEST, 5_000)
        clock.pass_ms(100)
        one.step()
        seen.append((one.k, one.reason_unselected))
    for _ in range(40):
        one.drop(one.ask(DIGEST, 100))
        clock.pass_ms(100)
        one.step()

    assert seen == [(1, "byte-budget"), (2, "byte-budget"), (3, "byte-budget")]
    assert (one.k, one.reason_unselected) == (0, None)


def test_a_rank_that_uses_most_of_its_limit_keeps_its_selection() -> None:
    clock = Clock()
    one = budget(clock, digest_bytes_step=1_000)
    one.ask(DIGEST, 5_000)
    one.step()
    for _ in range(100):
        one.settle(one.ask(DIGEST, 900), 1)
        clock.pass_ms(100)
        one.step()

    assert one.k == 1


def test_a_rank_over_its_time_says_so() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    with one.working(one.ask(DIGEST, 1_000)):
        clock.pass_ms(50)
    one.step()

    assert (one.k, one.reason_unselected) == (1, "time-budget")
    one.escalate(True)
    assert one.k == 0, "while escalated, the selection has limits of its own"
    one.escalate(False)
    assert one.k == 1


def test_one_slow_moment_does_not_end_recording_for_good() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    one.own_time(3_600_000 * MILLISECOND)
    run_steps(one, clock, steps=40, work_ms=0, works=0)

    assert one.ask(DIGEST, 1_000).reason is None


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(0, 4_000), st.integers(0, 9_000), st.integers(0, 20_000))
def test_whatever_is_asked_in_whatever_order_no_limit_in_bytes_is_exceeded(
    seed: int, step_limit: int, epoch_limit: int, run_limit: int
) -> None:
    chance = random.Random(seed)
    one = budget(
        digest_bytes_step=step_limit, snapshot_bytes_step=step_limit, snapshot_bytes_epoch=epoch_limit,
        snapshot_bytes_run=run_limit, clone_bytes=step_limit,
    )  # fmt: skip
    held: list[int] = []
    digests = snaps_step = snaps_epoch = snaps_run = 0
    for _ in range(120):
        action = chance.choice(["digest", "snapshot", "clone", "free", "step", "epoch"])
        size = chance.randrange(1_500)
        if action == "digest":
            digests += granted(one.ask(DIGEST, size))
        elif action == "snapshot":
            stored = granted(one.ask(SNAPSHOT, size))
            snaps_step, snaps_epoch, snaps_run = snaps_step + stored, snaps_epoch + stored, snaps_run + stored
        elif action == "clone":
            held.append(granted(one.ask(CLONE, size)))
        elif action == "free" and held:
            one.release_clone(held.pop())
        elif action == "step":
            one.step()
            digests = snaps_step = 0
        elif action == "epoch":
            one.begin_epoch()
            snaps_epoch = 0
        assert max(digests, snaps_step, sum(held)) <= step_limit
        assert snaps_epoch <= epoch_limit
        assert snaps_run <= run_limit


def test_a_selection_is_not_made_coarser_for_time_that_it_has_no_part_in() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    for _ in range(20):
        one.own_time(50 * MILLISECOND)
        clock.pass_ms(100)
        one.step()

    assert one.k == 0


def test_a_selection_becomes_finer_beside_flags_that_take_most_of_the_time() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02, digest_bytes_step=1_000)
    one.ask(DIGEST, 5_000)
    one.step()
    assert one.k == 1
    for _ in range(10):
        one.own_time(int(1.5 * MILLISECOND))
        clock.pass_ms(100)
        one.step()

    assert one.k == 0


@pytest.mark.parametrize("seed", range(5))
def test_own_time_is_within_its_share_in_the_mean_whatever_single_pieces_take(seed: int) -> None:
    chance = random.Random(seed)
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    own = steps = 0.0
    for _ in range(2_000):
        for work in (CALL_FLAG, DIGEST, STATISTICS) * 3:
            one.own_time(20_000)
            own += 0.02
            grant = one.ask(work, 4_000)
            if grant.reason is None:
                # One piece in a hundred takes twenty times what the others take.
                took = chance.expovariate(1 / 0.2) * (20 if chance.random() < 0.01 else 1)
                own += took
                with one.working(grant):
                    clock.pass_ms(took)
        clock.pass_ms(100)
        steps += 100
        one.step()

    assert 0.01 * steps < own < 0.02 * steps + 2 * 16


def test_one_slow_piece_does_not_make_the_next_ones_impossible() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    run_steps(one, clock, steps=30, work_ms=0.1, works=1)
    with one.working(one.ask(DIGEST, 1_000)):
        clock.pass_ms(15)
    clock.pass_ms(100)
    one.step()

    assert run_steps(one, clock, steps=5, work_ms=0.1, works=1) == [0.1] * 5
    assert one.k == 0


def test_flags_have_their_time_in_each_step_although_others_took_too_much() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    with one.working(one.ask(DIGEST, 1_000)):
        clock.pass_ms(500)
    clock.pass_ms(100)
    one.step()
    for _ in range(10):
        assert one.ask(DIGEST, 1_000).reason == "time-budget"
        flag = one.ask(CALL_FLAG, 4_000)
        assert flag.reason is None
        with one.working(flag):
            clock.pass_ms(0.1)
        clock.pass_ms(100)
        one.step()


def test_flags_of_calls_have_their_time_before_those_of_parameters_and_both_before_digests() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    for _ in range(20):
        done = {CALL_FLAG: 0, FLAG: 0, DIGEST: 0}
        # In this order: the calls of a step come last, as those of gradients do.
        for work in [DIGEST] * 40 + [FLAG] * 12 + [CALL_FLAG] * 10:
            grant = one.ask(work, 4_000)
            if grant.reason is None:
                done[work] += 1
                with one.working(grant):
                    clock.pass_ms(0.1)
        clock.pass_ms(100)
        one.step()

    assert done[CALL_FLAG] == 10
    assert 6 <= done[FLAG] <= 10, "2 ms for 22 flags of 0.1 ms"
    assert done[DIGEST] == 0


def test_work_is_measured_by_what_the_thread_has_of_the_processor() -> None:
    wall, processor = Clock(), Clock()
    one = Budget(
        Limits(**ROOMY | {"steady_share": 0.02}), "x", clock_ns=wall, work_ns=processor, disk=lambda: (PLENTY, PLENTY)
    )
    one.step()
    for _ in range(20):
        grant = one.ask(DIGEST, 1_000)
        assert grant.reason is None
        with one.working(grant):
            wall.pass_ms(30)
            processor.pass_ms(0.1)
        wall.pass_ms(70)
        one.step()
    assert one.k == 0
    assert one.settled_here() == 20 * MILLISECOND // 10
    assert one.settled_here() == 0


@pytest.mark.parametrize("work", [CALL_FLAG, FLAG])
def test_flags_of_small_tensors_have_their_time_whatever_hooks_and_digests_took(work: str) -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    with one.working(one.ask(DIGEST, 1_000)):
        clock.pass_ms(100)
    for _ in range(20):
        one.own_time(5 * MILLISECOND)
        assert one.ask(work, 1 << 24).reason == "time-budget"
        flag = one.ask(work, 4_000)
        assert flag.reason is None
        with one.working(flag):
            clock.pass_ms(0.01)
        clock.pass_ms(15)
        one.step()


def test_flags_that_looked_slow_are_tried_again() -> None:
    clock = Clock()
    one = budget(clock, steady_share=0.02)
    one.step()
    for _ in range(9):
        with one.working(one.ask(CALL_FLAG, 10)):
            clock.pass_ms(1)
    refused = 0
    while one.ask(CALL_FLAG, 10).reason is not None:
        refused += 1
        assert refused < 100
        one.own_time(5 * MILLISECOND)
        clock.pass_ms(15)
        one.step()

    assert refused > 0


def test_work_beside_training_that_takes_longer_than_a_step_does_not_make_the_step_look_like_none() -> None:
    clock = Clock()
    one = budget(clock, steady_share=1e6)
    one.step()
    for _ in range(3):
        one.own_time(50 * MILLISECOND)
        clock.pass_ms(2)
        one.step()

    assert one.ask(DIGEST, 1_000).reason is None
