"""A coalesced collective is one row, batched sends and receives are rows of their own; all take the closing state."""

from __future__ import annotations

from dataclasses import replace

from provstore.model.dump import ABSENT, COLLECTIVE, COMPLETED, RECV, SCHEDULED, SEND, STARTED
from provstore.sources.flight_recorder import read_dumps
from tests.fr_files import T0, Entry, table, write_pickle

GROUPS = {"0": ("default_pg", (0, 1)), "1": ("pp", (0, 1))}
UNSEEN = {"state": "scheduled", "retired": False, "completed_ns": None}


def read(tmp_path, entries, version="2.10"):
    (dump,) = read_dumps([write_pickle(tmp_path / "rank_0", table(version, entries, GROUPS))]).dumps
    return dump


def closing(seq, record_id, name="nccl:coalesced", **more):
    return Entry(name=name, seq=seq, record_id=record_id, op_id=record_id, inputs=(), outputs=(), **more)


def test_inner_operations_and_their_closing_entry_are_one_call(tmp_path):
    entries = [
        Entry(seq=1, record_id=0, op_id=0),
        Entry(name="nccl:_all_gather_base", seq=2, record_id=1, op_id=1, inputs=((4,),), outputs=((8,),), **UNSEEN),
        Entry(name="nccl:_all_gather_base", seq=2, record_id=2, op_id=2, inputs=((3,),), outputs=((6,),), **UNSEEN),
        closing(2, 3, completed_ns=T0 + 77, duration_ms=4.5),
        Entry(seq=3, record_id=4, op_id=4),
    ]
    dump = read(tmp_path, entries)

    assert list(dump.calls.seq) == [1, 2, 3]
    assert list(dump.calls.record_id) == [0, 1, 4]
    assert list(dump.calls.last_record_id) == [0, 3, 4]
    assert list(dump.calls.parts) == [1, 2, 1]
    assert list(dump.calls.state) == [COMPLETED] * 3
    assert dump.calls.completed_ns[1] == T0 + 77
    assert dump.calls.duration_ms[1] == 4.5
    signature = dump.signatures[dump.calls.signature[1]]
    assert signature.op == "_all_gather_base"
    assert signature.input_sizes == ((4,), (3,))
    assert signature.output_sizes == ((8,), (6,))
    assert signature.input_dtypes == ("Float", "Float")
    assert dump.entry_count == 5
    assert set(dump.calls.batch) == {ABSENT}


def test_a_pending_closing_entry_makes_the_call_pending(tmp_path):
    entries = [Entry(seq=2, record_id=0), Entry(seq=2, record_id=1, op_id=1), closing(2, 2, **UNSEEN)]
    dump = read(tmp_path, entries)

    assert list(dump.calls.state) == [SCHEDULED]
    assert list(dump.calls.retired) == [0]


def test_different_inner_operations_are_called_coalesced(tmp_path):
    entries = [
        Entry(name="nccl:_all_gather_base", seq=2),
        Entry(name="nccl:_reduce_scatter_base", seq=2, record_id=1, op_id=1),
        closing(2, 2),
    ]
    dump = read(tmp_path, entries)

    assert dump.signatures[dump.calls.signature[0]].op == "coalesced"


def test_a_missing_closing_entry_does_not_stop_the_load(tmp_path):
    entries = [
        Entry(seq=2, record_id=0, **UNSEEN),
        Entry(seq=2, record_id=1, op_id=1, **UNSEEN),
        Entry(seq=2, record_id=2, op_id=2, **UNSEEN),
    ]
    dump = read(tmp_path, entries)

    assert list(dump.calls.parts) == [3]
    assert list(dump.calls.last_record_id) == [2]
    assert dump.signatures[dump.calls.signature[0]].op == "all_reduce"
    assert dump.signatures[dump.calls.signature[0]].input_sizes == ((8,), (8,), (8,))


def test_parts_without_closing_entry_are_as_far_as_the_last_of_them(tmp_path):
    dump = read(tmp_path, [Entry(seq=2), Entry(seq=2, record_id=1, op_id=1, **(UNSEEN | {"state": "started"}))])

    assert list(dump.calls.state) == [STARTED]
    assert list(dump.calls.completed_ns) == [ABSENT]


def test_entries_of_another_group_in_between_do_not_break_a_coalesced_group(tmp_path):
    entries = [
        Entry(seq=2, record_id=0),
        Entry(seq=9, record_id=1, op_id=1, group="1", pg_id=1),
        Entry(seq=2, record_id=2, op_id=2),
        closing(2, 3),
    ]
    dump = read(tmp_path, entries)

    assert [(dump.groups[g].name, seq) for g, seq in zip(dump.calls.group, dump.calls.seq)] == [("0", 2), ("1", 9)]
    assert list(dump.calls.parts) == [2, 1]


