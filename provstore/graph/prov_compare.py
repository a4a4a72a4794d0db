"""Strict comparison of PROV documents: what differs, how often, and at which level they are equal."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from provstore.model.prov import BUILT_IN_PREFIXES, Bundle, Part, canonical

LEVELS = ("exact", "multiset", "set")
"""Strongest first. ``exact``: in each bundle the same records in the same order, the same default namespace and
prefixes in force; ``multiset``: whatever the order and the prefixes; ``set``: whatever the repetitions too. At every
level the bundles, empty ones included, are the same."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How two documents, left and right, differ."""

    equal_at: str | None
    """The strongest of ``LEVELS`` at which they are equal; ``None`` when they are not even at ``set``."""
    left_records: int
    right_records: int
    only_left: int
    """Records, repetitions counted, that the right document lacks."""
    only_right: int
    first: tuple[str, ...] = ()
    """The first differences, as ``left|right bundle: canonical record`` or ``left|right bundle <IRI>``."""
    reordered: tuple[str, ...] = ()
    """IRIs of the bundles (``""`` is the document) whose records are the same in another order."""
    scopes: tuple[str, ...] = ()
    """IRIs of the bundles whose default namespace or prefixes in force differ."""
    declared: tuple[str, ...] = ()
    """IRIs of the bundles that differ in what they declare, redundant declarations included; no level looks at it."""

    def holds(self, level: str) -> bool:
        """Return whether the documents are equal at ``level`` or a stronger one."""
        return self.equal_at is not None and LEVELS.index(self.equal_at) <= LEVELS.index(level)


@dataclass(slots=True)
class _Side:
    """One document, by bundle."""

    records: dict[str, list[bytes]] = field(default_factory=dict)
    heads: dict[str, Bundle] = field(default_factory=dict)

    def read(self, parts: Iterable[Part]) -> _Side:
        bundle = ""
        self.records[""] = []
        self.heads[""] = Bundle()
        for part in parts:
            if isinstance(part, Bundle):
                bundle = part.name.iri if part.name else ""
                self.heads[bundle] = part
                self.records.setdefault(bundle, [])
            else:
                # The copy is as long as its text; what the JSON library returns keeps its working space.
                self.records[bundle].append(bytes(memoryview(canonical(part, bundle))))
        return self

    def count(self) -> int:
        return sum(map(len, self.records.values()))

    def scope(self, bundle: str) -> tuple[str | None, Mapping[str, str]]:
        """Return the default namespace and the prefixes in force in ``bundle``."""
        document, head = self.heads[""], self.heads[bundle]
        prefixes = {**dict(document.namespaces), **dict(head.namespaces), **BUILT_IN_PREFIXES}
        return head.default if head.default is not None else document.default, prefixes

    def declared(self, bundle: str) -> tuple[str | None, Mapping[str, str]]:
        return self.heads[bundle].default, dict(self.heads[bundle].namespaces)


def strict_diff(left: Iterable[Part], right: Iterable[Part], shown: int = 10) -> Difference:
    """Return how two documents differ; symmetric, and O(n log n) for n records.

    NaN equals NaN; ``10`` and ``10.00``, two prefixes for one IRI at ``exact``, a repeated statement, an id that one
    side lacks, another offset for one instant, ``en`` and ``EN`` are differences.
    """
    one, other = _Side().read(left), _Side().read(right)
    first = [f"left bundle <{bundle}>" for bundle in sorted(one.heads.keys() - other.heads)]
    first += [f"right bundle <{bundle}>" for bundle in sorted(other.heads.keys() - one.heads)]
    same_bundles = not first
    only_left, only_right, same_set = 0, 0, same_bundles
    for bundle in sorted(one.heads.keys() | other.heads.keys()):
        ours, theirs = Counter(one.records.get(bundle, ())), Counter(other.records.get(bundle, ()))
        missing, added = ours - theirs, theirs - ours
        only_left += missing.total()
        only_right += added.total()
        same_set = same_set and ours.keys() == theirs.keys()
        first += _shown("left", bundle, missing, shown - len(first)) if len(first) < shown else []
        first += _shown("right", bundle, added, shown - len(first)) if len(first) < shown else []
    shared = sorted(one.heads.keys() & other.heads.keys())
    reordered = _reordered(one, other, shared)
    scopes = tuple(bundle for bundle in shared if one.scope(bundle) != other.scope(bundle))
    declared = tuple(bundle for bundle in shared if one.declared(bundle) != other.declared(bundle))
    same = same_bundles and not only_left and not only_right
    level = "exact" if same and not reordered and not scopes else "multiset" if same else "set" if same_set else None
    return Difference(
        level, one.count(), other.count(), only_left, only_right, tuple(first[:shown]), reordered, scopes, declared
    )


def _shown(side: str, bundle: str, records: Counter[bytes], room: int) -> list[str]:
    return [f"{side} {bundle or 'document'}: {line.decode()}" for line in sorted(records)[:room]]


def _reordered(one: _Side, other: _Side, bundles: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        bundle
        for bundle in bundles
        if one.records[bundle] != other.records[bundle] and sorted(one.records[bundle]) == sorted(other.records[bundle])
    )


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A document of any size in a few numbers, for comparing it with what was written and read back."""

    records: int
    bundles: frozenset[str]
    content: int
    """Sum of the SHA-256 of the canonical records: independent of the order, not of the repetitions."""
    order: str
    """SHA-256 over the canonical records, bundle by bundle in the order of their IRIs."""


class Fingerprinting:
    """The fingerprint of parts as they pass by, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._records = 0
        self._content = 0
        self._bundle = ""
        self._orders = {"": hashlib.sha256()}

    def passing(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield ``parts`` as they are, taking each into account."""
        for part in parts:
            if isinstance(part, Bundle):
                self._bundle = part.name.iri if part.name else ""
                self._orders.setdefault(self._bundle, hashlib.sha256())
            else:
                digest = hashlib.sha256(canonical(part, self._bundle)).digest()
                self._records += 1
                self._content += int.from_bytes(digest, "big")
                self._orders[self._bundle].update(digest)
            yield part

    def result(self) -> Fingerprint:
        """Return the fingerprint of what passed."""
        order = hashlib.sha256()
        for bundle in sorted(self._orders):
            order.update(self._orders[bundle].digest())
        return Fingerprint(self._records, frozenset(self._orders), self._content % (1 << 256), order.hexdigest())


def fingerprint(parts: Iterable[Part]) -> Fingerprint:
    """Return the fingerprint of a document."""
    taken = Fingerprinting()
    for _ in taken.passing(parts):
        pass
    return taken.result()
