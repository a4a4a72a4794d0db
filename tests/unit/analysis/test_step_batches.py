"""Which batches a rank trained on in a step: those that were recorded in it, and none where that cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from provstore.analysis.step_batches import RankData
from provstore.model.finding import TrainingBatch

DIGEST = "sha256:" + "d" * 64
EPOCH = 3


def noted(batch: int, step: int | None, **more: Any) -> dict[str, Any]:
    """A row of a batch; one without step was written before its step ended."""
    said = {"batch": batch, "epoch": EPOCH, "rank": 2, "count": 32, "ids_digest": DIGEST, **more}
    return said if step is None else {**said, "step": step}


def anchor(step: int, cursor: int) -> dict[str, Any]:
    return {"step": step, "cursor": cursor, "epoch": EPOCH, "rank": 2}


def data_of(rows: list[dict[str, Any]], anchors: list[dict[str, Any]], steps: tuple[int | None, ...]) -> RankData:
    """What rank 2 noted, with an action of each of these steps; their ids are ``a0``, ``a1``, …"""
    return RankData(EPOCH, rows, anchors, {f"a{at}": step for at, step in enumerate(steps)})


def numbers(
    rows: list[dict[str, Any]], anchors: list[dict[str, Any]], step: int, steps: tuple[int, ...] = tuple(range(60))
) -> list[int]:
    return [one.batch for one in data_of(rows, anchors, steps).of_step(step)]


def each_step(first: int, last: int) -> list[dict[str, Any]]:
    """Anchors of steps with one batch each, counted from step 50."""
    return [anchor(step, step - 50 + 1) for step in range(first, last + 1)]


def test_the_batch_that_was_noted_in_a_step_is_named_with_size_and_digest() -> None:
    rows = [noted(0, 50), noted(1, 51), noted(2, 52)]
    found = data_of(rows, each_step(50, 52), (50, 51, 52)).of_step(51)
    assert found == (TrainingBatch(EPOCH, 1, 32, DIGEST),)


def test_a_step_in_which_none_was_noted_has_none() -> None:
    assert numbers([], [], 51) == []
    assert numbers([noted(0, 50)], [], 51) == []
    assert numbers([noted(0, 50)], [anchor(50, 1), anchor(51, 1)], 51) == []


def test_all_batches_of_a_step_are_named_in_their_order() -> None:
    rows = [noted(3, 51), noted(2, 51), noted(1, 50), noted(0, 50)]
    assert numbers(rows, [anchor(50, 2), anchor(51, 4)], 51) == [2, 3]


def test_a_batch_that_was_left_out_was_not_trained_on() -> None:
    rows = [noted(0, 50), noted(1, 51, skipped="broken"), noted(2, 51)]
    assert numbers(rows, [anchor(50, 1), anchor(51, 3)], 51) == [2]


def test_a_batch_that_was_written_before_its_long_step_ended_is_placed_by_the_number_of_batches_of_each_step() -> None:
    rows = [noted(0, None), noted(1, None), noted(2, None)]
    anchors = [anchor(50, 1), anchor(51, 2), anchor(52, 3)]
    assert [numbers(rows, anchors, step, (50, 51, 52)) for step in (50, 51, 52)] == [[0], [1], [2]]


def test_where_that_number_is_not_known_of_each_step_nothing_is_named() -> None:
    rows = [noted(0, None), noted(1, None), noted(2, None)]
    # Step 51 has an action and no anchor: batch 1 can be of 51 or of 52.
    assert numbers(rows, [anchor(50, 1), anchor(52, 3)], 52, (50, 51, 52)) == []
    assert numbers(rows, [anchor(50, 1), anchor(52, 3)], 51, (50, 51, 52)) == []
    assert numbers(rows, [], 51, (50, 51, 52)) == []
    # What was noted before the first anchor can be of any step before it.
    assert numbers(rows, [anchor(51, 2), anchor(52, 3)], 51, (50, 51, 52)) == []


def test_steps_may_be_counted_otherwise_than_by_one() -> None:
    rows = [noted(0, None), noted(1, None)]
    assert numbers(rows, [anchor(100, 1), anchor(200, 2)], 200, (100, 200)) == [1]


def test_one_of_unknown_step_that_may_be_of_the_step_makes_it_undecidable() -> None:
    assert numbers([noted(0, 50), noted(1, None)], [], 50) == []
    # It was noted after the step that ended with one batch.
    assert numbers([noted(0, 50), noted(1, None)], [anchor(50, 1)], 50) == [0]


def test_where_a_row_was_lost_nothing_is_named() -> None:
    anchors = [anchor(50, 2), anchor(51, 4)]
    assert numbers([noted(0, 50), noted(1, 50), noted(3, 51)], anchors, 51) == []
    assert numbers([noted(0, 50), noted(1, 50), noted(2, 51), noted(3, 51)], anchors, 51) == [2, 3]


def test_what_was_recorded_twice_is_told_once() -> None:
    rows, anchors = [noted(0, 50), noted(1, 51)], [anchor(50, 1), anchor(51, 2)]
    assert numbers([*rows, *rows], [*anchors, *anchors], 51) == [1]


def test_after_a_restart_within_the_epoch_only_batches_with_a_step_count() -> None:
    anchors = [anchor(50, 1), anchor(51, 2), anchor(52, 1)]
    assert numbers([noted(0, 50), noted(1, 51), noted(0, 52)], anchors, 52) == [0]
    assert numbers([noted(0, 50), noted(1, 51), noted(0, None)], anchors, 52) == []
    # The step was made twice, with the same samples and with others.
    twice = [anchor(50, 1), anchor(51, 2), anchor(51, 1)]
    assert numbers([noted(0, 50), noted(1, 51), noted(1, 51, at="i64:5")], twice, 51) == [1]
    other = noted(0, 51, ids_digest="sha256:" + "e" * 64)
    assert numbers([noted(0, 50), noted(1, 51), other], twice, 51) == [0, 1]


@pytest.mark.parametrize("batch", [None, "1", 1.0, -1, True])
def test_a_row_without_a_number_makes_its_step_undecidable(batch: object) -> None:
    assert numbers([noted(0, 51), noted(batch, 51)], [], 51) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [[51], "51", 51.0, True])
def test_a_row_with_another_thing_for_a_step_makes_it_undecidable(step: object) -> None:
    assert numbers([noted(0, 51), {**noted(1, None), "step": step}], [], 51) == []
    assert numbers([noted(0, 51), {**noted(1, None), "step": step}], [], 1) == []


def test_a_count_of_more_batches_than_anybody_has_is_no_batch() -> None:
    assert numbers([noted(0, 50), noted(1, 51)], [anchor(50, 1), anchor(51, 2**53 - 1)], 51) == []


def test_a_size_or_digest_that_is_none_is_not_told() -> None:
    rows = [noted(0, 50, count="many", ids_digest="sha256:short")]
    assert data_of(rows, [], ()).of_step(50) == (TrainingBatch(EPOCH, 0, None, None),)


def unended(rows: list[dict[str, Any]], anchors: list[dict[str, Any]], steps: tuple[int, ...] = ()) -> list[int]:
    return [one.batch for one in data_of(rows, anchors, steps).after_last_step()]


def test_of_a_step_that_never_ended_the_batches_since_the_last_one_that_did_are_named() -> None:
    rows = [noted(0, 50), noted(1, None), noted(2, None), noted(3, None)]
    assert unended(rows, [anchor(50, 1), anchor(51, 2)], (50, 51)) == [2, 3]
    assert unended([noted(0, None)], []) == [0]
    assert unended([noted(0, 50)], [anchor(50, 1)], (50,)) == []


def test_where_the_last_step_that_ended_is_not_known_to_have_counted_its_batches_none_is_named() -> None:
    rows = [noted(0, 50), noted(1, None)]
    assert unended(rows, [], (50,)) == []
    assert unended(rows, [anchor(50, 1)], (50, 51)) == []


def test_where_a_batch_since_the_last_step_was_lost_none_is_named() -> None:
    assert unended([noted(0, 50), noted(2, None)], [anchor(50, 1)], (50,)) == []


def test_after_a_restart_in_the_epoch_nothing_is_said_of_a_step_that_never_ended() -> None:
    before = [noted(0, 50, at="i64:1"), noted(1, None, at="i64:2")]
    assert unended([*before, noted(0, None, at="i64:3")], [anchor(50, 1)], (50,)) == []
    # The same rows, recorded twice, are no restart.
    assert unended([*before, *before], [anchor(50, 1)], (50,)) == [1]


def test_an_action_has_the_batches_of_its_step_or_of_the_one_that_never_ended() -> None:
    found = data_of([noted(0, 50), noted(1, None)], [anchor(50, 1)], (50, None, None))
    assert [[one.batch for one in found.of_action(name)] for name in ("a0", "a1", "a2")] == [[0], [1], [1]]


def test_an_action_of_unknown_step_before_one_of_a_known_step_has_none() -> None:
    found = data_of([noted(0, 50), noted(1, None)], [anchor(50, 1)], (None, 50, None))
    assert (found.of_action("a0"), [one.batch for one in found.of_action("a2")]) == ((), [1])
