"""Actions are read back as they were recorded, and the fast reader takes nothing that the strict one refuses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import InputError, TrustError
from provstore.evidence import actions, epoch_bundles, merkle, records
from provstore.evidence.recorded_modes import WeakestMode
from provstore.evidence.verify.actions import quick_action_reader
from provstore.evidence.verify.records import fields
from provstore.model.action import Action
from provstore.model.evidence import MODES
from provstore.model.recording import CLASSES, SHORTFALLS

A = "sha256:" + "a" * 64
CALL = Action(
    "gloo/0@0-3/7/1", "all_reduce", 1, 1_796_031_812_000_123_456, "mutate-local", "validation", "delta",
    "local mutation, low risk", epoch=5, backend="gloo", group="0@0-3", seq=7, side="in", chain="gloo/0@0-3/7",
    parent="gloo/0@0-3/6/1", shortfall=("no-tensor-access",), shapes_in=((4,),), shapes_out=((4,),),
    dtypes_in=("Float",), dtypes_out=("Float",),
)  # fmt: skip
GRADIENT = Action(
    "tensor.grad/1/9/w%2E0", "tensor.grad", 1, 5, "read", "delta", "full", "external escalation signal", epoch=5,
    step=9, shortfall=("byte-budget",), escalations=("rank:1/esc-0",), finite_out=False, digest_out=A,
    digest_kind="provstore-tensor-v1", shapes_out=((2, 2),), dtypes_out=("float32",), delta_ref=A, name="w.0",
    carried_by=("gloo/0@0-3/7/1",),
)  # fmt: skip
SAVE = Action(
    "checkpoint.save/0/9/x", "checkpoint.save", 0, 6, "mutate-external", "full", "full", "external mutation",
    epoch=5, step=9, digest_out=A, name="s3://b/x", extra={"uri": "s3://b/x", "é": "\n"},
)  # fmt: skip

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
shapes = st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=2).map(tuple)


@st.composite
def calls(draw: st.DrawFn) -> Action:
    inside, outside = draw(shapes), draw(shapes)
    return replace(
        CALL,
        op=draw(texts),
        backend=draw(texts.filter(lambda text: ":" not in text)),
        group=draw(texts),
        side=draw(st.sampled_from(("in", "out", "call"))),
        shapes_in=inside,
        shapes_out=draw(st.sampled_from((inside, outside))),
        dtypes_in=draw(st.lists(texts, max_size=2).map(tuple)),
        dtypes_out=draw(st.lists(texts, max_size=2).map(tuple)),
        seq=draw(st.none() | st.integers(0, 2**53 - 1)),
        peer=draw(st.none() | st.integers(0, 9)),
        step=draw(st.none() | st.integers(0, 9)),
        mode=draw(st.sampled_from(MODES)),
        policy_mode=draw(st.sampled_from(MODES)),
        policy_reason=draw(texts),
        side_effect_class=draw(st.sampled_from(CLASSES)),
        shortfall=draw(st.lists(st.sampled_from(SHORTFALLS), unique=True).map(tuple)),
        finite_in=draw(st.none() | st.booleans()),
        root=draw(st.none() | st.integers(0, 9)),
        escalations=draw(st.lists(texts, max_size=2).map(tuple)),
        delta_ref=draw(st.sampled_from((None, A))),
    )


@pytest.mark.parametrize("action", [CALL, GRADIENT, SAVE], ids=lambda action: action.op)
def test_an_action_is_read_back_from_its_record(action: Action) -> None:
    assert actions.read(actions.record_line(action, "job", 0, 3)) == action


@given(calls())
@settings(max_examples=200)
def test_any_call_is_read_back_from_its_record(action: Action) -> None:
    assert actions.read(actions.record_line(action, "job", 0, 3)) == action


@given(calls())
@settings(max_examples=200)
def test_the_fast_reader_says_what_the_strict_one_does_or_nothing(action: Action) -> None:
    line = actions.record_line(action, "job", 0, 3)
    found = quick_action_reader("job", 0)(line)

    if found is not None:
        said = records.parse(line)
        assert found[0] == fields(said)
        assert found[1] == (action.mode, action.policy_mode, action.policy_reason)


def test_the_fast_reader_takes_a_plain_call() -> None:
    line = actions.record_line(CALL, "job", 0, 3)

    assert quick_action_reader("job", 0)(line) == (
        (1, 3, 1_796_031_812_000_123_456),
        ("validation", "delta", "local mutation, low risk"),
    )


@pytest.mark.parametrize(
    "own",
    [{"peer": 3}, {"finite_in": True}, {"finite_in": False}, {"finite_out": True}, {"step": 7}, {"seq": None}],
    ids=str,
)  # fmt: skip
def test_the_fast_reader_takes_a_plain_call_with_any_of_these_members(own: dict[str, Any]) -> None:
    line = actions.record_line(replace(CALL, **own), "job", 0, 3)
    found = quick_action_reader("job", 0)(line)

    assert found is not None
    assert found[0] == fields(records.parse(line))


@given(st.data())
@settings(max_examples=400)
def test_an_altered_line_that_the_fast_reader_takes_is_one_that_the_strict_reader_takes(data: st.DataObject) -> None:
    line = actions.record_line(CALL, "job", 0, 3)
    at = data.draw(st.integers(0, len(line) - 1))
    changed = line[:at] + bytes([data.draw(st.integers(0, 255))]) + line[at + data.draw(st.integers(0, 2)) :]

    if quick_action_reader("job", 0)(changed) is not None:
        records.parse(changed)


def test_a_record_of_another_run_is_none_of_the_fast_reader() -> None:
    assert quick_action_reader("other", 0)(actions.record_line(CALL, "job", 0, 3)) is None


def test_its_content_is_the_record_without_its_number() -> None:
    first, second = (actions.record_line(CALL, "job", 0, n) for n in (3, 71))

    assert first != second
    assert actions.content(first) == actions.content(second)
    said = json.loads(first)
    del said["n"]
    assert json.loads(actions.content(first)) == said


def test_absent_values_have_no_member() -> None:
    assert b"null" not in actions.record_line(CALL, "job", 0, 3)


def test_an_action_without_content_has_at_most_600_bytes() -> None:
    assert len(actions.record_line(CALL, "job", 0, 19_999)) <= 600


def test_a_library_without_a_group_is_refused() -> None:
    with pytest.raises(InputError, match="goes with a group"):
        actions.record_line(replace(CALL, group=None), "job", 0, 3)


def test_a_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(InputError):
        actions.record_line(replace(CALL, policy_reason="\ud800"), "job", 0, 3)


def test_a_line_of_another_kind_is_no_action() -> None:
    with pytest.raises(TrustError, match="is no action"):
        actions.read(records.run_close("job", 0, 3, reason="finished", records=0, batches=0))


def test_the_digest_over_actions_is_that_of_their_contents_with_line_ends() -> None:
    tally, lines = epoch_bundles.Tally(), []
    for n, action in enumerate((CALL, GRADIENT)):
        lines.append(actions.record_line(action, "job", 0, n))
        tally.add(action, lines[-1], n)

    whole = b"".join(actions.content(line) + b"\n" for line in lines)
    assert tally.sha256 == hashlib.sha256(whole).hexdigest()
    assert merkle.leaf_hash(lines[0]).hex() == hashlib.sha256(b"\0" + lines[0]).hexdigest()


def test_a_bundle_counts_modes_demands_and_shortfalls() -> None:
    tally = epoch_bundles.Tally()
    for n, action in enumerate((CALL, CALL, GRADIENT)):
        tally.add(action, actions.record_line(action, "job", 0, n), n)
    said = epoch_bundles.own_members(tally, epoch_bundles.EpochFacts(5, "dumps"))

    assert said["actions"]["count"] == 3
    assert said["recording_mode"] == "validation"
    assert (said["policy_mode"], said["policy_reason"]) == ("full", "external escalation signal")
    assert said["run_side_effect_class_max"] == "mutate-local"
    assert said["steps"] == [9, 9]
    assert said["escalations"] == ["rank:1/esc-0"]
    assert said["ranks"] == [{"actions": 3, "first": 0, "last": 2, "rank": 1}]
    assert said["counts"]["shortfall"] == [
        {"count": 1, "name": "byte-budget"},
        {"count": 2, "name": "no-tensor-access"},
    ]


@pytest.mark.parametrize(
    ("ranks", "spans"),
    [([], []), ([3], [[3, 3]]), ([5, 1, 2, 3], [[1, 3], [5, 5]]), ([0, 2, 4], [[0, 0], [2, 2], [4, 4]])],
)
def test_ranks_are_written_as_spans_and_read_back(ranks: list[int], spans: list[list[int]]) -> None:
    assert epoch_bundles.spans(ranks) == spans
    assert epoch_bundles.spread(spans) == sorted(ranks)


def test_the_mode_of_an_evidence_epoch_is_the_weakest_recorded_with_the_strongest_reason() -> None:
    found = WeakestMode()
    for action in (GRADIENT, CALL, SAVE):
        found.line(actions.record_line(action, "job", 0, 0))

    assert found.weakest() == ("validation", "external escalation signal")


def test_a_weaker_mode_that_a_record_states_of_a_file_comes_first() -> None:
    found = WeakestMode()
    found.line(actions.record_line(GRADIENT, "job", 0, 0))
    found.state("validation", "read from files")

    assert found.weakest() == ("validation", "read from files")


def test_a_reason_with_any_character_is_the_one_that_was_recorded() -> None:
    found = WeakestMode()
    found.line(actions.record_line(replace(CALL, policy_reason='"\\\n,"policy_mode":"'), "job", 0, 0))

    assert found.weakest() == ("validation", '"\\\n,"policy_mode":"')
