"""The page about recording says what the code does: rules, classes, triggers, defaults."""

import re
from pathlib import Path

import pytest

from provstore.evidence.recording.classes import TABLE, side_effect_class
from provstore.evidence.recording.policy import compile_recording_policy
from provstore.evidence.recording.triggers import DEFAULTS, TRIGGERS
from provstore.model.recording import CLASSES, AnomalySignal, Escalation, RiskContext
from provstore.sources.signals import dcgm, prometheus, xid_table

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "recording.md").read_text(encoding="utf-8")


def rows(heading):
    """Cells of the table under a heading, without its two first lines."""
    part = PAGE.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


CASES = {
    "P1": (RiskContext(), Escalation(0, "xid", "watch", "run", "P1", 0), None),
    "P2": (RiskContext(), None, AnomalySignal("x", 0.9)),
    "1": (RiskContext(was_vetted=True), None, None),
    "2": (RiskContext(has_consent_anomaly=True), None, None),
    "3": (RiskContext(taint_chain_length=1), None, None),
    "4": (RiskContext(), None, None),
    "5": (RiskContext(side_effect_class="network-egress"), None, None),
    "6": (RiskContext(side_effect_class="mutate-local"), None, None),
    "7": (RiskContext(side_effect_class="read"), None, None),
}


def test_the_page_lists_the_rules_with_mode_and_reason_in_their_order():
    listed = [(rule, mode, reason) for rule, _, mode, reason in rows("## Rules")]
    made = {rule: compile_recording_policy(*case) for rule, case in CASES.items()}

    assert listed == [(rule, said.mode, said.reason) for rule, said in made.items()]
    assert [said.rule for said in made.values()] == list(CASES)


def test_the_page_lists_every_operation_under_its_class():
    listed = dict(rows("## Side-effect classes"))
    names = {one.name for one in TABLE.operations}

    assert list(listed) == list(CLASSES)
    for name in names:
        assert re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", listed[side_effect_class(name)]), name
    assert all(name in names for name in re.findall(r"\b[a-z]+[._][a-z_.]+\b", listed["network-egress"]))


def test_the_page_lists_every_trigger_with_its_rule():
    assert {trigger: rule for trigger, _, rule, _ in rows("## Escalation")} == {
        name: one.rule for name, one in TRIGGERS.items()
    }


@pytest.mark.parametrize(
    "words",
    [
        f"at least {DEFAULTS.min_steps} steps, and {DEFAULTS.hold_steps} after the last firing",
        f"when {DEFAULTS.clear_steps} steps in a row",
        f"More than {DEFAULTS.most_cycles} cycles in {DEFAULTS.cycle_window} steps",
        f"After {DEFAULTS.max_steps} steps in",
        dcgm.GAUGE, dcgm.COUNT, prometheus.URL, prometheus.POLL_INTERVAL, prometheus.TIMEOUT, prometheus.TOKEN,
        "codes 13, 31, 43 and 45 are faults of applications",
    ],
)  # fmt: skip
def test_the_page_states_the_defaults_and_names(words):
    assert words in PAGE


def test_the_page_names_the_codes_of_applications():
    assert [code for code, said in xid_table.TABLE.classes.items() if said == "application"] == [13, 31, 43, 45]