def test_batched_sends_and_receives_stay_rows_and_take_the_closing_state(tmp_path):
    p2p = {"seq": 4, "p2p_seq": 6, "group": "1", "pg_id": 1, "is_p2p": True}
    entries = [
        Entry(name="nccl:send 0->1", record_id=9, op_id=9, **(p2p | {"seq": 3})),
        Entry(name="nccl:send 0->1", record_id=10, op_id=10, **p2p, **UNSEEN),
        Entry(name="nccl:recv 0<-1", record_id=11, op_id=11, **p2p, **UNSEEN),
        closing(4, 12, p2p_seq=6, group="1", pg_id=1, is_p2p=True),
        Entry(name="nccl:send 0->1", record_id=13, op_id=13, **(p2p | {"p2p_seq": 7}), **UNSEEN),
    ]
    dump = read(tmp_path, entries)

    assert list(dump.calls.record_id) == [9, 10, 11, 13]
    assert list(dump.calls.channel) == [SEND, SEND, RECV, SEND]
    assert list(dump.calls.batch) == [ABSENT, 12, 12, ABSENT]
    assert list(dump.calls.state) == [COMPLETED, COMPLETED, COMPLETED, SCHEDULED]
    assert list(dump.calls.peer) == [1, 1, 1, 1]
    assert {group.name: group.batched_p2p for group in dump.groups} == {"1": True, "0": False}


def test_a_batch_whose_closing_entry_does_not_say_p2p_is_a_batch_too(tmp_path):
    p2p = {"seq": 4, "group": "1", "pg_id": 1, "is_p2p": True}
    entries = [Entry(name="nccl:send 0->1", **p2p), closing(4, 1, group="1", pg_id=1)]
    dump = read(tmp_path, entries)

    assert list(dump.calls.channel) == [SEND]
    assert list(dump.calls.batch) == [1]


def test_a_batch_without_closing_entry_marks_its_group(tmp_path):
    p2p = {"seq": 4, "p2p_seq": 2, "group": "1", "pg_id": 1, "is_p2p": True}
    entries = [Entry(name="nccl:send 0->1", **p2p), Entry(name="nccl:recv 0<-1", record_id=1, op_id=1, **p2p)]
    dump = read(tmp_path, entries)

    assert len(dump.calls) == 2
    assert dump.groups[0].batched_p2p is True


def test_a_recorder_that_counts_no_sends_shows_no_batches(tmp_path):
    p2p = {"seq": 4, "group": "1", "pg_id": 1, "is_p2p": True}
    entries = [Entry(name="x:send 0->1", record_id=at, op_id=at, **p2p) for at in range(3)]
    dump = read(tmp_path, entries)

    assert len(dump.calls) == 3
    assert dump.groups[0].batched_p2p is False


def test_unbatched_sends_do_not_look_like_a_batch(tmp_path):
    entries = [
        Entry(name="nccl:send 0->1", seq=0, p2p_seq=at, op_id=at, record_id=at, group="1", pg_id=1, is_p2p=True)
        for at in range(1, 5)
    ]
    dump = read(tmp_path, entries)

    assert len(dump.calls) == 4
    assert dump.groups[0].batched_p2p is False


def test_a_lone_closing_entry_is_a_call_of_its_own(tmp_path):
    dump = read(tmp_path, [closing(7, 3), Entry(seq=8, record_id=4)])

    assert list(dump.calls.seq) == [7, 8]
    assert dump.signatures[dump.calls.signature[0]].op == "coalesced"
    assert list(dump.calls.channel) == [COLLECTIVE, COLLECTIVE]


def test_a_lone_closing_entry_of_a_batch_tells_only_that_there_was_one(tmp_path):
    dump = read(tmp_path, [closing(7, 3, is_p2p=True, group="1", pg_id=1), Entry(seq=8, record_id=4)])

    assert list(dump.calls.seq) == [8]
    assert {group.name: group.batched_p2p for group in dump.groups}["1"] is True


def test_an_operation_that_is_named_coalesced_and_has_tensors_closes_nothing(tmp_path):
    entries = [Entry(name="gloo:allreduce_coalesced", seq=at, record_id=at) for at in (1, 2)]
    dump = read(tmp_path, entries)

    assert list(dump.calls.seq) == [1, 2]


def test_many_coalesced_groups_fold_in_one_pass(tmp_path):
    entries = []
    for seq in range(1, 1001):
        first = 3 * seq
        entries += [
            Entry(name="nccl:_all_gather_base", seq=seq, record_id=first, op_id=first, **UNSEEN),
            Entry(name="nccl:_all_gather_base", seq=seq, record_id=first + 1, op_id=first + 1, **UNSEEN),
            replace(closing(seq, first + 2), name="nccl:ALLGATHER_coalesced"),
        ]
    dump = read(tmp_path, entries)

    assert list(dump.calls.seq) == list(range(1, 1001))
    assert set(dump.calls.parts) == {2}
    assert set(dump.calls.state) == {COMPLETED}
