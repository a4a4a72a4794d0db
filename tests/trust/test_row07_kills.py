"""kill -9 at any moment of ingest, seal, roll, export, key rotation and rebuild (matrix row 7).

After every kill the next open needs no manual step, all that was acknowledged is there, the evidence verifies against
every checkpoint that was handed out, and an export is whole or absent.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evidence_seeds
import pytest
from kill_driver import RUN, root_key
from scale import luck, times

import provstore
from provstore.api.verifying import Belief
from provstore.errors import StoreError
from provstore.evidence import keys, public_forms
from provstore.evidence.anchors import Anchor
from provstore.evidence.trust import changes
from provstore.evidence.trust import file as trust_file
from provstore.evidence.trust.keys import Trust
from provstore.journal import Journal
from tests.simulator import Scenario, Shape3D, simulate

KILLS = {"ingest": times("KILLS_INGEST", 40, 200), "seal": times("KILLS_SEAL", 20, 100)}
KILLS["export"] = times("KILLS_EXPORT", 10, 50)
LINES_BEFORE_KILL = {"ingest": 12, "seal": 12, "export": 11}

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")


def opened(store: Path) -> provstore.Store:
    """Open a store whose writer was killed; a process that it was just starting holds the lock for a moment more."""
    give_up = time.monotonic() + 5
    while True:
        try:
            return provstore.open(f"embedded:{store}")
        except StoreError as error:
            if "is being written by" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


class Killer:
    """A driver whose orders end by kill -9."""

    def __init__(self, seed: bytes) -> None:
        # A file takes what the driver complains about: a pipe that nobody reads would stop it.
        command = [sys.executable, str(Path(__file__).with_name("kill_driver.py"))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=Path(__file__).parents[2]
        )
        self._order(base64.b64encode(seed).decode())

    def run(self, order: dict[str, Any], after: int, late: float) -> list[dict[str, Any]]:
        """Let the driver work; kill it ``late`` seconds past its ``after``-th line; return what it acknowledged."""
        self._order(json.dumps(order))
        said: list[dict[str, Any]] = []
        # The process may speak before its number is told.
        while "pid" not in (line := self._line()):
            said.append(line)
        pid = line["pid"]
        while len(said) < after:
            if "ended" in (line := self._line()):
                assert line["ended"] == 0, (order, said)
                return said
            said.append(line)
        time.sleep(late)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while "ended" not in (line := self._line()):
            said.append(line)
        assert line["ended"] in {0, -signal.SIGKILL}
        return said

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait(60)
        self._process.stdout.close()  # type: ignore[union-attr]

    def _order(self, text: str) -> None:
        print(text, file=self._process.stdin)

    def _line(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        assert line, "the driver itself ended"
        return dict(json.loads(line))


@pytest.fixture(scope="module")
def seed() -> bytes:
    return os.urandom(32)


@pytest.fixture(scope="module")
def killer(seed: bytes) -> Iterator[Killer]:
    made = Killer(seed)
    yield made
    made.close()


class Place:
    """A store that is killed again and again, and what its users were told."""

    def __init__(self, root: Path, seed: bytes, killer: Killer) -> None:
        self.root, self.seed, self._killer = root, seed, killer
        self.store, self.export = root / "store", root / "export"
        self.labels: list[str] = []
        self.files: set[str] = set()
        self.notes: list[bytes] = []
        self.version = 1
        self.said: dict[str, int] = {}
        self._number = 0
        public = keys.PrivateKey.from_seed(seed).public_key
        self.public = root / "key.pub"
        self.public.write_bytes(public_forms.FORMS["openssh"](public))
        self._trust = Trust.of_keys([public], "test")

    def killed(self, what: str, after: int, late: float, **more: Any) -> None:
        self._number += 1
        order = {"what": what, "store": str(self.store), "number": self._number, **more}
        for line in self._killer.run(order, after, late):
            for name, value in line.items():
                self.said[name] = self.said.get(name, 0) + 1
                self._note(name, value)

    def _note(self, name: str, value: Any) -> None:
        if name == "label":
            self.labels.append(value)
        elif name == "file":
            self.files.add(value)
        elif name == "note":
            self.notes.append(value.encode())
        elif name == "version":
            self.version = value

    def belief(self) -> Belief:
        return Belief(self._trust, tuple(map(self._anchor, self.notes)))

    def judge(self) -> None:
        """Open as the next user does, and compare."""
        with opened(self.store) as store:
            found = self._labels()
            assert set(self.labels) <= set(found)
            assert [label for label in found if label in set(self.labels)] == self.labels
            assert store.check().clean
            if found:
                (answer,) = store.verify(belief=self.belief(), refresh=False)
                assert {one.code for one in answer.findings} <= evidence_seeds.LIMITS, answer.findings

    def _labels(self) -> list[str]:
        with Journal.open(self.store / "journal", writable=False) as journal:
            lines = [json.loads(record.line) for record in journal.evidence(RUN, 0).records()]
        names = [line["name"] for line in lines if line["kind"] == "observation"]
        found = [name.removesuffix("-0") for name in names if name.endswith("-0")]
        # The three records of one call are there together, or not at all.
        assert names == [f"{label}-{at}" for label in found for at in range(3)]
        return found

    @staticmethod
    def _anchor(note: bytes) -> Anchor:
        found: Anchor = evidence_seeds.anchor(note)
        return found


def test_nothing_acknowledged_is_lost_by_a_kill_during_ingest(tmp_path: Path, seed: bytes, killer: Killer) -> None:
    chance, place = luck("ingest"), Place(tmp_path, seed, killer)
    simulate(Scenario("megatron", Shape3D(world=8, steps=2, tp=2, pp=2))).write(tmp_path / "dumps")
    for _ in range(KILLS["ingest"]):
        after = chance.randrange(1, LINES_BEFORE_KILL["ingest"])
        place.killed("ingest", after, chance.uniform(0, 0.03), dumps=str(tmp_path / "dumps"))
        place.judge()
        with provstore.open(f"embedded:{place.store}") as store:
            rows = store.query("dumps/headers", run=RUN, attempt=0).rows if place.files else ()
            assert place.files <= {str(row["file"]) for row in rows}
    with provstore.open(f"embedded:{place.store}") as store:
        store.ingest(tmp_path / "dumps", run=RUN)
        store.seal(signer=keys.PrivateKey.from_seed(seed))
        assert store.check().clean
    place.judge()
    assert place.files
    assert place.labels


def test_nothing_acknowledged_is_lost_by_a_kill_during_sealing(tmp_path: Path, seed: bytes, killer: Killer) -> None:
    chance, place = luck("seal"), Place(tmp_path, seed, killer)
    for _ in range(KILLS["seal"]):
        place.killed("seal", chance.randrange(1, LINES_BEFORE_KILL["seal"]), chance.uniform(0, 0.03))
        place.judge()
    assert place.notes


def test_exports_and_trust_files_are_whole_after_a_kill(tmp_path: Path, seed: bytes, killer: Killer) -> None:
    chance, place = luck("export"), Place(tmp_path, seed, killer)
    first = changes.first([root_key(seed, 1).public_key])
    path, state = tmp_path / "trust" / "trust.json", tmp_path / "state"
    path.parent.mkdir()
    trust_file.publish(path, first, [root_key(seed, 1)], old=None, state=state)
    more = {"export": str(place.export), "trust": str(path), "state": str(state), "public": str(place.public)}
    for _ in range(KILLS["export"]):
        place.killed("export", chance.randrange(2, LINES_BEFORE_KILL["export"]), chance.uniform(0, 0.04), **more)
        place.judge()
        found = trust_file.load(path, state=state)
        assert found.version in {place.version, place.version + 1}
        place.version = found.version
        if place.export.exists():
            (answer,) = provstore.verify(place.export, belief=Belief(place._trust))
            assert {one.code for one in answer.findings} <= evidence_seeds.LIMITS
            assert (place.export / "VERIFY.txt").is_file()
    assert place.said.get("exported")
    assert place.said.get("version")
    # What killed exports left beside the target goes with the next one that lives.
    place.killed("export", 40, 0, **more)
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []
