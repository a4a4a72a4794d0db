"""Taint goes from a tensor that is not finite through memory alone: three hops, in its window, and never on a guess."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import captured, needs_hooks, run_job

torch: Any = pytest.importorskip("torch")

from provstore.capture.recording.taint import Taint  # noqa: E402  it needs nothing of torch, but its tests do


@pytest.fixture
def taint() -> Taint:
    return Taint(torch)


def test_nothing_is_tainted_before_something_is_found(taint: Taint) -> None:
    taint.gave([torch.ones(4)], 0, is_finite=True)
    assert not taint.is_active
    assert taint.length([torch.ones(4)], ["weight"]) == 0


def test_each_call_is_a_hop_further_and_the_chain_ends_after_three(taint: Taint) -> None:
    tensors = [torch.ones(4) for _ in range(5)]
    taint.found([tensors[0]])
    lengths = []
    for given, got in itertools.pairwise(tensors):
        lengths.append(taint.length([given]))
        taint.gave([got], lengths[-1], is_finite=True)

    assert lengths == [1, 2, 3, 0]


def test_of_several_inputs_the_nearest_counts(taint: Taint) -> None:
    near, far = torch.ones(4), torch.ones(4)
    taint.found([near])
    taint.gave([far], 2, is_finite=None)
    assert taint.length([far]) == 3
    assert taint.length([far, torch.ones(4), near]) == 1


def test_a_view_of_the_same_elements_is_the_same_memory_and_another_part_of_the_storage_is_not(taint: Taint) -> None:
    whole = torch.ones(4, 4)
    taint.found([whole[1:3]])
    assert taint.length([whole]) == taint.length([whole[2]]) == taint.length([whole.t()]) == 1
    assert taint.length([whole[0]]) == taint.length([whole[3]]) == 0


def test_what_was_written_to_since_is_not_known_any_more(taint: Taint) -> None:
    tensor = torch.ones(4)
    taint.found([tensor])
    tensor.mul_(2)
    assert taint.length([tensor]) == 0


def test_what_the_program_makes_of_a_tensor_is_not_known(taint: Taint) -> None:
    tensor = torch.ones(4)
    taint.found([tensor])
    assert taint.length([tensor + 1]) == taint.length([tensor.clone()]) == 0


def test_memory_that_is_used_again_is_not_taken_for_what_it_was(taint: Taint) -> None:
    memory = bytearray(16)
    tensor = torch.frombuffer(memory, dtype=torch.float32)
    address = tensor.data_ptr()
    taint.found([tensor])
    del tensor
    gc.collect()
    again = torch.frombuffer(memory, dtype=torch.float32)
    assert again.data_ptr() == address
    assert taint.length([again]) == 0


def test_a_call_overwrites_what_was_tainted_before(taint: Taint) -> None:
    tensor = torch.ones(4)
    taint.found([tensor])
    taint.gave([tensor], 0, is_finite=True)
    assert taint.length([tensor]) == 0
    assert not taint.is_active


def test_a_result_that_is_not_finite_begins_anew_however_far_the_call_was(taint: Taint) -> None:
    tensor = torch.ones(4)
    taint.gave([tensor], 3, is_finite=False)
    assert taint.length([tensor]) == 1


def test_a_gradient_taints_the_call_that_carries_it_by_name(taint: Taint) -> None:
    taint.found([torch.ones(4)], "layer.weight")
    assert taint.length([torch.ones(8)], ["layer.bias", "layer.weight"]) == 1
    assert taint.length([torch.ones(8)], ["layer.bias"]) == 0


@pytest.mark.parametrize("window", [1, 2, 3])
def test_after_the_ends_of_so_many_steps_nothing_is_tainted(window: int) -> None:
    taint, tensor = Taint(torch, window), torch.ones(4)
    taint.found([tensor], "weight")
    for _ in range(window):
        assert taint.length([tensor]) == taint.length([], ["weight"]) == 1
        taint.end_step()
    assert taint.length([tensor], ["weight"]) == 0
    assert not taint.is_active


def test_a_window_of_no_step_follows_nothing() -> None:
    taint, tensor = Taint(torch, 0), torch.ones(4)
    taint.found([tensor], "weight")
    taint.gave([tensor], 1, is_finite=False)
    assert not taint.is_active


def test_what_is_remembered_has_an_end(taint: Taint) -> None:
    kept = [torch.ones(1) for _ in range(1500)]
    taint.found(kept)
    assert sum(taint.length([one]) for one in kept) == 1024


def test_a_tensor_whose_writes_are_not_counted_is_not_followed(taint: Taint) -> None:
    with torch.inference_mode():
        tensor = torch.ones(4)
    taint.found([tensor, torch.empty(0)])
    assert not taint.is_active


@pytest.mark.parametrize("made", [lambda: torch.eye(2).to_sparse(), lambda: torch.empty(0)])
def test_a_tensor_without_memory_of_its_own_is_not_followed(taint: Taint, made: Callable[[], torch.Tensor]) -> None:
    taint.found([torch.ones(2), made()])
    taint.gave([made()], 1, is_finite=False)

    assert taint.is_active
    assert taint.length([made()]) == 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = run_job("tainted", tmp_path_factory.mktemp("tainted") / "capture", ranks=2)
    assert job.codes == [0, 0], job.texts
    return job.out


def calls(folder: Path, rank: int, step: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Group and operation → the call of a step."""
    found = [line for line in captured(folder, rank) if line["t"] == "call" and line["step"] == step]
    return {(line["desc"], line["op"]): line for line in found}


@needs_hooks
def test_in_a_live_job_calls_in_groups_that_are_not_escalated_are_demanded_in_full_by_their_taint(
    recorded: Path,
) -> None:
    for rank in range(2):
        found = calls(recorded, rank, 0)
        collectives = {name: line for (name, op), line in found.items() if op not in {"send", "recv"}}
        lengths = {name: line.get("taint") for name, line in collectives.items()}

        assert lengths == {"first": None if rank == 0 else 1, "g1": 1, "g2": 2, "g3": 3, "g4": None}
        assert {collectives[name]["policy"]["rule"] for name in ("g1", "g2", "g3")} == {"3"}
        assert found["g1", "all_reduce"]["policy"] == {
            "mode": "full", "reason": "tainted input reaching state-changing call", "rule": "3",
        }  # fmt: skip
        assert found["g4", "all_reduce"]["policy"]["rule"] == "6"


@needs_hooks
def test_a_call_that_reads_is_tainted_and_not_raised(recorded: Path) -> None:
    sent = calls(recorded, 0, 0)["g1", "send"]
    assert (sent["taint"], sent["policy"]["mode"], sent["policy"]["rule"]) == (2, "validation", "7")


@needs_hooks
def test_the_same_memory_is_not_tainted_in_the_next_step(recorded: Path) -> None:
    for rank in range(2):
        assert {line.get("taint") for line in calls(recorded, rank, 1).values()} == {None}


@needs_hooks
def test_a_gradient_that_is_not_finite_taints_its_own_bucket_in_its_step_alone(recorded: Path) -> None:
    tainted = {
        (rank, step)
        for rank in range(2)
        for step in (2, 3, 4)
        for line in calls(recorded, rank, step).values()
        if line.get("taint")
    }
    assert tainted == {(1, 3)}
