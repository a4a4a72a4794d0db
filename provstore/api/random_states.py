"""Anchors of two runs compared, and which generators stand differently, from the states that were kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from provstore.api.stored_runs import StoredRun
from provstore.errors import StoreError
from provstore.evidence.epoch_bundles import ANCHORS, DATA, RNG
from provstore.evidence.replay import AnchorComparison, compare_anchors

_Place = tuple[int, int, str, int]
"""Epoch, step, where in it, rank."""
_WHERE = ("epoch", "checkpoint")


def comparable_anchors(a: StoredRun, b: StoredRun, epochs: Iterable[int]) -> AnchorComparison:
    """Return the anchors of two runs compared, without those of an epoch of which either cannot be read in whole."""
    anchors: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
    data: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
    for epoch in epochs:
        found = [(one.rows(epoch, ANCHORS), one.rows(epoch, DATA)) for one in (a, b)]
        # What one run alone has is no difference where the other's was lost.
        if any(one.unreadable(ANCHORS, epoch=epoch) for one in (a, b)):
            continue
        is_data_read = not any(one.unreadable(DATA, epoch=epoch) for one in (a, b))
        for side, (rows, batches) in enumerate(found):
            anchors[side].extend(rows)
            data[side].extend(batches if is_data_read else ())
    return compare_anchors(*anchors, b.run, data)


def with_generators(found: AnchorComparison, a: StoredRun, b: StoredRun, epochs: Iterable[int]) -> AnchorComparison:
    """Return a comparison of anchors with the names of the generators that differ, where random states do."""
    if any(one.kind == "rng" and one.different for one in found.kinds):
        return replace(found, generators=differing_generators(a, b, epochs))
    return found


def differing_generators(a: StoredRun, b: StoredRun, epochs: Iterable[int]) -> tuple[str, ...]:
    """Return the names of the generators whose states differ where kept states do first, on any rank.

    Anchors hold one digest of all generators; their states are kept at the start of an epoch and at a checkpoint.
    Bytes that are missing say nothing.
    """
    asked = list(epochs)
    left, right = (_by_place(row for epoch in asked for row in one.rows(epoch, RNG)) for one in (a, b))
    found: set[str] = set()
    first: tuple[int, int, str] | None = None
    known: dict[tuple[str, str], frozenset[str]] = {}
    for place in sorted(left.keys() & right.keys(), key=lambda one: (one[0], one[1], _WHERE.index(one[2]), one[3])):
        one, two = left[place], right[place]
        if first not in {None, place[:3]}:
            break
        if one.get("digest") == two.get("digest") or not one.get("blob") or not two.get("blob"):
            continue
        pair = (one["blob"], two["blob"])
        if pair not in known:
            known[pair] = _apart(_states(a, one), _states(b, two))
        if known[pair]:
            first = place[:3]
            found |= known[pair]
    return tuple(sorted(found))


def _by_place(rows: Iterable[Mapping[str, Any]]) -> dict[_Place, Mapping[str, Any]]:
    return {(row["epoch"], row["step"], row["where"], row["rank"]): row for row in rows if row.get("where") in _WHERE}


def _apart(one: Mapping[str, Any] | None, two: Mapping[str, Any] | None) -> frozenset[str]:
    if one is None or two is None:
        return frozenset()
    return frozenset(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _states(run: StoredRun, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the state of each generator; ``None`` where its bytes are missing or no such states."""
    try:
        said = orjson.loads(run.journal.kept(row["blob"], row["bytes"]))
    except (StoreError, orjson.JSONDecodeError):
        return None
    states = said.get("states") if isinstance(said, dict) else None
    return states if isinstance(states, dict) else None
