"""The diagnosis of real dumps: both corpora's tables of what happened, asked from the folder alone."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from provstore.analysis import Options, diagnose
from provstore.model.dump import Dump, DumpSet, TensorRecord
from provstore.model.finding import Diagnosis
from provstore.sources.flight_recorder import ReadOptions, ReadResult, read_dumps

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"
HALF_SECOND = 500_000_000

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpora beside the checkout: {CORPUS.name} is missing")


def read(case: str) -> ReadResult:
    return read_dumps([CORPUS / case], ReadOptions())


def ask(case: str, about: str | None = None, without: int | None = None) -> Diagnosis:
    found = read(case)
    dumps = [dump for dump in found.dumps if dump.rank != without]
    return diagnose(DumpSet(case, 0, dumps, found.refusals, found.tensors), Options(about=about))


def culprits(answer: Diagnosis) -> list[list[int]]:
    return [[culprit.rank for culprit in finding.culprits] for finding in answer.findings]


@pytest.mark.parametrize(
    "case", ["healthy_ddp", "healthy_fsdp2", "healthy_tp", "healthy_pp", "healthy_3d", "many_ops", "ring_wrap"]
)
def test_a_healthy_job_is_called_healthy(case: str) -> None:
    answer = ask(f"fr-gloo/{case}")
    assert (answer.status, answer.findings, answer.undecided) == ("healthy", (), ())


def test_wrapped_rings_are_part_of_the_coverage() -> None:
    assert ask("fr-gloo/ring_wrap").coverage["wrapped"] == [0, 1, 2, 3]


def test_a_stuck_rank_is_named_with_the_call_it_never_entered() -> None:
    (finding,) = ask("fr-gloo/hang_rank_stuck").findings
    assert (finding.kind, [one.rank for one in finding.culprits], finding.victims) == ("host", [3], (0, 1, 2))
    assert (finding.op, finding.seq, finding.group and finding.group.desc) == ("all_reduce", 7, "default_pg")
    assert finding.source is not None
    assert finding.source.line == 165
    assert finding.summary.startswith(
        "rank 3: never entered all_reduce #7 of default_pg (0); ranks 0-2 wait there at train.py:165;"
    )


def test_a_skipped_call_shows_as_a_mismatch_with_its_cause_and_the_range_it_can_lie_in() -> None:
    (finding,) = ask("fr-gloo/hang_skip_allreduce").findings
    assert (finding.kind, finding.detail, finding.cause) == ("mismatch", "op", "skipped_call")
    assert ([one.rank for one in finding.culprits], finding.seq) == ([2], 10)
    assert finding.source is not None
    assert finding.source.line == 166
    assert finding.seq_range is not None
    low, high = finding.seq_range
    assert low <= 7 <= high


def test_a_wrong_operation_is_the_minoritys_fault_and_no_skip() -> None:
    (finding,) = ask("fr-gloo/mismatch_type").findings
    assert (finding.kind, finding.detail, finding.cause, finding.seq) == ("mismatch", "op", None, 6)
    assert [one.rank for one in finding.culprits] == [1]
    assert finding.source is not None
    assert finding.source.line == 189


def test_a_rank_that_the_backend_aborted_is_dead_and_why_stays_open() -> None:
    answer = ask("fr-gloo/mismatch_size")
    (finding,) = answer.findings
    assert (finding.kind, [one.rank for one in finding.culprits], finding.seq) == ("dead", [1], 6)
    assert [(item.code, item.ranks) for item in answer.undecided] == [("missing_dump", (1,))]


def test_a_straggler_is_named_with_how_late_it_is() -> None:
    (finding,) = ask("fr-gloo/straggler").findings
    assert (finding.kind, [one.rank for one in finding.culprits]) == ("straggler", [3])
    assert finding.measures["median_lateness_ms"] == pytest.approx(151, abs=2)
    assert finding.measures["last_share"] == pytest.approx(11 / 12, abs=0.01)


def test_dumps_of_a_nan_look_healthy_and_asking_for_it_says_that_there_are_no_values() -> None:
    assert ask("fr-gloo/nan").status == "healthy"
    answer = ask("fr-gloo/nan", about="nan")
    assert (answer.status, [item.code for item in answer.undecided]) == ("undecided", ["no_values"])


def test_with_a_tensor_record_the_rank_that_put_in_the_first_nan_is_named() -> None:
    found = read("fr-gloo/nan")
    records = [
        TensorRecord(rank, "0", seq, side, finite=seq < 9 or (side == "in" and seq == 9 and rank != 2), nan_count=1)
        for rank in range(4)
        for seq in range(1, 13)
        for side in ("in", "out")
    ]
    (finding,) = diagnose(DumpSet("nan", 0, found.dumps, (), records)).findings
    assert (finding.kind, [one.rank for one in finding.culprits]) == ("nan_origin", [2])
    assert (finding.op, finding.seq, finding.victims) == ("all_reduce", 9, (0, 1, 3))


def test_ranks_in_opposite_order_deadlock() -> None:
    (finding,) = ask("fr-gloo/order_deadlock").findings
    assert (finding.kind, [one.rank for one in finding.culprits]) == ("order_deadlock", [0, 1])
    assert {hop.group for hop in finding.chain} == {"1", "2"}


def test_a_deadlock_without_declared_groups_stays_undecided(tmp_path: Path) -> None:
    for file in (CORPUS / "fr-gloo/order_deadlock").glob("nccl_trace_rank_*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    answer = diagnose(DumpSet("bare", 0, read_dumps([tmp_path], ReadOptions()).dumps))
    assert (answer.status, answer.findings) == ("undecided", ())
    assert {item.code for item in answer.undecided} == {"membership_unknown"}


def test_stopped_devices_are_told_from_their_waiting_peers() -> None:
    answer = ask("fr-nccl/gpu_error_1st")
    assert [finding.kind for finding in answer.findings] == ["device", "device"]
    assert culprits(answer) == [[12], [14]]
    assert [(f.group and f.group.name, f.op, f.seq) for f in answer.findings] == [
        ("41", "_all_gather_base", 42806),
        ("42", "_all_gather_base", 42806),
    ]
    assert all(not {12, 14} & set(finding.victims) - {12, 14} for finding in answer.findings)
    assert answer.findings[0].no_source_reason == "no stack frames in the dumps"


def test_ranks_with_empty_dumps_are_held_up_on_the_host() -> None:
    answer = ask("fr-nccl/lock_gil_2nd")
    assert [finding.kind for finding in answer.findings] == ["host", "host"]
    assert culprits(answer) == [[10], [15]]
    assert [(f.group and f.group.name, f.op, f.seq) for f in answer.findings] == [
        ("73", "all_to_all", 20947),
        ("74", "all_to_all", 20947),
    ]


def test_a_missing_file_of_a_healthy_job_names_nobody() -> None:
    answer = ask("fr-gloo/healthy_ddp", without=2)
    assert (answer.status, answer.findings) == ("undecided", ())
    assert [(item.code, item.ranks) for item in answer.undecided] == [("missing_dump", (2,))]


def test_a_stuck_rank_whose_file_is_missing_is_called_dead() -> None:
    (finding,) = ask("fr-gloo/hang_rank_stuck", without=3).findings
    assert (finding.kind, [one.rank for one in finding.culprits]) == ("dead", [3])


def later(dump: Dump, by_ns: int) -> Dump:
    def moved(column: array[int]) -> array[int]:
        return array("q", [value + by_ns if value > 0 else value for value in column])

    calls = dump.calls
    return replace(
        dump,
        calls=replace(
            calls,
            created_ns=moved(calls.created_ns),
            started_ns=moved(calls.started_ns),
            completed_ns=moved(calls.completed_ns),
        ),
    )


def with_clock_off(case: str, rank: int) -> Diagnosis:
    dumps = [later(dump, HALF_SECOND) if dump.rank == rank else dump for dump in read(case).dumps]
    return diagnose(DumpSet(case, 0, dumps))


@pytest.mark.parametrize(
    "case", ["healthy_3d", "ring_wrap", "healthy_ddp", "healthy_tp", "healthy_fsdp2", "healthy_pp"]
)
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_clock_that_is_off_makes_no_straggler(case: str, rank: int) -> None:
    assert with_clock_off(f"fr-gloo/{case}", rank).status == "healthy"


def test_a_straggler_with_its_clock_off_is_still_about_as_late() -> None:
    (finding,) = with_clock_off("fr-gloo/straggler", 3).findings
    assert [one.rank for one in finding.culprits] == [3]
    assert finding.measures["median_lateness_ms"] == pytest.approx(150, abs=15)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_an_innocent_with_its_clock_off_does_not_take_the_stragglers_place(rank: int) -> None:
    assert culprits(with_clock_off("fr-gloo/straggler", rank)) == [[3]]
