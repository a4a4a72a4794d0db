"""Every operation of a training job has a class by what it does to the rank that calls it; a new name is unknown."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.errors import ConfigError
from provstore.evidence.recording.classes import (
    ROLES,
    TABLE,
    ClassTable,
    extended,
    group_leaves_run,
    side_effect_class,
    stronger,
    strongest,
)
from provstore.evidence.recording.policy import compile_recording_policy
from provstore.model.recording import CLASSES, RiskContext

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"

# Operation, role, class: from the specification's table, row by row.
SPECIFIED = [
    ("barrier", None, "read"), ("monitored_barrier", None, "read"), ("send", None, "read"), ("isend", None, "read"),
    ("broadcast", "source", "read"), ("gather", "other", "read"), ("gather", "source", "read"),
    ("data.next_batch", None, "read"), ("eval.step", None, "read"),
    ("tensor.grad", None, "read"), ("tensor.activation", None, "read"),
    ("all_reduce", None, "mutate-local"), ("all_gather", None, "mutate-local"),
    ("all_gather_into_tensor", None, "mutate-local"), ("_all_gather_base", None, "mutate-local"),
    ("reduce_scatter", None, "mutate-local"), ("reduce_scatter_tensor", None, "mutate-local"),
    ("_reduce_scatter_base", None, "mutate-local"), ("all_to_all", None, "mutate-local"),
    ("all_to_all_single", None, "mutate-local"), ("recv", None, "mutate-local"), ("irecv", None, "mutate-local"),
    ("broadcast", "destination", "mutate-local"), ("broadcast", "other", "mutate-local"),
    ("scatter", None, "mutate-local"), ("scatter", "source", "mutate-local"),
    ("gather", "destination", "mutate-local"), ("reduce", "source", "mutate-local"),
    ("reduce", "other", "mutate-local"),
    ("reduce", "destination", "mutate-local"), ("allreduce_coalesced", None, "mutate-local"),
    ("optimizer.step", None, "mutate-local"), ("checkpoint.load", None, "mutate-local"),
    ("checkpoint.save", None, "mutate-external"),
    ("artifact.upload", None, "network-egress"), ("model.push", None, "network-egress"),
    ("metrics.push", None, "network-egress"), ("logs.push", None, "network-egress"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "role", "klass"), SPECIFIED)
def test_an_operation_has_the_class_of_what_it_does_to_its_rank(op, role, klass):
    assert side_effect_class(op, role=role) == klass


@pytest.mark.parametrize(("op", "klass"), [("broadcast", "mutate-local"), ("gather", "mutate-local")])
def test_a_role_that_is_not_known_gives_the_stronger_class(op, klass):
    assert side_effect_class(op) == klass


def test_a_marker_of_coalesced_calls_is_read_only_where_it_is_known_to_have_no_tensors():
    assert side_effect_class("nccl:coalesced", has_tensors=False) == "read"
    assert side_effect_class("nccl:coalesced", has_tensors=True) == "mutate-local"
    assert side_effect_class("nccl:coalesced") == "mutate-local"
    assert side_effect_class("gloo:all_reduce", has_tensors=False) == "mutate-local"


@pytest.mark.parametrize(
    ("name", "klass"),
    [
        # As the dispatcher of torch.distributed, its operation types and its libraries spell them.
        ("c10d::allreduce_", "mutate-local"), ("ALLREDUCE", "mutate-local"), ("_allreduce_base", "mutate-local"),
        ("ALLREDUCE_COALESCED", "mutate-local"), ("gloo:sparse_all_reduce", "mutate-local"),
        ("_ALLREDUCE_SPARSE", "mutate-local"),
        ("nccl:all_reduce", "mutate-local"), ("NCCL:ALL_REDUCE", "mutate-local"), ("ucc:allreduce", "mutate-local"),
        ("allgather_into_tensor_coalesced", "mutate-local"), ("c10d::allgather_into_tensor_coalesced_", "mutate-local"),
        ("ALLGATHER_INTO_TENSOR_COALESCED", "mutate-local"), ("c10d::_allgather_base_", "mutate-local"),
        ("_ALLGATHER_BASE", "mutate-local"), ("ALLGATHER_COALESCED", "mutate-local"), ("allgather", "mutate-local"),
        ("c10d::reduce_scatter_tensor_coalesced_", "mutate-local"), ("c10d::_reduce_scatter_base_", "mutate-local"),
        ("ALLTOALL_BASE", "mutate-local"), ("c10d::alltoall_base_", "mutate-local"), ("alltoall", "mutate-local"),
        ("_c10d_functional::all_gather_into_tensor", "mutate-local"), ("nccl:_broadcast_oop", "mutate-local"),
        ("nccl:_reduce_oop", "mutate-local"), ("nccl:all_reduce_barrier", "read"), ("c10d::barrier", "read"),
        ("monitoredBarrier", "read"), ("gloo:recvAnySource", "mutate-local"),
        ("c10d::recv_any_source_", "mutate-local"),
        ("nccl:send 0->3", "read"), ("nccl:recv 0<-3", "mutate-local"), ("nccl:isend 0->3", "read"),
        ("recv_anysource", "mutate-local"), ("c10d::gather_into_tensor_", "mutate-local"),
    ],
)  # fmt: skip
def test_the_spellings_of_one_operation_have_one_class(name, klass):
    assert side_effect_class(name) == klass


@pytest.mark.parametrize("prefix", ["", "nccl:", "gloo:", "NCCL:", "c10d::", "mylib-2.0:"])
def test_a_library_never_changes_the_class(prefix):
    for op, role, klass in SPECIFIED:
        assert side_effect_class(prefix + op, role=role) == klass


@pytest.mark.parametrize(
    "op",
    ["", " ", ":", "nccl:", "gloo::", "my_fused_op", "all_reduce2", "all reduce", "all_reduce ", " all_reduce", "_",
     "__", "send 0-3", "recv 1", "x:y:all_reduce", "chec\u212apoint.load", None, 7, b"all_reduce",
     ["all_reduce"], "a" * 100_000],
)  # fmt: skip
def test_a_name_that_is_not_in_the_table_or_no_name_is_unknown_and_so_recorded_in_full(op):
    klass = side_effect_class(op)

    assert klass == "unknown"
    assert compile_recording_policy(RiskContext(side_effect_class=klass)).mode == "full"


@given(st.text(), st.sampled_from([None, *ROLES]), st.sampled_from([None, False, True]), st.booleans())
def test_every_name_has_some_class(op, role, has_tensors, leaves_run):
    assert side_effect_class(op, role=role, has_tensors=has_tensors, leaves_run=leaves_run) in CLASSES


def test_a_role_that_is_none_is_refused():
    with pytest.raises(ConfigError, match=r"^root: role: is none of source, destination, other$"):
        side_effect_class("broadcast", role="root")


def test_a_group_that_leaves_the_run_makes_a_collective_external_and_nothing_milder():
    assert side_effect_class("gloo:all_reduce", leaves_run=True) == "mutate-external"
    assert side_effect_class("barrier", leaves_run=True) == "mutate-external"
    assert side_effect_class("broadcast", role="source", leaves_run=True) == "mutate-external"
    assert side_effect_class("model.push", leaves_run=True) == "network-egress"
    assert side_effect_class("invented", leaves_run=True) == "unknown"


def test_a_group_leaves_the_run_by_a_foreign_rank_or_by_the_operators_word():
    assert group_leaves_run([0, 1, 4], range(4))
    assert not group_leaves_run([0, 1, 3], range(4))
    assert group_leaves_run([0, 1], range(4), names=("3", "weights"), external_groups={"weights"})
    assert not group_leaves_run([0, 1], range(4), names=("3", "dp"), external_groups={"weights"})


def test_classes_have_the_order_of_what_they_risk():
    assert stronger("read", "mutate-local") == "mutate-local"
    assert stronger("unknown", "network-egress") == "unknown"
    assert strongest(["read", "mutate-external", "mutate-local"]) == "mutate-external"
    assert strongest([]) is None


@pytest.mark.skipif(not CORPUS.is_dir(), reason="recorded dumps are not at hand")
@pytest.mark.parametrize("scenario", ["fr-gloo/many_ops", "fr-gloo", "fr-nccl"])
def test_every_recorded_operation_has_a_class(scenario):
    names = set()
    for path in (CORPUS / scenario).rglob("*"):
        if path.is_file() and path.read_bytes()[:1] == b"\x80":
            names |= {entry["profiling_name"] for entry in pickle.loads(path.read_bytes())["entries"]}

    assert names
    assert {name for name in names if side_effect_class(name) == "unknown"} == set()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="recorded dumps are not at hand")
def test_a_healthy_job_demands_validation_and_delta_and_nothing_in_full():
    modes = set()
    for path in (CORPUS / "fr-gloo" / "healthy_ddp").glob("nccl_trace_rank_*"):
        for entry in pickle.loads(path.read_bytes())["entries"]:
            klass = side_effect_class(entry["profiling_name"])
            modes.add(compile_recording_policy(RiskContext(side_effect_class=klass)).mode)

    assert modes == {"validation", "delta"}


def test_the_table_is_data_with_a_digest_over_its_canonical_text():
    said = json.loads(TABLE.document())

    assert TABLE.digest == hashlib.sha256(TABLE.document()).hexdigest()
    assert TABLE.document() == json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert said["version"] == 1
    assert {one["name"]: one["class"] for one in said["operations"]}["checkpoint.save"] == "mutate-external"


def test_no_spelling_stands_for_two_operations():
    spellings = [text for one in TABLE.operations for text in (one.name, *one.spellings)]

    assert len(spellings) == len(set(spellings))


def test_the_class_without_a_role_is_never_below_that_of_a_role():
    for one in TABLE.operations:
        assert strongest([*one.by_role.values(), one.side_effect_class]) == one.side_effect_class


def test_configuration_may_raise_a_class_for_every_role():
    table = extended(TABLE, {"nccl:Broadcast": "mutate-external"})

    assert side_effect_class("broadcast", role="source", table=table) == "mutate-external"
    assert side_effect_class("broadcast", table=table) == "mutate-external"
    assert side_effect_class("broadcast", role="source") == "read"
    assert table.digest != TABLE.digest
    assert table.version == TABLE.version


@pytest.mark.parametrize(
    ("op", "klass"),
    [("all_reduce", "read"), ("checkpoint.save", "mutate-local"), ("my_fused_op", "network-egress"),
     ("broadcast", "read"), ("coalesced", "read")],
)  # fmt: skip
def test_configuration_lowers_a_class_only_with_a_reason_which_is_stored(op, klass):
    with pytest.raises(ConfigError, match=f"^{op}: side-effect class: {klass} is lower than ") as refused:
        extended(TABLE, {op: klass})
    table = extended(TABLE, {op: {"class": klass, "reason": "looked at on 3 May"}})

    assert "reason" in refused.value.hint
    assert side_effect_class(op, table=table) == klass
    assert [(one.side_effect_class, one.reason) for one in table.changes] == [(klass, "looked at on 3 May")]
    assert b"looked at on 3 May" in table.document()


@pytest.mark.parametrize(
    ("op", "said", "reason"),
    [
        ("all_reduce", "harmless", "'harmless' is none of"),
        ("all_reduce", {"class": "read", "reason": " "}, "the reason is empty"),
        ("all_reduce", {"class": "read", "reason": None}, "read is lower"),
        ("all_reduce", {"reason": "x"}, "None is none of"),
        ("all_reduce", {"class": "read", "because": "x"}, "'because' is neither"),
        ("", "unknown", "is no name"),
        (" all_reduce", "unknown", "is no name"),
    ],
)  # fmt: skip
def test_a_setting_of_classes_that_says_nothing_clear_is_refused(op, said, reason):
    with pytest.raises(ConfigError, match=reason):
        extended(TABLE, {op: said})


def test_an_operation_that_configuration_adds_is_known_by_its_spelling_in_any_case_and_library():
    table = extended(TABLE, {"My_Fused_Op": {"class": "mutate-local", "reason": "writes one buffer"}})
    again = extended(table, {"my_fused_op": "mutate-external"})

    assert side_effect_class("nccl:MY_FUSED_OP_", table=table) == "mutate-local"
    assert side_effect_class("my_fused_op", table=again) == "mutate-external"
    assert len(again.changes) == 2


def test_a_table_equals_another_with_the_same_rows():
    assert ClassTable(TABLE.version, TABLE.operations) == TABLE
