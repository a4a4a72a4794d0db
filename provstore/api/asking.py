"""Diagnoses of what a graph holds."""

from __future__ import annotations

import time
from dataclasses import replace

from provstore import analysis
from provstore.api.answers import timing
from provstore.errors import InputError, StoreError
from provstore.graph.finding_facts import finding_block
from provstore.graph.merge import merge
from provstore.journal import Journal
from provstore.model.block import Block
from provstore.model.dump import DumpSet
from provstore.model.finding import Diagnosis
from provstore.queries.dumps import stored_dumps, stored_refusals, stored_tensors
from provstore.stores import GraphStore

_WITHOUT_DUMPS = (
    "provstore ingest DUMPS adds them; "
    "of what was recorded live, agent-query --tool list_suspicious_actions names values that are wrong, and "
    "query collectives/lagging_ranks who did not come to the last call of a group"
)


def diagnosed(
    graph: GraphStore, journal: Journal, scope: tuple[str, int], about: str | None
) -> tuple[Diagnosis, Block]:
    """Return the diagnosis of a stored attempt, and its findings as facts.

    Raises:
        InputError: It has no dumps, and what was recorded live shows no values that are wrong: it holds no states of
            calls.
        StoreError: The same, and the journal has lost something, which may be what they are.
    """
    from provstore.api.recorded_values import recorded_values

    started = time.perf_counter()
    dumps = stored_dumps(graph, *scope)
    evidence = DumpSet(*scope, merge(dumps).dumps, stored_refusals(graph, *scope), stored_tensors(graph, *scope))
    values = recorded_values(journal, scope, about)
    lost = next((str(one) for one in journal.problems if one.is_loss), None)
    if not (dumps or evidence.refusals or evidence.tensors or values.findings or values.undecided):
        if lost is not None:
            text = (
                f"{scope[0]}: attempt {scope[1]}: {lost}: what was recorded there is not judged, and no dump is stored"
            )
            raise StoreError(text, hint="provstore store check names what is damaged, provstore verify whose it is")
        text = f"{scope[0]}: attempt {scope[1]}: no dump of it is stored, and only dumps tell which calls never ended"
        raise InputError(text, hint=_WITHOUT_DUMPS)
    read = time.perf_counter()
    found = values.added_to(analysis.diagnose(evidence, analysis.Options(about=about)), about)
    if lost is not None:
        found = replace(found, notes=(*found.notes, f"{lost}: what was recorded there is not part of this answer"))
    return replace(found, timing=timing(started, read)), finding_block(found, dumps)
