"""A full disk: one clear message, nothing acknowledged is lost, and work goes on when there is space (matrix row 9)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import evidence_seeds
import pytest
from scale import LONG

import provstore
from provstore.api.verifying import Belief
from provstore.errors import StoreError
from provstore.evidence import keys
from provstore.evidence.trust.keys import Trust
from provstore.journal import Journal
from provstore.journal.disk import Disk
from provstore.model.evidence import Observation
from tests.simulator import Scenario, Shape3D, simulate

SIZES = (12_000, 40_000, 150_000, 600_000, 1_500_000)
TMPFS_MB = (4, 8, 16)


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    path = tmp_path / "seed"
    path.write_bytes(os.urandom(32))
    return path


def fill(store: Path, seed: Path, most: int) -> tuple[list[int], list[bytes]]:
    """Fill a store until it refuses; return the acknowledged labels and checkpoints."""
    command = [sys.executable, str(Path(__file__).with_name("filling_driver.py")), str(store), str(seed), str(most)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 7, (done.returncode, done.stderr)
    assert "disk full" in done.stderr
    assert "Traceback" not in done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    labels = [line["label"] for line in said if "label" in line]
    return labels, [line["note"].encode() for line in said if "note" in line]


def judge(store: Path, seed: Path, labels: list[int], notes: list[bytes]) -> set[str]:
    """Open without any limit: all that was acknowledged is there and verifies; go on. Return the kinds of records."""
    key = keys.PrivateKey.from_seed(seed.read_bytes())
    belief = Belief(Trust.of_keys([key.public_key], "test"), tuple(map(evidence_seeds.anchor, notes)))
    with provstore.open(f"embedded:{store}") as opened:
        names = [json.loads(line).get("name") for line in lines_of(store)]
        assert [f"{label}-{at}" for label in labels for at in range(20)] == names[: 20 * len(labels)]
        assert opened.check().clean
        opened.record([Observation("after", {"x": 1})], run="job")
        opened.seal(signer=key, close="aborted")
        (answer,) = opened.verify(belief=belief, refresh=False)
        assert {one.code for one in answer.findings} <= {"unanchored", "anchor-partial"}, answer.findings
    return {json.loads(line)["kind"] for line in lines_of(store)}


def lines_of(store: Path) -> list[bytes]:
    with Journal.open(store / "journal", writable=False) as journal:
        return [record.line for record in journal.evidence("job", 0).records()]


@pytest.mark.parametrize("size", SIZES)
def test_files_that_may_not_grow_lose_nothing_that_was_acknowledged(tmp_path: Path, seed: Path, size: int) -> None:
    labels, notes = fill(tmp_path / "store", seed, size)
    if size > 100_000:
        assert labels
        assert notes
    judge(tmp_path / "store", seed, labels, notes)


def test_an_ingest_into_a_full_disk_says_so_and_is_completed_later(tmp_path: Path) -> None:
    simulate(Scenario("megatron", Shape3D(world=16, steps=3, tp=2, pp=4))).write(tmp_path / "dumps")
    command = [sys.executable, "-m", "provstore", "ingest", str(tmp_path / "dumps"), "--run", "job"]
    command += ["--store", f"embedded:{tmp_path / 'store'}"]
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000)); "
    limited += "sys.argv = sys.argv[1:]; runpy.run_module('provstore', run_name='__main__')"
    full = [sys.executable, "-c", limited, *command[2:]]
    done = subprocess.run(full, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 7, done
    assert "disk full" in done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        assert store.check().clean
        assert len(store.query("dumps/headers", run="job", attempt=0).rows) == 16


def test_what_a_full_disk_refused_is_stated_in_a_signed_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = keys.PrivateKey.generate()
    write, left = Disk.write_once, [1]

    def once_full(self: Disk, descriptor: int, data: memoryview, offset: int) -> int:
        if left[0] and b"lost" in bytes(data):
            left[0] = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, descriptor, data, offset)

    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        store.record([Observation("kept", {"x": 1})], run="job")
        monkeypatch.setattr(Disk, "write_once", once_full)
        with pytest.raises(StoreError, match="disk full"):
            store.record([Observation("lost", {"x": 1}, rank=3)], run="job")
        store.record([Observation("later", {"x": 1})], run="job")
        store.seal(signer=key)
        belief = Belief(Trust.of_keys([key.public_key], "test"))
        (answer,) = store.verify(belief=belief, refresh=False)
        assert {one.code for one in answer.findings} <= {"unanchored", "not-closed"}, answer.findings
    said = [json.loads(line) for line in lines_of(tmp_path / "store")]
    gaps = [line for line in said if line["kind"] == "gap"]
    assert len(gaps) == 1, [line["kind"] for line in said]
    assert gaps[0]["cause"] == "disk full"
    assert gaps[0]["lost"] == 1
    assert [line["name"] for line in said if line["kind"] == "observation"] == ["kept", "later"]


if LONG:

    @pytest.fixture(params=TMPFS_MB)
    def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
        """A file system of so many MB; only the superuser can make one."""
        if os.geteuid() != 0:
            pytest.skip("file systems of 4, 8 and 16 MB: only the superuser can mount one")
        place = tmp_path / "disk"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "tmpfs", str(place)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"file systems of 4, 8 and 16 MB: mount: {done.stderr.strip()}")
        yield place
        subprocess.run(["umount", str(place)], check=True)

    def test_a_full_file_system_loses_nothing_and_takes_more_when_it_grows(small_disk: Path, seed: Path) -> None:
        labels, notes = fill(small_disk / "store", seed, 0)
        assert labels
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        assert "gap" in judge(small_disk / "store", seed, labels, notes)


def test_records_that_a_seal_makes_again_are_never_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keys.PrivateKey.generate()
    write, refused = Disk.write_once, [b"lost"]

    def full(self: Disk, descriptor: int, data: memoryview, offset: int) -> int:
        if any(part in bytes(data) for part in refused):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, descriptor, data, offset)

    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        store.record([Observation("kept", {"x": 1})], run="job")
        monkeypatch.setattr(Disk, "write_once", full)
        with pytest.raises(StoreError, match="disk full"):
            store.record([Observation("lost", {"x": 1}), Observation("lost", {"x": 2})], run="job")
        refused[:] = [b'"kind":"gap"', b'"kind":"recovery"']
        for _ in range(3):
            with pytest.raises(StoreError, match="disk full"):
                store.seal(signer=key)
        refused.clear()
        store.seal(signer=key)
    said = [json.loads(line) for line in lines_of(tmp_path / "store")]
    assert [line["lost"] for line in said if line["kind"] == "gap"] == [2]
    assert sum(line["kind"] == "recovery" for line in said) == 4
