"""Every version and form of a dump reads into the same columns."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from provstore.model.dump import ABSENT, COLLECTIVE, COMPLETED, RECV, SCHEDULED, SEND, Dump, Frame
from provstore.sources.flight_recorder import ReadOptions, read_dumps
from tests.fr_files import GROUPS, T0, VERSIONS, Entry, ring, table, write_groups, write_json, write_pickle


def read_one(path, **options) -> Dump:
    result = read_dumps([path], ReadOptions(**options))
    assert not [item for item in result.refusals if not item.skipped]
    assert len(result.dumps) == 1
    return result.dumps[0]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_dump_of_every_version_gives_its_calls(tmp_path, version):
    dump = read_one(write_pickle(tmp_path / "nccl_trace_rank_1", table(version, ring(3))))

    assert dump.version == version
    assert dump.rank == 1
    assert dump.backend == "nccl"
    assert list(dump.calls.seq) == [1, 2, 3]
    assert list(dump.calls.record_id) == [0, 1, 2]
    assert list(dump.calls.created_ns) == [T0, T0 + 1_000_000, T0 + 2_000_000]
    assert set(dump.calls.state) == {COMPLETED}
    assert set(dump.calls.channel) == {COLLECTIVE}
    assert dump.signatures[dump.calls.signature[0]].op == "all_reduce"
    assert dump.signatures[0].input_sizes == ((8,),)
    assert dump.groups[0].name == "0"
    assert dump.stacks[dump.calls.stack[2]] == (Frame("all_reduce", "train.py", 7),)
    assert dump.entry_count == 3


@pytest.mark.parametrize(("version", "ranks"), [(None, None), ("1.4", (0, 1)), ("2.1", (0, 1)), ("3.0", (0, 1))])
def test_the_members_of_a_group_are_known_when_the_version_declares_them(tmp_path, version, ranks):
    dump = read_one(write_pickle(tmp_path / "nccl_trace_rank_1", table(version, ring(1))))

    assert dump.groups[0].ranks == ranks
    assert dump.groups[0].declared_by == ("pg_config" if ranks else "nothing")


@pytest.mark.parametrize(
    ("version", "comparable", "stated"),
    [(None, False, False), ("1.4", False, True), ("2.1", True, True), ("2.10", True, True)],
)
def test_old_numbers_are_marked_as_not_comparable_between_ranks(tmp_path, version, comparable, stated):
    dump = read_one(write_pickle(tmp_path / "nccl_trace_rank_1", table(version, ring(2))))

    assert dump.seq_comparable is comparable
    assert dump.record_ids_stated is stated


@pytest.mark.parametrize("version", ["2.11", "3.0", "17.4"])
def test_a_version_that_nobody_knows_is_read_by_its_fields_with_a_warning(tmp_path, version):
    dump = read_one(write_pickle(tmp_path / "nccl_trace_rank_1", table(version, ring(2))))

    assert len(dump.calls) == 2
    assert any(version in warning and "not known" in warning for warning in dump.warnings)


def test_known_versions_give_no_warning(tmp_path):
    for at, version in enumerate(["1.4", "2.1", "2.4", "2.9", "2.10"]):
        write_pickle(tmp_path / f"nccl_trace_rank_{at}", table(version, ring(1), {"0": ("default_pg", range(5))}))

    result = read_dumps([tmp_path])

    assert [dump.version for dump in result.dumps] == ["1.4", "2.1", "2.4", "2.9", "2.10"]
    assert all(dump.warnings == () for dump in result.dumps)


def test_the_library_version_is_read_under_both_its_names(tmp_path):
    old = read_one(write_pickle(tmp_path / "a" / "rank_0", table("2.9", ring(1))))
    new = read_one(write_pickle(tmp_path / "b" / "rank_0", table("2.10", ring(1))))

    assert (old.comm_lib_version, new.comm_lib_version) == ("2.27.3", "2.27.5")


def test_a_json_dump_gives_what_its_pickle_gives_except_the_stacks(tmp_path):
    entries = [
        *ring(2),
        Entry(seq=3, record_id=2, op_id=3, state="started", retired=False, started_ns=T0 + 9, completed_ns=None),
    ]
    value = table(
        "2.10",
        entries,
        pg_status={"0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 2}},
    )
    pickled = read_one(write_pickle(tmp_path / "a" / "rank_0", value))
    text = read_one(write_json(tmp_path / "b" / "rank_0.json", value))

    assert text.form == "json"
    assert set(text.calls.stack) == {ABSENT}
    for name in ("record_id", "seq", "op_id", "state", "retired", "created_ns", "started_ns", "completed_ns", "pg_id"):
        assert getattr(text.calls, name) == getattr(pickled.calls, name), name
    assert text.signatures == pickled.signatures
    assert text.groups == pickled.groups
    assert text.extra == pickled.extra == {}
    assert (text.groups[0].last_enqueued, text.groups[0].last_completed) == (3, 2)


def test_a_json_dump_without_entries_has_none(tmp_path):
    dump = read_one(write_json(tmp_path / "rank_0.json", table("2.10", [])))

    assert len(dump.calls) == 0
    assert dump.backend == ""
    assert dump.groups[0].ranks == (0, 1)


def test_times_that_were_not_noticed_are_absent(tmp_path):
    waiting = Entry(state="scheduled", retired=False, completed_ns=None)
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", [waiting])))

    assert list(dump.calls.completed_ns) == [ABSENT]
    assert list(dump.calls.started_ns) == [ABSENT]
    assert list(dump.calls.state) == [SCHEDULED]
    assert math.isnan(dump.calls.duration_ms[0])


def test_a_duration_that_only_some_entries_have_is_kept(tmp_path):
    entries = [replace(entry, duration_ms=1.5 if entry.seq == 2 else None) for entry in ring(3)]
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", entries)))

    assert dump.calls.duration_ms[1] == 1.5
    assert math.isnan(dump.calls.duration_ms[0])
    assert math.isnan(dump.calls.duration_ms[2])


@pytest.mark.parametrize(
    ("raw", "library", "op"),
    [
        ("nccl:all_reduce", "nccl", "all_reduce"),
        ("hccl:_all_gather_base", "hccl", "_all_gather_base"),
        ("c10d:allreduce", "c10d", "all_reduce"),
        ("nccl2:reduce_scatter", "nccl2", "reduce_scatter"),
        ("zzz-9:an_op_of_the_future", "zzz-9", "an_op_of_the_future"),
        ("all_reduce", "unknown", "all_reduce"),
    ],
)
def test_any_library_and_any_operation_is_accepted(tmp_path, raw, library, op):
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", [Entry(name=raw)])))

    signature = dump.signatures[0]
    assert (signature.raw_name, signature.library, signature.op) == (raw, library, op)
    assert dump.backend == library


def test_the_peer_of_a_send_is_a_global_rank(tmp_path):
    groups = {"5": ("pp", (3, 7, 11))}
    entries = [
        Entry(name="nccl:send 1->2", seq=0, p2p_seq=1, op_id=1, group="5", is_p2p=True),
        Entry(name="nccl:recv 1<-0", seq=0, p2p_seq=2, op_id=2, record_id=1, group="5", is_p2p=True),
    ]
    dump = read_one(write_pickle(tmp_path / "rank_7", table("2.10", entries, groups)))

    assert list(dump.calls.channel) == [SEND, RECV]
    assert list(dump.calls.peer) == [11, 3]
    assert [signature.op for signature in dump.signatures] == ["send", "recv"]


def test_in_format_1_4_a_send_is_told_by_its_name(tmp_path):
    dump = read_one(write_pickle(tmp_path / "rank_1", table("1.4", [Entry(name="nccl:send 1->0")])))

    assert list(dump.calls.channel) == [SEND]
    assert list(dump.calls.peer) == [0]


def test_without_declared_members_a_peer_is_unknown(tmp_path):
    dump = read_one(write_pickle(tmp_path / "rank_1", table(None, [Entry(name="nccl:send 1->0")])))

    assert list(dump.calls.peer) == [ABSENT]


def test_an_empty_list_of_members_declares_nothing(tmp_path):
    entries = [Entry(name="nccl:send 1->0", is_p2p=True, p2p_seq=1)]
    dump = read_one(write_pickle(tmp_path / "rank_1", table("2.10", entries, {"0": ("default_pg", ())})))

    assert list(dump.calls.peer) == [ABSENT]
    assert (dump.groups[0].ranks, dump.groups[0].declared_by) == (None, "nothing")


def test_the_peer_comes_from_the_sidecar_when_the_dump_declares_no_members(tmp_path):
    write_pickle(tmp_path / "rank_5", table("2.10", [Entry(name="x:send 1->0", is_p2p=True, p2p_seq=1)], {}))
    write_groups(tmp_path / "pgs_5.json", {"0": ("default_pg", (2, 5))})

    dump = read_one(tmp_path)

    assert list(dump.calls.peer) == [2]
    assert dump.groups[0].declared_by == "sidecar"


def test_vendor_keys_and_unknown_keys_are_kept(tmp_path):
    entry = Entry(record_id=4, more={"stream": 7})
    value = table("2.10", [entry], hccl_comm_state={"c0ffee": {"rank": "1"}}, ring_name="blue")
    dump = read_one(write_pickle(tmp_path / "rank_0", value))

    assert dump.extra == {
        "hccl_comm_state": {"c0ffee": {"rank": "1"}},
        "ring_name": "blue",
        "entries": {"4": {"stream": 7}},
    }


def test_an_unknown_key_of_one_entry_among_many_is_kept(tmp_path):
    entries = ring(3000)
    entries[2500] = replace(entries[2500], more={"note": "late"})
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", entries)))

    assert dump.extra == {"entries": {"2500": {"note": "late"}}}
    assert len(dump.calls) == 3000


def test_equal_stacks_are_one_stack_even_when_the_file_repeats_their_frames(tmp_path):
    value = table("2.10", ring(3))
    for row in value["entries"]:
        row["frames"] = [dict(frame) for frame in row["frames"]]
    dump = read_one(write_pickle(tmp_path / "rank_0", value))

    assert len(dump.stacks) == 1
    assert list(dump.calls.stack) == [0, 0, 0]


def test_threads_are_told_apart(tmp_path):
    entries = ring(3)
    entries[1] = replace(entries[1], more={"thread_id": "141", "thread_name": "autograd"})
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", entries)))

    assert dump.threads == (("140", "pt_main_thread"), ("141", "autograd"))
    assert list(dump.calls.thread) == [0, 1, 0]


def test_scalars_and_calls_without_tensors_keep_their_difference(tmp_path):
    entries = [
        Entry(name="nccl:barrier", inputs=(), outputs=()),
        Entry(record_id=1, seq=2, inputs=((),), outputs=((),)),
        Entry(record_id=2, seq=3, inputs=((0,),), outputs=((0,),)),
    ]
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", entries)))

    assert [signature.input_sizes for signature in dump.signatures] == [(), ((),), ((0,),)]


@pytest.mark.parametrize("fault", ["gone", "none"])
def test_a_field_that_only_some_entries_lack_is_absent_there(tmp_path, fault):
    value = table("2.10", ring(3))
    for name in ("op_id", "timeout_ms", "thread_id", "thread_name", "frames"):
        if fault == "gone":
            del value["entries"][1][name]
        else:
            value["entries"][1][name] = None
    dump = read_one(write_pickle(tmp_path / "rank_0", value))

    assert list(dump.calls.op_id) == [1, ABSENT, 3]
    assert list(dump.calls.thread) == [0, ABSENT, 0]
    assert list(dump.calls.stack) == [0, ABSENT, 0]
    assert dump.quarantined == ()
    assert dump.extra == {}


def test_different_versions_in_one_folder_load_together(tmp_path):
    groups = {"0": ("default_pg", tuple(range(len(VERSIONS))))}
    for rank, version in enumerate(VERSIONS):
        write_pickle(tmp_path / f"nccl_trace_rank_{rank}", table(version, ring(4), groups))

    result = read_dumps([tmp_path])

    assert [dump.version for dump in result.dumps] == list(VERSIONS)
    assert [len(dump.calls) for dump in result.dumps] == [4] * len(VERSIONS)
    assert result.refusals == []


def test_calls_in_any_order_come_out_as_they_went_in(tmp_path):
    """Reading guesses what follows what: a guess must never show."""
    chosen = random.Random(3)
    pool = [
        Entry(
            name=f"nccl:{chosen.choice(['all_reduce', 'broadcast', 'barrier'])}",
            group=(group := chosen.choice("012")),
            pg_id=int(group),
            inputs=((chosen.randrange(3), 2),) * chosen.randrange(3),
            dtype=chosen.choice(["Float", "Long"]),
            state=chosen.choice(["scheduled", "started", "completed"]),
            retired=chosen.random() < 0.5,
            frames=[("f", "f.py", chosen.randrange(4))] * chosen.randrange(3),
        )
        for _ in range(40)
    ]
    entries = [
        replace(
            chosen.choice(pool), record_id=at, seq=at, op_id=chosen.randrange(9), created_ns=T0 + chosen.randrange(9)
        )
        for at in range(5000)
    ]
    groups = {name: (f"desc {name}", (0, 1)) for name in "012"}
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", entries, groups)))

    calls = dump.calls
    assert len(calls) == 5000
    for at, entry in enumerate(entries):
        signature = dump.signatures[calls.signature[at]]
        stack = () if calls.stack[at] == ABSENT else dump.stacks[calls.stack[at]]
        assert signature.raw_name == entry.name
        assert signature.input_sizes == tuple(entry.inputs)
        assert signature.input_dtypes == (entry.dtype,) * len(entry.inputs)
        assert dump.groups[calls.group[at]].name == entry.group
        assert ("scheduled", "started", "completed")[calls.state[at]] == entry.state
        assert bool(calls.retired[at]) is entry.retired
        assert (calls.pg_id[at], calls.op_id[at], calls.created_ns[at]) == (entry.pg_id, entry.op_id, entry.created_ns)
        assert stack == tuple(Frame(*frame) for frame in entry.frames)


def test_the_same_file_gives_the_same_dump_twice(tmp_path):
    path = write_pickle(tmp_path / "rank_0", table("2.10", ring(50, duration_ms=2.0)))

    assert read_one(path) == read_one(path)


def test_groups_of_the_table_that_no_entry_uses_are_groups_too(tmp_path):
    groups = {**GROUPS, "7": ("mesh_dp", (0, 1))}
    dump = read_one(write_pickle(tmp_path / "rank_0", table("2.10", ring(1), groups)))

    assert [(group.name, group.desc, group.backend) for group in dump.groups] == [
        ("0", "default_pg", "nccl"),
        ("7", "mesh_dp", "nccl"),
    ]
