"""What a call gave is recorded as it was given, or not at all: whoever waited for it may overwrite it at once."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import captured, needs_hooks, run_job

from provstore.evidence.content.tensor_digest import digest_of

pytestmark = needs_hooks
RANKS, STEPS, SIZE = 2, 12, 50_000
ORDERED = ("ddp", "view", "work", "plain")
UNORDERED = ("future", "numpy", "scattered")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = run_job("overwritten", tmp_path_factory.mktemp("overwritten") / "capture", *ORDERED, *UNORDERED, ranks=RANKS)
    assert job.codes == [0] * RANKS, job.texts
    return job.out


def calls(folder: Path, rank: int) -> list[dict[str, Any]]:
    return [line for line in captured(folder, rank) if line["t"] == "call" and line.get("shapes_in") == [[SIZE]]]


def summed(step: int, size: int) -> str:
    """The digest of what the ranks put in, added: step + 1 of rank 0, step + 11 of rank 1."""
    return digest_of("float32", (size,), struct.pack("<f", 2 * step + 12) * size)


@pytest.mark.parametrize("way", ORDERED)
@pytest.mark.parametrize("rank", range(RANKS))
def test_the_sum_is_recorded_in_every_step(recorded: Path, way: str, rank: int) -> None:
    found = [line.get("out") for line in calls(recorded / way, rank)]

    assert found == [summed(step, SIZE) for step in range(STEPS)]


@pytest.mark.parametrize("way", UNORDERED)
@pytest.mark.parametrize("rank", range(RANKS))
def test_what_may_have_been_overwritten_has_a_shortfall_instead_of_a_digest(
    recorded: Path, way: str, rank: int
) -> None:
    lines = calls(recorded / way, rank)

    assert len(lines) == STEPS
    for step, line in enumerate(lines):
        assert line.get("out") in {None, summed(step, SIZE // RANKS if way == "scattered" else SIZE)}
        assert ("out" in line) != ("no-tensor-access" in line["shortfall"])
        assert ("out" in line) == ("finite_out" in line)
