"""Structure and meaning of agent records: the family's schemas, and the rules that no schema can say."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
import wasmagent_protocol
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.evidence.aep import contract, judge, judging, schema, semantics
from provstore.model.aep import AXES, STATUSES
from provstore.sources import aep
from tests.agent_records import Emitter, action, lines, record

RICH = {
    **record(),
    "input_refs": [{"uri": "dataset://c4", "taint_labels": ["a"]}],
    "run_context": {"agent_id": "a", "delegation_chain": ["b"]},
    "attribution_backing": "unknown",
    "run_attribution_backing_floor": "unknown",
    "run_attribution_backing_observed": ["unknown"],
    "authorization_evidence_count": 1,
    "verifier_results": [{"verifier_id": "v", "passed": True, "score": 0.5}],
    "capability_decisions": [{"capability": "c", "subject": "s", "resource": "r", "decision": "allow"}],
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.5, 1.0])
    | st.sampled_from(["", "unknown", "full"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["uri", "x"]), inner, max_size=2),
    max_leaves=3,
)
SAMPLES = {
    "aep-record": RICH,
    "memory-evidence": {"mem_ref": "m", "op": "read", "digest": "d", "prior_digest": None, "timestamp_ms": 1},
    "replay-evidence": {
        "schema_version": "aep/v0.1", "created_at_ms": 1, "run_id": "r", "seed": "1", "input_digests": ["a"],
        "output_digest": "b", "engine_version": "e",
    },
    "checkpoint-evidence": {
        "schema_version": "aep/v0.1", "created_at_ms": 1, "checkpoint_id": "c", "parent_run_id": "r",
        "state_digest": "s", "fork_of": None,
    },
    "checkpoint": {"checkpoint_id": "c", "state_digest": "s", "created_at": "2026-01-01T00:00:00Z", "fork_of": "x"},
    "fork": {"fork_id": "f", "source_checkpoint_id": "c", "fork_reason": "retry", "created_at": "2026-01-01T00:00:00Z"},
    "artifact-attestation": {
        "schema_version": "aep/v0.1", "created_at_ms": 1, "artifact_uri": "u", "digest": "d",
        "produced_by_run_id": "r", "tool_name": "t",
    },
    "evidence-envelope": {"schema_version": "aep/v0.1", "created_at_ms": 1},
    "canonical-event": {
        "schema_version": "canonical-event/v0.1", "event_id": "e", "event_type": "action", "timestamp_ms": 1,
        "actor": {"actor_id": "a"}, "refs": [{"uri": "u"}],
    },
}  # fmt: skip


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, member in inner for place in _places(member, (*path, name)))]


@given(kind=st.sampled_from(sorted(SAMPLES)), data=st.data())
@settings(max_examples=600)
def test_a_value_passes_exactly_when_jsonschema_says_so(kind: str, data: st.DataObject) -> None:
    value: Any = copy.deepcopy(SAMPLES[kind])
    place = data.draw(st.sampled_from(_places(value)))
    put = data.draw(JSON)
    if not place:
        value = put
    else:
        holder = value
        for name in place[:-1]:
            holder = holder[name]
        if data.draw(st.booleans()) and isinstance(holder, dict):
            del holder[place[-1]]
        else:
            holder[place[-1]] = put
    if data.draw(st.booleans()) and isinstance(value, dict):
        value["more"] = put
    judge_of = jsonschema.Draft202012Validator(wasmagent_protocol.get_schema(kind))
    assert (schema.errors(kind, value) == []) is judge_of.is_valid(value)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_each_kind_is_told_by_its_members_and_passes_its_own_schema(kind: str) -> None:
    verdict = judge(aep.read(json.dumps(SAMPLES[kind]).encode()), {})
    assert verdict.kind == ("record" if kind == "aep-record" else kind)
    assert verdict.records[0].axes["structural"].details["schema"] == kind
    assert verdict.records[0].axes["structural"].status == "pass"


def test_what_is_wrong_with_a_record_is_named_by_place() -> None:
    broken = {**record(), "schema_version": "aep/v0.9", "actions": [{**action(0), "state_changing": "no"}]}
    axis = judge(aep.read(lines([broken])), {}).records[0].axes["structural"]
    assert axis.status == "fail"
    assert "actions/0/state_changing: is no boolean" in axis.details["errors"]  # type: ignore[operator]


def test_without_the_schemas_the_structure_is_not_evaluated_and_all_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Emitter()
    monkeypatch.setattr(schema, "is_available", lambda: False)
    axes = judge(aep.read(lines([agent.signed(record())])), agent.keys).records[0].axes
    assert axes["structural"].to_dict()["evaluated"] is False
    assert "status" not in axes["structural"].to_dict()
    assert (axes["authenticity"].status, axes["semantic"].status) == ("valid", "pass")


def test_more_actions_than_are_looked_at_fail_the_structure_of_that_record_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judging, "MAX_ACTIONS", 2)
    verdict = judge(aep.read(lines([record(number=2), record(number=1)])), {})
    assert [one.axes["structural"].status for one in verdict.records] == ["fail", "pass"]


FLOOR, OBSERVED = semantics.FLOOR, semantics.OBSERVED


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, None),
        ({FLOOR: "unknown", OBSERVED: ["qualified_signature", "unknown"]}, None),
        ({FLOOR: "qualified_signature", OBSERVED: ["qualified_signature"]}, None),
        ({FLOOR: "unknown"}, "without"),
        ({OBSERVED: ["unknown"]}, "without"),
        ({FLOOR: "unknown", OBSERVED: []}, "empty"),
        ({FLOOR: "unknown", OBSERVED: ["unknown", "unknown"]}, "twice"),
        ({FLOOR: "unknown", OBSERVED: ["unknown", "best"]}, "unknown grade"),
        ({FLOOR: "unknown", OBSERVED: ["operator_asserted"]}, "none of the grades"),
        ({FLOOR: "principal_key_signed", OBSERVED: ["principal_key_signed", "operator_asserted"]}, "not the weakest"),
        ({FLOOR: "operator_asserted", OBSERVED: ["unknown", "operator_asserted"]}, "not the weakest"),
        ({FLOOR: None, OBSERVED: ["unknown"]}, "no known grade"),
        ({FLOOR: "unknown", OBSERVED: "unknown"}, "no list"),
        ({"attribution_backing": "self"}, "no known grade"),
        ({"authorization_evidence_count": 0}, None),
        ({"authorization_evidence_count": -1}, "no whole number"),
        ({"authorization_evidence_count": True}, "no whole number"),
        ({"authorization_evidence_count": 1.5}, "no whole number"),
        ({"authorization_evidence_count": "1"}, "no whole number"),
    ],
)
def test_the_grades_of_an_attribution_hang_together(members: dict[str, object], words: str | None) -> None:
    axis = judge(aep.read(lines([{**record(), **members}])), {}).records[0].axes["semantic"]
    assert axis.status == ("pass" if words is None else "fail")
    assert words is None or words in str(axis.reason)


def test_meaning_and_signature_do_not_depend_on_each_other() -> None:
    agent = Emitter()
    one = agent.signed({**record(), "authorization_evidence_count": -1})
    axes = judge(aep.read(lines([one])), agent.keys).records[0].axes
    assert (axes["semantic"].status, axes["authenticity"].status) == ("fail", "valid")


CONTRACT = {
    "structural": {"pass", "fail"},
    "semantic": {"pass", "fail"},
    "authenticity": {"unsigned", "valid", "invalid", "unsupported-legacy", "binding-mismatch"},
    "chain": {"intact", "broken"},
    "capture": {"complete-evidenced", "unknown"},
}


@pytest.mark.parametrize(
    "data",
    [
        lines([record(), record(number=1)]),
        lines([Emitter().signed(record())]),
        lines([{**record(), "prev_record_hash": "0" * 64}]),
        lines([record()]) + b'{"schema_version":"aep/v0.5","run_id":"a","run_id":"b"}\n',
        lines([SAMPLES["fork"]]),
    ],
)
def test_every_axis_is_always_there_and_none_sums_them_up(data: bytes) -> None:
    for one in judge(aep.read(data), {}).records:
        assert tuple(one.axes) == AXES
        for name, axis in one.axes.items():
            said = axis.to_dict()
            assert ("status" in said) is said["evaluated"]
            assert not axis.evaluated or axis.status in STATUSES[name]
        assert not one.axes["capture"].evaluated
        envelope = contract.envelope(one)
        assert set(envelope) == set(CONTRACT)
        for name, allowed in CONTRACT.items():
            part = envelope[name]
            assert ("status" in part) is part["evaluated"]  # type: ignore[operator, index]
            assert part.get("status", next(iter(allowed))) in allowed  # type: ignore[attr-defined]


def test_a_chain_that_the_contract_has_no_word_for_is_told_as_its_detail() -> None:
    verdict = judge(aep.read(lines([{**record(), "prev_record_hash": "0" * 64}])), {})
    assert contract.envelope(verdict.records[0])["chain"] == {"evaluated": False, "detail": "orphaned"}
