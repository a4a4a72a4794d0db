"""Which agent runs and training runs belong together: every rule, its strength, ambiguity and missing ends."""

from __future__ import annotations

import pytest

from provstore.analysis.join.joining import join, referred_run
from provstore.model.joining import AgentRun, Reference, TrainedRun

TRACE = "463ac35c9f6413ad48485a3953bb6124"
OTHER = "0af7651916cd43dd8448eb211c80319c"


def launcher(*uris: str, action: str | None = "action-2", **said) -> AgentRun:
    references = tuple(Reference(uri, "evidence_refs", action) for uri in uris)
    usual = {"trace_ids": (TRACE,), "actions": ("action-0", "action-1", "action-2"), "agents": ("launcher",)}
    return AgentRun("agent-run-7", references=references, **{**usual, **said})


def links(report) -> list[tuple[str, str, tuple[str, ...], str]]:
    def name(end) -> str:
        return end.run_id if end.action_id is None else f"{end.run_id}/{end.action_id}"

    return [(name(one.source), name(one.target), one.rules, one.strength) for one in report.links]


@pytest.mark.parametrize(
    ("uri", "run"),
    [
        ("train-run://run-42", "run-42"),
        ("train-run:run-42", "run-42"),
        ("train-run://my%20run%2F1", "my run/1"),
        ("train-run://run-42/epoch/3", "run-42"),
        ("train-run://", None),
        ("train-run://run-42/else", None),
        ("dataset://c4/shard-0007", None),
        ("Train-Run://run-42", None),
    ],
)
def test_a_reference_names_a_run_in_both_spellings(uri: str, run: str | None) -> None:
    assert referred_run(uri) == run


def test_gateway_launcher_and_run_are_one_group_and_the_action_that_submitted_the_job_is_named() -> None:
    gateway = AgentRun("gw-req-1", (TRACE,), agents=("edge",))
    report = join(
        [gateway, launcher("train-run://run-42", delegations=("gateway",))], [TrainedRun("run-42", (0,), TRACE)]
    )
    assert (
        links(report)
        == [
            ("agent-run-7/action-2", "run-42", ("ref", "exact"), "strong"),
            ("agent-run-7", "gw-req-1", ("exact",), "strong"),
        ][::-1]
    )
    assert [(one.raw_ids, one.normalised, len(one.members)) for one in report.groups] == [((TRACE,), TRACE, 3)]
    assert (report.ambiguous, report.missing, report.unresolved_names) == ((), (), ("gateway",))
    assert report.is_whole


def test_a_reference_to_a_run_that_is_not_stored_is_missing_and_the_answer_is_not_whole() -> None:
    report = join([launcher("train-run://run-42")], [])
    assert [(one.reference, one.said_by) for one in report.missing] == [("train-run://run-42", "agent-run-7/action-2")]
    assert not report.is_whole


@pytest.mark.parametrize(
    ("trace", "rule", "strength"),
    [
        (TRACE.upper(), "hex-case", "strong"),
        (f"00-{TRACE}-00f067aa0ba902b7-01", "traceparent", "strong"),
    ],
)
def test_a_run_that_spells_its_trace_otherwise_joins_all_the_same(trace: str, rule: str, strength: str) -> None:
    report = join([launcher("train-run://run-42")], [TrainedRun("run-42", (0,), trace)])
    assert links(report) == [("agent-run-7/action-2", "run-42", ("ref", rule), strength)]
    assert links(join([launcher()], [TrainedRun("run-42", (0,), trace)])) == [
        ("agent-run-7", "run-42", (rule,), strength)
    ]


def test_a_reference_to_a_run_of_another_trace_is_kept_and_the_mismatch_is_told() -> None:
    report = join([launcher("train-run://run-42")], [TrainedRun("run-42", (0,), OTHER)])
    (only,) = report.links
    assert (only.rules, only.notes) == (("ref",), ("trace-mismatch",))
    assert report.is_whole


def test_a_run_without_a_trace_id_is_no_mismatch() -> None:
    (only,) = join([launcher("train-run://run-42")], [TrainedRun("run-42")]).links
    assert only.notes == ()


def test_two_runs_of_one_trace_are_ambiguous_and_get_no_link() -> None:
    runs = [TrainedRun("run-42", (0,), TRACE), TrainedRun("run-43", (0,), TRACE)]
    report = join([launcher()], runs)
    assert report.links == ()
    assert [(one.said_by, one.candidates) for one in report.ambiguous] == [("agent-run-7", ("run-42", "run-43"))]
    assert not report.is_whole
    (group,) = report.groups
    assert len(group.members) == 3


