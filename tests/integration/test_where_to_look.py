"""Where an assistant is sent when no action is suspicious: the earliest escalation, which accuses nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures import RankCapture

from provstore.api import assistant
from provstore.api.escalations import earliest
from provstore.api.recording import record


def opened(rank: int, step: int | None, trigger: str = "loss-spike", number: int = 0) -> dict[str, Any]:
    return {"t": "escalation", "event": "opened", "epoch": 0, "number": number, "trigger": trigger,
            "source": f"rank:{rank}", "scope": "run", "rule": "P2", "opened_ns": 5, "opened_step": step,
            "value": 9.5, "threshold": 6.0}  # fmt: skip


def asked(tmp_path: Path, steps: dict[int, int], **more: Any) -> dict[str, Any]:
    folder = tmp_path / "c"
    for rank in range(3):
        capture = RankCapture(folder, rank, world=3)
        capture.begin(0)
        capture.call(0)
        if rank in steps:
            capture.lines.append(opened(rank, steps[rank]))
        capture.end(0)
        capture.write()
    record([folder], store=f"embedded:{tmp_path / 's'}")
    return assistant.ask("list_suspicious_actions", {"run": "job", **more}, f"embedded:{tmp_path / 's'}")


def test_the_rank_whose_loss_spiked_a_step_before_the_others_is_where_to_look(tmp_path: Path) -> None:
    said = asked(tmp_path, {0: 32, 1: 32, 2: 31})

    assert said["actions"] == []
    one = said["earliest_escalation"]
    assert (one["trigger"], one["opened_step"], one["ranks"], one["id"]) == ("loss-spike", 31, [2], "rank:2/esc-0")
    assert (one["value"], one["threshold"]) == (9.5, 6.0)
    assert "accuses nobody" in one["meaning"]


def test_without_an_escalation_there_is_nowhere_to_point(tmp_path: Path) -> None:
    assert asked(tmp_path, {})["earliest_escalation"] is None


def test_those_that_opened_in_the_same_step_stand_together_whatever_their_clocks_say() -> None:
    records = [{**opened(rank, 7), "rank": rank, "value": None, "threshold": None} for rank in (2, 0)]
    other = {**opened(1, 7, "non-finite"), "rank": 1, "value": None, "threshold": None}
    unknown = {**opened(0, None, number=3), "rank": 0, "value": None, "threshold": None}

    found = earliest([unknown, *records, other])
    assert found is not None
    assert (found["id"], found["ranks"]) == ("rank:0/esc-0", [0, 2])
    assert earliest([]) is None
