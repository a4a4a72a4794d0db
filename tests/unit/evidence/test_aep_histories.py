"""A file of agent records tells by itself where a chain says another thing of an action than before, or parts."""

from __future__ import annotations

import copy
import random

import pytest

from provstore.evidence.aep import gather, histories, judge
from provstore.sources import aep
from tests.agent_records import Record, canon, lines, linked, record, sha256


def action(name: str, tool: str = "tool") -> Record:
    return {"action_id": name, "tool_name": tool, "state_changing": False, "timestamp_ms": 1}


def chain(*actions: list[Record], run: str = "run") -> list[Record]:
    """Return linked records with these actions each."""
    made = [
        {**record(number=number), "run_id": run, "actions": copy.deepcopy(said)} for number, said in enumerate(actions)
    ]
    for one in made:
        one.pop("prev_record_hash", None)
    return linked(made)


def findings(*records: Record) -> list[tuple[str, ...]]:
    return [one.findings for one in judge(aep.read(lines([*records])), {}).records]


A, B, C = action("a"), action("b"), action("c")
CUMULATIVE = chain([A], [A, B], [A, B, C])
OTHER_A = action("a", "another")


def test_a_chain_that_repeats_its_actions_contradicts_nothing() -> None:
    assert findings(*CUMULATIVE) == [(), (), ()]


@pytest.mark.parametrize(
    ("actions", "concerned"),
    [
        (([A], [OTHER_A, B], [OTHER_A, B, C]), 1),
        (([A], [A, B], [OTHER_A, B, C]), 2),
        (([A], [B], [OTHER_A]), 2),
    ],
)
def test_an_action_that_is_told_otherwise_later_on_is_named_where_that_begins(
    actions: tuple[list[Record], ...], concerned: int
) -> None:
    found = findings(*chain(*actions))

    assert found == [("history-rewritten",) if place == concerned else () for place in range(3)]


def test_two_records_that_follow_one_are_a_fork_and_a_repeated_record_is_none() -> None:
    first, second, third = CUMULATIVE
    other = {**third, "created_at_ms": third["created_at_ms"] + 1}

    assert findings(first, second, third, other) == [(), (), (), ("chain-fork",)]
    assert findings(first, first, second, second, third) == [(), (), (), (), ()]


def test_chains_that_do_not_follow_each_other_may_say_what_they_like() -> None:
    assert findings(*chain([A]), *chain([OTHER_A]), *chain([OTHER_A], run="b")) == [(), (), ()]
    # Lines of two writers in one file.
    one, other = chain([A], [A, B]), chain([OTHER_A], [OTHER_A, B])
    assert findings(one[0], other[0], one[1], other[1]) == [(), (), (), ()]


def test_only_so_many_chains_are_followed_and_the_last_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_ENDS", 3)
    rewritten = chain([A], [OTHER_A])
    single = [chain([action(f"x{number}")], run=f"run {number}")[0] for number in range(5)]

    assert findings(rewritten[0], *single[:2], rewritten[1])[-1] == ("history-rewritten",)
    assert findings(rewritten[0], *single, rewritten[1])[-1] == ()


@pytest.mark.parametrize("seed", range(20))
def test_a_chain_in_order_says_what_gathering_many_files_says(seed: int) -> None:
    chance = random.Random(seed)
    actions = [[action(chance.choice("abc"), chance.choice("xy"))] for _ in range(6)]
    records = chain(*actions)
    told = gather([aep.read(lines(records))]).contradictions
    rewritten = {digest for one in told if one.code == "history-rewritten" for digest in one.records[1:]}

    found = findings(*records)

    assert [one == ("history-rewritten",) for one in found] == [sha256(canon(one)) in rewritten for one in records]
