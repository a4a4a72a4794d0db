"""A flipped bit in the graph file is refused or found: no reader is given rows that nobody wrote."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import scale

import provstore
from provstore.evidence.keys import PrivateKey
from provstore.model.evidence import Observation
from provstore.stores.dump import canonical_dump

FLIPS = scale.times("FILE_FLIPS", 20, 100)
A_CHILD = 25
"""Flips one process looks at; an engine that aborts takes only these with it."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed store of enough facts to fill several parts of the graph file."""
    place = tmp_path_factory.mktemp("flips") / "store"
    with provstore.open(f"embedded:{place}") as opened:
        for run in ("job", "other"):
            items = [Observation(f"loss {at}", {"value": at / 7}, rank=at % 4, step=at) for at in range(200)]
            opened.record(items, run=run)
        opened.seal(signer=PrivateKey.generate())
    return place


def outcomes(store: Path, flips: list[dict[str, int]]) -> list[dict[str, object]]:
    """Return what became of each flip; of those that a dying engine left, that it died."""
    driver = [sys.executable, str(Path(__file__).with_name("flip_driver.py")), str(store / "graph.kgl")]
    told: list[dict[str, object]] = []
    sound = (store / "graph.kgl").read_bytes()
    while len(told) < len(flips):
        part = flips[len(told) : len(told) + A_CHILD]
        orders = "".join(json.dumps(flip) + "\n" for flip in part)
        child = subprocess.run(driver, input=orders, capture_output=True, text=True, timeout=300, check=False)
        answers = [json.loads(line) for line in child.stdout.splitlines()]
        told += answers
        if child.returncode:
            told.append({"died": child.returncode, "said": child.stderr[-2000:]})
        (store / "graph.kgl").write_bytes(sound)
    return told


def test_every_flip_that_changes_rows_is_refused_or_flagged(store: Path) -> None:
    file = store / "graph.kgl"
    luck: random.Random = scale.luck("flips of the graph file")
    size = file.stat().st_size
    flips = [{"byte": luck.randrange(size), "bit": luck.randrange(8)} for _ in range(FLIPS)]
    flips += [{"byte": at, "bit": 0} for at in (0, size - 1)]
    sound = _sound(store)
    told = outcomes(store, flips)
    changed = [(flip, one) for flip, one in zip(flips, told, strict=True) if one.get("rows") != sound]
    silent = [(flip, one) for flip, one in changed if "rows" in one and one["clean"]]
    unclear = [
        (flip, one) for flip, one in changed if "rows" not in one and "graph file" not in str(one.get("refused"))
    ]

    assert silent == []
    assert unclear == []
    assert all("rebuild" in str(one["hint"]) for _, one in changed if "refused" in one)
    print(f"{len(flips)} flips: {len(changed)} refused or flagged, {len(flips) - len(changed)} without effect")


def _sound(store: Path) -> str:
    import flip_driver

    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        assert opened.check().clean
        return flip_driver.digest(opened)


def test_a_damaged_graph_file_is_made_anew_from_the_journal(store: Path) -> None:
    file = store / "graph.kgl"
    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        before = list(canonical_dump(opened._graph))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    file.write_bytes(damaged)
    provstore.rebuild(f"embedded:{store}")
    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        assert list(canonical_dump(opened._graph)) == before
        assert opened.check().clean
