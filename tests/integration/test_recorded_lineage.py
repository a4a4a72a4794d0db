"""Lineage of recorded calls: what a tensor comes from, told by a recording alone as by the dumps of the job.

Jobs are small enough to count: W members that make K calls in a row give the output of call K its K calls, W·K inputs
and W·(K−1) outputs as ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from captures import FULL, RankCapture, healthy

from provstore.api import assistant
from provstore.api.recording import record
from provstore.cypher import query
from provstore.evidence.keys import PrivateKey
from provstore.journal import Journal
from provstore.queries.lineage import trace
from provstore.queries.targets import Scope, resolve
from tests.conftest import Place
from tests.lineage_facts import ancestors, lineage_facts
from tests.lineage_jobs import BASE, CALLS, WORLD, captured, graph_of, in_a_row, recorded, shown


@pytest.fixture
def memory() -> Iterator[Place]:
    place = Place("memory", "memory:")
    yield place
    place.close()


def test_the_output_of_the_fourth_call_of_four_ranks_has_32_ancestors(stores: Place, tmp_path: Path) -> None:
    graph = graph_of(stores, tmp_path, captured(tmp_path / "c", in_a_row))

    found = ancestors(graph, "gloo/0@0-3/4/2/out", BASE)

    assert found == {
        *(f"gloo/0@0-3/{seq}" for seq in range(1, 5)),
        *(f"gloo/0@0-3/{seq}/{rank}/in" for seq in range(1, 5) for rank in range(4)),
        *(f"gloo/0@0-3/{seq}/{rank}/out" for seq in range(1, 4) for rank in range(4)),
    }
    assert len(found) == 32


def test_targets_name_recorded_calls(stores: Place, tmp_path: Path) -> None:
    graph = graph_of(stores, tmp_path, captured(tmp_path / "c", in_a_row))

    for target in ("tensor:2:4:out", "act:2:all_reduce:4", "r2:seq4"):
        assert resolve(graph, target, Scope("job", 0, "default_pg")).startswith(f"{BASE}gloo/0@0-3/4")
    (node,) = [one for one in trace(graph, f"{BASE}gloo/0@0-3/1/0/out").nodes if one.kind == "collective"]
    assert (node.op, node.label) == ("all_reduce", "all_reduce #1 of default_pg (0)")


def test_a_rank_that_was_recorded_up_to_an_earlier_call_than_its_group_lags_as_in_dumps(
    stores: Place, tmp_path: Path
) -> None:
    def program(capture: RankCapture) -> None:
        for at in range(CALLS - (capture.rank == 3)):
            capture.call(0, op_id=at + 1)

    graph = graph_of(stores, tmp_path, captured(tmp_path / "c", program))

    (row,) = graph.run(query("read/collectives/lagging_ranks"), {"run": "job", "attempt": 0})
    assert (row["name"], row["rank"], row["last_seq"], row["highest_seq"]) == ("default_pg (0)", 3, 3, 4)


def test_recording_again_writes_nothing_and_what_grew_adds_what_is_new(memory: Place, tmp_path: Path) -> None:
    capture = captured(tmp_path / "c", in_a_row)
    first = recorded(tmp_path, capture)
    assert recorded(tmp_path, capture).position == first.position

    captured(tmp_path / "c", lambda one: (in_a_row(one), one.call(0, op_id=5)))
    recorded(tmp_path, capture)

    graph = shown(tmp_path, memory.open())
    assert len(ancestors(graph, "gloo/0@0-3/5/0/out", BASE)) == 5 + 20 + 16


def sub_groups(capture: RankCapture) -> None:
    """Rank pairs reduce, then all ranks do, then the pairs again."""
    pair = f"{1 + capture.rank // 2}@{capture.rank // 2 * 2}-{capture.rank // 2 * 2 + 1}"
    capture.call(0, group=pair, seq=1, op_id=1)
    capture.call(0, seq=1, op_id=1)
    capture.call(0, group=pair, seq=2, op_id=2)


def test_an_assistant_gets_the_ancestors_of_a_run_that_was_only_recorded(tmp_path: Path) -> None:
    store = f"embedded:{tmp_path / 's'}"
    record([captured(tmp_path / "c", in_a_row)], store=store)

    answer = assistant.ask("trace_tensor", {"entity_id": "tensor:2:4:out", "run": "job"}, store)

    assert len(answer["causal_ancestors"]) == 32
    assert answer["truncated"] is False


def test_a_sub_group_leads_to_its_members_alone_until_all_ranks_have_met(stores: Place, tmp_path: Path) -> None:
    graph = graph_of(stores, tmp_path, captured(tmp_path / "c", sub_groups))

    first = ancestors(graph, "gloo/2@2-3/1/3/out", BASE)
    last = ancestors(graph, "gloo/2@2-3/2/3/out", BASE)

    assert first == {"gloo/2@2-3/1", "gloo/2@2-3/1/2/in", "gloo/2@2-3/1/3/in"}
    # 2 first calls with 4 inputs and 4 outputs; the common one with 4 and 4; the last with its own 2 inputs.
    assert len(last) == (2 + 4 + 4) + (1 + 4 + 2) + (1 + 2)
    assert "gloo/1@0-1/1/0/in" in last
    assert "gloo/1@0-1/2/0/in" not in last


def passed_on(capture: RankCapture) -> None:
    """Each rank reduces; rank 0 then sends to rank 1, which never sees that the receive is done."""
    capture.call(0, op_id=1)
    if capture.rank < 2:
        one = {"channel": "send", "op": "send", "peer": 1, "side": "in"}
        other = {"channel": "recv", "op": "recv", "peer": 0, "side": "out", "shortfall": ["no-tensor-access"]}
        said = capture.call(0, None, seq=1, op_id=2, **(one if capture.rank == 0 else other))
        side = "in" if capture.rank == 0 else "out"
        said |= {f"shapes_{side}": [[2]], f"dtypes_{side}": ["float32"]}
        for name in ("finite_in", "finite_out"):
            del said[name]
    capture.call(0, seq=2, op_id=3 if capture.rank < 2 else 2)


def test_a_receive_comes_from_the_send_that_it_belongs_to(stores: Place, tmp_path: Path) -> None:
    graph = graph_of(stores, tmp_path, captured(tmp_path / "c", passed_on))

    found = ancestors(graph, "gloo/0@0-3/p2p/1/2", BASE)

    assert {"gloo/0@0-3/p2p/0/2", "gloo/0@0-3/p2p/0/2/0/in", "gloo/0@0-3/1"} <= found
    told = trace(graph, f"{BASE}gloo/0@0-3/p2p/1/2/1/out")
    assert "not seen to end" in told.notes[0]
    assert {node.iri.removeprefix(BASE) for node in told.nodes} == found | {"gloo/0@0-3/p2p/1/2"}


def test_what_is_recorded_of_one_end_alone_is_not_paired(memory: Place, tmp_path: Path) -> None:
    def twice(capture: RankCapture) -> None:
        passed_on(capture)
        if capture.rank == 1:
            capture.lines = [line for line in capture.lines if line.get("seq") != 2]
            capture.call(0, seq=2, op_id=9, channel="recv", op="recv", peer=0, side="out", shapes_in=None)

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", twice))

    assert not any("p2p/0" in one for one in ancestors(graph, "gloo/0@0-3/p2p/1/2", BASE))


def test_of_a_missing_rank_there_is_nothing_and_the_others_have_their_lineage(memory: Place, tmp_path: Path) -> None:
    capture = captured(tmp_path / "c", in_a_row, ranks=range(1, 4))

    graph = graph_of(memory, tmp_path, capture)

    assert len(ancestors(graph, "gloo/0@0-3/4/2/out", BASE)) == 4 + 12 + 9
    assert not any("/0/" in one for one in ancestors(graph, "gloo/0@0-3/4/2/out", BASE))


def test_an_output_that_nobody_saw_is_not_said_to_be_there(memory: Place, tmp_path: Path) -> None:
    def asynchronous(capture: RankCapture) -> None:
        capture.call(0, op_id=1)
        said = capture.call(0, op_id=2, mode="validation", shortfall=["no-tensor-access"])
        for name in ("finite_out", "out", "stats_out"):
            del said[name]
        capture.call(0, op_id=3)

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", asynchronous))

    facts = lineage_facts(graph, BASE)
    assert {target for _, target in facts.relations_of("WAS_GENERATED_BY")} == {"gloo/0@0-3/1", "gloo/0@0-3/3"}
    assert facts.relations_of("WAS_INFLUENCED_BY") == {
        (f"gloo/0@0-3/2/{rank}/in", f"gloo/0@0-3/1/{rank}/out") for rank in range(4)
    }
    told = trace(graph, f"{BASE}gloo/0@0-3/2/1/out")
    assert "not seen to end" in told.notes[0]
    assert {node.iri.removeprefix(BASE) for node in told.nodes} >= {"gloo/0@0-3/2", "gloo/0@0-3/1/3/in"}


def test_a_call_that_no_budget_was_left_to_look_into_is_done_all_the_same(memory: Place, tmp_path: Path) -> None:
    def hurried(capture: RankCapture) -> None:
        said = capture.call(0, op_id=1, mode="validation", shortfall=["time-budget"])
        for name in ("finite_in", "finite_out", "in", "out", "stats_in", "stats_out"):
            del said[name]

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", hurried))

    assert len(lineage_facts(graph, BASE).relations_of("WAS_GENERATED_BY")) == WORLD


def test_several_tensors_in_one_call_are_one_instance_and_several_calls_of_one_are_several(
    memory: Place, tmp_path: Path
) -> None:
    def coalesced(capture: RankCapture) -> None:
        shapes = {name: [[3], [5]] for name in ("shapes_in", "shapes_out")}
        dtypes = {name: ["float32", "float32"] for name in ("dtypes_in", "dtypes_out")}
        capture.call(0, op="all_reduce_coalesced", op_id=1, **shapes, **dtypes)
        capture.call(0, op="reduce_scatter", op_id=2, parts=2, shapes_in=[[3], [3]], shapes_out=[[3]])
        capture.call(0, None, op="reduce_scatter", op_id=3, parts=2, part_of=2)

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", coalesced, world=2))

    facts = lineage_facts(graph, BASE)
    assert sorted(iri for iri, labels in facts.labels.items() if "Collective" in labels) == [
        f"gloo/0@0-1/{seq}" for seq in (1, 2, 3)
    ]
    assert len(ancestors(graph, "gloo/0@0-1/3/1/out", BASE)) == 3 + 6 + 4


def test_with_a_root_each_member_has_both_sides_as_a_dump_states_it(memory: Place, tmp_path: Path) -> None:
    def rooted(capture: RankCapture) -> None:
        is_root = capture.rank == 1
        said = capture.call(0, op="broadcast", op_id=1, root=1, side="in" if is_root else "out")
        for name in () if is_root else ("shapes_in", "dtypes_in", "finite_in", "in", "stats_in"):
            del said[name]
        capture.call(0, None, op="barrier", op_id=2, side="call")

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", rooted))

    labels = lineage_facts(graph, BASE).labels
    assert sorted(iri for iri, found in labels.items() if "Call" in found) == [
        *(f"gloo/0@0-3/1/{rank}/in" for rank in range(4)),
        *(f"gloo/0@0-3/2/{rank}/call" for rank in range(4)),
    ]
    assert sum("Output" in found for found in labels.values()) == 4


def test_no_order_is_known_across_a_line_that_is_missing(memory: Place, tmp_path: Path) -> None:
    def torn(capture: RankCapture) -> None:
        in_a_row(capture)
        capture.lines = [line for line in capture.lines if line.get("seq") != 3]

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", torn))

    assert lineage_facts(graph, BASE).relations_of("WAS_INFORMED_BY") == {("gloo/0@0-3/2", "gloo/0@0-3/1")}


def test_a_program_goes_on_from_epoch_to_epoch(memory: Place, tmp_path: Path) -> None:
    for rank in range(WORLD):
        capture = RankCapture(tmp_path / "c", rank, WORLD, _seq=1)
        for epoch in range(CALLS):
            capture.begin(epoch)
            capture.call(epoch)
            capture.end(epoch)
        capture.write()

    graph = graph_of(memory, tmp_path, tmp_path / "c")

    assert len(ancestors(graph, "gloo/0@0-3/4/2/out", BASE)) == 32
    assert lineage_facts(graph, BASE).relations_of("WAS_INFORMED_BY") == {
        (f"gloo/0@0-3/{later}", f"gloo/0@0-3/{earlier}") for earlier, later in pairwise(range(1, 5))
    }


def test_a_process_that_counts_anew_in_the_same_attempt_is_told_and_adds_no_other_order(
    memory: Place, tmp_path: Path
) -> None:
    folder = captured(tmp_path / "c", in_a_row)
    other = RankCapture(tmp_path / "again", 0, WORLD, _seq=1, _clock=1_796_000_009_000_000_000)
    other.begin(0)
    for _ in range(CALLS + 1):
        other.call(0)
    other.write()
    (tmp_path / "again" / "capture-rank0.jsonl").rename(folder / "capture-rank0.1.jsonl")

    report = recorded(tmp_path, folder)

    (problem,) = [text for text in report.problems if "lineage" in text]
    assert "rank 0: 4 calls have numbers of earlier ones" in problem
    assert "evidence(attempt=" in problem
    informed = lineage_facts(shown(tmp_path, memory.open()), BASE).relations_of("WAS_INFORMED_BY")
    assert informed == {(f"gloo/0@0-3/{later}", f"gloo/0@0-3/{earlier}") for earlier, later in pairwise(range(1, 5))}


def test_a_call_of_which_only_the_number_is_known_keeps_the_order_and_names_no_tensor(
    memory: Place, tmp_path: Path
) -> None:
    def unseen(capture: RankCapture) -> None:
        capture.call(0)
        said = capture.call(0, None, op="unknown", side="call", shortfall=["no-tensor-access"], policy=FULL)
        del said["finite_in"], said["finite_out"]
        capture.call(0)

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", unseen))

    facts = lineage_facts(graph, BASE)
    assert not any(iri.startswith("gloo/0@0-3/2/") for iri in facts.labels)
    assert {("gloo/0@0-3/3", "gloo/0@0-3/2"), ("gloo/0@0-3/2", "gloo/0@0-3/1")} <= facts.relations_of("WAS_INFORMED_BY")


def test_the_gradient_of_a_parameter_leads_to_the_call_that_carried_it_and_to_the_other_ranks(
    memory: Place, tmp_path: Path
) -> None:
    def backward(capture: RankCapture) -> None:
        is_sick = capture.rank == 2
        capture.lines.append(
            {"t": "tensor", "ordinal": 0, "epoch": 0, "step": 0, "at_ns": capture.now(), "op": "tensor.grad",
             "name": "w.0", "class": "read", "policy": FULL, "mode": "validation", "shortfall": ["time-budget"],
             "finite": not is_sick, "shape": [2], "dtype": "float32",
             "carried_by": [f"gloo/0@0-3/1/{capture.rank}"]}
        )  # fmt: skip
        capture._ordinal = 1
        capture.call(0, op_id=1, finite_in=not is_sick, finite_out=False)
        capture.call(0, op_id=2)

    graph = graph_of(memory, tmp_path, captured(tmp_path / "c", backward))

    down = ancestors(graph, "tensor/2/0/w.0/grad", BASE, down=True)
    assert {f"gloo/0@0-3/2/{rank}/out" for rank in range(4)} <= down
    up = ancestors(graph, "gloo/0@0-3/2/0/out", BASE)
    assert {f"tensor/{rank}/0/w.0/grad" for rank in range(4)} <= up


def test_the_numbers_of_a_rank_s_records_are_those_of_its_actions_however_it_is_signed(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "c")
    plain, signed = (recorded(tmp_path / name, folder, **more) for name, more in (
        ("plain", {}), ("signed", {"signer": PrivateKey.generate()})))  # fmt: skip

    assert [one.digest for one in plain.epochs] == [one.digest for one in signed.epochs]
    found = []
    for name in ("plain", "signed"):
        with Journal.open(tmp_path / name / "journal", writable=False) as journal:
            lines = [one.line for one in journal.evidence("job", 0).records()]
        found.append([line for line in lines if b'"kind":"action"' in line])
    assert found[0] == found[1]
    assert len(found[0]) == 12
