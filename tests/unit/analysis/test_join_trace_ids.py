"""Trace ids of different spelling that mean one trace."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.analysis.join.trace_ids import ORDER, aliases, is_placeholder, meeting, otel_image

TRACE = "463ac35c9f6413ad48485a3953bb6124"


@pytest.mark.parametrize(
    ("raw", "image"),
    [
        ("agent-123e4567-e89b-12d3-a456-426614174000", "00000000ae123e4567e89b12d3a45642"),
        ("0a1b2c3d4e5f6071", "0a1b2c3d4e5f60710000000000000000"),
        ("00-463ac35c9f6413ad48485a3953bb6124-00f067aa0ba902b7-01", "000463ac35c9f6413ad48485a3953bb6"),
    ],
)
def test_the_lossy_bridge_makes_the_recorded_images(raw: str, image: str) -> None:
    assert otel_image(raw) == image
    assert meeting(raw, image) == "otel-lossy"


@pytest.mark.parametrize(
    ("left", "right", "rule"),
    [
        (TRACE, TRACE, "exact"),
        (TRACE, TRACE.upper(), "hex-case"),
        (TRACE.upper(), f"00-{TRACE}-00f067aa0ba902b7-01", "traceparent"),
        (f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-aaaaaaaaaaaaaaaa-00", "traceparent"),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-comes-later", TRACE, "traceparent"),
        ("agent-463ac35c-9f64-13ad-4848-5a3953bb6124", TRACE, "uuid"),
        ("463AC35C-9F64-13AD-4848-5A3953BB6124", TRACE, "uuid"),
        ("48485a3953bb6124", "000000000000000048485a3953bb6124", "b3-64"),
        ("48485A3953BB6124", "48485a3953bb6124", "b3-64"),
        ("my-trace", "my-trace", "exact"),
    ],
)
def test_spellings_of_one_trace_meet_by_the_strongest_rule(left: str, right: str, rule: str) -> None:
    assert meeting(left, right) == rule
    assert meeting(right, left) == rule


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (TRACE, TRACE[:-1] + "5"),
        ("my-trace", "My-Trace"),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (f"00-{TRACE}-00f067aa0ba902b7-01-more", TRACE),
    ],
)
def test_other_ids_meet_by_no_rule_that_is_more_than_a_hint(left: str, right: str) -> None:
    assert meeting(left, right) in (None, "otel-lossy")


@pytest.mark.parametrize(
    "raw",
    ["", " ", "unknown", "Undefined", "null", "NONE", "0" * 32, "0" * 16, f"00-{'0' * 32}-00f067aa0ba902b7-01"],
)
def test_a_placeholder_joins_nothing_not_even_itself(raw: str) -> None:
    assert is_placeholder(raw)
    assert meeting(raw, raw) is None


@given(st.text(max_size=60))
def test_an_id_meets_itself_exactly_and_its_keys_are_in_order_of_strength(raw: str) -> None:
    found = aliases(raw)
    if is_placeholder(raw):
        assert found == ()
        return
    assert found[0].key == raw
    assert meeting(raw, raw) == "exact"
    assert [ORDER.index(one.rule) for one in found] == sorted(ORDER.index(one.rule) for one in found)
    assert re.fullmatch("[0-9a-f]{32}", otel_image(raw))
