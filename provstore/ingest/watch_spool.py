"""``watch.jsonl`` of a capture directory: what was seen beside the job, and what followed; only ever added to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from provstore.errors import StoreError
from provstore.evidence.recording.orders import Order

SPOOL = "watch.jsonl"
SCHEMA = "provstore-watch/1"


class Notes:
    """Lines that are added together.

    Args:
        seen_ns: When they were seen, nanoseconds since 1970.
    """

    def __init__(self, seen_ns: int) -> None:
        self._seen_ns = seen_ns
        self._lines: list[bytes] = []

    def add(self, what: str, said: Mapping[str, Any]) -> str:
        """Add a line; return its SHA-256, by which lines that follow from it name it."""
        line = orjson.dumps({"schema": SCHEMA, "seen_ns": self._seen_ns, "t": what, **said})
        self._lines.append(line)
        return hashlib.sha256(line).hexdigest()

    def append_to(self, directory: Path) -> None:
        """Add the lines to the file, in one piece.

        Raises:
            StoreError: They could not be written.
        """
        if not self._lines:
            return
        try:
            with (directory / SPOOL).open("ab+") as file:
                # What a process that was killed left unfinished stays a line of its own.
                begin = b"\n" if _is_torn(file) else b""
                file.write(begin + b"".join(line + b"\n" for line in self._lines))
        except OSError as error:
            raise StoreError(f"{directory / SPOOL}: watch: {error.strerror}") from error


def said_of_closed(order: Order) -> dict[str, object]:
    """Return what the line of an order that is over says."""
    return {name: getattr(order, name) for name in ("number", "trigger", "scope", "source")}


def _is_torn(file: BinaryIO) -> bool:
    size = file.seek(0, 2)
    if not size:
        return False
    file.seek(size - 1)
    return file.read(1) != b"\n"
