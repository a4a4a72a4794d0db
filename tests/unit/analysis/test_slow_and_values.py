"""Stragglers, clocks and values that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.analysis import Options, diagnose
from provstore.analysis.clocks import UNKNOWN_NS, offsets
from provstore.model.dump import Dump, DumpSet, Sidecar, TensorRecord
from provstore.model.finding import Diagnosis
from tests.hand_dumps import SECOND, Row, dump, ring

MS = 1_000_000
STEP = 100 * MS


def judged(dumps: Sequence[Dump], about: str | None = None, tensors: Sequence[TensorRecord] = ()) -> Diagnosis:
    return diagnose(DumpSet("run", 0, dumps, (), tensors), Options(about=about))


def job(entered: Callable[[int, int], int], ranks: int = 4, calls: int = 20) -> list[Dump]:
    """Return blocking calls without completion events, entered at ``entered(rank, call)`` ms after the step's start."""
    return [
        dump(
            rank,
            [Row(n, created_ns=SECOND + n * STEP + entered(rank, n) * MS, state=0) for n in range(calls)],
            ranks=ranks,
            backend="gloo",
            eventless=True,
        )
        for rank in range(ranks)
    ]


def test_a_rank_that_is_last_in_most_calls_by_much_is_a_straggler() -> None:
    (finding,) = judged(job(lambda rank, n: 40 if rank == 2 and n % 10 else 0)).findings
    assert (finding.kind, [one.rank for one in finding.culprits], finding.victims) == ("straggler", [2], (0, 1, 3))
    assert finding.measures["median_lateness_ms"] == pytest.approx(40)
    assert finding.measures["cadence_ms"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("late_ms", "calls", "why"),
    [(4, 20, "below the floor"), (15, 20, "below a fifth of the cadence"), (40, 8, "too few calls")],
)
def test_little_lateness_is_no_straggler(late_ms: int, calls: int, why: str) -> None:
    assert judged(job(lambda rank, _: late_ms if rank == 2 else 0, calls=calls)).findings == (), why


def test_a_rank_that_is_last_in_half_of_the_calls_is_no_straggler() -> None:
    assert judged(job(lambda rank, n: 40 if rank == n % 2 else 0)).findings == ()


@pytest.mark.parametrize(("steps", "named"), [(6, []), (12, [2])])
def test_the_calls_of_one_step_count_once_for_they_carry_one_lateness_on(steps: int, named: list[int]) -> None:
    def entered(rank: int, n: int) -> int:
        within = n % 4
        return within - 100 * within + (40 if rank == 2 and n > 3 else 0)

    findings = judged(job(entered, calls=4 * steps)).findings
    assert [one.rank for finding in findings for one in finding.culprits] == named


@pytest.mark.parametrize(("often", "named"), [(8, []), (10, [1])])
def test_one_of_two_ranks_is_not_named_for_being_last_as_often_as_chance_makes_it(often: int, named: list[int]) -> None:
    dumps = job(lambda rank, n: 40 if rank == int(n <= often) else 0, ranks=2, calls=11)
    assert [one.rank for finding in judged(dumps).findings for one in finding.culprits] == named


def test_a_constant_lateness_carries_the_caveat_of_clocks_unless_one_host_is_known() -> None:
    dumps = job(lambda rank, _: 40 if rank == 2 else 0)
    (finding,) = judged(dumps).findings
    assert (finding.confidence, any("clock" in text for text in finding.caveats)) == ("possible", True)


def blocking(own_ms: Callable[[int, int], int], clock_ms: Sequence[int], calls: int = 20) -> list[Dump]:
    """Return calls from which all ranks go on when the last has come: each then spends ``own_ms(rank, call)``."""
    end, entered = SECOND, []
    for n in range(calls):
        entered.append([end + own_ms(rank, n) * MS for rank in range(len(clock_ms))])
        end = max(entered[-1]) + MS
    return [
        dump(
            rank,
            [Row(n, created_ns=entered[n][rank] + clock_ms[rank] * MS, state=0) for n in range(calls)],
            ranks=len(clock_ms),
            backend="gloo",
            eventless=True,
        )
        for rank in range(len(clock_ms))
    ]


@pytest.mark.parametrize("clock_ms", [500, 3_600_000, -500])
def test_a_clock_that_is_surely_off_hides_a_lateness_that_never_changes_after_the_first_call(clock_ms: int) -> None:
    dumps = blocking(lambda rank, n: 40 if rank == 2 and n else 5 + (rank + n) % 3, (0, 0, clock_ms, 0))
    assert judged(dumps).findings == ()


@pytest.mark.parametrize("clock_ms", [0, 500, 3_600_000])
def test_a_lateness_that_comes_and_goes_is_the_ranks_own_though_its_clock_is_ahead(clock_ms: int) -> None:
    dumps = blocking(lambda rank, n: 40 if rank == 2 and n % 7 else 5 + (rank + n) % 3, (0, 0, clock_ms, 0))
    (finding,) = judged(dumps).findings
    assert (finding.kind, [one.rank for one in finding.culprits]) == ("straggler", [2])
    assert finding.measures["median_lateness_ms"] == pytest.approx(35, abs=6)


