"""Quick readers of what a run recorded give what strict ones give, and refuse with them, however odd the text is."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from provstore.errors import InputError, TrustError
from provstore.evidence import actions
from provstore.evidence.content import statistics_line
from provstore.evidence.content.statistics_line import METHOD, Statistics
from provstore.ingest.recording import read_quickly
from provstore.model import canonical
from provstore.model.action import Action

A = "sha256:" + "a" * 64
CALL = Action(
    "gloo/0@0-3/7/1", "all_reduce", 1, 1_796_031_812_000_123_456, "mutate-local", "full", "full", "because",
    epoch=5, step=7, backend="gloo", group="0@0-3", seq=7, side="in", chain="gloo/0@0-3/7", parent="gloo/0@0-3/6/1",
    shortfall=("byte-budget",), escalations=("rank:1/esc-0",), finite_in=True, finite_out=False, digest_in=A,
    digest_out=A, digest_kind="provstore-tensor-v1", shapes_in=((2,),), shapes_out=((2,),), dtypes_in=("float32",),
    dtypes_out=("float32",), reduce_op="sum", root=3, op_id=4, peer=2, delta_ref=A, evidence_refs=(A,), name="w",
    carried_by=("a/1",), extra={"uri": "s3://b/x"},
)  # fmt: skip
ODD = (
    "f64:nan", "f64:inf", "f64:-inf", "f64:nan:7ff8000000000000", "f64:nan:7FF8000000000000",
    "f64:nan:0000000000000000", "f64:0x0.0p+0", "f64:-0x0.0p+0", "f64:0x0.0p+1", "f64:0x0.0p-0", "f64:0x1.8p+0",
    "f64:0x1.8000000000000p+0", "f64:0x1.8000000000000p-0", "f64:0x1.8000000000000p+00", "f64:0x1.8000000000000p+07",
    "f64:0X1.8000000000000P+0", "f64:0x3.0000000000000p-1", "f64:+0x1.8000000000000p+0", "f64:0x1.A000000000000p+0",
    "f64:0x1.8000000000000p+1023", "f64:0x1.8000000000000p+1024", "f64:0x1.8000000000000p-1022",
    "f64:0x1.8000000000000p-1023", "f64:0x0.8000000000000p-1022", "f64:0x1.80000000000000p+0",
    "f64:0x1.8000000000000p+0\n", " f64:0x1.8000000000000p+0", "f64:1.5", "f64:", "F64:0x1.8000000000000p+0", "i64:7",
    "i64:-7", "i64:07", "i64:+7", "i64:7_0", "i64:७", "i64: 7", "i64:-0", "i64:0", "i64:", "i64:9223372036854775807",
    "i64:9223372036854775808", "i64:-9223372036854775808", "i64:-9223372036854775809", "i64:99999999999999999999",
    "u64:7", "u64:-7", "u64:18446744073709551615", "u64:18446744073709551616", "", "7",
)  # fmt: skip
"""Spellings of numbers: of some there is no number, of others a number has another spelling."""
doubles = st.floats().map(canonical.tag_double)
spellings = st.sampled_from(ODD) | doubles | doubles.map(str.upper) | st.text(max_size=12)
values = st.recursive(
    spellings
    | st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("nv"), inner, max_size=2),
    max_leaves=4,
)
members = st.tuples(st.sampled_from(("abs_max", "l2", "method", "count", "min")), values | st.just(METHOD))


def strict_size(text: Any) -> float:
    """What a figure tells, by the readers of tagged numbers; they have tests of their own."""
    readers = {"f64:": canonical.tagged_double, "i64:": canonical.tagged_integer}
    if not isinstance(text, str):
        raise InputError("no text")
    found = float(readers.get(text[:4], canonical.tagged_unsigned)(text))
    if math.isnan(found):
        raise InputError("NaN")
    return found


@given(st.lists(members, max_size=6))
@example([("method", METHOD), ("l2", "f64:-0x0.0p+0"), ("abs_max", "f64:0x1.8000000000000p+99")])
@example([("method", METHOD), ("l2", "f64:nan"), ("abs_max", "f64:inf")])
@example([("method", METHOD), ("l2", "i64:7"), ("l2", "f64:inf"), ("abs_max", "u64:18446744073709551615")])
def test_sizes_are_those_that_the_strict_readers_of_numbers_give(said: list[tuple[str, Any]]) -> None:
    line = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in said) + "}"
    last = dict(said)  # of a repeated name the last value counts

    try:
        if last.get("method") != METHOD:
            raise InputError("another method")
        is_told = "l2" in last and "abs_max" in last
        expected = (strict_size(last["l2"]), strict_size(last["abs_max"])) if is_told else None
    except InputError:
        with pytest.raises(InputError):
            statistics_line.sizes(line.encode())
        return
    assert repr(statistics_line.sizes(line.encode())) == repr(expected)  # as text: minus zero is not zero


@pytest.mark.parametrize("text", ODD)
def test_each_odd_spelling_of_a_size_is_read_as_strictly_as_any_other(text: str) -> None:
    for norm, largest in ((text, "f64:0x1.8000000000000p+0"), ("f64:0x1.8000000000000p+0", text)):
        line = json.dumps({"abs_max": largest, "l2": norm, "method": METHOD}).encode()
        try:
            expected = strict_size(norm), strict_size(largest)
        except InputError:
            with pytest.raises(InputError):
                statistics_line.sizes(line)
        else:
            assert repr(statistics_line.sizes(line)) == repr(expected)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False) | st.integers(-(2**63), 2**64 - 1))
def test_sizes_of_a_line_are_the_figures_that_it_was_made_of(norm: float, largest: float) -> None:
    line = statistics_line.line(Statistics(1, l2=norm, abs_max=largest))

    assert repr(statistics_line.sizes(line)) == repr((norm, float(largest)))


def changed(said: dict[str, Any], draw: st.DataObject) -> None:
    """Give some members another value or none, those of ``training`` and such as no record has included."""
    if draw.draw(st.booleans()):
        for name in ("out_as_in", draw.draw(st.sampled_from(("shapes_in", "dtypes_in", "group")))):
            del said["training"][name]
    for _ in range(draw.draw(st.integers(0, 3))):
        place = draw.draw(st.sampled_from([said, said["training"]])) if isinstance(said.get("training"), dict) else said
        name = draw.draw(st.sampled_from([*place, "side", "root", "peer", "shapes_out", "dtypes_out", "unknown"]))
        if draw.draw(st.booleans()):
            place.pop(name, None)
        else:
            place[name] = draw.draw(values | st.just([]) | st.just([[2]]) | st.sampled_from(("in", "full", A)))


@given(st.data())
@settings(max_examples=400)
def test_what_is_read_quickly_is_what_the_strict_reader_gives(draw: st.DataObject) -> None:
    said = json.loads(actions.record_line(CALL, "job", 0, 3))
    changed(said, draw)
    line = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")

    try:
        expected = actions.read(line)
    except TrustError:
        return  # what the quick reader takes all the same is told by whoever verifies the records
    found = read_quickly(line)
    assert repr(found) == repr(expected)
    assert found == expected


@pytest.mark.parametrize(
    "name", ["action_id", "at", "rank", "recording_mode", "side_effect_class", "tool_name", "training"]
)
def test_a_record_that_lacks_what_every_action_has_is_refused(name: str) -> None:
    said = json.loads(actions.record_line(CALL, "job", 0, 3))
    del said[name]

    with pytest.raises(TrustError):
        read_quickly(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize("text", [*ODD, "i64:1796031812000123456"])
def test_the_moment_of_an_action_has_one_spelling(text: str) -> None:
    said = json.loads(actions.record_line(CALL, "job", 0, 3)) | {"at": text}
    line = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")

    try:
        expected = canonical.tagged_integer(text)
    except InputError:
        with pytest.raises(TrustError):
            read_quickly(line)
    else:
        assert read_quickly(line).at_ns == expected


def test_an_action_that_was_read_is_frozen_and_whole_like_any_other() -> None:
    found = read_quickly(actions.record_line(CALL, "job", 0, 3))

    assert type(found) is Action
    assert found == CALL
    assert dataclasses.replace(found, rank=2) == dataclasses.replace(CALL, rank=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rank = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    "said",
    [
        {"shapes_out": None, "dtypes_out": None},
        {"shapes_in": None, "dtypes_in": None},
        {"shapes_in": None, "shapes_out": None, "dtypes_out": None},
        {"shapes_out": ((3,), ()), "dtypes_out": ("int64", "bool")},
        {"shapes_out": ()},
        {"group": None, "backend": None, "side": None},
        {"side": "call"},
    ],
)
def test_what_goes_in_and_what_comes_out_are_told_apart(said: dict[str, Any]) -> None:
    action = dataclasses.replace(CALL, **said)

    assert read_quickly(actions.record_line(action, "job", 0, 3)) == action
