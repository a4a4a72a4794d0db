"""Puts a diagnosis on trial: reads a folder of dumps as the product does, and asks it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.analysis import diagnose
from provstore.graph.merge import merge
from provstore.model.dump import DumpSet, Refusal
from provstore.model.finding import Diagnosis
from provstore.sources.flight_recorder import ReadOptions, read_dumps

from .scenario import Outcome, Scenario, simulate
from .verdict import Verdict, judge


@dataclass(frozen=True, slots=True)
class Trial:
    """One scenario, what was answered, and how good that is."""

    outcome: Outcome
    diagnosis: Diagnosis
    verdict: Verdict


def ask(paths: Sequence[Path], rank_regex: str | None = None) -> Diagnosis:
    """Return the diagnosis of a folder or of files, read and merged as the product does it."""
    found = read_dumps(paths, ReadOptions(rank_regex=rank_regex))
    merged = merge(found.dumps)
    refused = [
        Refusal(side.file, pair.reason, side.digest, side.size_bytes, side.rank)
        for pair in merged.contradictions
        for side in (pair.first, pair.second)
    ]
    return diagnose(DumpSet("trial", 0, merged.dumps, [*found.refusals, *refused], found.tensors))


def hold(scenario: Scenario, folder: Path | None = None) -> Trial:
    """Simulate a scenario, write its files, and judge the answer; files go to ``folder``, else to a temporary one."""
    outcome = simulate(scenario)
    if folder is not None:
        outcome.write(folder)
        diagnosis = ask([folder])
    else:
        with tempfile.TemporaryDirectory(prefix="trial-") as place:
            outcome.write(Path(place))
            diagnosis = ask([Path(place)])
    return Trial(outcome, diagnosis, judge(outcome.truth, diagnosis))
