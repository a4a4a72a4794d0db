"""Ranks in words, short however many they are."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN_RANGES = 6


def ranks_text(ranks: Iterable[int]) -> str:
    """Return ranks as ``3``, ``0-2,5``; the middle of a long list is left out and counted."""
    ordered = sorted(set(ranks))
    ranges: list[list[int]] = []
    for rank in ordered:
        if ranges and rank == ranges[-1][1] + 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    parts = [str(low) if low == high else f"{low}{'-' if high > low + 1 else ','}{high}" for low, high in ranges]
    if len(parts) > _SHOWN_RANGES:
        return f"{','.join(parts[: _SHOWN_RANGES - 1])},… ({len(ordered)} ranks)"
    return ",".join(parts)
