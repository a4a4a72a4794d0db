"""Agent records of many files as one set: nothing twice, nothing lost, every contradiction named."""

from __future__ import annotations

import itertools
import random

import pytest

from provstore.analysis.join import joining
from provstore.evidence.aep import digests as digests_of
from provstore.evidence.aep import envelopes, gather, gathering
from provstore.evidence.aep.gathering import Gathered
from provstore.model import agent_codes
from provstore.model.aep import Container
from provstore.sources import aep, train_aep
from tests.agent_records import Emitter, Record, action, canon, lines, linked, record, sha256
from tests.cost import how_many_times

CHAIN = linked([record(number=number) for number in range(4)])


def gathered(*files: list[Record]) -> Gathered:
    return gather(aep.read(lines(one), name=f"file-{place}") for place, one in enumerate(files))


def digests(records: list[Record]) -> set[str]:
    return {sha256(canon(one)) for one in records}


def told(one: Gathered) -> tuple[object, ...]:
    """Return all that must not depend on how often and in which order files were read."""
    records = {(each.digest, each.chain, each.parent) for each in one.records}
    actions = [(each.chain, each.action_id, each.body, each.occurrences, each.alternates) for each in one.actions]
    return (
        records,
        sorted(actions),
        sorted((each.code, each.action_id or "", each.records) for each in one.contradictions),
    )


def test_a_cumulative_chain_holds_each_action_once() -> None:
    found = gathered(CHAIN)
    assert len(found.records) == 4
    assert len(found.actions) == 4
    assert found.occurrences == 1 + 2 + 3 + 4
    assert {one.chain for one in found.records} == {sha256(canon(CHAIN[0]))}
    assert found.contradictions == ()


def test_reading_again_in_any_order_or_a_longer_copy_changes_nothing_but_what_is_new() -> None:
    whole = told(gathered(CHAIN))
    for files in itertools.permutations([CHAIN[:2], CHAIN, [CHAIN[3]], CHAIN[1:3]]):
        assert told(gathered(*files)) == whole
    assert digests(CHAIN[:2]) == {one.digest for one in gathered(CHAIN[:2]).records}


def test_signatures_are_no_part_of_what_a_record_is() -> None:
    agent = Emitter()
    found = gathered(CHAIN, [agent.signed(one) for one in CHAIN])
    assert len(found.records) == 4
    assert {len(one.occurrences) for one in found.records} == {2}


def test_an_orphan_waits_for_its_predecessor_under_the_name_of_its_link() -> None:
    link = sha256(canon(CHAIN[1]))
    assert {one.chain for one in gathered(CHAIN[2:]).records} == {f"orphan:{link}"}
    assert told(gathered(CHAIN[2:], CHAIN[:2])) == told(gathered(CHAIN))


def test_an_earlier_action_told_otherwise_later_in_one_chain_is_history_rewritten() -> None:
    later = {**record(number=2), "actions": [action(0), action(1, "rm"), action(2)]}
    found = gathered(linked([record(), record(number=1), later]))
    assert [(one.code, one.action_id) for one in found.contradictions] == [("history-rewritten", "action-1")]
    assert {one.value["tool_name"] for one in found.actions if one.action_id == "action-1"} == {"read_config", "rm"}


def test_two_records_after_one_are_a_fork_and_both_are_kept() -> None:
    base = CHAIN[:2]
    link = sha256(canon(base[1]))
    ends = [
        {**record(number=2), "prev_record_hash": link, "actions": [action(0), action(1), action(2, tool)]}
        for tool in "ab"
    ]
    found = gathered([*base, ends[0]], [*base, ends[1]])
    assert [one.code for one in found.contradictions] == ["chain-fork"]
    assert set(found.contradictions[0].records) == digests([base[1], *ends])
    assert sorted(str(one.value["tool_name"]) for one in found.actions if one.action_id == "action-2") == ["a", "b"]


def test_chains_that_tell_an_action_differently_are_a_conflict_and_equal_ones_alternates() -> None:
    other = linked([{**record(), "model_id": "m"}, {**record(number=1), "actions": [action(0), action(1, "rm")]}])
    found = gathered(CHAIN[:2], other)
    assert [(one.code, one.action_id) for one in found.contradictions] == [("action-conflict", "action-1")]
    same = [one for one in found.actions if one.action_id == "action-0"]
    assert sorted(one.chain for one in same) == sorted(one.alternates[0] for one in same)
    assert len(found.actions) == 4
    assert found.bodies == 3


def test_the_same_action_id_in_two_runs_is_two_actions_and_no_conflict() -> None:
    found = gathered([record("one")], [{**record("two"), "actions": [action(0, "rm")]}])
    assert len(found.actions) == 2
    assert found.contradictions == ()


def test_a_link_in_another_spelling_joins_a_chain() -> None:
    first = {**record(), "budget_ledger": {"9": 1.0, "10": 2}}
    text = canon(first).replace(b'"10":2,"9":1.0', b'"9":1,"10":2')
    second = {**record(number=1), "prev_record_hash": sha256(text)}
    found = gathered([second], [first])
    assert {one.chain for one in found.records} == {sha256(canon(first))}


@pytest.mark.parametrize("seed", range(5))
def test_a_long_chain_in_pieces_is_one_chain(seed: int) -> None:
    chain = linked([{**record(number=0), "created_at_ms": number} for number in range(400)])
    random.Random(seed).shuffle(chain)
    found = gathered(*[chain[at : at + 7] for at in range(0, 400, 7)])
    assert len(found.records) == 400
    assert len({one.chain for one in found.records}) == 1
    assert [one.parent for one in found.records[1:]] == [one.digest for one in found.records[:-1]]


def test_every_code_of_agent_records_is_in_the_registry() -> None:
    known = {code.name for code in agent_codes.AGENT}
    used = {gathering.REWRITTEN, gathering.CONFLICT, gathering.FORK, envelopes.COPY_DIFFERS}
    used |= {digests_of.RECORD_DIGEST, digests_of.BUNDLE_DIGEST, digests_of.BUNDLE_LIST}
    used |= {digests_of.LEDGER_HASH, digests_of.LEDGER_LINK, digests_of.LEDGER_ORDER}
    used |= {joining.MISMATCH, joining.CONFLICT, joining.PLACEHOLDER, train_aep.COLLISION}
    assert used == known


@pytest.mark.parametrize("is_fork", [False, True], ids=["chains of their own", "one fork"])
def test_many_records_that_tell_one_action_take_time_in_proportion_to_them(is_fork: bool) -> None:
    first = record()

    def container(count: int) -> Container:
        others = [{**record(), "created_at_ms": 2_000_000 + at} for at in range(count)]
        if is_fork:
            others = [first, *({**one, "prev_record_hash": sha256(canon(first))} for one in others)]
            for at, one in enumerate(others[1:]):
                one["actions"] = [{**one["actions"][0], "action_id": "same", "tool_name": f"tool-{at}"}]
        return aep.read(lines(others), name="many")

    small, large = container(250), container(1_000)

    assert how_many_times(lambda: gather([large]), lambda: gather([small]), rounds=3) < 8
