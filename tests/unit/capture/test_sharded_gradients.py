"""Gradients that are DTensors: recorded is the shard of the rank, and shape, digest and bytes are of one thing."""

from __future__ import annotations

from pathlib import Path

from conftest import captured, needs_hooks, run_job

from provstore.api.recording import record

RANKS = 2


@needs_hooks
def test_the_gradient_of_a_sharded_parameter_has_the_shape_of_the_shard_and_can_be_stored(tmp_path: Path) -> None:
    job = run_job("sharded", tmp_path / "capture", ranks=RANKS)
    assert job.codes == [0, 0], job.texts

    for rank in range(RANKS):
        said = [line for line in captured(job.out, rank) if line["t"] == "tensor"]
        # Linear(6, 4) has a weight of 4 x 6 and a bias of 4; FSDP2 shards the first dimension.
        assert {(line["name"], *line["shape"]) for line in said} == {("weight", 2, 6), ("bias", 2)}
        assert any("snap" in line for line in said)
    report = record([job.out], journal=tmp_path / "journal", store="memory:")
    assert [*report.problems, *report.refused] == []
