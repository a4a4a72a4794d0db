"""What a join costs grows with what is joined, not with its square, and long lists change nothing of what is held."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provstore.analysis.join import trace_index
from provstore.analysis.join.joining import join
from provstore.model.joining import AgentRun, JoinReport, Reference, TrainedRun
from tests.cost import how_many_times

TRACE = "463ac35c9f6413ad48485a3953bb6124"
SMALL, MANY_TIMES = 600, 8
"""Work on four times as much takes about four times as long; sixteen times where it grows with the square."""


def refer(number: int) -> tuple[Reference, ...]:
    return (Reference(f"train-run://r{number}", "evidence_refs", "1"),)


def one_after_the_other(count: int) -> JoinReport:
    return join([AgentRun(f"a{at}", (TRACE,), references=refer(at - 1)) for at in range(count)], [])


def each_with_its_own_run(count: int) -> JoinReport:
    agents = [AgentRun(f"a{at}", (TRACE,), references=refer(at)) for at in range(count)]
    return join(agents, [TrainedRun(f"r{at}", (0,), TRACE) for at in range(count)])


def of_one_agent_that_delegates(count: int) -> JoinReport:
    said = {"parent_trace_ids": (TRACE,), "agents": ("launcher",), "delegations": ("launcher", "gateway")}
    spans = (f"00-{TRACE}-{at:016x}-01" for at in range(1, count + 1))
    return join([AgentRun(f"a{at}", (span,), **said) for at, span in enumerate(spans)], [])


def of_one_run(count: int) -> JoinReport:
    said = [Reference(f"train-run://r{at}", "output_refs") for at in range(count)]
    return join([AgentRun("a", (TRACE,), references=tuple(said))], [])


@pytest.mark.parametrize("work", [one_after_the_other, each_with_its_own_run, of_one_agent_that_delegates, of_one_run])
def test_four_times_the_runs_take_about_four_times_as_long(work: Callable[[int], JoinReport]) -> None:
    assert how_many_times(lambda: work(4 * SMALL), lambda: work(SMALL), rounds=3) < MANY_TIMES


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_index, "MOST_IN_PAIRS", 3)


@pytest.mark.usefixtures("few")
def test_of_very_many_runs_of_a_trace_each_is_linked_with_the_next_and_all_are_one_group() -> None:
    report = join([AgentRun(name, (TRACE,)) for name in "abcd"], [])
    assert [(one.source.run_id, one.target.run_id) for one in report.links] == [("a", "b"), ("b", "c"), ("c", "d")]
    assert [[one.run_id for one in group.members] for group in report.groups] == [["a", "b", "c", "d"]]


@pytest.mark.usefixtures("few")
def test_a_run_that_meets_many_others_only_by_a_hint_never_stands_between_them() -> None:
    image = "0a1b2c3d4e5f60710000000000000000"
    runs = [AgentRun("a", (image,)), AgentRun("b", ("0a1b2c3d4e5f6071",)), AgentRun("c", (image,))]
    report = join([*runs, AgentRun("d", (image,))], [])
    assert [[one.run_id for one in group.members] for group in report.groups] == [["b"], ["a", "c", "d"]]
    assert [one.rules for one in report.links if "b" in {one.source.run_id, one.target.run_id}] == [("otel-lossy",)]


def test_up_to_the_limit_every_pair_of_a_trace_is_linked() -> None:
    report = join([AgentRun(f"a{at}", (TRACE,)) for at in range(40)], [])
    assert len(report.links) == 40 * 39 // 2


def test_the_graph_needs_no_links_without_a_direction() -> None:
    agents = [AgentRun("a", (TRACE,), agents=("gateway",)), AgentRun("b", (TRACE,), delegations=("gateway",))]
    report = join([*agents, AgentRun("c", (TRACE,))], [], undirected=False)
    assert [(one.source.run_id, one.target.run_id, one.rules) for one in report.links] == [("a", "b", ("delegation",))]
