"""A diagnosis of dumps with what was recorded live of the values: never healthy while these say otherwise."""

from __future__ import annotations

import pytest

from provstore.api.recorded_values import RecordedValues
from provstore.model.finding import Culprit, Diagnosis, Finding, Undecided

NOTE = "NaN: not checked, the dumps hold no values"
OPEN = Undecided("no_values", "the dumps hold no values, so where a NaN began cannot be told", "record them")
ORIGIN = Finding("k", "nan-origin", "nan_origin", "rank 2: …", "certain", (Culprit(2),))
FLAGS = {"calls": 10, "with_flags": 10}


def healthy(**more: object) -> Diagnosis:
    fields = {"run": "r", "attempt": 0, "status": "healthy", "notes": (NOTE,), "coverage": {"ranks_seen": [0, 1]}}
    return Diagnosis(**{**fields, **more})


def test_the_origin_that_was_recorded_is_a_finding_of_the_diagnosis() -> None:
    found = RecordedValues((ORIGIN,), (), FLAGS).added_to(healthy(), None)
    assert (found.status, found.findings) == ("findings", (ORIGIN,))
    assert NOTE not in found.notes


def test_values_that_are_not_finite_without_an_origin_leave_the_answer_open() -> None:
    spoilt = Undecided("no_values", "ranks 0-3 hold values that are not finite", "record the flags", (0, 1, 2, 3))
    found = RecordedValues((), (spoilt,), FLAGS).added_to(healthy(), None)
    assert (found.status, found.undecided) == ("undecided", (spoilt,))


def test_flags_of_every_call_that_are_all_finite_answer_the_question_of_a_nan() -> None:
    asked = healthy(status="undecided", undecided=(OPEN,), notes=())
    assert RecordedValues((), (), FLAGS).added_to(asked, "nan").status == "healthy"
    some = RecordedValues((), (), {"calls": 10, "with_flags": 3}).added_to(asked, "nan")
    assert (some.status, "7 of 10 calls" in some.undecided[0].what) == ("undecided", True)


@pytest.mark.parametrize("about", [None, "nan", "hang"])
def test_without_recorded_values_a_diagnosis_is_what_the_dumps_give(about: str | None) -> None:
    given = healthy(undecided=(OPEN,), status="undecided")
    assert RecordedValues().added_to(given, about) == given


def test_an_origin_that_the_dumps_give_is_told_once() -> None:
    given = healthy(findings=(ORIGIN,), status="findings")
    assert RecordedValues((ORIGIN,), (), FLAGS).added_to(given, None).findings == (ORIGIN,)


def test_without_dumps_the_recorded_ranks_are_what_was_seen_and_hangs_are_said_to_be_open() -> None:
    values = RecordedValues((ORIGIN,), (), FLAGS, (0, 1, 2), 4)
    found = values.added_to(healthy(coverage={"ranks_seen": [], "ranks_expected": 0, "calls": 0}), None)
    assert (found.coverage["ranks_seen"], found.coverage["ranks_expected"], found.coverage["calls"]) == (
        [0, 1, 2],
        4,
        10,
    )
    assert any("which calls never ended cannot be told" in note for note in found.notes)
