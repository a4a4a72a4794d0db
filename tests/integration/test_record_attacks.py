"""record: whatever stands in its way, what is there is recorded, what is not is named, and the evidence holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from captures import RankCapture

import provstore
from provstore.api.recording import record
from provstore.api.verifying import Belief
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.journal import Journal


def lines_of(store: Path, run: str = "job") -> list[dict[str, Any]]:
    with Journal.open(store / "journal", writable=False) as journal:
        return [json.loads(one.line) for one in journal.evidence(run, 0).records()]


def codes(store: Path, key: PrivateKey) -> set[str]:
    """Codes of what a verification finds in everything that is stored, beside that nobody keeps anchors."""
    with provstore.open(f"embedded:{store}") as opened:
        belief = Belief(Trust.of_keys([key.public_key], "test"))
        return {one.code for answer in opened.verify(belief=belief, refresh=False) for one in answer.findings}


def with_notes(directory: Path, epoch: int = 0) -> Path:
    """A capture with a fault and an escalation among its calls, as a job's writer thread may have written them."""
    capture = RankCapture(directory, world=1)
    capture.call(epoch)
    early = {"t": "fault", "where": "digest", "error": "OSError: full", "count": 1, "at_ns": capture.now()}
    capture.call(epoch)
    capture.lines.append(
        {"t": "escalation", "event": "opened", "epoch": epoch, "number": 0, "trigger": "non-finite", "source": "rank:0",
         "scope": "group:0", "rule": "P2", "opened_ns": 5, "opened_step": 1, "at_ns": capture.now()}
    )  # fmt: skip
    capture.call(epoch)
    capture.lines.append({**early, "epoch": epoch})
    return capture.write()


def test_escalations_and_faults_stand_among_the_actions_and_the_record_verifies(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    record([with_notes(tmp_path / "c")], store=f"embedded:{tmp_path / 's'}", signer=key)
    of_rank = [one for one in lines_of(tmp_path / "s") if one.get("rank") == 0]

    assert [one["n"] for one in of_rank] == [0, 1, 2, 3, 4]
    assert [one["kind"] for one in of_rank] == ["action", "capture-fault", "action", "escalation", "action"]
    assert codes(tmp_path / "s", key) == {"not-closed", "unanchored"}
