"""Chains of agent records: what each order and each missing link is called."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provstore.evidence.aep import chains, judge
from provstore.model.aep import ContainerVerdict
from provstore.sources import aep
from tests.agent_records import Record, canon, lines, linked, record, sha256

CHAIN = linked([record(number=number) for number in range(4)])


def judged(records: list[Record]) -> ContainerVerdict:
    return judge(aep.read(lines(records)), {})


def without_link(one: Record) -> Record:
    return {name: member for name, member in one.items() if name != "prev_record_hash"}


def relinked(records: list[Record], absent: set[int]) -> list[Record]:
    before, made = None, []
    for place, one in enumerate(records):
        made.append({**one, "prev_record_hash": None if place in absent else before})
        before = sha256(canon(made[-1]))
    return made


@pytest.mark.parametrize(
    ("records", "status", "details"),
    [
        (CHAIN, "intact", {"records": 4}),
        (CHAIN[:1], "not-present", {}),
        ([without_link(one) for one in CHAIN], "not-present", {"absent_count": 3}),
        (relinked(CHAIN, {2}), "partial", {"absent": [2]}),
        (relinked(CHAIN, {1, 3}), "partial", {"absent": [1, 3]}),
        (CHAIN[1:], "orphaned", {}),
        (CHAIN[2:3], "orphaned", {}),
        ([CHAIN[0], CHAIN[2], CHAIN[1], CHAIN[3]], "broken", {"index": 1}),
        ([CHAIN[0], CHAIN[2], CHAIN[3]], "broken", {"index": 1}),
        ([CHAIN[0], CHAIN[1], {**CHAIN[2], "prev_record_hash": "0" * 64}, CHAIN[3]], "broken", {"index": 2}),
        ([CHAIN[0], {**CHAIN[1], "model_id": "other"}, CHAIN[2], CHAIN[3]], "broken", {"index": 2}),
        ([CHAIN[1], CHAIN[3]], "broken", {"index": 1}),
        ([CHAIN[0], {**CHAIN[1], "prev_record_hash": 7}], "broken", {"index": 1}),
    ],
)
def test_a_chain_has_the_status_of_the_first_rule_that_fits(
    records: list[Record], status: str, details: dict[str, Any]
) -> None:
    chain = judged(records).chain
    assert chain.status == status
    assert {name: chain.details[name] for name in details} == details
    assert chain.details["chain_scope"] == "file"


def test_an_absent_link_is_counted_and_never_makes_a_chain_whole() -> None:
    verdict = judged([*CHAIN, *CHAIN[:1]])
    assert verdict.chain.status == "partial"
    assert verdict.chain.details["absent"] == [4]


def test_two_runs_in_one_file_are_judged_by_themselves_when_the_file_is_no_chain() -> None:
    other = linked([record("other-run", number) for number in range(2)])
    verdict = judged([CHAIN[0], other[0], CHAIN[1], other[1]])
    assert verdict.chain.status == "broken"
    assert {run: axis.status for run, axis in verdict.chains.items()} == {"agent-run": "intact", "other-run": "intact"}
    said = verdict.records[3].axes["chain"]
    assert (said.status, said.details["chain_scope"]) == ("intact", "run")


def test_a_chain_over_several_runs_is_one_when_the_whole_file_is() -> None:
    verdict = judged(linked([record("one"), record("two"), record("one", 1)]))
    assert {one.axes["chain"].status for one in verdict.records} == {"intact"}
    assert verdict.records[2].axes["chain"].details["chain_scope"] == "file"


@pytest.mark.parametrize(
    ("member", "written", "variant"),
    [
        ('"score":1.0', '"score":1', "es-numbers"),
        ('"\U0001f600":1,"\uffff":2', '"\U0001f600":1,"\uffff":2', "utf16-key-order"),
        ('"9":1,"10":2', '"9":1,"10":2', "es-integer-keys"),
    ],
)
def test_a_link_made_by_a_writer_that_spells_otherwise_is_named_with_its_variant(
    member: str, written: str, variant: str
) -> None:
    first = f'{{"schema_version":"aep/v0.5","run_id":"r","created_at_ms":1,"budget_ledger":{{{member}}}}}'
    body = f'{{"budget_ledger":{{{written}}},"created_at_ms":1,"run_id":"r","schema_version":"aep/v0.5"}}'
    second = {**record("r"), "prev_record_hash": sha256(body.encode())}
    chain = judge(aep.read(first.encode() + b"\n" + lines([second])), {}).chain
    assert (chain.status, chain.details.get("canonical_variants")) == ("intact", [variant])


def test_a_record_that_cannot_be_read_is_named_by_no_link() -> None:
    data = lines(CHAIN[:1]) + b'{"schema_version":"aep/v0.5","run_id":"agent-run","run_id":"x"}\n' + lines(CHAIN[1:])
    verdict = judge(aep.read(data), {})
    assert verdict.chain.status == "broken"
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "fail", "pass", "pass", "pass"]


def test_many_runs_are_told_apart_without_keeping_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "_HELD_BYTES", 600)
    runs = [linked([{**record(f"run-{number}"), "n": 1.5}, record(f"run-{number}", 1)]) for number in range(20)]
    verdict = judged([one[0] for one in runs] + [one[1] for one in runs])
    assert {axis.status for axis in verdict.chains.values()} == {"intact"}


def memory(ref: str, prior: str | None, digest: str) -> Record:
    return {"mem_ref": ref, "op": "write", "digest": digest, "prior_digest": prior, "timestamp_ms": 1}


@pytest.mark.parametrize(
    ("operations", "statuses"),
    [
        (
            [memory("a", None, "1"), memory("b", None, "1"), memory("a", "1", "2"), memory("b", "1", "3")],
            ["intact"] * 2,
        ),
        ([memory("a", None, "1"), memory("a", "9", "2"), memory("b", "0", "1")], ["broken", "orphaned"]),
        ([memory("a", None, "1"), memory("a", None, "2"), memory("b", None, "1")], ["partial", "not-present"]),
    ],
)
def test_each_memory_cell_has_a_chain_of_its_own(operations: list[Record], statuses: list[str]) -> None:
    verdict = judged(operations)
    assert verdict.kind == "memory-evidence"
    assert [verdict.chains[name].status for name in ("a", "b")] == statuses
    assert all(one.axes["structural"].status == "pass" for one in verdict.records)


def test_the_digest_of_a_record_is_that_of_its_sorted_text_without_signatures() -> None:
    one = {**CHAIN[1], "signature": {"alg": "x", "key_id": "y", "sig": "z"}}
    assert chains.canonical(json.dumps(one).encode()) == canon(CHAIN[1])
