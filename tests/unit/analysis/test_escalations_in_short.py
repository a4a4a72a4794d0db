"""Escalations of a run in short: one entry each, with numbers that can be read."""

from __future__ import annotations

import json

from provstore.api.escalations import escalations_in_short


def record(event: str, rank: int = 0, number: int = 1, **said: object) -> dict[str, object]:
    usual = {"source": "rank:2", "trigger": "loss-spike", "scope": "run", "rule": "P1", "opened_step": 40}
    usual |= dict.fromkeys(("reason", "closed_step", "close_reason", "value", "threshold"))
    return {**usual, "latched": False, "evidence": [], "event": event, "rank": rank, "number": number, **said}


def test_states_that_every_rank_tells_are_one_entry() -> None:
    states = [
        record(event, rank, close_reason="clear" if event == "closed" else None)
        for rank in range(4)
        for event in ("opened", "extended", "extended", "closed")
    ]
    (said,) = escalations_in_short(states)
    assert (said["id"], said["event"], said["extended"], said["close_reason"]) == ("rank:2/esc-1", "closed", 2, "clear")
    assert said["ranks"] == [0, 1, 2, 3]


def test_value_and_limit_are_decimal_numbers_and_words_where_they_are_none() -> None:
    (said,) = escalations_in_short(
        [record("opened", value="f64:0x1.8000000000000p+1", threshold="f64:0x1.0000000000000p-1")]
    )
    assert (said["value"], said["threshold"]) == (3.0, 0.5)
    (odd,) = escalations_in_short([record("opened", value="f64:nan:7ff8000000000000")])
    assert (odd["value"], odd["threshold"]) == ("nan", None)
    json.dumps(odd, allow_nan=False)


def test_equal_numbers_of_two_sources_are_two_escalations() -> None:
    both = [record("opened"), record("opened", source="watch", trigger="manual", reason="looks odd")]
    assert [(one["id"], one["reason"]) for one in escalations_in_short(both)] == [
        ("rank:2/esc-1", None),
        ("watch/esc-1", "looks odd"),
    ]
