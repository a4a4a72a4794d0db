"""Real collectives: kept chunks of an output are made from the derived ranges of the inputs, and of nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import run_job

pytest.importorskip("torch")

OPS = ("all_reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    job = run_job("kept_ranges", tmp_path_factory.mktemp("kept") / "ranges", *OPS, ranks=3)
    assert job.codes == [0, 0, 0], job.texts
    return [json.loads((job.out / f"{rank}.json").read_text()) for rank in range(3)]


@pytest.mark.parametrize("op", OPS)
def test_a_collective_gives_the_same_kept_chunks_when_all_that_is_not_needed_is_replaced(op: str, answers: Any) -> None:
    found = [answer[op] for answer in answers]

    assert [one["wrong"] for one in found] == [0, 0, 0]
    assert all(one["kept"] > 0 for one in found)
    if op != "reduce_scatter_tensor":
        assert all(one["outside"] > 0 for one in found), "what was replaced does show elsewhere"


def test_no_more_is_needed_than_the_kept_chunks_are_made_from(answers: Any) -> None:
    """Every kept byte of a sum needs one byte of each rank, a copied one exactly one byte of one rank."""
    for op in ("all_reduce", "all_gather_into_tensor", "all_to_all_single"):
        kept = [answer[op]["kept"] for answer in answers]
        needed = sum(answer[op]["needed"] for answer in answers)
        assert (
            needed == {"all_reduce": sum(kept), "all_gather_into_tensor": kept[0], "all_to_all_single": sum(kept)}[op]
        )
    assert [answer["broadcast"]["needed"] > 0 for answer in answers] == [False, True, False]
