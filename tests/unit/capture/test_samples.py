"""The shipped samples: what is in them, and what must not be."""

from __future__ import annotations

import pickle
import re
from importlib.resources import files
from pathlib import Path

import pytest

from provstore.sources.flight_recorder import ReadOptions, read_dumps

SAMPLES = Path(str(files("provstore") / "samples"))
NEUTRAL = ("/workspace/train.py", "/opt/venv/lib/python3.11/site-packages/torch/", "<string>")


@pytest.mark.parametrize("name", ["healthy", "hang", "mismatch"])
def test_a_sample_holds_four_ranks_that_load_with_declared_groups(name: str) -> None:
    result = read_dumps([SAMPLES / name], ReadOptions())

    assert list(result.refusals) == []
    assert [dump.rank for dump in result.dumps] == [0, 1, 2, 3]
    for dump in result.dumps:
        declared = {group.desc: group.ranks for group in dump.groups if group.ranks is not None}
        pair = (0, 1) if dump.rank < 2 else (2, 3)
        assert declared == {"default_pg": (0, 1, 2, 3), "pair": pair}


def test_the_samples_show_what_their_names_say() -> None:
    """Truth: in ``hang`` rank 2 stopped before all_reduce 8; in ``mismatch`` rank 1 called broadcast as call 10."""
    last = {name: [last_of_all_ranks(name, rank) for rank in range(4)] for name in ("healthy", "hang", "mismatch")}

    assert last["healthy"] == [("gloo:barrier", 18)] * 4
    waiting, stopped = ("gloo:all_reduce", 8), ("gloo:all_gather", 7)
    assert last["hang"] == [waiting, waiting, stopped, waiting]
    others, wrong = ("gloo:all_reduce", 10), ("gloo:broadcast", 10)
    assert last["mismatch"] == [others, wrong, others, others]


def last_of_all_ranks(name: str, rank: int) -> tuple[str, int]:
    """Return the last call of a rank in the group of all."""
    entries = pickle.loads((SAMPLES / name / f"fr_gloo_rank_{rank}").read_bytes())["entries"]
    last = [entry for entry in entries if entry["process_group"][1] == "default_pg"][-1]
    return last["profiling_name"], last["collective_seq_id"]


def test_the_samples_are_small_and_name_no_machine() -> None:
    paths = [path for path in SAMPLES.rglob("*") if path.is_file()]

    assert sum(path.stat().st_size for path in paths) <= 300_000
    for path in paths:
        named = re.findall(rb"/[A-Za-z0-9_./-]{3,}", path.read_bytes())
        assert all(name.decode().startswith(NEUTRAL) for name in named), path
        if path.suffix == ".json":
            assert b'"host": "node01"' in path.read_bytes()
