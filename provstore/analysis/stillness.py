"""What a watcher beside a rank says of a job that stood still."""

from __future__ import annotations

import re

from provstore.model.dump import Sidecar

_WORDS = re.compile(r"nothing moved for ([0-9]{1,9}(?:\.[0-9]{1,9})?) s")
"""How a sidecar says it that has no members for it."""


def still_seconds(sidecar: Sidecar | None) -> float | None:
    """Return for how long nothing had moved when a watcher dumped because of that; None when it did not."""
    if sidecar is None:
        return None
    if sidecar.still_ns is not None:
        return sidecar.still_ns / 1e9 if sidecar.still_ns >= (sidecar.still_limit_ns or 0) else None
    said = _WORDS.fullmatch(sidecar.reason or "")
    return None if said is None else float(said[1])


def still_limit_seconds(sidecar: Sidecar | None) -> float | None:
    """Return after how long a watcher was told to dump, where it did so; words alone do not tell it."""
    if sidecar is None or sidecar.still_limit_ns is None or sidecar.still_ns is None:
        return None
    return None if still_seconds(sidecar) is None else sidecar.still_limit_ns / 1e9
