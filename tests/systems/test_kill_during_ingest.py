"""kill -9 at any moment of an ingest: what was acknowledged is there, the store is whole, a rerun completes the set.

``PROVSTORE_KILLS`` sets the number of kills; each kill is followed by an open that must need no manual step.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import provstore
from provstore.stores import open_store
from provstore.stores.dump import canonical_dump
from tests.simulator import Scenario, Shape3D, simulate

KILLS = int(os.environ.get("PROVSTORE_KILLS", "5"))
_DRIVER = """
import sys
from pathlib import Path
import provstore
with provstore.open(f"embedded:{sys.argv[1]}") as store:
    print("open", flush=True)
    for path in sorted(Path(sys.argv[2]).iterdir()):
        store.ingest(path, run="job")
        print(path.name, flush=True)
"""


def _killed(store: Path, dumps: Path, after: int, late: float) -> list[str]:
    """Ingest file by file in another process; kill it ``late`` seconds past its ``after``-th acknowledgement."""
    command = [sys.executable, "-c", _DRIVER, str(store), str(dumps)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n", child.communicate()[1]
    said = [child.stdout.readline() for _ in range(after)]
    time.sleep(late)
    child.send_signal(signal.SIGKILL)
    rest, complained = child.communicate()
    assert "Error" not in complained
    return [*"".join(said).split(), *rest.split()]


def _facts(store: Path) -> list[str]:
    opened = open_store(f"embedded:{store}", writable=False)
    try:
        return [line for line in canonical_dump(opened) if '"Applied"' not in line]
    finally:
        opened.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_what_was_acknowledged_survives_every_kill(tmp_path: Path) -> None:
    scenario = Scenario("megatron", Shape3D(world=32, steps=3, tp=2, pp=4))
    simulate(scenario).write(tmp_path / "dumps")
    with provstore.open(f"embedded:{tmp_path / 'clean'}") as store:
        store.ingest(tmp_path / "dumps", run="job")
    expected = _facts(tmp_path / "clean")
    luck = random.Random(20)
    acknowledged: set[str] = set()
    for _ in range(KILLS):
        acknowledged.update(_killed(tmp_path / "store", tmp_path / "dumps", luck.randrange(6), luck.uniform(0, 0.05)))
        with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
            rows = store.query("dumps/headers", run="job", attempt=0).rows if acknowledged else ()
            assert acknowledged <= {str(row["file"]) for row in rows}
            assert store.check().clean
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        report = store.ingest(tmp_path / "dumps", run="job")
    assert report.count("new") + report.count("known") == 32
    assert report.count("known") >= len(acknowledged) > 0
    assert _facts(tmp_path / "store") == expected
