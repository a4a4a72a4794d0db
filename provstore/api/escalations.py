"""Escalations of a stored run in short: one entry each, however many ranks and states of it are on record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from provstore.model import canonical

_STATES = ("opened", "extended", "closed")
_SAID = ("scope", "rule", "opened_step", "closed_step", "close_reason", "reason")


def escalations_in_short(records: Iterable[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Return each escalation once: what opened it, how often it was extended, how it ended, value and limit as numbers.

    Args:
        records: Records of escalations, one for each rank and state, in their order.
    """
    told: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for one in records:
        told.setdefault((one["source"], one["number"]), []).append(one)
    return [_in_short(source, number, states) for (source, number), states in told.items()]


def earliest(records: Iterable[Mapping[str, Any]]) -> dict[str, object] | None:
    """Return what opened the earliest escalation, and on which ranks in that step: where to look, which accuses nobody.

    Args:
        records: Records of escalations; those that name no step come last. Clocks of hosts are not compared.
    """
    known = list(records)
    if not known:
        return None
    first = min(known, key=_beginning)
    alike = [one for one in known if all(one.get(name) == first.get(name) for name in ("trigger", "opened_step"))]
    return {
        "id": f"{first['source']}/esc-{first['number']}",
        "source": first["source"],
        "trigger": first.get("trigger"),
        "scope": first.get("scope"),
        "opened_step": first.get("opened_step"),
        "value": _number(first.get("value")),
        "threshold": _number(first.get("threshold")),
        "ranks": sorted({one["rank"] for one in alike if one.get("rank") is not None}),
        "reason": first.get("reason"),
        "meaning": "where to begin to look; a trigger that fired first accuses nobody",
    }


def _beginning(said: Mapping[str, Any]) -> tuple[float, str, int]:
    step = said.get("opened_step")
    return (math.inf if step is None else step, said["source"], said["number"])


def _in_short(source: str, number: int, states: list[Mapping[str, Any]]) -> dict[str, object]:
    latest = max(states, key=lambda one: _STATES.index(one["event"]))
    extended: dict[int | None, int] = {}
    for one in states:
        extended[one.get("rank")] = extended.get(one.get("rank"), 0) + (one["event"] == "extended")
    return {
        "id": f"{source}/esc-{number}",
        "source": source,
        "trigger": latest.get("trigger"),
        **{name: latest.get(name) for name in _SAID},
        "event": latest["event"],
        "extended": max(extended.values()),
        "latched": any(one.get("latched") for one in states),
        "value": _number(latest.get("value")),
        "threshold": _number(latest.get("threshold")),
        "ranks": sorted(rank for rank in extended if rank is not None),
        "evidence": list(latest.get("evidence") or ()),
    }


def _number(said: object) -> float | str | None:
    """Return a decimal number; in words where it is none."""
    if not isinstance(said, str):
        return None
    value = canonical.tagged_double(said)
    return value if math.isfinite(value) else str(value)
