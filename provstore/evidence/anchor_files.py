"""Files of anchors: how a verifier remembers a checkpoint, when and where it saw it, and what it had seen before.

A line of canonical JSON, then the checkpoint verbatim. A bare checkpoint is an anchor of unknown date.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from provstore.errors import InputError, TrustError
from provstore.evidence import checkpoint as checkpoints
from provstore.evidence.moments import nanoseconds
from provstore.model import canonical, versions
from provstore.model.canonical import Json

SCHEMA = 1
MOST_BYTES = 128 * 1024
"""A checkpoint is at most half of it; a longer file is not read."""
MOST_EARLIER = 64
"""Sizes that a file remembers besides its newest; a revocation can reach back to them."""

_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEADER_MEMBERS = {"earlier", "origin", "place", "schema", "seen"}
_EARLIER_MEMBERS = {"root", "seen", "size"}


@dataclass(frozen=True, slots=True)
class Anchor:
    """A tree of a known size and root, held by the party who verifies."""

    origin: str
    size: int
    root: bytes
    note: bytes
    """The signed checkpoint, verbatim; empty for a size that a state file remembers from before."""
    seen: str | None
    """When the verifier saw it, ISO 8601 in UTC; ``None`` when nobody wrote that down."""
    source: str
    """Path of a file that was given, or ``state``."""
    place: str | None = None
    """Directory or address of the store where it was seen."""
    dated_by: str | None = None
    """What else shows its age, such as the name of a time stamp authority."""
    path: str | None = field(default=None, compare=False)
    """Where it was read from."""


def order(anchor: Anchor) -> tuple[str, int, bytes, str]:
    """Return what anchors are sorted by: origin, then size."""
    return anchor.origin, anchor.size, anchor.root, anchor.seen or ""


def encode(fresh: Anchor, held: list[Anchor]) -> bytes:
    """Return the file of a newer anchor, which keeps in mind what was ``held``, newest first."""
    # What was held stays known, so that a later revocation finds an anchor from before it.
    earlier = list(held)
    if len(earlier) > MOST_EARLIER:
        # Every second of the older half goes: recent sizes stay close together, old ones far apart.
        newest_first = sorted(earlier, key=order, reverse=True)
        half = MOST_EARLIER // 2
        earlier = newest_first[:half] + newest_first[half::2]
    rows: list[Json] = [
        {"root": one.root.hex(), "seen": one.seen, "size": one.size} for one in sorted(earlier, key=order)
    ]
    header: Json = {
        "earlier": rows, "origin": fresh.origin, "place": fresh.place, "schema": SCHEMA, "seen": fresh.seen,
    }  # fmt: skip
    return canonical.encode(header) + b"\n" + fresh.note


def parse(data: bytes, source: str, path: str) -> list[Anchor]:
    """Return the anchor in a file, then those that it remembers from before.

    Args:
        data: A bare checkpoint, or what :func:`encode` made.
        source: For ``Anchor.source``.
        path: Where the bytes were read.

    Raises:
        TrustError: It is neither.
    """
    if not data.startswith(b"{"):
        point = _checkpoint(data, path)
        return [Anchor(point.origin, point.size, point.root, data, None, source, path=path)]
    header, _, note = data.partition(b"\n")
    point = _checkpoint(note, path)
    try:
        seen, place, earlier = _header(canonical.parse(header, max_bytes=MOST_BYTES), point, path)
        newest = Anchor(point.origin, point.size, point.root, note, seen, source, place, path=path)
        return [newest, *(_earlier(row, newest) for row in earlier)]
    except InputError as error:
        raise TrustError(f"{path}: anchor: {error}", code="envelope-malformed") from error


def _header(value: Json, point: checkpoints.Checkpoint, path: str) -> tuple[str, str | None, list[Json]]:
    if (
        isinstance(value, dict)
        and "schema" in value
        and (type(value["schema"]) is not int or value["schema"] != SCHEMA)
    ):
        # A later version may have other members, too.
        said = versions.unknown(value["schema"], SCHEMA, f"{path}: anchor")
        raise TrustError(str(said), code="unknown-schema")
    if not isinstance(value, dict) or set(value) != _HEADER_MEMBERS:
        raise InputError("header: not exactly the known members")
    if value["origin"] != point.origin:
        raise InputError("header: it is about another origin than the checkpoint")
    place, seen, earlier = value["place"], value["seen"], value["earlier"]
    if not (place is None or isinstance(place, str)) or not isinstance(seen, str) or not isinstance(earlier, list):
        raise InputError("header: a member has another type")
    nanoseconds(seen)
    if len(earlier) > MOST_EARLIER + 1:
        raise InputError("header: more earlier sizes than are kept")
    return seen, place, earlier


def _earlier(row: Json, newest: Anchor) -> Anchor:
    if not isinstance(row, dict) or set(row) != _EARLIER_MEMBERS:
        raise InputError("earlier: not exactly the known members")
    root, seen, size = row["root"], row["seen"], row["size"]
    if not isinstance(root, str) or not _HEX_DIGEST.fullmatch(root) or not isinstance(seen, str):
        raise InputError("earlier: a member has another type")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < newest.size:
        raise InputError("earlier: a size is not below the newest")
    nanoseconds(seen)
    root_bytes = bytes.fromhex(root)
    return Anchor(newest.origin, size, root_bytes, b"", seen, newest.source, newest.place, path=newest.path)


def _checkpoint(note: bytes, path: str) -> checkpoints.Checkpoint:
    try:
        return checkpoints.parse(note)
    except TrustError as error:
        raise TrustError(f"{path}: anchor: {error}", code=error.code) from error


def read_bytes(path: Path) -> bytes:
    """Return a file that may hold an anchor.

    Raises:
        InputError: It cannot be read.
        TrustError: It is too long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: anchor: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise TrustError(f"{path}: anchor: more than {MOST_BYTES} bytes", code="cap-exceeded")
    return data
