"""Records of many files as one: which chain each belongs to, what is a repetition, and what contradicts what.

Nothing depends on the order of the files, nor on how often one of them is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any, Final

from provstore.evidence.aep import forms
from provstore.evidence.aep.chains import LINK, digest
from provstore.evidence.aep.schema import RECORD
from provstore.evidence.aep.text import JsonText
from provstore.model.aep import Container

REWRITTEN: Final = "history-rewritten"
CONFLICT: Final = "action-conflict"
FORK: Final = "chain-fork"
ORPHAN: Final = "orphan:"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where a record lies."""

    source: str
    index: int
    sha256: str
    """Of its exact bytes, signatures included."""


@dataclass(frozen=True, slots=True)
class ChainedRecord:
    """One record, however often it was read."""

    digest: str
    """Its identity: of its canonical form without signatures."""
    run_id: str | None
    chain: str
    """Digest of the first record of its chain, or ``orphan:`` and the link that leads out of what is here."""
    parent: str | None
    """Digest of the record before it, where that is here."""
    value: Mapping[str, Any]
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class ChainedAction:
    """One action of a chain, however many records of the chain repeat it."""

    chain: str
    run_id: str | None
    action_id: str
    body: str
    """SHA-256 of its canonical form."""
    value: Mapping[str, Any]
    record: str
    """The first record of the chain that holds it."""
    occurrences: int
    """Records, each counted once, that hold it."""
    alternates: tuple[str, ...] = ()
    """The first other chain that holds the same action of the same run with the same body: one leads to all."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What records say against each other."""

    code: str
    """``history-rewritten``, ``action-conflict`` or ``chain-fork``."""
    run_id: str | None
    action_id: str | None
    chains: tuple[str, ...]
    records: tuple[str, ...]
    """Digests of the records concerned."""
    text: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """All records of some files."""

    records: tuple[ChainedRecord, ...]
    """In the order of their chains, predecessors first."""
    actions: tuple[ChainedAction, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def occurrences(self) -> int:
        """How often an action stands in a record."""
        return sum(one.occurrences for one in self.actions)

    @property
    def bodies(self) -> int:
        """How many different actions there are."""
        return len({(one.run_id, one.action_id, one.body) for one in self.actions})


def gather(containers: Iterable[Container]) -> Gathered:
    """Return the records of all containers, each once, with what contradicts what."""
    found: dict[str, _Found] = {}
    for container in containers:
        for raw in container.records:
            text = raw.text if isinstance(raw.text, JsonText) else JsonText(raw.data)
            if raw.kind == RECORD and isinstance(text.value, dict) and raw.fault is None:
                _add(found, text, Occurrence(container.source, raw.index, hashlib.sha256(raw.data).hexdigest()))
    _find_parents(found)
    ordered = _ordered(found)
    actions, rewritten = _actions(found, ordered)
    records = tuple(_record(found[one]) for one in ordered)
    contradictions = [*_forks(found, ordered), *rewritten, *_conflicts(actions)]
    return Gathered(records, tuple(_with_alternates(actions)), tuple(contradictions))


@dataclass(slots=True)
class _Found:
    own: str
    text: JsonText
    run_id: str | None
    link: str | None
    occurrences: set[Occurrence]
    parent: str | None = None
    chain: str = ""
    place: int = 0
    """In the order of chains."""
    line: int = 1
    """Records in a row from there that follow from it, itself included."""


def _add(found: dict[str, _Found], text: JsonText, where: Occurrence) -> None:
    own = digest(text)
    known = found.get(own)
    if known is not None:
        known.occurrences.add(where)
        return
    run, link = text.value.get("run_id"), text.value.get(LINK)
    found[own] = _Found(
        own, text, run if isinstance(run, str) else None, link if isinstance(link, str) else None, {where}
    )


def _find_parents(found: dict[str, _Found]) -> None:
    open_links: dict[str, list[_Found]] = {}
    for one in found.values():
        if one.link is not None and one.link in found:
            one.parent = one.link
        elif one.link is not None:
            open_links.setdefault(one.link, []).append(one)
    # Writers in other languages spell the record before in another way; it costs, and is seldom needed.
    for before in sorted(found) if open_links else ():
        for form in forms.FORMS[1:]:
            for follower in open_links.pop(digest(found[before].text, form), ()):
                follower.parent = before


def _ordered(found: dict[str, _Found]) -> list[str]:
    """Return all digests, chain after chain, predecessors first, and give each record its chain."""
    children: dict[str | None, list[str]] = {}
    for one in found.values():
        children.setdefault(one.parent, []).append(one.own)
    ordered: list[str] = []
    for first in sorted(children.get(None, ())):
        link = found[first].link
        chain = first if link is None else f"{ORPHAN}{link}"
        waiting = [first]
        while waiting:
            own = waiting.pop()
            found[own].chain, found[own].place = chain, len(ordered)
            ordered.append(own)
            waiting += sorted(children.get(own, ()), reverse=True)
    for own in reversed(ordered):
        parent = found[own].parent
        if parent is not None:
            found[parent].line += found[own].line
    return ordered


def _actions(found: Mapping[str, _Found], ordered: Iterable[str]) -> tuple[list[ChainedAction], list[Contradiction]]:
    seen: dict[tuple[str, str, str], dict[str, list[Any]]] = {}
    tellers: dict[tuple[str, str, str], list[_Found]] = {}
    contradictions = []
    for own in ordered:
        one = found[own]
        for place, (value, canon) in enumerate(one.text.listed("actions")):
            if not isinstance(value, dict):
                continue
            named = value.get("action_id")
            name = named if isinstance(named, str) else f"#{place}"
            body = hashlib.sha256(canon).hexdigest()
            bodies = seen.setdefault((one.chain, one.run_id or "", name), {})
            if body not in bodies:
                contradictions += _rewritten(one, name, tellers.setdefault((one.chain, one.run_id or "", name), []))
                bodies[body] = [value, own, 0, one.run_id]
            bodies[body][2] += 1
    actions = [
        ChainedAction(chain, kept[3], name, body, kept[0], kept[1], kept[2])
        for (chain, _, name), bodies in seen.items()
        for body, kept in bodies.items()
    ]
    return actions, contradictions


def _rewritten(one: _Found, name: str, line: list[_Found]) -> list[Contradiction]:
    """Return what a record says of an action that an earlier record of its own line says otherwise.

    Args:
        one: The record; they come in the order of their places.
        name: The action.
        line: The records before it that said something else of the action, each before the next; it joins them.
    """
    while line and line[-1].place + line[-1].line <= one.place:
        line.pop()
    before = line[0] if line else one
    if not line or line[-1] is not one:
        line.append(one)
    if before is one:
        return []
    text = f"record {one.own[:12]} says something else of {name} than {before.own[:12]} before it"
    return [Contradiction(REWRITTEN, one.run_id, name, (one.chain,), (before.own, one.own), text)]


def _forks(found: Mapping[str, _Found], ordered: Iterable[str]) -> list[Contradiction]:
    followers: dict[str, list[str]] = {}
    for own in ordered:
        parent = found[own].parent
        if parent is not None:
            followers.setdefault(parent, []).append(own)
    return [
        Contradiction(
            FORK,
            found[parent].run_id,
            None,
            (found[parent].chain,),
            (parent, *sorted(after)),
            f"{len(after)} records follow record {parent[:12]}",
        )
        for parent, after in followers.items()
        if len(after) > 1
    ]


def _conflicts(actions: Iterable[ChainedAction]) -> list[Contradiction]:
    """Return the actions of one run and id that chains tell differently."""
    told: dict[tuple[str, str], list[ChainedAction]] = {}
    for one in actions:
        told.setdefault((one.run_id or "", one.action_id), []).append(one)
    contradictions = []
    for (_, name), several in sorted(told.items()):
        chains = sorted({one.chain for one in several})
        if len(chains) > 1 and len({one.body for one in several}) > 1:
            text = f"{len(chains)} chains tell {name} in {len({one.body for one in several})} ways"
            records = tuple(sorted({one.record for one in several}))
            contradictions.append(Contradiction(CONFLICT, several[0].run_id, name, tuple(chains), records, text))
    return contradictions


def _with_alternates(actions: list[ChainedAction]) -> Iterable[ChainedAction]:
    same: dict[tuple[str, str, str], set[str]] = {}
    for one in actions:
        same.setdefault((one.run_id or "", one.action_id, one.body), set()).add(one.chain)
    first_two = {key: nsmallest(2, chains) for key, chains in same.items()}
    for one in actions:
        others = [chain for chain in first_two[one.run_id or "", one.action_id, one.body] if chain != one.chain]
        yield replace(one, alternates=(others[0],)) if others else one


def _record(one: _Found) -> ChainedRecord:
    where = sorted(one.occurrences, key=lambda found: (found.source, found.index, found.sha256))
    return ChainedRecord(one.own, one.run_id, one.chain, one.parent, one.text.value, tuple(where))
