"""What data may do to a terminal: nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.cli._screen import json_text, worst
from provstore.cli._text import printable, ranks_text, safe_json

CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066", "\u2028", "\ud800"]


@pytest.mark.parametrize("char", CONTROLS, ids=lambda char: f"{ord(char):04x}")
def test_a_control_character_is_spelled(char):
    assert char not in printable(f"a{char}b")
    assert f"{ord(char):x}" in printable(f"a{char}b")


@given(st.text())
def test_any_text_becomes_one_printable_line(text):
    shown = printable(text)

    assert len(shown.splitlines()) <= 1
    assert shown.encode("utf-8").decode("utf-8") == shown


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(), st.lists, max_leaves=5))
def test_json_stays_equal_and_holds_no_control_character(value):
    text = json_text({"value": value})

    assert json.loads(text) == {"value": value}
    assert not any(char in text.replace("\n", "") for char in CONTROLS)


def test_escaping_json_changes_no_value():
    assert json.loads(safe_json('{"a": "\x9b31m\u202e"}')) == {"a": "\x9b31m\u202e"}


@pytest.mark.parametrize(
    ("ranks", "text"), [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 1, 2, 8, 10, 11], "0-2, 8, 10-11")]
)
def test_ranks_are_written_as_spans(ranks, text):
    assert ranks_text(ranks) == text


@pytest.mark.parametrize(
    ("codes", "code"), [([], 0), ([0, 3], 3), ([3, 2], 2), ([2, 4, 3], 4), ([4, 7], 7), ([7, 1, 2], 1)]
)
def test_the_gravest_exit_code_wins(codes, code):
    """Manual: "When several apply: 1 over 7 over 4 over 2 over 3 over 0"."""
    assert worst(codes) == code