def test_asking_for_hangs_leaves_stragglers_alone() -> None:
    assert judged(job(lambda rank, n: 40 if rank == 2 and n % 10 else 0), about="hang").findings == ()


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=6),
    st.lists(st.lists(st.integers(0, 50 * MS), min_size=6, max_size=6), min_size=8, max_size=20),
)
def test_clock_offsets_lie_within_what_causality_allows(true: list[int], entered: list[list[int]]) -> None:
    """No member can notice completion before every other member has enqueued."""
    ranks = len(true)
    when = np.array(
        [[10**12 + n * STEP + row[rank] for rank in range(ranks)] for n, row in enumerate(entered)], dtype=np.int64
    )
    ended = np.repeat(when.max(axis=1, keepdims=True) + 1, ranks, axis=1)
    own = np.array(true, dtype=np.int64)
    found = offsets(when + own, ended + own, np.zeros(len(when), dtype=np.int64))
    relative = own - own[0]
    span = found.chosen - found.chosen[0]
    assert not found.contradictory.any()
    assert (found.lowest - found.lowest[0] <= relative).all()
    assert (relative <= found.highest - found.highest[0]).all()
    assert (np.abs(span - relative) <= 51 * MS).all()


def test_nothing_noticed_bounds_nothing() -> None:
    entered = np.arange(30, dtype=np.int64).reshape(10, 3) * STEP
    found = offsets(entered, np.full_like(entered, UNKNOWN_NS), np.zeros(10, dtype=np.int64))
    assert found.chosen.tolist() == [0.0, 0.0, 0.0]


def records(ranks: int, calls: int, bad: Callable[[int, int, str], bool]) -> list[TensorRecord]:
    return [
        TensorRecord(rank, "0", seq, side, finite=not bad(rank, seq, side), nan_count=int(bad(rank, seq, side)))
        for rank in range(ranks)
        for seq in range(calls)
        for side in ("in", "out")
    ]


def spread(origin: int, ranks: set[int]) -> Callable[[int, int, str], bool]:
    return lambda rank, seq, side: seq > origin or (seq == origin and (side == "out" or rank in ranks))


def test_the_first_input_that_is_not_finite_names_its_rank_and_all_others_are_victims() -> None:
    (finding,) = judged(ring(), tensors=records(4, 5, spread(2, {1}))).findings
    assert (finding.kind, [one.rank for one in finding.culprits], finding.seq) == ("nan_origin", [1], 2)
    assert finding.victims == (0, 2, 3)


def test_several_ranks_at_the_same_call_are_all_named() -> None:
    (finding,) = judged(ring(), tensors=records(4, 5, spread(2, {1, 3}))).findings
    assert [one.rank for one in finding.culprits] == [1, 3]


def test_finite_inputs_and_an_output_that_is_not_point_to_the_reduction() -> None:
    (finding,) = judged(ring(), tensors=records(4, 5, spread(2, set()))).findings
    assert (finding.culprits, finding.victims, finding.seq) == ((), (0, 1, 2, 3), 2)


def test_a_gap_before_the_first_nan_leaves_its_origin_open() -> None:
    some = [one for one in records(4, 5, spread(2, {1})) if (one.rank, one.seq, one.side) != (1, 1, "in")]
    answer = judged(ring(), tensors=some)
    assert (answer.status, answer.findings) == ("undecided", ())
    assert [item.code for item in answer.undecided] == ["no_values"]


def test_finite_values_everywhere_are_no_finding() -> None:
    assert judged(ring(), about="nan", tensors=records(4, 5, lambda *_: False)).status == "healthy"


def test_a_record_that_names_a_call_no_dump_has_is_refused_with_its_number() -> None:
    answer = judged(ring(), tensors=[TensorRecord(0, "0", 77, "in", finite=False)])
    assert (answer.findings, [item.code for item in answer.undecided]) == ((), ["no_values"])
    assert "#77" in answer.undecided[0].what


def test_ranks_of_one_known_host_share_a_clock() -> None:
    dumps = job(lambda rank, _: 40 if rank == 2 else 0)
    known = [replace(one, sidecar=Sidecar("0" * 64, one.rank, host="node-1")) for one in dumps]
    (finding,) = judged(known).findings
    assert (finding.confidence, finding.caveats) == (
        "probable",
        ("the dumps hold no device times (duration_ms), so slowness on the device cannot be told",),
    )


def test_a_host_in_the_names_of_files_says_nothing_about_clocks() -> None:
    dumps = [replace(one, host="node-1") for one in job(lambda rank, _: 40 if rank == 2 else 0)]
    (finding,) = judged(dumps).findings
    assert (finding.confidence, any("clock" in text for text in finding.caveats)) == ("possible", True)
