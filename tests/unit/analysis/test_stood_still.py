"""A job that its own watcher found standing still is never called healthy, and calls as old as its limit wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from provstore.analysis import diagnose
from provstore.analysis.diagnoses.host import IN_FLIGHT
from provstore.model.dump import SCHEDULED, STARTED, Dump, DumpSet, Sidecar
from provstore.model.finding import Diagnosis
from provstore.sources.flight_recorder.options import Limits
from provstore.sources.flight_recorder.shapes import Caps
from provstore.sources.flight_recorder.sidecars import read_sidecar
from tests.hand_dumps import SECOND, Row, dump, ring

OLD_REASON = "nothing moved for 15.5 s"
"""All that sidecars said of it before they had members for it."""


def judged(dumps: Sequence[Dump]) -> Diagnosis:
    return diagnose(DumpSet("run", 0, dumps))


def left(rank: int, rows: Sequence[Row], seconds: float, **stated: object) -> Dump:
    """Return a dump written so many seconds after its last call, with a sidecar that states this too."""
    one = dump(rank, rows, ranks=3)
    at = one.calls.created_ns[-1] + int(seconds * SECOND)
    return replace(one, sidecar=Sidecar("0" * 64, rank, dumped_at_ns=at, **stated))  # type: ignore[arg-type]


def stopped_before_3(seconds: float, **stated: object) -> list[Dump]:
    """Return the dumps of a job in which rank 1 never enters #3 and the two others wait in it."""
    rows = [Row(seq) for seq in range(3)]
    waiting = [*rows, Row(3, state=SCHEDULED, retired=0)]
    return [left(rank, rows if rank == 1 else waiting, seconds, **stated) for rank in range(3)]


def told(seconds: float, limit: float) -> dict[str, object]:
    """Return what a watcher states that was given a limit and saw nothing move for longer."""
    return {
        "reason": f"nothing moved for {seconds:.1f} s",
        "still_ns": int(seconds * SECOND),
        "still_limit_ns": int(limit * SECOND),
    }


def test_calls_as_old_as_the_limit_of_the_watcher_that_dumped_wait_and_are_not_in_flight() -> None:
    (finding,) = judged(stopped_before_3(15.5, **told(15.5, 15))).findings

    assert (finding.kind, [one.rank for one in finding.culprits], finding.seq) == ("host", [1], 3)
    assert finding.victims == (0, 2)


def test_a_wait_that_only_the_limit_of_the_watcher_makes_a_hang_is_probable_and_says_why() -> None:
    (finding,) = judged(stopped_before_3(15.5, **told(15.5, 15))).findings

    assert finding.confidence == "probable"
    assert finding.alternatives == (IN_FLIGHT,)
    assert any("15 s" in text and "30 s" in text for text in finding.caveats)


def test_a_wait_that_is_old_without_any_watcher_is_as_certain_with_one() -> None:
    (finding,) = judged(stopped_before_3(60, **told(60, 15))).findings

    assert (finding.confidence, finding.alternatives, finding.caveats) == ("certain", (), ())


def test_an_old_sidecar_that_tells_it_in_words_only_leaves_the_answer_open() -> None:
    answer = judged(stopped_before_3(15.5, reason=OLD_REASON))

    assert (answer.status, answer.findings) == ("undecided", ())
    (reason,) = answer.undecided
    assert (reason.code, reason.blocks_answer, reason.ranks) == ("stood_still", True, (0, 1, 2))
    assert reason.what == (
        "the watcher says that nothing moved for 15.5 s, while 2 calls that had not ended are younger than 30 s, "
        "and than a tenth of their timeout, and count as in flight"
    )


def test_calls_younger_than_the_limit_of_the_watcher_leave_the_answer_open() -> None:
    answer = judged(stopped_before_3(9, **told(15.5, 15)))

    assert (answer.status, answer.findings) == ("undecided", ())
    assert [one.code for one in answer.undecided] == ["stood_still"]


def test_a_job_that_stood_still_while_no_call_waits_is_not_called_healthy() -> None:
    rows = [Row(seq) for seq in range(3)]
    answer = judged([left(rank, rows, 15.5, **told(15.5, 15)) for rank in range(3)])

    assert answer.status == "undecided"
    (reason,) = answer.undecided
    assert reason.what == "the watcher says that nothing moved for 15.5 s, and no dump shows a call that waits"


@pytest.mark.parametrize("reason", ["exit", "asked", "trigger file", "nothing moved", None])
def test_a_job_that_was_dumped_for_another_reason_stays_healthy(reason: str | None) -> None:
    assert judged(stopped_before_3(15.5, reason=reason)).status == "healthy"


def test_one_rank_that_had_nothing_to_do_at_the_end_of_a_job_leaves_it_healthy() -> None:
    rows = [Row(seq) for seq in range(3)]
    reasons: list[dict[str, object]] = [told(15.5, 15), {"reason": "exit"}, {"reason": "exit"}]
    answer = judged([left(rank, rows, 15.5, **reasons[rank]) for rank in range(3)])

    assert answer.status == "healthy"


def test_dumps_without_a_sidecar_are_judged_as_before() -> None:
    assert judged(ring()).status == "healthy"


def test_a_rank_that_left_no_dump_is_not_called_dead_after_a_wait_that_is_short_as_a_rule() -> None:
    answer = judged([one for one in stopped_before_3(15.5, **told(15.5, 15)) if one.rank != 1])

    assert (answer.status, answer.findings) == ("undecided", ())
    assert "missing_dump" in [one.code for one in answer.undecided]


def test_a_call_with_all_its_members_inside_may_be_in_flight_where_only_the_watcher_makes_it_a_hang() -> None:
    rows = [*[Row(seq) for seq in range(2)], Row(2, state=STARTED, retired=0)]
    (finding,) = judged([left(rank, rows, 15.5, **told(15.5, 15)) for rank in range(3)]).findings

    assert (finding.kind, finding.confidence) == ("collective_hang", "possible")
    assert finding.alternatives == ("the call was in flight when the dumps were written",)


def test_a_limit_that_the_watcher_did_not_reach_changes_nothing() -> None:
    assert judged(stopped_before_3(15.5, still_ns=4 * SECOND, still_limit_ns=15 * SECOND)).status == "healthy"


def test_a_sidecar_states_for_how_long_nothing_moved_and_what_the_watcher_was_told() -> None:
    stated = {"schema": "provstore-fr-sidecar/1", "rank": 0, **told(15.5, 15)}
    fields = read_sidecar(json.dumps(stated).encode(), Caps(asdict(Limits()), 0)).fields

    assert (fields["still_ns"], fields["still_limit_ns"]) == (15_500_000_000, 15_000_000_000)
