"""trace and evidence show take the same short forms, and refuse the same numbers in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from provstore.api.recording import record

SAMPLES = Path(__file__).parents[3] / "provstore" / "samples"
LARGEST = 2**63 - 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("store") / "s"
    record([SAMPLES / "hang"], run="hang", epoch=0, store=f"embedded:{folder}")
    return f"embedded:{folder}"


def answers(command: Any, store: str, target: str) -> list[Any]:
    """What trace and evidence show say of a target."""
    shared = ("--run", "hang", "--store", store)
    return [command(*words, target, *shared) for words in (("trace",), ("evidence", "show"))]


@pytest.mark.parametrize(
    "target",
    [
        "r3:seq8",
        "r0000000000003:seq000000000000000000000008",
        "tensor:3:8:in",
        "tensor:03:08:out",
        "act:3:all_reduce:8",
    ],
)
def test_a_form_that_names_one_call_names_it_to_both(command: Any, store: str, target: str) -> None:
    assert [one.code for one in answers(command, store, target)] == [0, 0]


@pytest.mark.parametrize(
    "target",
    [
        f"r{LARGEST}:seq8",
        f"r3:seq{LARGEST}",
        f"tensor:{LARGEST}:{LARGEST}:call",
        f"act:12345678901:my op:{LARGEST}",
        f"act:3:vendor/op:{LARGEST}",
        f"p2p:12345678901:{LARGEST}",
    ],
)
def test_a_form_that_names_nothing_is_a_form_to_both(command: Any, store: str, target: str) -> None:
    traced, shown = answers(command, store, target)
    assert (traced.code, shown.code) == (2, 2)
    assert "not a target" not in traced.err
    assert "it is none of" not in shown.err
    assert "neither a bundle nor a record" in " ".join(shown.err.split())


@pytest.mark.parametrize(
    ("target", "noun"),
    [
        (f"r{LARGEST + 1}:seq8", "rank"),
        (f"r3:seq{LARGEST + 1}", "call"),
        ("tensor:99999999999999999999:3:out", "rank"),
        (f"tensor:3:{LARGEST + 1}:in", "call"),
        (f"act:3:all_reduce:{'9' * 5000}", "call"),
        (f"p2p:{LARGEST + 1}:0", "rank"),
        (f"rank:{LARGEST + 1}", "rank"),
    ],
)
def test_a_number_that_no_store_can_hold_is_refused_by_both_in_the_same_words(
    command: Any, store: str, target: str, noun: str
) -> None:
    traced, shown = answers(command, store, target)
    assert (traced.code, shown.code) == (2, 2)
    assert traced.err == shown.err
    assert f": {noun}: there is no such {noun}; numbers end at 9223372036854775807" in traced.err


@pytest.mark.parametrize("target", ["r٣:seq8", "tensor:3:8:up", "act:3::8", "r-1:seq8", "r3:seq", "R3:seq8"])
def test_what_is_no_form_to_one_is_none_to_the_other(command: Any, store: str, target: str) -> None:
    traced, shown = answers(command, store, target)
    assert (traced.code, shown.code) == (2, 2)
    assert "not a target" in traced.err
    assert "it is none of" in shown.err


def test_a_rank_is_no_action(command: Any, store: str) -> None:
    traced, shown = answers(command, store, "rank:3")
    assert (traced.code, shown.code) == (0, 2)
    assert "it is none of" in shown.err
