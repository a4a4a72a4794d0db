"""Real dumps: gloo of torch 2.13 and NCCL of a Megatron job, as their truth tables describe them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from provstore.model.dump import ABSENT, RECV, SEND
from provstore.sources.flight_recorder import ReadOptions, read_dumps

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
GLOO, NCCL = CORPUS / "fr-gloo", CORPUS / "fr-nccl"

pytestmark = pytest.mark.skipif(not GLOO.is_dir(), reason="the recorded corpora are not beside this checkout")

ENTRIES = {
    "healthy_ddp": [17] * 4,
    "healthy_fsdp2": [25] * 4,
    "healthy_tp": [9] * 4,
    "healthy_pp": [17] * 4,
    "healthy_3d": [31] * 8,
    "many_ops": [24] * 4,
    "ring_wrap": [16] * 4,
    "hang_rank_stuck": [7, 7, 7, 6],
    "hang_skip_allreduce": [10] * 4,
    "mismatch_type": [6] * 4,
    "mismatch_size": [6] * 3,
    "straggler": [13] * 4,
    "nan": [12] * 4,
    "order_deadlock": [2, 2],
}


@pytest.mark.parametrize("case", ENTRIES)
def test_a_gloo_case_loads_whole(case):
    result = read_dumps([GLOO / case])

    assert [len(dump.calls) for dump in result.dumps] == ENTRIES[case]
    assert all(item.skipped for item in result.refusals)
    for dump in result.dumps:
        assert (dump.backend, dump.version, dump.form) == ("gloo", "2.10", "pickle")
        assert dump.eventless is True
        assert dump.active_only is False
        assert dump.wrapped is (case == "ring_wrap")
        assert dump.warnings == dump.quarantined == ()
        assert min(dump.calls.stack) >= 0
        assert not dump.extra


@pytest.mark.parametrize("case", ENTRIES)
def test_the_json_twins_of_a_gloo_case_give_the_same_calls(case):
    pickled = read_dumps([GLOO / case]).dumps
    text = read_dumps([GLOO / case / "json"]).dumps

    assert [dump.rank for dump in text] == [dump.rank for dump in pickled]
    for one, other in zip(pickled, text):
        assert other.form == "json"
        for name in ("record_id", "seq", "op_id", "state", "retired", "created_ns", "pg_id", "group", "signature"):
            assert getattr(one.calls, name) == getattr(other.calls, name)
        assert one.groups == other.groups
        assert one.signatures == other.signatures


def test_healthy_pp_shows_the_unrecorded_sends_in_its_operation_counter():
    dumps = read_dumps([GLOO / "healthy_pp"]).dumps

    assert [dump.calls.op_id[-1] for dump in dumps] == [25, 33, 33, 25]
    assert [dump.calls.seq[-1] for dump in dumps] == [17] * 4


def test_many_ops_lacks_the_numbers_of_its_unrecorded_barriers():
    for dump in read_dumps([GLOO / "many_ops"]).dumps:
        assert set(range(1, 27)) - set(dump.calls.seq) == {17, 18}
        assert dump.groups[0].ranks == (0, 1, 2, 3)


def test_ring_wrap_starts_late_and_knows_both_groups():
    dumps = read_dumps([GLOO / "ring_wrap"]).dumps

    assert [dump.calls.record_id[0] for dump in dumps] == [25, 25, 15, 15]
    assert [{group.name: group.ranks for group in dump.groups} for dump in dumps] == [
        {"0": (0, 1, 2, 3), "1": (0, 1)},
        {"0": (0, 1, 2, 3), "1": (0, 1)},
        {"0": (0, 1, 2, 3)},
        {"0": (0, 1, 2, 3)},
    ]


def test_healthy_3d_has_its_groups_from_the_sidecars():
    dumps = read_dumps([GLOO / "healthy_3d"]).dumps
    by_desc = [{group.desc: group for group in dump.groups} for dump in dumps]

    assert by_desc[5]["mesh_dp"].ranks == (1, 5)
    assert by_desc[5]["mesh_tp"].ranks == (4, 5)
    assert all(groups["mesh_pp"].ranks is not None for groups in by_desc)
    assert all(groups["default_pg"].ranks == tuple(range(8)) for groups in by_desc)
    assert {group.declared_by for dump in dumps for group in dump.groups} == {"sidecar"}


def test_order_deadlock_without_sidecars_knows_no_members(tmp_path):
    case = tmp_path / "order_deadlock"
    shutil.copytree(GLOO / "order_deadlock", case)
    case.joinpath("json").chmod(0o755)
    for path in case.glob("json/pgs_*"):
        path.parent.chmod(0o755)
        path.unlink()
    dumps = read_dumps([case]).dumps

    assert {group.ranks for dump in dumps for group in dump.groups} == {None}


@pytest.mark.parametrize("case", ["gpu_error_1st", "lock_gil_2nd"])
def test_an_nccl_case_loads_with_all_its_groups(case):
    result = read_dumps([NCCL / case])

    assert [dump.rank for dump in result.dumps] == list(range(16))
    assert [item.file for item in result.refusals] == ["fault_injection.log"]
    for dump in result.dumps:
        assert dump.active_only is True
        assert dump.eventless is dump.wrapped is False
        assert dump.comm_lib_version == "2.27.3"
        assert dump.version == "2.9"
        assert len(dump.calls) == dump.entry_count
        assert all(dump.rank in group.ranks for group in dump.groups)
        assert all(group.last_enqueued != ABSENT for group in dump.groups)
        assert dump.warnings == ()


def test_sends_of_a_pipeline_name_global_ranks():
    dump = read_dumps([NCCL / "gpu_error_1st"]).dumps[1]
    rows = [
        (dump.groups[group].name, channel, peer)
        for group, channel, peer in zip(dump.calls.group, dump.calls.channel, dump.calls.peer)
        if channel in (SEND, RECV)
    ]

    assert dump.signatures[dump.calls.signature[0]].raw_name == "nccl:send 0->3"
    assert rows[:2] == [("46", SEND, 13), ("46", RECV, 13)]


def test_the_silent_ranks_of_lock_gil_have_a_history_and_no_calls():
    dumps = {dump.rank: dump for dump in read_dumps([NCCL / "lock_gil_2nd"]).dumps}

    for rank in (10, 15):
        assert len(dumps[rank].calls) == 0
        assert dumps[rank].backend == ""
        for group in dumps[rank].groups:
            assert group.last_enqueued == group.last_completed


def test_a_renamed_set_reads_equally_with_a_rank_expression(tmp_path):
    for rank in range(16):
        shutil.copy(NCCL / "gpu_error_1st" / f"_dump_{rank}", tmp_path / f"r{rank}-of-16")
    renamed = read_dumps([tmp_path], ReadOptions(rank_regex=r"r(?P<rank>\d+)-of")).dumps
    original = read_dumps([NCCL / "gpu_error_1st"]).dumps

    assert [dump.calls.peer for dump in renamed] == [dump.calls.peer for dump in original]
    assert [dump.digest for dump in renamed] == [dump.digest for dump in original]
