"""What an agent's records say of the consent to the action that launched a run."""

from __future__ import annotations

from typing import Any

import pytest

from provstore.evidence.recording.consent import consent_of

HASH = "sha256:" + "5" * 64


def action(name: str = "submit", **more: Any) -> dict[str, Any]:
    return {"action_id": name, "tool_name": f"tool-{name}", "state_changing": True, "timestamp_ms": 1, **more}


def record(*actions: dict[str, Any], run: str = "agent", **more: Any) -> dict[str, Any]:
    return {"schema_version": "aep/v0.5", "run_id": run, "created_at_ms": 1, "actions": list(actions), **more}


def decision(said: str, capability: str = "job:submit", resource: str = "slurm://a", **more: Any) -> dict[str, Any]:
    return {"capability": capability, "subject": "agent:x", "resource": resource, "decision": said, **more}


def told(*records: dict[str, Any]) -> tuple[bool, bool]:
    found = consent_of(records, "agent/submit")
    return found.is_evaluated, found.has_anomaly


NO_ANOMALY, ANOMALY, NOT_EVALUATED = (True, False), (True, True), (False, False)


@pytest.mark.parametrize(
    ("members", "wanted"),
    [
        ({}, NO_ANOMALY),
        ({"capability_decision": decision("allow", approval_mode="bounded-lease")}, NO_ANOMALY),
        ({"capability_decision": decision("allow", approval_mode="policy-allow-with-receipt")}, NO_ANOMALY),
        ({"capability_decision": decision("dry_run")}, NO_ANOMALY),
        ({"capability_decision": decision("deny")}, ANOMALY),
        ({"capability_decision": decision("deny"), "approval_context_hash": HASH}, ANOMALY),
        ({"capability_decision": "deny"}, ANOMALY),
        ({"capability_decision": decision("allow", approval_mode="policy-deny-with-evidence")}, ANOMALY),
        ({"capability_decision": decision("ask_user")}, ANOMALY),
        ({"capability_decision": decision("ask_user"), "approval_context_hash": ""}, ANOMALY),
        ({"capability_decision": decision("ask_user"), "approval_context_hash": HASH}, NO_ANOMALY),
        ({"capability_decision": decision("allow", approval_mode="one-shot-payload")}, ANOMALY),
        ({"capability_decision": decision("allow", approval_mode="re-approval-on-drift")}, ANOMALY),
        (
            {
                "capability_decision": decision("allow", approval_mode="one-shot-payload"),
                "approval_context_hash": HASH,
            },
            NO_ANOMALY,
        ),
        ({"permission_gate": {"decision": "denied", "gate": "platform"}}, ANOMALY),
        ({"permission_gate": {"decision": "auto_approved", "gate": "platform"}}, NO_ANOMALY),
        ({"argument_drift": {"detected": True, "resolution": "denied"}}, ANOMALY),
        ({"argument_drift": {"detected": True, "resolution": "re-approved"}}, NO_ANOMALY),
        ({"outcome": "denied"}, ANOMALY),
        ({"outcome": "success"}, NO_ANOMALY),
        ({"capability_decision": 7, "permission_gate": [], "outcome": None, "approval_context_hash": {}}, NO_ANOMALY),
    ],
)
def test_a_decision_of_the_action_itself_denies_it_asks_for_it_or_says_nothing(
    members: dict[str, Any], wanted: tuple[bool, bool]
) -> None:
    assert told(record(action(**members))) == wanted


def test_a_decision_of_its_record_counts_when_the_action_is_the_only_one_that_it_adds() -> None:
    read = action("read", state_changing=False)
    assert told(record(read), record(read, action(), capability_decisions=[decision("deny")])) == ANOMALY
    assert told(
        record(action("write")), record(action("write"), action(), capability_decisions=[decision("deny")])
    ) == (ANOMALY)
    asked = record(read, action(approval_context_hash=HASH), capability_decisions=[decision("ask_user")])
    assert told(asked) == NO_ANOMALY


def test_a_decision_that_may_be_about_another_action_of_the_record_does_not_count() -> None:
    several = record(action("write"), action(), capability_decisions=[decision("deny")])
    assert told(several) == NO_ANOMALY
    by_tool = record(action("write"), action(), capability_decisions=[decision("deny", resource="tool-submit")])
    assert told(by_tool) == ANOMALY
    by_reference = record(
        action("write"),
        action(evidence_refs=["train-run://r"]),
        capability_decisions=[decision("deny", resource="train-run://r")],
    )
    assert told(by_reference) == ANOMALY


def test_of_several_decisions_about_one_thing_the_last_counts() -> None:
    assert told(record(action(), capability_decisions=[decision("deny"), decision("allow")])) == NO_ANOMALY
    assert told(record(action(), capability_decisions=[decision("allow"), decision("deny")])) == ANOMALY


def test_a_decision_of_the_action_comes_before_those_of_its_record() -> None:
    allowed = action(capability_decision=decision("allow"))
    assert told(record(allowed, capability_decisions=[decision("deny")])) == NO_ANOMALY


def test_decisions_of_records_before_and_after_and_of_other_runs_are_not_its_own() -> None:
    read = action("read", state_changing=False)
    before = record(read, capability_decisions=[decision("deny")])
    after = record(read, action(), action("more"), capability_decisions=[decision("deny")])
    other = record(action(capability_decision=decision("deny")), run="another")
    assert told(before, record(read, action()), after, other) == NO_ANOMALY


def test_an_action_that_is_repeated_with_a_denial_shows_it() -> None:
    assert told(record(action()), record(action(outcome="denied"))) == ANOMALY


def test_an_action_that_is_not_there_was_not_evaluated() -> None:
    found = consent_of([record(action("other"))], "agent/submit")
    assert (found.is_evaluated, found.has_anomaly) == NOT_EVALUATED
    assert found.reason == "agent/submit is not in the file"


def test_the_reason_names_place_and_code_and_shows_no_control_characters() -> None:
    said = decision("deny", capability="job\x1b[31m", reason_code="policy-rule")
    found = consent_of([record(action(capability_decision=said))], "agent/submit")
    assert found.reason == r"agent/submit: capability_decision: job\x1b[31m: denied (policy-rule)"


@pytest.mark.parametrize("actions", [None, 7, {}, [None, 7, [], {"action_id": []}]])
def test_what_is_no_list_of_actions_holds_none(actions: Any) -> None:
    odd = {"run_id": "agent", "actions": actions, "capability_decisions": [None, 7]}
    assert told(odd) == NOT_EVALUATED
