"""What recording costs: it is counted whole, said where it is much, and leaves nothing behind for the collector."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import pytest
from clocks import MILLISECOND, Clock
from conftest import torch_release

import provstore.capture
from provstore.capture.content import cost
from provstore.capture.content.budget import DIGEST, Budget
from provstore.capture.content.cost import Cost
from provstore.capture.content.limits import Limits
from provstore.capture.recording.capture_file import CaptureFile
from provstore.capture.recording.outbox import Entry, Outbox

needs_torch = pytest.mark.skipif(torch_release() == (0, 0), reason="torch is not installed")


def epoch(own_ms: float, *, steps: int = 40, is_counted: bool = True) -> str | None:
    """Return what is said of steps that take 100 times 100 ms beside a hundred times what recording takes."""
    own_ms, now = 100 * own_ms, [0]
    one = Cost(lambda: now[0])
    for _ in range(steps):
        now[0] += 10_000 * MILLISECOND + int(own_ms * MILLISECOND)
        one.end_step(int(own_ms * MILLISECOND), is_counted=is_counted)
    return one.end_epoch()


@pytest.mark.parametrize(
    ("own_ms", "percent"), [(4.9, None), (5.1, 5), (9.9, 5), (10.1, 10), (20.1, 20), (49, 20), (51, 50), (900, 50)]
)
def test_what_recording_took_of_the_time_of_training_is_said_above_five_percent(
    own_ms: float, percent: int | None
) -> None:
    said = epoch(own_ms)

    assert (said is None) == (percent is None)
    assert percent is None or f"more than {percent} % of" in str(said)


def test_of_a_few_steps_and_of_those_that_are_escalated_no_cost_is_said() -> None:
    assert epoch(50) is not None
    assert epoch(50, steps=32) is None, "what the rest of the first took is not known"
    assert epoch(50, steps=33) is not None
    assert epoch(50, is_counted=False) is None


def test_each_epoch_is_judged_by_itself() -> None:
    now = [0]
    one = Cost(lambda: now[0])
    found = []
    for own_ms in (50, 1, 20):
        for _ in range(40):
            now[0] += (50 + own_ms) * MILLISECOND
            one.end_step(own_ms * MILLISECOND, is_counted=True)
        found.append(one.end_epoch() is not None)

    assert found == [True, False, False], "1 ms of 51 is little, and so is 0.8 s in all"


def test_a_line_that_is_complete_holds_nothing_of_what_it_was_made_from(tmp_path: Path) -> None:
    class Call:
        entry: Entry

        def unfinished(self) -> dict[str, object]:
            return {"t": "call", "mode": "validation"}

    gc.collect()
    gc.disable()
    try:
        outbox = Outbox(CaptureFile(tmp_path, 0))
        call = Call()
        call.entry = Entry(None, needs_step=True, unfinished=call.unfinished)
        outbox.add(call.entry)
        gone = weakref.ref(call)
        call.entry.finish({"t": "call", "epoch": 0, "mode": "delta"})
        del call

        assert gone() is None, "only the collector of cycles would free it"
    finally:
        gc.enable()

    outbox.end_step(3)
    outbox.flush()
    assert json.loads((tmp_path / "capture-rank0.jsonl").read_text()) == {
        "t": "call", "epoch": 0, "mode": "delta", "step": 3,
    }  # fmt: skip


def test_a_complete_line_whose_epoch_is_not_known_yet_gets_it_later(tmp_path: Path) -> None:
    outbox = Outbox(CaptureFile(tmp_path, 0))
    entry = Entry(None, needs_step=True)
    outbox.add(entry)
    entry.finish({"t": "call", "epoch": None})
    outbox.epoch = 2
    outbox.end_step(0)
    outbox.flush()

    assert json.loads((tmp_path / "capture-rank0.jsonl").read_text()) == {"t": "call", "epoch": 2, "step": 0}


def test_a_step_that_calls_alone_use_up_has_no_time_left_and_makes_no_selection_coarser(tmp_path: Path) -> None:
    clock = Clock()
    one = Budget(Limits(), tmp_path, clock_ns=clock, work_ns=clock)
    for _ in range(20):
        one.step()
        one.own_time(20 * MILLISECOND)
        clock.pass_ms(100)

        assert one.is_out_of_time()
    assert one.k == 0


def test_a_step_that_digests_use_up_makes_the_selection_coarser(tmp_path: Path) -> None:
    clock = Clock()
    one = Budget(Limits(), tmp_path, clock_ns=clock, work_ns=clock)
    one.step()
    with one.working(one.ask(DIGEST, 1_000)):
        clock.pass_ms(4)

    assert one.is_out_of_time()
    one.step()
    assert one.k == 1


@needs_torch
def test_a_recording_that_costs_more_than_it_should_says_so_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(cost, "_LEAST_NS", 0)
    model = torch.nn.Linear(2, 2)
    with provstore.capture.evidence("job", tmp_path, attempt=0) as recorder:
        recorder.gradients(model)
        for step in range(40):
            model.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            recorder.step(step)

    lines = [json.loads(line) for line in (tmp_path / "capture-rank0.jsonl").read_text().splitlines()]
    said = [line for line in lines if line["t"] == "fault"]
    assert [line["where"] for line in said] == ["cost"]
    assert "of the processor time of training" in said[0]["error"]
    assert sum(line["t"] == "tensor" for line in lines) == 80, "what is recorded is not less for it"
