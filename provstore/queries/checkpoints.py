"""Checkpoints at one address that several runs saved to: which of them a run loaded, as far as digests tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provstore.cypher import query
from provstore.graph.recorded_ids import training_run_iri
from provstore.model import ids
from provstore.model.trace import TraceEdge
from provstore.queries.rows import text
from provstore.stores import GraphStore

_MARK = f"{ids.BASE}checkpoint/"
_SHOWN = 5
Scope = tuple[str, int]


@dataclass(slots=True)
class Address:
    """What was saved to one address and loaded from it."""

    iri: str
    saved: dict[Scope, set[str]] = field(default_factory=dict)
    """Run and attempt → digests of the states that its ranks saved; empty text where none was taken."""
    loaded: dict[Scope, set[str]] = field(default_factory=dict)

    @property
    def is_shared(self) -> bool:
        """Whether one run's state may have taken the place of another's."""
        return len(self.saved) > 1

    def savers_of(self, loader: Scope) -> set[Scope]:
        """Return whose states a run can have loaded.

        A run is left out only where every state that it saved here, and every one that was loaded, has a digest, each
        loaded one is one that was saved, and none is one of this run's.
        """
        got = self.loaded.get(loader, set())
        every = {digest for digests in self.saved.values() for digest in digests}
        if not got or "" in got or not got <= every:
            return set(self.saved)
        return {one for one, digests in self.saved.items() if "" in digests or digests & got}


def addresses(store: GraphStore, iris: Iterable[str]) -> dict[str, Address]:
    """Return the addresses of checkpoints among these ids that several runs, or attempts, saved to."""
    asked = [iri for iri in iris if iri.startswith(_MARK)]
    found: dict[str, Address] = {}
    for row in store.run(query("read/lineage/checkpoint_uses"), {"iris": asked}) if asked else ():
        one = found.setdefault(text(row, "iri"), Address(text(row, "iri")))
        side = one.saved if text(row, "op") == "checkpoint.save" else one.loaded
        scope = (text(row, "run"), int(str(row["attempt"])))
        side.setdefault(scope, set()).add(text(row, "digest"))
    return {iri: one for iri, one in found.items() if one.is_shared}


def without_others(
    shared: Mapping[str, Address], edges: Sequence[TraceEdge], start: str, *, down: bool
) -> list[TraceEdge]:
    """Return the relationships of a trace without those that lead through an address to a run of another state.

    Args:
        shared: Addresses that several runs saved to.
        edges: Of the trace, effect first.
        start: The element asked about: who asks for an address asks for all that was saved to it.
        down: Whether effects are followed.
    """
    given_up: set[tuple[str, str]] = set()
    for iri, one in shared.items():
        if iri == start:
            continue
        runs = {training_run_iri(*scope): scope for scope in (*one.saved, *one.loaded)}
        above = {edge.target for edge in edges if edge.source == iri}
        below = {edge.source for edge in edges if edge.target == iri}
        savers = {runs[key] for key in above & runs.keys() if runs[key] in one.saved}
        loaders = {runs[key] for key in below & runs.keys() if runs[key] in one.loaded}
        if down:
            gone = {scope for scope in loaders if not one.savers_of(scope) & savers}
            given_up |= {(key, iri) for key in below if any(_is_of(key, scope) for scope in gone)}
        elif loaders:
            kept = {scope for loader in loaders for scope in one.savers_of(loader)}
            given_up |= {(iri, training_run_iri(*scope)) for scope in savers - kept}
    return [edge for edge in edges if (edge.source, edge.target) not in given_up]


def notes(shared: Mapping[str, Address], reached: Collection[str]) -> list[str]:
    """Return in words which addresses of a trace hold no longer what one of the runs saved, and who loaded what.

    Args:
        shared: Addresses that several runs saved to.
        reached: Ids of the trace.
    """
    found = []
    for iri, one in shared.items():
        address = ids.component_text(iri.removeprefix(_MARK))
        said = [
            f"checkpoint {address}: {_listed(one.saved)} saved to this one address, each in place of the one before"
        ]
        told = [scope for scope in sorted(one.loaded) if training_run_iri(*scope) in reached]
        for scope in told[:_SHOWN]:
            savers = one.savers_of(scope)
            if len(savers) < len(one.saved):
                said.append(f"{_name(scope)} loaded what {_listed(savers)} saved, as the digest of the state tells")
            else:
                said.append(f"whose state {_name(scope)} loaded is not told by a digest")
        if len(told) > _SHOWN:
            said.append(f"{len(told) - _SHOWN} more runs loaded it")
        if not told:
            said.append("whose state is there now is not recorded")
        found.append("; ".join(said))
    return found


def _is_of(key: str, scope: Scope) -> bool:
    return key.startswith(f"{ids.attempt_iri(*scope)}/")


def _listed(scopes: Iterable[Scope]) -> str:
    names = [_name(one) for one in sorted(scopes)]
    shown = names[:_SHOWN] + ([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _name(scope: Scope) -> str:
    return f"run {scope[0]}, attempt {scope[1]}"
