"""Lists of batches that a re-run leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from provstore.errors import InputError
from provstore.evidence import bounded_files
from provstore.evidence.replay.epoch import EpochFacts, Row

_TEXTS = ("ids_digest", "reason", "finding", "author")
_KNOWN = {"epoch", "batch", *_TEXTS}
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Skip:
    """One batch that is left out."""

    epoch: int
    batch: int
    """Index in the epoch, from 0."""
    reason: str
    ids_digest: str | None = None
    """``sha256:`` of the ids of its samples."""
    finding: str | None = None
    author: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "reason": self.reason,
            "ids_digest": self.ids_digest,
            "finding": self.finding,
            "author": self.author,
        }


def skips_in(path: Path) -> tuple[Skip, ...]:
    """Return the list of batches to skip in a file; see :func:`skips_from`.

    Raises:
        InputError: It cannot be read, or is no such list.
    """
    return skips_from(bounded_files.read(path, MAX_BYTES, f"{path}: skip list", InputError), str(path))


def skips_from(data: bytes, name: str) -> tuple[Skip, ...]:
    """Return a list of batches to skip that somebody wrote: a JSON array of objects.

    Raises:
        InputError: It is no such list.
    """
    if len(data) > MAX_BYTES:
        raise InputError(f"{name}: size: more than {MAX_BYTES} bytes")
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{name}: JSON: {error}") from error
    if not isinstance(said, list):
        raise InputError(f"{name}: is no list of batches")
    found: dict[tuple[int, int], Skip] = {}
    for at, one in enumerate(said):
        skip = _skip(one, f"{name}: [{at}]")
        if (skip.epoch, skip.batch) in found:
            raise InputError(f"{name}: [{at}]: epoch {skip.epoch}, batch {skip.batch}: stands there twice")
        found[skip.epoch, skip.batch] = skip
    return tuple(found.values())


def _skip(said: object, place: str) -> Skip:
    if not isinstance(said, dict):
        raise InputError(f"{place}: is no object")
    unknown = sorted(set(said) - _KNOWN)
    if unknown:
        raise InputError(f"{place}: {unknown[0][:40]!a}: not known; known are {', '.join(sorted(_KNOWN))}")
    for key in ("epoch", "batch"):
        if type(said.get(key)) is not int or said[key] < 0:
            raise InputError(f"{place}: {key}: is no number of 0 or more")
    for key in _TEXTS:
        if not isinstance(said.get(key, ""), str):
            raise InputError(f"{place}: {key}: is no text")
    if not said.get("reason"):
        raise InputError(f"{place}: reason: is missing")
    return Skip(
        said["epoch"], said["batch"], said["reason"], *(said.get(key) for key in ("ids_digest", "finding", "author"))
    )


def own_skips(rows: Iterable[Row]) -> tuple[Skip, ...]:
    """Return what the run itself skipped; ranks that say the same are one entry."""
    found: dict[tuple[int, int], Skip] = {}
    for row in rows:
        reason = row.get("skipped")
        if isinstance(reason, str):
            key = (row["epoch"], row["batch"])
            found.setdefault(key, Skip(*key, reason, row.get("ids_digest")))
    return tuple(found[key] for key in sorted(found))


def require_known(skips: Sequence[Skip], facts: EpochFacts) -> None:
    """Refuse batches that the epoch does not have, or whose samples are others.

    Raises:
        InputError: As said.
    """
    known: dict[int, set[Any]] = {}
    for row in facts.data:
        known.setdefault(row["batch"], set()).add(row.get("ids_digest"))
    for skip in skips:
        place = f"skip list: epoch {skip.epoch}, batch {skip.batch}"
        if skip.epoch != facts.epoch:
            raise InputError(f"{place}: the plan is of epoch {facts.epoch}")
        if known and skip.batch not in known:
            raise InputError(f"{place}: the epoch has {len(known)} batches")
        if skip.ids_digest is not None and known and skip.ids_digest not in known[skip.batch]:
            raise InputError(f"{place}: ids_digest: that batch holds other samples")


def beyond(skips: Sequence[Skip], own: Sequence[Skip]) -> tuple[Skip, ...]:
    """Return what is skipped beyond what the run itself skipped."""
    did = {(one.epoch, one.batch) for one in own}
    return tuple(one for one in skips if (one.epoch, one.batch) not in did)


def as_values(skips: Sequence[Skip]) -> list[Mapping[str, object]]:
    """Return a list as JSON values."""
    return [one.to_dict() for one in skips]
