"""Where two runs part, told from records whose difference is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from provstore.analysis.divergence import Divergence, Event, GroupFacts, compare, exit_code
from provstore.model.action import TENSOR_V1, Action

RANKS, STEPS, CALLS = 4, 6, 2
GROUP = {"0@0-3": GroupFacts("default_pg", (0, 1, 2, 3))}


def call(rank: int, step: int, seq: int, **more: object) -> Action:
    fields: dict[str, object] = {
        "action_id": f"gloo/0@0-3/{seq}/{rank}",
        "op": "all_reduce",
        "rank": rank,
        "at_ns": 1_000_000_000 * step + seq,
        "side_effect_class": "mutate-local",
        "mode": "delta",
        "policy_mode": "delta",
        "policy_reason": "local mutation, low risk",
        "epoch": 0,
        "step": step,
        "backend": "gloo",
        "group": "0@0-3",
        "seq": seq,
        "chain": f"gloo/0@0-3/{seq}",
        "digest_in": f"sha256:in-{rank}-{seq}",
        "digest_out": f"sha256:out-{seq}",
        "digest_kind": TENSOR_V1,
        "shapes_in": ((4,),),
        "shapes_out": ((4,),),
    }
    return Action(**{**fields, **more})


def run() -> list[Action]:
    return [
        call(rank, step, step * CALLS + at) for rank in range(RANKS) for step in range(STEPS) for at in range(CALLS)
    ]


def changed(actions: Iterable[Action], where: Callable[[Action], bool], **fields: object) -> list[Action]:
    return [replace(one, **fields) if where(one) else one for one in actions]


def diff(a: list[Action], b: list[Action], groups: dict[str, GroupFacts] | None = None, **more: object) -> Divergence:
    return compare(("a", "b"), (GROUP, groups or GROUP), [0], (lambda _: a, lambda _: b), **more)


def test_equal_runs_have_no_first_difference() -> None:
    found = diff(run(), run())
    assert found.first_divergence is None
    assert exit_code(found) == 0
    assert found.coverage.to_dict()["similarity"] == {"equal": 96, "of": 96}


def test_calls_that_a_process_makes_once_do_not_part_a_run_from_its_re_run() -> None:
    def told(rank: int, step: int, seq: int) -> Action:
        return call(rank, step, seq, op="broadcast", extra={"setup": "ddp-buckets"})

    again = []
    for rank in range(RANKS):
        for step in range(STEPS):
            again += [told(rank, step, 2), told(rank, step, 3)] if step == 1 else []
            first = step * CALLS + (2 if step else 0)
            again += [
                call(rank, step, first + at, digest_in=f"sha256:in-{rank}-{step * CALLS + at}",
                     digest_out=f"sha256:out-{step * CALLS + at}")
                for at in range(CALLS)
            ]  # fmt: skip
    found = diff(run(), again)

    assert found.first_divergence is None
    assert (found.coverage.equal, found.coverage.compared) == (96, 96)
    assert found.coverage.not_comparable == {"setup-of-one-process": 8}
    both = diff(again, changed(again, lambda one: one.op == "broadcast" and one.rank == 2, digest_in="sha256:other"))
    assert both.first_divergence is not None, "where both runs have them they are compared"
    assert both.first_divergence.ranks == (2,)


def test_the_checkpoint_that_a_re_run_begins_with_does_not_part_it_from_the_run() -> None:
    loads = [
        Action(f"checkpoint.load/0/{rank}/ck.pt", "checkpoint.load", rank, 1, "mutate-local", "delta", "delta", "low",
               epoch=0, step=0, name="ck.pt", digest_in="sha256:state", digest_kind=TENSOR_V1)
        for rank in range(RANKS)
    ]  # fmt: skip
    found = diff(run(), loads + run())

    assert found.first_divergence is None
    assert found.coverage.not_comparable == {"setup-of-one-process": RANKS}
    other = changed(loads, lambda one: one.rank == 1, digest_in="sha256:other")
    both = diff(loads + run(), other + run())
    assert both.first_divergence is not None, "where both load, what they load is compared"
    assert (both.first_divergence.op, both.first_divergence.ranks) == ("checkpoint.load", (1,))


def test_runs_without_digests_cannot_be_told_apart() -> None:
    bare = changed(run(), lambda _: True, digest_in=None, digest_out=None, digest_kind=None)
    found = diff(bare, bare)
    assert (found.first_divergence, exit_code(found)) == (None, 3)
    assert found.coverage.not_comparable == {"no-digest-in-both": 96}


def test_digests_of_two_schemes_are_never_compared() -> None:
    other = changed(run(), lambda _: True, digest_kind="legacy-f32-4k-16hex")
    found = diff(run(), other)
    assert (found.first_divergence, exit_code(found)) == (None, 3)
    assert found.coverage.not_comparable == {"digest-schemes-differ": 96}


def test_an_input_that_differs_on_one_rank_hints_at_its_local_compute_since_the_last_equal_call() -> None:
    other = changed(run(), lambda one: one.seq == 7 and one.rank == 2, digest_in="sha256:flipped")
    other = changed(other, lambda one: (one.seq or 0) >= 7, digest_out="sha256:other")
    found = diff(run(), other)
    first, last = found.first_divergence, found.last_equal
    assert (first.step, first.seq, first.ranks, first.kind, first.side) == (3, 7, (2,), "input-digest", "in")
    assert (last.seq, last.ranks) == (6, (2,))
    assert "local compute of rank 2" in found.reading
    assert exit_code(found) == 1
    assert found.per_rank[0].kind == "output-digest"


def test_an_output_that_differs_while_all_inputs_are_equal_hints_at_communication() -> None:
    other = changed(run(), lambda one: one.seq == 4 and one.rank == 1, digest_out="sha256:flipped")
    found = diff(run(), other)
    assert (found.first_divergence.kind, found.first_divergence.ranks) == ("output-digest", (1,))
    assert "communication" in found.reading


def test_comparing_goes_on_after_the_first_difference() -> None:
    other = changed(run(), lambda one: one.seq in (1, 9) and one.rank == 0, digest_out="sha256:flipped")
    assert dict(diff(run(), other).counts) == {"output-digest": 2}


def test_inputs_that_differ_on_all_ranks_from_the_start_hint_at_data_seed_or_initial_state() -> None:
    other = changed(run(), lambda _: True, digest_in="sha256:other", digest_out="sha256:other")
    found = diff(run(), other)
    assert "data, seed or initial state" in found.reading
    assert (found.first_divergence.ranks, found.last_equal) == ((0, 1, 2, 3), None)


def test_an_output_alone_is_undecided_where_inputs_were_not_recorded() -> None:
    def bare(actions: list[Action]) -> list[Action]:
        return changed(actions, lambda _: True, digest_in=None)

    other = changed(run(), lambda one: (one.seq or 0) >= 5, digest_out="sha256:other")
    assert "undecided" in diff(bare(run()), bare(other)).reading


def test_groups_are_taken_for_one_another_by_description_and_ranks_and_then_by_name() -> None:
    renamed = [replace(one, group="17@0-3") for one in run()]
    found = diff(run(), renamed, {"17@0-3": GroupFacts("default_pg", (0, 1, 2, 3))})
    assert found.first_divergence is None
    assert found.groups == (("0@0-3", "17@0-3"),)
    assert diff(run(), renamed, {"17@0-3": GroupFacts(None, ())}).first_divergence is not None


def test_a_rerun_that_counts_from_0_again_is_compared_call_by_call() -> None:
    later = [replace(one, seq=(one.seq or 0) + 40, action_id=f"x/{one.rank}/{one.seq}") for one in run()]
    found = diff(later, run())
    assert found.first_divergence is None
    assert dict(found.offsets) == {"0@0-3": 40}


def test_a_step_that_one_run_leaves_out_is_named_and_later_steps_are_still_compared() -> None:
    shorter = [replace(one, seq=(one.seq or 0) - CALLS * ((one.step or 0) > 2)) for one in run() if one.step != 2]
    found = diff(run(), shorter)
    first = found.first_divergence
    assert (first.kind, first.step, first.seq) == ("sequence-missing", 2, 4)
    assert found.last_equal.step == 1
    assert found.coverage.different == 0


def test_the_order_in_a_file_means_nothing() -> None:
    backwards = sorted(run(), key=lambda one: -one.rank)
    assert diff(run(), backwards).first_divergence is None


def test_a_rank_that_was_not_recorded_is_said_so() -> None:
    found = diff(run(), [one for one in run() if one.rank != 3])
    assert (found.first_divergence.kind, found.first_divergence.ranks) == ("rank-missing", (3,))


def test_operations_shapes_types_and_flags_are_compared_too() -> None:
    for fields, kind in (
        ({"op": "broadcast"}, "op"),
        ({"shapes_in": ((5,),)}, "shape"),
        ({"reduce_op": "max"}, "metadata"),
        ({"finite_in": False}, "finite-flag"),
        ({"dtypes_in": ("float16",)}, "dtype"),
    ):
        one = changed(run(), lambda _: True, dtypes_in=("float32",), finite_in=True, reduce_op="sum")
        other = changed(one, lambda action: action.seq == 3 and action.rank == 1, **fields)
        first = diff(one, other).first_divergence
        assert (first.kind, first.seq, first.ranks) == (kind, 3, (1,))


def test_only_events_near_the_difference_are_told_with_their_distance() -> None:
    other = changed(run(), lambda one: one.step == 3 and one.rank == 2, digest_in="sha256:flipped")
    events = [
        Event("b", "escalation xid", "rank:2", step=2),
        Event("b", "escalation loss-spike", "run", step=0),
        Event("b", "escalation desync", "group:0", at_ns=4_000_000_000),
        Event("b", "escalation manual", "run", at_ns=90_000_000_000),
    ]
    found = diff(run(), other, events=events, context=1)
    assert [(one.event.what, one.step_distance) for one in found.correlations] == [
        ("escalation xid", -1),
        ("escalation desync", None),
    ]
    assert found.correlations[1].seconds == (4_000_000_000 - 3_000_000_006) / 1e9


def test_a_checkpoint_that_lies_elsewhere_is_the_same_event() -> None:
    def saved(uri: str) -> list[Action]:
        save = call(0, 5, 0, op="checkpoint.save", group=None, name=uri, digest_in=None, digest_kind=None)
        return [*run(), replace(save, seq=None, digest_out=None)]

    assert diff(saved("a.pt"), saved("b.pt")).first_divergence is None


def test_an_output_is_not_the_first_difference_where_a_rank_put_in_something_else_at_that_step() -> None:
    # Rank 0 has nothing before the call; rank 2 has recorded a gradient of its own before it.
    def with_gradient(actions: list[Action], value: str) -> list[Action]:
        place = {"action_id": "tensor.grad/2/3/w", "group": None, "chain": None, "name": "w"}
        gradient = replace(call(2, 3, 0, op="tensor.grad", digest_in=None, digest_out=value, **place), seq=None)
        at = next(place for place, one in enumerate(actions) if (one.rank, one.step) == (2, 3))
        return [*actions[:at], gradient, *actions[at:]]

    a = changed(run(), lambda one: one.step == 3, digest_in=None)
    b = changed(a, lambda one: one.step == 3, digest_out="sha256:other")
    found = diff(with_gradient(a, "sha256:own"), with_gradient(b, "sha256:spoilt"))
    first = found.first_divergence
    assert (first.op, first.ranks, first.step) == ("tensor.grad", (2,), 3)
    assert found.reading == "local compute of rank 2 before this tensor was recorded"


def test_a_call_of_which_a_rank_was_not_recorded_hints_at_nothing_that_is_certain() -> None:
    a = [one for one in run() if one.rank != 3]
    b = changed(a, lambda one: one.seq == 5, digest_out="sha256:other")
    assert diff(a, b).reading.startswith("undecided")
