"""Which signed record covers a fact: the batch that states it, the record of that batch, its epoch and key."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from provstore.analysis.evidence.facts import Difference, Fact, Identity
from provstore.errors import InputError, TrustError
from provstore.evidence import dsse, statement
from provstore.graph.recorded_ids import record_iri
from provstore.model import canonical, ids
from provstore.model.block import Block
from provstore.model.evidence import INGEST, EvidenceLog
from provstore.model.lost import Lost
from provstore.model.verification import EvidenceFinding

CODE = "graph-mismatch"
MAX_FINDINGS = 1_000
"""Differences of an attempt that are told one by one; of a graph that is something else, the rest is counted."""
_OF_EVIDENCE = re.compile(r"(.*)/(record|epoch)/([0-9]{1,18})")
_OF_RUN = re.compile(re.escape(ids.BASE) + r"([^/]+)/([0-9]{1,9})/")
_SHOWN = 3
_NOTHING_LOST = Lost()
_Stated: TypeAlias = "Mapping[Identity, Sequence[Cover]]"


@dataclass(frozen=True, slots=True)
class Cover:
    """The record that covers a fact, or that is one."""

    run: str
    attempt: int
    seq: int | None
    """Index in the run tree; None for a batch that nobody has signed, and for a bundle."""
    epoch: int | None = None
    keyid: str | None = None
    batch: int | None = None

    @property
    def words(self) -> str:
        """What covers it, in words."""
        of_batch = "" if self.batch is None else f"batch {self.batch} of the journal, "
        if self.seq is None and self.epoch is None:
            return f"{of_batch}which nobody has signed"
        if self.seq is None and self.keyid is None:
            return f"bundle {self.epoch} of run {self.run}, which cannot be read"
        if self.seq is None:
            return f"bundle {self.epoch} of run {self.run}, signed with key {self.keyid}"
        signed = "not signed yet" if self.epoch is None else f"signed in epoch {self.epoch} with key {self.keyid}"
        return f"{of_batch}record {self.seq} of run {self.run}, attempt {self.attempt}, {signed}"


@dataclass(slots=True)
class Covers:
    """Which records and bundles cover what, over every attempt that :meth:`add` was told of."""

    batches: dict[int, Cover] = field(default_factory=dict)
    """Journal batch → its record."""
    _of: dict[str, tuple[str, int]] = field(default_factory=dict)
    _epochs: dict[tuple[str, int], list[tuple[int, int, int, str]]] = field(default_factory=dict)
    _lost: dict[tuple[str, int], Lost] = field(default_factory=dict)

    def add(self, log: EvidenceLog, lost: Lost = _NOTHING_LOST) -> None:
        """Take note of the records and bundles of one attempt; what cannot be read covers nothing."""
        scope = (log.run, log.attempt)
        self._lost[scope] = lost
        self._of[_prefix(record_iri(*scope, 0))] = scope
        self._epochs[scope] = sorted(_signed(log))
        for position, record in enumerate(log.records()):
            if b'"kind":"ingest"' not in record.line:
                continue
            batch = _batch(record.line)
            if batch is not None:
                index = position if record.index is None else record.index
                self.batches.setdefault(batch, self._record(scope, index, batch))

    def of_node(self, iri: str) -> Cover | None:
        """Return what a node of evidence is by its id; None for every other node."""
        found = _OF_EVIDENCE.fullmatch(iri)
        scope = self._of.get(found[1]) if found else None
        if found is None or scope is None:
            return None
        number = int(found[3])
        if found[2] == "record":
            return self._record(scope, number, None)
        keyid = next((keyid for *_, epoch, keyid in self._epochs[scope] if epoch == number), None)
        return Cover(*scope, None, number, keyid)

    def is_lost(self, cover: Cover) -> bool:
        """Tell whether a record or bundle that a node stands for may be among those that damage has taken away."""
        lost = self._lost[cover.run, cover.attempt]
        if cover.seq is None:
            return bool(lost.bundles) and cover.keyid is None
        is_behind = lost.tail is not None and cover.seq >= lost.tail[0]
        return is_behind or any(first <= cover.seq < end for first, end in lost.records)

    def knows(self, fact: Fact) -> bool:
        """Tell whether a fact says that it belongs to an attempt that :meth:`add` was told of."""
        return _stated_scope(fact) in self._epochs

    def scope_of(self, fact: Fact) -> tuple[str, int]:
        """Return the attempt that a fact says it belongs to; else the only one that is known."""
        return _stated_scope(fact) or (next(iter(self._epochs)) if len(self._epochs) == 1 else ("", 0))

    def _record(self, scope: tuple[str, int], index: int, batch: int | None) -> Cover:
        ranges = self._epochs[scope]
        at = bisect_right(ranges, (index, _FAR)) - 1
        if at >= 0 and ranges[at][0] <= index < ranges[at][1]:
            return Cover(*scope, index, ranges[at][2], ranges[at][3], batch)
        return Cover(*scope, index, None, None, batch)


def _stated_scope(fact: Fact) -> tuple[str, int] | None:
    """Return the attempt that the id or the properties of a fact name."""
    found = scope_in(fact.identity[1] if fact.is_node else fact.identity[2])
    run, attempt = fact.properties.get("run"), fact.properties.get("attempt")
    if found is not None:
        return found
    if isinstance(run, str) and isinstance(attempt, int) and not isinstance(attempt, bool):
        return run, attempt
    return None


def scope_in(iri: str) -> tuple[str, int] | None:
    """Return the attempt that the id of an element names; None for other ids."""
    found = _OF_RUN.match(iri)
    if found is not None:
        with contextlib.suppress(ValueError):
            return ids.component_text(found[1]), int(found[2])
    return None


_FAR = 1 << 62


def attributed(
    differences: Iterable[Difference],
    blocks: Iterable[tuple[int, Block]],
    covers: Covers,
    cause_of: Callable[[tuple[str, int]], str | None] = lambda _: None,
) -> list[EvidenceFinding]:
    """Return a finding for each difference, with the record, epoch and key that cover the fact.

    Args:
        differences: What differs.
        blocks: (number, facts) of the batches of the journal; read only when something differs.
        covers: The records of the batches.
        cause_of: Gives the code of what explains that nothing states a fact of an attempt: its batch is lost.
    """
    found = list(differences)
    stated = _stated(found, blocks, covers)
    told: list[EvidenceFinding] = []
    listed: Counter[tuple[str, int]] = Counter()
    rest: Counter[tuple[str, int, str | None]] = Counter()
    for one in found:
        finding = _finding(one, stated, covers, cause_of)
        scope = (finding.run, finding.attempt)
        if listed[scope] < MAX_FINDINGS:
            listed[scope] += 1
            told.append(finding)
        else:
            rest[*scope, finding.cause] += 1
    told += [_more(run, attempt, count, cause) for (run, attempt, cause), count in rest.items()]
    return sorted(told, key=EvidenceFinding.order)


def _stated(differences: Sequence[Difference], blocks: Iterable[tuple[int, Block]], covers: Covers) -> _Stated:
    """Return the covers of each differing fact, and of the effects of relationships, from one walk over the batches."""
    wanted: dict[Identity, None] = {}
    for one in differences:
        identity = one.fact.identity
        if covers.of_node(identity[1] if one.fact.is_node else identity[2]) is None:
            wanted |= dict.fromkeys((identity, _source(identity)))
    found: dict[Identity, list[Cover]] = {}
    for number, block in blocks if wanted else ():
        cover = covers.batches.get(number) or Cover(block.run, block.attempt, None, batch=number)
        for identity in _among(block, wanted):
            found.setdefault(identity, []).append(cover)
    return found


def _among(block: Block, wanted: Mapping[Identity, None]) -> Iterator[Identity]:
    """Yield which of the wanted facts a block states, each once."""
    nodes = ((nodes.labels[0], key) for nodes in block.nodes for key in nodes.keys)
    relations = (
        (one.type, one.source_label, source, one.target_label, target)
        for one in block.relations
        for source, target in zip(one.sources, one.targets)
    )
    stated: Iterator[Identity] = chain(nodes, relations)
    yield from dict.fromkeys(identity for identity in stated if identity in wanted)


def _finding(
    one: Difference, stated: _Stated, covers: Covers, cause_of: Callable[[tuple[str, int]], str | None]
) -> EvidenceFinding:
    identity, subject = one.fact.identity, "" if one.name in (None, "labels") else f"{one.name} "
    own = covers.of_node(identity[1] if one.fact.is_node else identity[2])
    covering = [own] if own is not None else stated.get(identity) or stated.get(_source(identity), [])
    # What is in the graph beyond what was recorded is covered by nothing, although its neighbours may be.
    is_covered = bool(covering) and not (one.is_extra and identity not in stated)
    near = covering[0] if covering else None
    thing = "node" if one.fact.is_node else "relationship"
    nothing = "nothing that was recorded covers it" if one.is_extra else "no record is known that covers it"
    reach = _covered(covering) if is_covered else nothing
    rank = one.fact.properties.get("rank")
    run, attempt = (near.run, near.attempt) if near else covers.scope_of(one.fact)
    return EvidenceFinding(
        run=run,
        attempt=attempt,
        epoch=near.epoch if near and (is_covered or own) else None,
        seq=near.seq if near and (is_covered or own) else None,
        code=CODE,
        where=one.where,
        text=f"{thing} {one.fact.place}: {subject}{one.text}; {reach}",
        rank=rank if isinstance(rank, int) and not isinstance(rank, bool) else None,
        keyid=near.keyid if near and is_covered else None,
        cause=None if is_covered and not (own and covers.is_lost(own)) else cause_of((run, attempt)),
    )


def _covered(covering: Sequence[Cover]) -> str:
    more = len(covering) - _SHOWN
    words = " and ".join(cover.words for cover in covering[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"covered by {words}"


def _source(identity: Identity) -> Identity:
    """Return the effect of a relationship: what covers it covers a derived relationship too, which no batch states."""
    return identity[1:3] if len(identity) == 5 else ()


def _more(run: str, attempt: int, count: int, cause: str | None) -> EvidenceFinding:
    text = f"{count} more differences are not listed"
    return EvidenceFinding(run, attempt, None, None, CODE, "the graph", text, cause=cause)


def _signed(log: EvidenceLog) -> Iterator[tuple[int, int, int, str]]:
    """Yield (first, size, number, key id) of each bundle that can be read; whether it holds is judged elsewhere."""
    for bundle in log.bundles():
        try:
            envelope = dsse.parse(bundle.envelope)
            epoch = statement.parse(envelope.payload)
        except (TrustError, InputError):
            continue
        yield epoch.first, epoch.size, epoch.number, envelope.signatures[0].keyid


def _batch(line: bytes) -> int | None:
    try:
        said = canonical.parse(line)
    except InputError:
        return None
    batch = said.get("batch") if isinstance(said, dict) and said.get("kind") == INGEST else None
    return batch if isinstance(batch, int) and not isinstance(batch, bool) else None


def _prefix(iri: str) -> str:
    return iri.rpartition("/record/")[0]
