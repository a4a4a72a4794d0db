"""A job's dumps: what leaves them, what is in them, and that training does not notice."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import WAYS, needs_hooks, run_job


def sidecar(folder: Path, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"fr_meta_rank_{rank}.json").read_text())
    return found


def calls(folder: Path, rank: int, backend: str = "gloo") -> list[tuple[str, str, int]]:
    entries = pickle.loads((folder / f"fr_{backend}_rank_{rank}").read_bytes())["entries"]
    return [(e["profiling_name"], e["process_group"][1], e["collective_seq_id"]) for e in entries]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_a_dump_leaves_a_dump_and_a_sidecar_of_each_rank_and_nothing_else(scenes: Any, way: str) -> None:
    names = sorted(path.name for path in (scenes.out / way).iterdir())

    assert names == ["fr_gloo_rank_0", "fr_gloo_rank_1", "fr_meta_rank_0.json", "fr_meta_rank_1.json"], scenes.texts
    for rank in (0, 1):
        facts = sidecar(scenes.out / way, rank)
        assert facts["reason"].startswith(WAYS[way])
        assert facts["errors"] == []
        assert calls(scenes.out / way, rank)[:3] == [
            ("gloo:all_reduce", "default_pg", 1),
            ("gloo:broadcast", "default_pg", 2),
            ("gloo:all_reduce", "alone", 1),
        ]


def test_the_sidecar_describes_the_files_beside_it(scenes: Any) -> None:
    for way in ("asked", "twice"):
        for rank in (0, 1):
            data = (scenes.out / way / f"fr_gloo_rank_{rank}").read_bytes()
            assert sidecar(scenes.out / way, rank)["files"] == [
                {
                    "name": f"fr_gloo_rank_{rank}",
                    "size_bytes": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
            ]


def test_the_sidecar_states_where_the_process_stands(scenes: Any) -> None:
    facts = sidecar(scenes.out / "uncaught", 1)

    assert (facts["schema"], facts["rank"], facts["world_size"]) == ("provstore-fr-sidecar/1", 1, 2)
    assert (facts["run"], facts["attempt"], facts["backends"]) == ("a-run", 3, ["gloo"])
    assert facts["monotonic_ns"] > 0
    last = pickle.loads((scenes.out / "uncaught" / "fr_gloo_rank_1").read_bytes())["entries"][-1]
    assert 0 < facts["dumped_at_ns"] - last["time_created_ns"] < 60e9


def test_groups_are_known_in_a_dump_made_after_they_were_destroyed(scenes: Any) -> None:
    groups = sidecar(scenes.out / "uncaught", 1)["process_groups"]

    assert [(group["pg_desc"], group["ranks"]) for group in groups] == [("default_pg", [0, 1]), ("alone", [1])]


def test_the_dump_of_a_hang_is_kept_until_the_job_moves_again(scenes: Any) -> None:
    assert sidecar(scenes.out / "kept", 0)["reason"].startswith("nothing moved for ")
    assert sidecar(scenes.out / "moved", 0)["reason"] == "exit"


def test_the_sidecar_of_a_hang_states_how_long_nothing_moved_and_what_the_watcher_was_told(scenes: Any) -> None:
    facts = sidecar(scenes.out / "stall", 0)

    assert facts["still_ns"] >= facts["still_limit_ns"] > 0
    assert facts["reason"] == f"nothing moved for {facts['still_ns'] / 1e9:.1f} s"
    assert "still_ns" not in sidecar(scenes.out / "exit", 0)


def test_a_new_collective_counts_as_a_step_as_long_as_no_beat_came(scenes: Any) -> None:
    assert list((scenes.out / "never").iterdir()) == []


def test_a_hang_is_told_in_one_line_of_the_log_that_says_where_the_dump_is(scenes: Any) -> None:
    for rank, text in enumerate(scenes.texts):
        (line,) = [line for line in text.splitlines() if f"dumped into {scenes.out / 'stall'}" in line]
        assert line.startswith(f"rank {rank}: nothing moved for 0.")
        assert line.endswith(f": fr_gloo_rank_{rank}, fr_meta_rank_{rank}.json")


def test_a_folder_that_cannot_be_made_costs_the_dump_and_nothing_else(scenes: Any) -> None:
    assert "unwritable 0 2" in scenes.texts[0]
    assert (scenes.out / "a_file").read_bytes() == b""


def test_a_full_disk_leaves_no_part_of_a_dump_and_the_sidecar_says_so(scenes: Any) -> None:
    assert sorted(path.name for path in (scenes.out / "full").iterdir()) == [
        "fr_meta_rank_0.json",
        "fr_meta_rank_1.json",
    ]
    facts = sidecar(scenes.out / "full", 0)
    assert facts["files"] == []
    assert facts["errors"] == ["fr_gloo_rank_0: not written: File too large"]


def test_an_uncaught_exception_ends_the_program_as_it_would_without_us(scenes: Any) -> None:
    assert scenes.codes == [1, 1]
    for text in scenes.texts:
        assert "ArithmeticError: nobody catches this" in text.splitlines()[-1]


def test_training_ends_well_and_with_equal_parameters_with_and_without_the_helper(watched: Any, bare: Any) -> None:
    assert watched.codes == bare.codes == [0, 0], watched.texts
    parameters = [text.splitlines()[-1] for text in (*watched.texts, *bare.texts)]
    assert parameters[0].startswith("parameters [[")
    assert len(set(parameters)) == 1


def test_with_the_recorder_off_training_goes_on_and_the_sidecar_names_the_settings(
    alone: Callable[[str], Any],
) -> None:
    job = alone("off")

    assert job.codes == [0], job.texts
    assert "went on" in job.texts[0]
    assert not (job.out / "fr_gloo_rank_0").exists()
    faults = sidecar(job.out, 0)["errors"]
    assert [fault.partition(":")[0] for fault in faults] == ["TORCH_FR_BUFFER_SIZE", "TORCH_INCLUDE_STACK_TRACE"]
    for fault in faults:
        assert job.texts[0].count(f"log: {fault}") == 1


def test_without_torchs_functions_training_goes_on_and_the_sidecar_says_why(alone: Callable[[str], Any]) -> None:
    job = alone("missing")

    assert job.codes == [0], job.texts
    assert "went on" in job.texts[0]
    assert "has no hooks on collectives: needs torch>=2.15" in job.texts[0]
    facts = sidecar(job.out, 0)
    assert facts["files"] == []
    assert facts["process_groups"] == []
    assert any("has no _get_all_pg_configs" in error for error in facts["errors"])
    assert any("has no _dump_fr_trace" in error for error in facts["errors"])


@needs_hooks
def test_a_backend_that_keeps_no_record_is_recorded_from_torch_2_15_on(alone: Callable[[str], Any]) -> None:
    job = alone("unknown_backend")

    assert job.codes == [0], job.texts
    assert calls(job.out, 0, "fake") == [
        ("fake:all_reduce", "default_pg", 1),
        ("fake:all_reduce", "later", 1),
        ("fake:all_reduce", "default_pg", 2),
    ]
    assert not (job.out / "fr_gloo_rank_0").exists()


def test_a_dump_outside_a_job_writes_nothing_and_says_that_the_rank_is_unknown(alone: Callable[[str], Any]) -> None:
    job = alone("no_job")

    assert job.codes == [0], job.texts
    assert "the rank is unknown" in job.texts[0]
    assert list(job.out.iterdir()) == []


def test_an_nccl_job_leaves_completed_calls(tmp_path: Path) -> None:
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("no NVIDIA GPU on this machine: the NCCL recorder cannot be tested")
    job = run_job("nccl", tmp_path / "nccl", ranks=1, settings={"CUDA_VISIBLE_DEVICES": "0"})

    assert job.codes == [0], job.texts
    (dump,) = job.out.glob("fr_nccl*_rank_0")
    entries = pickle.loads(dump.read_bytes())["entries"]
    assert [entry["state"] for entry in entries if entry["profiling_name"].endswith(":all_reduce")] == ["completed"]
    assert set(sidecar(job.out, 0)["device"]) >= {"index", "name", "uuid", "pci_bus_id"}
