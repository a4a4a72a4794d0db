"""The canonical dump: all facts of a store as canonical JSON lines, equal on every engine, and what two hold apart."""

from __future__ import annotations

import functools
import json
import secrets
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from provstore.cypher import query
from provstore.model.block import UNIQUE_KEY
from provstore.stores import GraphStore
from provstore.stores.plain import properties

Row: TypeAlias = "Mapping[str, object]"

BUCKETS = 4_096
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Apart:
    """What two stores do not have in common, as sorted lines of a canonical dump; nodes come first."""

    left: tuple[str, ...]
    """Lines, or repetitions of one, that only the first store has."""
    right: tuple[str, ...]
    compared: int
    """Lines of the larger store."""


def apart(left: GraphStore, right: GraphStore) -> Apart:
    """Return what two stores hold differently, without holding all they hold.

    Each side is read once into the digests of 4,096 buckets, and again where buckets differ. The digests are keyed anew
    each time: who writes to a store cannot make two heaps of facts that look alike.
    """
    key = secrets.token_bytes(32)
    one, other = _buckets(left, key), _buckets(right, key)
    differing = {at for at in range(BUCKETS) if one[at] != other[at]}
    mine, theirs = _lines_in(left, differing), _lines_in(right, differing)
    compared = max(sum(count for count, _ in one), sum(count for count, _ in other))
    return Apart(_ordered(mine - theirs), _ordered(theirs - mine), compared)


def _buckets(store: GraphStore, key: bytes) -> list[tuple[int, int]]:
    """Return (lines, sum of their digests) of each bucket: the order in which an engine gives facts does not matter."""
    counts, sums = array("q", bytes(8 * BUCKETS)), [0] * BUCKETS
    for spelling, _, _ in _spelled(store):
        at = zlib.crc32(spelling) % BUCKETS
        counts[at] += 1
        sums[at] += int.from_bytes(blake2b(spelling, digest_size=_DIGEST_BYTES, key=key).digest())
    return list(zip(counts, sums))


def _lines_in(store: GraphStore, buckets: Collection[int]) -> Counter[str]:
    if not buckets:
        return Counter()
    found = ((line, row) for spelling, line, row in _spelled(store) if zlib.crc32(spelling) % BUCKETS in buckets)
    return Counter(line(row) for line, row in found)


def _ordered(lines: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(lines.elements(), key=lambda line: (not line.startswith('{"labels"'), line)))


def _spelled(store: GraphStore) -> Iterator[tuple[bytes, Callable[[Row], str], Row]]:
    """Yield each fact in a spelling that no other fact has, with what gives its line."""
    for row in store.run(query("read/store/nodes")):
        if not _is_position(row):
            yield _node(row).encode("utf-8", errors="surrogatepass"), _node, row
    for row in store.run(query("read/store/relations")):
        yield _relation_spelling(row).encode("utf-8", errors="surrogatepass"), _relation, row


def _relation_spelling(row: Row) -> str:
    """Return a relationship's line, or something shorter where it has no properties, as most have none."""
    source, target = row["source"], row["target"]
    if row["properties"] or source.__class__ is not str or target.__class__ is not str:
        return _relation(row)
    ends = f"{_base(row['source_labels'])}\0{len(str(source))}\0{source}{_base(row['target_labels'])}\0{target}"
    return f"{row['type']}\0{ends}"


def canonical_dump(store: GraphStore) -> Iterator[str]:
    """Yield one line a node, then one a relationship, each in order of its text; journal positions are left out.

    All lines are held in memory to sort them: about 1 KiB a fact.
    """
    nodes = (_node(row) for row in store.run(query("read/store/nodes")) if not _is_position(row))
    yield from sorted(nodes)
    yield from sorted(_relation(row) for row in store.run(query("read/store/relations")))


def _is_position(row: Row) -> bool:
    """Return whether a node tells how far a journal is and is nothing else besides."""
    return row["labels"] == ["Applied"]


def _node(row: Row) -> str:
    return _line({"labels": _labels(row["labels"]), "properties": _properties(row["properties"])})


def _relation(row: Row) -> str:
    ends = {
        "from": [_base(row["source_labels"]), row["source"]],
        "to": [_base(row["target_labels"]), row["target"]],
    }
    return _line({"type": row["type"], **ends, "properties": _properties(row["properties"])})


def _labels(held: object) -> list[str]:
    return sorted(map(str, held)) if isinstance(held, list) else []


def _base(labels: object) -> str:
    return _base_of(tuple(map(str, labels))) if isinstance(labels, list) else ""


@functools.lru_cache(maxsize=4_096)
def _base_of(labels: tuple[str, ...]) -> str:
    return next((label for label in sorted(labels) if label in UNIQUE_KEY), "")


def _properties(held: object) -> dict[str, object]:
    return properties(held) if isinstance(held, dict) else {}


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _line(fact: Mapping[str, object]) -> str:
    return _ENCODER.encode(fact)
