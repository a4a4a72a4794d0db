"""The recording policy is the table of its rules: first match, fixed reasons, and nothing unknown is taken lightly."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.errors import ConfigError, InputError
from provstore.evidence.recording import classes, policy
from provstore.evidence.recording.policy import WatchList, compile_recording_policy, raised, risk_context
from provstore.model import canonical
from provstore.model.recording import AnomalySignal, Escalation, RecordingPolicy, RiskContext

CLASSES = ("read", "mutate-local", "mutate-external", "network-egress", "unknown")
MODES = ("validation", "delta", "full")
SCORES = (None, 0, 0.8, 0.8000001, 1)
OPERATOR = Escalation(1, "manual", "operator", "run", "P1", 5)
LOSS = Escalation(2, "loss-spike", "rank:0", "run", "P2", 5)


def by_hand(escalated, score, vetted, consent, taint, klass):
    """The rules as the specification lists them, from the top."""
    rules = (
        (escalated, "P1", "full", "external escalation signal"),
        (score in (0.8000001, 1), "P2", "full", "statistical anomaly detected"),
        (vetted, "1", "full", "tool flagged by vetting"),
        (consent, "2", "full", "consent anomaly recorded"),
        (taint in (1, 2, 9) and klass != "read", "3", "full", "tainted input reaching state-changing call"),
        (klass == "unknown", "4", "full", "unknown side-effect class"),
        (klass in ("mutate-external", "network-egress"), "5", "full", "external mutation"),
        (klass == "mutate-local", "6", "delta", "local mutation, low risk"),
        (klass == "read", "7", "validation", "read-only, no anomaly"),
    )
    return next((mode, reason, rule) for holds, rule, mode, reason in rules if holds)


def test_all_800_combinations_have_the_mode_and_the_reason_of_the_first_rule_that_holds():
    combinations = list(itertools.product((False, True), SCORES, (False, True), (False, True), (0, 1, 2, 9), CLASSES))
    found = {}
    for escalated, score, vetted, consent, taint, klass in combinations:
        said = compile_recording_policy(
            RiskContext(vetted, consent, taint, klass),
            OPERATOR if escalated else None,
            None if score is None else AnomalySignal("cusum", score),
        )
        found[escalated, score, vetted, consent, taint, klass] = (said.mode, said.reason, said.rule)

    assert len(combinations) == 800
    assert found == {one: by_hand(*one) for one in combinations}


def test_an_escalation_by_a_statistic_is_reported_as_the_statistic():
    said = compile_recording_policy(RiskContext(side_effect_class="read"), LOSS)

    assert said == RecordingPolicy("full", "statistical anomaly detected", "P2")


contexts = st.builds(RiskContext, st.booleans(), st.booleans(), st.integers(0, 20), st.sampled_from(CLASSES))
escalations = st.sampled_from((None, OPERATOR, LOSS))
signals = st.none() | st.builds(AnomalySignal, st.just("x"), st.floats(0, 1))


@given(contexts, escalations, signals)
def test_an_unknown_class_is_recorded_in_full_whatever_else_holds(context, escalation, signal):
    unknown = RiskContext(context.was_vetted, context.has_consent_anomaly, context.taint_chain_length, "unknown")

    assert compile_recording_policy(unknown, escalation, signal).mode == "full"


@given(contexts, escalations, signals)
def test_the_policy_is_total_and_deterministic(context, escalation, signal):
    said = compile_recording_policy(context, escalation, signal)

    assert said.mode in MODES
    assert said == compile_recording_policy(context, escalation, signal)


@given(contexts, escalations, signals, st.data())
def test_making_one_input_worse_never_lowers_the_mode(context, escalation, signal, data):
    worse = {
        "was_vetted": lambda: {"was_vetted": True},
        "has_consent_anomaly": lambda: {"has_consent_anomaly": True},
        "taint_chain_length": lambda: {"taint_chain_length": data.draw(st.integers(context.taint_chain_length, 40))},
        "side_effect_class": lambda: {
            "side_effect_class": data.draw(st.sampled_from(CLASSES[CLASSES.index(context.side_effect_class) :]))
        },
        "escalation": dict,
        "signal": dict,
    }
    which = data.draw(st.sampled_from(sorted(worse)))
    fields = {name: getattr(context, name) for name in RiskContext.__slots__} | worse[which]()
    other_escalation = OPERATOR if which == "escalation" else escalation
    low = 0.0 if signal is None else signal.score
    other_signal = AnomalySignal("x", data.draw(st.floats(low, 1))) if which == "signal" else signal

    before = compile_recording_policy(context, escalation, signal).mode
    after = compile_recording_policy(RiskContext(**fields), other_escalation, other_signal).mode

    assert MODES.index(after) >= MODES.index(before)


@pytest.mark.parametrize("score", [math.nan, -0.1, 1.1, math.inf, True, "0.9", None, [0.9]])
def test_a_score_that_is_no_number_from_0_to_1_is_refused_at_construction(score):
    with pytest.raises(ConfigError, match=r"^cusum: score: "):
        AnomalySignal("cusum", score)


def test_a_nan_score_that_is_forced_past_its_construction_does_not_fire():
    forced = AnomalySignal("cusum", 0.0)
    object.__setattr__(forced, "score", math.nan)

    said = compile_recording_policy(RiskContext(side_effect_class="read"), None, forced)

    assert said == RecordingPolicy("validation", "read-only, no anomaly", "7")


def test_what_nobody_knows_of_an_action_is_the_worst_class_and_no_other_risk():
    assert RiskContext() == RiskContext(
        was_vetted=False, has_consent_anomaly=False, taint_chain_length=0, side_effect_class="unknown"
    )


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"taint_chain_length": -1}, "taint_chain_length"),
        ({"taint_chain_length": 1.0}, "taint_chain_length"),
        ({"taint_chain_length": True}, "taint_chain_length"),
        ({"taint_chain_length": "2"}, "taint_chain_length"),
        ({"taint_chain_length": None}, "taint_chain_length"),
        ({"side_effect_class": "write"}, "side_effect_class"),
        ({"side_effect_class": "READ"}, "side_effect_class"),
        ({"side_effect_class": None}, "side_effect_class"),
        ({"was_vetted": 1}, "was_vetted"),
        ({"has_consent_anomaly": "false"}, "has_consent_anomaly"),
    ],
)
def test_a_value_of_another_kind_is_an_error_and_no_default(fields, place):
    with pytest.raises(ConfigError, match=rf"^risk context: {place}: "):
        RiskContext(**fields)
    with pytest.raises(InputError, match=rf"^risk context: {place}: "):
        risk_context(fields)


def test_a_risk_context_is_read_by_the_names_that_javascript_uses():
    text = '{"wasVetted": true, "hasConsentAnomaly": false, "taintChainLength": 2, "sideEffectClass": "mutate-local"}'

    assert risk_context(json.loads(text)) == RiskContext(True, False, 2, "mutate-local")
    assert risk_context({"taint_chain_length": 3, "sideEffectClass": "read"}) == RiskContext(False, False, 3, "read")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"wasVeted": True}, "'wasVeted': is none of was_vetted, "),
        ({"wasVetted": True, "was_vetted": True}, "was_vetted: is stated twice"),
    ],
)
def test_a_misspelt_or_doubled_name_is_an_error(said, reason):
    with pytest.raises(InputError, match=f"^risk context: {reason}"):
        risk_context(said)


@pytest.mark.parametrize(
    ("klass", "floor", "mode", "rule"),
    [
        ("read", "validation", "validation", "7"),
        ("read", "delta", "delta", "floor"),
        ("read", "full", "full", "floor"),
        ("mutate-local", "validation", "delta", "6"),
        ("mutate-local", "full", "full", "floor"),
        ("unknown", "validation", "full", "4"),
        ("unknown", "delta", "full", "4"),
    ],
)
def test_a_mode_floor_raises_a_mode_and_never_lowers_one(klass, floor, mode, rule):
    said = raised(compile_recording_policy(RiskContext(side_effect_class=klass)), floor)

    assert (said.mode, said.rule) == (mode, rule)


def test_the_reason_of_a_raised_mode_says_who_raised_it_from_what_to_what_and_what_the_rules_alone_say():
    said = raised(compile_recording_policy(RiskContext(side_effect_class="read")), "full")

    assert said.reason == (
        "raised from validation to full by the mode floor that was set; without it: read-only, no anomaly"
    )


def test_a_mode_floor_that_is_no_mode_is_refused():
    with pytest.raises(ConfigError, match=r"^none: mode floor: "):
        raised(RecordingPolicy("delta", "x", "6"), "none")


def test_a_watch_list_names_ranks_operations_groups_and_hosts():
    watched = WatchList(frozenset({3}), frozenset({"all_reduce"}), frozenset({"tp"}), frozenset({"node7"}))

    assert watched.names(rank=3, op="send")
    assert watched.names(rank=0, op="all_reduce")
    assert watched.names(rank=0, op="send", group="tp")
    assert watched.names(rank=0, op="send", host="node7")
    assert not watched.names(rank=0, op="send", group="dp", host="node8")
    assert not watched.names(rank=0, op="send")


@pytest.mark.parametrize("op", ["all_reduce", "ALLREDUCE", "nccl:all_reduce", "gloo:allreduce_"])
def test_a_watch_list_names_an_operation_in_any_of_its_spellings(op):
    watched = WatchList(ops=frozenset({op, "my.op"}))

    assert watched.names(rank=0, op="all_reduce")
    assert watched.names(rank=0, op="my.op")
    assert not watched.names(rank=0, op="all_reduce_coalesced")
    assert not watched.names(rank=0, op="other.op")


def test_the_policy_document_holds_the_whole_table_and_every_setting_changes_its_digest():
    plain = policy.document()
    more = classes.extended(classes.TABLE, {"my.op": "unknown"})
    others = [
        policy.document(mode_floor="full"),
        policy.document(external_groups=["weights"]),
        policy.document(table=more),
        policy.document(watched=WatchList(frozenset({1}))),
        policy.document(watched=WatchList(ops=frozenset({"send"}))),
        policy.document(watched=WatchList(groups=frozenset({"send"}))),
        policy.document(watched=WatchList(hosts=frozenset({"send"}))),
    ]

    assert json.loads(plain["table"])["operations"][0]["name"] == "barrier"
    assert canonical.parse(canonical.encode({**plain})) == plain
    assert len({policy.document_digest(one) for one in (plain, *others)}) == 8
    assert policy.document(external_groups=["b", "a"]) == policy.document(external_groups={"a", "b"})
