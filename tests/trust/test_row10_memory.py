"""A verification that runs out of memory says so and changes nothing (matrix row 10)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scale import times

import provstore
from provstore.evidence import keys, public_forms
from provstore.model.evidence import Observation

STEPS = times("MEMORY_STEPS", 6, 20)
MOST_MIB = 32
FINISHED = 3
"""Exit code of a sound store without an anchor."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, key = tmp_path_factory.mktemp("memory"), keys.PrivateKey.generate()
    (place / "key.pub").write_bytes(public_forms.FORMS["openssh"](key.public_key))
    with provstore.open(f"embedded:{place / 'store'}") as opened:
        for part in range(6):
            items = [Observation(f"{part}-{at}", {"text": "x" * 600}, rank=at % 4) for at in range(300)]
            opened.record(items, run="job")
            opened.seal(signer=key)
    return place


def content(place: Path) -> dict[str, str]:
    files = sorted(path for path in (place / "store").rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("step", range(STEPS))
def test_any_amount_of_memory_gives_an_answer_or_one_clear_error(store: Path, tmp_path: Path, step: int) -> None:
    more = MOST_MIB * step / max(1, STEPS - 1)
    before = content(store)
    command = [sys.executable, str(Path(__file__).with_name("limited_verify.py")), str(more), "job", "--no-color"]
    command += ["--store", f"embedded:{store / 'store'}", "--source", "journal", "--public-key", str(store / "key.pub")]
    environment = {**os.environ, "PROVSTORE_ANCHORS": str(tmp_path / "anchors"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False, env=environment
    )
    assert content(store) == before
    assert "Traceback" not in done.stderr
    print(f"{more:.1f} MiB: exit code {done.returncode}")
    if step == STEPS - 1:
        assert done.returncode == FINISHED, done
    if done.returncode == FINISHED:
        assert "No fault found" in done.stdout
        return
    # 4: it could not be finished; 7: the engine says itself that it has no room to open the graph.
    assert done.returncode in {4, 7}, done
    assert done.stderr.startswith("provstore: ")
    assert "memory" in done.stderr