def test_a_reference_settles_which_of_two_runs_of_one_trace_is_meant_and_leaves_the_other_to_the_trace() -> None:
    runs = [TrainedRun("run-42", (0,), TRACE), TrainedRun("run-43", (0,), TRACE)]
    report = join([launcher("train-run://run-42")], runs)
    assert links(report) == [
        ("agent-run-7", "run-43", ("exact",), "strong"),
        ("agent-run-7/action-2", "run-42", ("ref", "exact"), "strong"),
    ]
    assert report.is_whole


def test_the_action_in_the_environment_of_a_run_joins_it() -> None:
    run = TrainedRun("run-42", (0, 1), None, None, "agent-run-7/action-1")
    assert links(join([launcher()], [run])) == [("agent-run-7/action-1", "run-42", ("parent-action",), "strong")]


@pytest.mark.parametrize("parent", ["agent-run-9/action-1", "agent-run-7/action-9"])
def test_an_action_that_is_not_stored_is_missing(parent: str) -> None:
    report = join([launcher()], [TrainedRun("run-42", (0,), TRACE, None, parent)])
    assert [(one.reference, one.said_by) for one in report.missing] == [(parent, "run-42")]


def test_a_run_with_a_trace_of_its_own_joins_by_the_parent_trace() -> None:
    run = TrainedRun("run-42", (0,), OTHER, TRACE)
    assert links(join([launcher()], [run])) == [("agent-run-7", "run-42", ("parent-trace",), "strong")]


def test_a_delegation_joins_only_the_one_emitter_of_the_trace_that_has_the_name() -> None:
    gateway = AgentRun("gw-req-1", (TRACE,), agents=("gateway",))
    report = join([gateway, launcher(delegations=("gateway", "someone"))], [])
    assert links(report) == [("gw-req-1", "agent-run-7", ("delegation", "exact"), "strong")]
    assert report.unresolved_names == ("someone",)
    twin = AgentRun("gw-req-2", (TRACE,), agents=("gateway",))
    report = join([gateway, twin, launcher(delegations=("gateway",))], [])
    assert all("delegation" not in one.rules for one in report.links)
    assert report.unresolved_names == ("gateway",)


def test_a_lossy_image_is_a_hint_and_holds_nothing_together() -> None:
    agent = AgentRun("a", ("agent-123e4567-e89b-12d3-a456-426614174000",))
    report = join([agent], [TrainedRun("run-42", (0,), "00000000ae123e4567e89b12d3a45642")])
    assert links(report) == [("a", "run-42", ("otel-lossy",), "weak")]
    assert len(report.groups) == 2


@pytest.mark.parametrize("raw", ["", "unknown", "null", "0" * 32])
def test_placeholders_never_join_and_are_told(raw: str) -> None:
    report = join([AgentRun("a", (raw,))], [TrainedRun("run-42", (0,), raw)])
    assert report.links == ()
    assert len(report.placeholders) == 2


def test_a_question_about_one_trace_leaves_the_others_out() -> None:
    agents = [launcher("train-run://run-42"), AgentRun("b", (OTHER,), references=(Reference("train-run:x", "r"),))]
    runs = [TrainedRun("run-42", (0,), TRACE), TrainedRun("run-50", (0,), OTHER)]
    report = join(agents, runs, TRACE.upper())
    assert [one.raw_ids for one in report.groups] == [(TRACE,)]
    assert [one.target.run_id for one in report.links] == ["run-42"]
    assert report.missing == ()
    empty = join(agents, runs, "ffffffffffffffffffffffffffffffff")
    assert (empty.groups, empty.links, empty.is_whole) == ((), (), False)


def test_the_order_of_what_is_given_changes_nothing() -> None:
    agents = [AgentRun("gw-req-1", (TRACE,), agents=("gateway",)), launcher("train-run://run-42", "train-run://gone")]
    runs = [TrainedRun("run-42", (0,), TRACE), TrainedRun("run-43", (0,), OTHER, TRACE)]
    left, right = join(agents, runs), join(agents[::-1], runs[::-1])
    assert left == right
    assert left.to_dict() == right.to_dict()


def test_who_said_a_link_stands_beside_it() -> None:
    agent = launcher("train-run://run-42", axes={"authenticity": "unsigned"})
    (only,) = join([agent], [TrainedRun("run-42", axes={"authenticity": "valid"})]).links
    assert (only.source.authenticity, only.target.authenticity) == ("unsigned", "valid")
    said = join([agent], [TrainedRun("run-42")]).to_dict()
    assert said["links"][0]["from"]["authenticity"] == "unsigned"
