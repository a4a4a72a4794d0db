"""Diagnoses of what a graph holds."""

from __future__ import annotations

import time
from dataclasses import replace

from provstore import analysis
from provstore.api.answers import timing
from provstore.errors import InputError, StoreError
from provstore.graph.finding_facts import finding_block
from provstore.graph.merge import merge
from provstore.ingest import recording
from provstore.journal import Journal
from provstore.model.block import Block
from provstore.model.dump import DumpSet
from provstore.model.finding import Diagnosis, Undecided
from provstore.queries.dumps import stored_dumps, stored_refusals, stored_tensors
from provstore.stores import GraphStore

_WITHOUT_DUMPS = (
    "provstore ingest DUMPS adds them; "
    "of what was recorded live, agent-query --tool list_suspicious_actions names values that are wrong, and "
    "query collectives/lagging_ranks who did not come to the last call of a group"
)


_ONLY = "only dumps tell which calls never ended"


def _nothing(about: str | None) -> Undecided:
    """Return that a recorded attempt without dumps gives nothing to judge."""
    open_ = "only dumps tell which ranks are late" if about == "slow" else _ONLY
    blamed = "" if about in ("hang", "slow") else "; nothing that was recorded of values is to blame"
    what = f"nothing to diagnose: no dump of it is stored, and {open_}{blamed}"
    return Undecided("missing_dump", what, _WITHOUT_DUMPS)


def diagnosed(
    graph: GraphStore, journal: Journal, scope: tuple[str, int], about: str | None
) -> tuple[Diagnosis, Block]:
    """Return the diagnosis of a stored attempt, and its findings as facts.

    Raises:
        InputError: It has no dumps, and nothing of it was recorded live.
        StoreError: It has no dumps, what was recorded live shows no values that are wrong, and the journal has lost
            something, which may be what they are.
    """
    from provstore.api.recorded_values import NAN, recorded_values

    started = time.perf_counter()
    dumps = stored_dumps(graph, *scope)
    evidence = DumpSet(*scope, merge(dumps).dumps, stored_refusals(graph, *scope), stored_tensors(graph, *scope))
    values = recorded_values(journal, scope, about)
    lost = next((str(one) for one in journal.problems if one.is_loss), None)
    recorded = recording.stored_bundles(journal, *scope)
    if not (dumps or evidence.refusals or evidence.tensors or values.findings or values.undecided):
        if lost is not None:
            text = (
                f"{scope[0]}: attempt {scope[1]}: {lost}: what was recorded there is not judged, and no dump is stored"
            )
            raise StoreError(text, hint="provstore store check names what is damaged, provstore verify whose it is")
        if not recorded:
            text = f"{scope[0]}: attempt {scope[1]}: no dump of it is stored, and {_ONLY}"
            raise InputError(text, hint=_WITHOUT_DUMPS)
        if not (about == NAN and values.has_flags):
            values = replace(values, undecided=(_nothing(about),))
    read = time.perf_counter()
    found = values.added_to(analysis.diagnose(evidence, analysis.Options(about=about)), about)
    if recorded and not (evidence.refusals or found.coverage.get("ranks_seen")):
        ranks = sorted({row["rank"] for bundle in recorded for row in bundle.record["ranks"] or ()})
        found = replace(found, coverage={**found.coverage, "ranks_seen": ranks, "ranks_expected": len(ranks)})
    if lost is not None:
        found = replace(found, notes=(*found.notes, f"{lost}: what was recorded there is not part of this answer"))
    return replace(found, timing=timing(started, read)), finding_block(found, dumps)
