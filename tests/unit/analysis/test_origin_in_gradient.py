"""The origin of a NaN in a named gradient: which parameter it is of, and which call carried it."""

from __future__ import annotations

from dataclasses import replace

from provstore.analysis.suspicion import suspicious
from provstore.model.action import TENSOR_V1, Action

GROUP = "0@0-1"


def call(rank: int, seq: int, **said) -> Action:
    usual = {"finite_in": True, "finite_out": True, "digest_out": f"sha256:{seq:064x}", "digest_kind": TENSOR_V1}
    return Action(
        action_id=f"gloo/{GROUP}/{seq}/{rank}",
        op="all_reduce",
        rank=rank,
        at_ns=seq * 1_000_000,
        side_effect_class="mutate-local",
        mode="delta",
        policy_mode="delta",
        policy_reason="local mutation, low risk",
        backend="gloo",
        group=GROUP,
        seq=seq,
        step=seq,
        epoch=0,
        chain=f"gloo/{GROUP}/{seq}",
        **{**usual, **said},
    )


def gradient(rank: int, step: int, name: str, *, finite: bool, carried_by: str | None) -> Action:
    own = {"op": "tensor.grad", "action_id": f"tensor.grad/{rank}/{step}/{name}", "name": name, "finite_out": finite}
    carriers = () if carried_by is None else (carried_by,)
    none = {"chain": None, "group": None, "seq": None, "backend": None, "finite_in": None, "digest_out": None}
    return replace(call(rank, step), **own, **none, carried_by=carriers)


def run_with(*gradients: Action) -> list[Action]:
    """Two ranks with two calls; rank 1 puts a NaN into the second, after these gradients."""
    spoilt = call(1, 2, finite_in=False, finite_out=False)
    return [call(0, 1), call(0, 2, finite_out=False), call(1, 1), *gradients, spoilt]


def only(actions: list[Action]):
    (one,) = suspicious(actions).suspicious
    assert (one.finding.code, one.action.rank) == ("nan-origin", 1)
    return one


def test_the_gradient_that_had_it_first_names_its_parameter_and_the_call_that_carries_it() -> None:
    carrier = f"gloo/{GROUP}/2/1"
    sound = gradient(1, 2, "2.weight", finite=True, carried_by=carrier)
    one = only(run_with(sound, gradient(1, 2, "0.weight", finite=False, carried_by=carrier)))
    assert (one.action.op, one.finding.parameter) == ("tensor.grad", "0.weight")
    assert one.to_dict()["carried_by"] == [carrier]
    assert one.finding.summary == (
        "rank 1: computes values that are not finite in 0.weight, tensor.grad at step 2, carried by all_reduce #2 in "
        "group 0@0-1 at step 2; all it had before was finite."
    )


def test_a_gradient_that_no_recorded_call_carries_names_none() -> None:
    for carrier in (None, "gloo/other/9/1"):
        one = only(run_with(gradient(1, 2, "0.weight", finite=False, carried_by=carrier)))
        assert "carried by" not in one.finding.summary
        assert one.finding.parameter == "0.weight"


def test_without_gradients_no_parameter_is_named() -> None:
    one = only(run_with())
    assert one.finding.parameter is None
    assert "gradient" not in one.finding.summary
