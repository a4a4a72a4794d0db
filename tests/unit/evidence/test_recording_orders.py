"""Escalations ordered for a running job, through the control file of its capture directory."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from provstore.errors import InputError, StoreError
from provstore.evidence.recording import orders
from provstore.evidence.recording.orders import Order


def manual(scope: str = "run", steps: int | None = 10, reason: str = "a look") -> Order:
    return Order(0, "manual", scope, "P1", 0, reason, "operator", 1_796_000_000_000_000_000, steps)


def recorded(directory: Path, rank: int, *steps: int) -> None:
    lines = [json.dumps({"t": "step", "step": step}) for step in steps]
    (directory / f"capture-rank{rank}.jsonl").write_text("\n".join([*lines, '{"t":"st']))


def test_nothing_is_ordered_where_there_is_no_control_file(tmp_path: Path) -> None:
    assert orders.read(tmp_path) == ()


def test_an_order_takes_effect_two_steps_after_the_latest_of_any_rank(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 1, 2, 6)
    recorded(tmp_path, 1, 1, 2, 7)
    given = orders.give(tmp_path, manual())
    assert (given.number, given.from_step, given.steps) == (0, 9, 10)
    assert orders.read(tmp_path) == (given,)


def test_an_order_before_the_first_step_holds_from_the_start(tmp_path: Path) -> None:
    given = orders.give(tmp_path, manual())
    assert (given.from_step, given.before_steps, given.beginning) == (0, True, "the second step that is recorded")
    assert orders.read(tmp_path) == (given,)


def test_an_order_before_the_first_step_begins_with_it_once_it_is_known_whatever_its_number(tmp_path: Path) -> None:
    orders.give(tmp_path, manual(steps=10))
    recorded(tmp_path, 1, 5000, 5001)
    (found,) = orders.read(tmp_path)
    assert (found.from_step, found.before_steps, found.steps, found.first_step) == (5000, False, 10, 5001)
    longer = orders.give(tmp_path, manual(steps=10, reason="still"))
    assert (longer.number, longer.from_step, longer.steps) == (0, 5000, 13), "to step 5013: 5001 + 2 + 10"
    recorded(tmp_path, 1, 5000, 5013)
    assert orders.give(tmp_path, manual(steps=10)).number == 1, "that is over"


def test_a_restart_does_not_begin_an_order_anew_that_was_given_before_the_first_step(tmp_path: Path) -> None:
    orders.give(tmp_path, manual(steps=10))
    recorded(tmp_path, 0, 0, 1, 2)
    (tmp_path / "capture-rank0.jsonl").rename(tmp_path / "capture-rank0.9.jsonl")
    recorded(tmp_path, 0, 90)
    (tmp_path / "capture-rank0.jsonl").rename(tmp_path / "capture-rank0.10.jsonl")
    (found,) = orders.read(tmp_path)
    assert (found.from_step, found.before_steps) == (0, False)


@pytest.mark.parametrize("kind", ["epoch", "epoch-end", "rng", "checkpoint"])
def test_what_is_written_before_a_resumed_job_has_ended_a_step_is_no_step(tmp_path: Path, kind: str) -> None:
    (tmp_path / "capture-rank0.jsonl").write_text(f'{{"t":"header"}}\n{{"t":"{kind}","epoch":7,"step":0}}\n')
    assert orders.latest_step(tmp_path) is None
    assert orders.give(tmp_path, manual()).before_steps


def test_a_control_file_of_before_that_says_step_0_means_the_first_step(tmp_path: Path) -> None:
    orders.give(tmp_path, manual())
    said = json.loads((tmp_path / orders.FILE).read_text())
    del said["escalations"][0]["before_steps"]
    (tmp_path / orders.FILE).write_text(json.dumps(said))
    assert orders.read(tmp_path)[0].before_steps
    said["escalations"][0]["before_steps"] = 1
    (tmp_path / orders.FILE).write_text(json.dumps(said))
    with pytest.raises(InputError, match="before_steps: is neither true nor false"):
        orders.read(tmp_path)


def test_the_same_order_again_extends_it_and_another_scope_is_another_order(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 5)
    orders.give(tmp_path, manual(steps=10))
    recorded(tmp_path, 0, 12)
    longer = orders.give(tmp_path, manual(steps=10, reason="still"))
    assert (longer.number, longer.from_step, longer.steps, longer.reason) == (0, 7, 17, "still"), "to step 24"
    assert orders.give(tmp_path, manual("rank:3")).number == 1
    assert len(orders.read(tmp_path)) == 2


def test_an_order_that_is_over_or_closed_is_not_extended_and_its_number_is_not_given_again(tmp_path: Path) -> None:
    recorded(tmp_path, 0, 0)
    assert orders.give(tmp_path, manual(steps=3)).number == 0
    recorded(tmp_path, 0, 50)
    assert orders.give(tmp_path, manual(steps=3)).number == 1
    assert [one.number for one in orders.close(tmp_path, "run")] == [0, 1]
    assert orders.close(tmp_path) == ()
    assert orders.give(tmp_path, manual()).number == 2


def test_two_writers_lose_no_order(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(_give_many, [(tmp_path, 0), (tmp_path, 1)])
    found = orders.read(tmp_path)
    assert sorted(one.number for one in found) == list(range(40))
    assert {one.scope for one in found} == {f"rank:{rank}" for rank in range(40)}


def _give_many(directory: Path, who: int) -> None:
    for at in range(20):
        orders.give(directory, manual(f"rank:{2 * at + who}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "control file"),
        ("[]", "control file"),
        ('{"schema":"provstore-control/9","escalations":[]}', "provstore-control/9"),
        ('{"schema":"provstore-control/1","escalations":[{}]}', "trigger"),
        ("[" * 5000, "control file"),
    ],
)
def test_what_is_no_control_file_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / orders.FILE).write_text(text)
    with pytest.raises(InputError, match=reason):
        orders.read(tmp_path)
    with pytest.raises(InputError, match=r"control\.json"):
        orders.give(tmp_path, manual())


def test_a_directory_that_is_not_there_or_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        orders.give(tmp_path / "gone", manual())
    (tmp_path / "control.lock").mkdir()
    with pytest.raises(StoreError, match="nothing was changed"):
        orders.give(tmp_path, manual())


def test_every_reason_is_kept_up_to_sixteen_and_the_latest_is_one_of_them(tmp_path: Path) -> None:
    for text in ("a", "b", "b", *map(str, range(30))):
        orders.give(tmp_path, manual(reason=text))
    (only,) = orders.read(tmp_path)
    assert only.reasons == ("a", "b", *map(str, range(13)), "29")
