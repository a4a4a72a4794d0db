"""Targets that name a recorded gradient, activation or module input: ``tensor.grad/RANK/STEP/NAME``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from provstore.cypher import query
from provstore.graph.recorded_ids import tensor_iri
from provstore.model import ids
from provstore.queries.rows import Row, optional_integer, text
from provstore.stores import GraphStore

WORDS = {"grad": "gradient", "activation": "activation", "input": "module input"}
"""What each kind is called."""
_FORM = re.compile(r"tensor\.(grad|activation|input)/(\d+)/(\d+|~)/(.+)", re.DOTALL)
_MOST_DIGITS, _SHOWN = 18, 6


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """What such a target says; a step of ``None`` is one that was not recorded."""

    kind: str
    rank: int
    step: int | None
    name: str

    def iris(self, run: str, attempt: int) -> list[str]:
        """Return the ids that it may mean: the name as it is, and as it stands in the id of an action."""
        names = [self.name, ids.component_text(self.name)]
        return list(dict.fromkeys(tensor_iri(run, attempt, self.rank, self.step, name, self.kind) for name in names))


def parse(target: str) -> NamedTensor | None:
    """Return what a target says; ``None`` for another form, or for numbers that nothing has."""
    found = _FORM.fullmatch(target)
    if found is None or max(map(len, found.group(2, 3))) > _MOST_DIGITS:
        return None
    kind, rank, step, name = found.groups()
    return NamedTensor(kind, int(rank), None if step == "~" else int(step), name)


def why_nothing(store: GraphStore, wanted: NamedTensor, attempts: Iterable[tuple[str, int]]) -> str:
    """Return what the rank recorded instead: other steps of that name, else other names."""
    rows: list[Row] = []
    for run, attempt in attempts:
        scope = {"run": run, "attempt": attempt, "rank": wanted.rank}
        rows += store.run(query("read/targets/tensor_states"), scope)
    of_kind = [row for row in rows if row["kind"] == wanted.kind]
    word = WORDS[wanted.kind]
    if not of_kind:
        return f"no {word} of rank {wanted.rank} was recorded"
    steps = {optional_integer(row, "step") for row in of_kind if row["name"] == wanted.name}
    known = sorted(step for step in steps if step is not None)
    if known:
        return f"rank {wanted.rank} has the {word} of {wanted.name} of steps {ids.rank_set(known)}"
    names = sorted({text(row, "name") for row in of_kind})
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"rank {wanted.rank} has no {word} of {wanted.name}; it has those of {', '.join(names[:_SHOWN])}{more}"
