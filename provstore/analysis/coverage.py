"""What the evidence covers: ranks, calls, windows; and the last thing each rank did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from provstore.analysis.case import Case
from provstore.analysis.wording import last_call_words
from provstore.model.finding import Finding, LastCall

_SHOWN_WINDOWS = 200


def coverage(case: Case) -> dict[str, object]:
    """Return what was expected, seen, refused, missing and skipped, and which numbers each group's ranks share."""
    dumps = case.table.dumps
    return {
        "ranks_expected": len(case.ranks),
        "ranks_seen": sorted({dump.rank for dump in dumps}),
        "ranks_refused": sorted(case.refused),
        "ranks_missing": list(case.missing),
        "dumps": len(dumps),
        "calls": len(case.table),
        "instances": len(case.instances),
        "pending": int(case.progress.pending.sum()),
        "wrapped": sorted({dump.rank for dump in dumps if dump.wrapped}),
        "active_only": sorted({dump.rank for dump in dumps if dump.active_only}),
        "quarantined": sum(len(dump.quarantined) for dump in dumps),
        "skipped_files": [
            {"file": item.file, "reason": item.reason} for item in case.evidence.refusals if item.skipped
        ],
        "refused_files": [
            {"file": item.file, "reason": item.reason} for item in case.evidence.refusals if not item.skipped
        ],
        "windows": _windows(case),
    }


def _windows(case: Case) -> list[dict[str, object]]:
    """Return for each group the numbers that some and that all of its recorded members hold."""
    found = case.instances
    if not len(found):
        return []
    groups, first = np.unique(found.group, return_index=True)
    last = np.append(first[1:], len(found)) - 1
    windows: list[dict[str, object]] = []
    for group, low, high in list(zip(groups.tolist(), first.tolist(), last.tolist()))[:_SHOWN_WINDOWS]:
        item = case.table.groups[group]
        kept = [window for rank in item.ranks if (window := case.presence.window(rank, group)) is not None]
        shared = (max(one[0] for one in kept), min(one[1] for one in kept)) if kept else (0, -1)
        windows.append(
            {
                "group": item.name,
                "desc": item.desc,
                "backend": item.backend,
                "members": len(item.ranks),
                "first": int(found.number[low]),
                "last": int(found.number[high]),
                "common": list(shared) if shared[0] <= shared[1] else None,
            }
        )
    return windows


def last_calls(case: Case, findings: Sequence[Finding]) -> tuple[LastCall, ...]:
    """Return the last thing each rank did, equal ranks folded, culprits first."""
    culprits = {culprit.rank for finding in findings for culprit in finding.culprits}
    by_text: dict[tuple[bool, str], list[int]] = {}
    for rank in case.ranks:
        by_text.setdefault((rank not in culprits, last_call_words(case, rank)), []).append(rank)
    ordered = sorted(by_text.items(), key=lambda item: (item[0][0], item[1][0]))
    return tuple(LastCall(tuple(ranks), text) for (_, text), ranks in ordered)
