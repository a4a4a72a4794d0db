"""``watch.jsonl``: the lines that a watcher left, each with its place; what is no line of one is a problem by itself.

What goes wrong here: a last line that is being written, lines that are no objects or of another schema, lines without
end, a file that somebody replaced. Nothing of it stops the reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provstore.errors import InputError, NotUnderstoodError
from provstore.evidence import bounded_files
from provstore.model import versions
from provstore.sources.capture_directory import MAX_PROBLEMS, parse

NAME, SCHEMA = "watch.jsonl", "provstore-watch/1"
MAX_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 32 * 1024


@dataclass(slots=True)
class Spool:
    """The bytes of one file and what could not be used of them."""

    data: bytes
    sha256: str
    problems: list[str] = field(default_factory=list)
    """The first hundred lines that cannot be used, each by its offset."""
    count: int = 0
    """How many there are."""
    torn: str | None = None
    """A last line that its writer did not finish: it may be writing still."""
    is_understood: bool = True
    """False where a line is of a version that is not known here."""

    def lines(self) -> Iterator[tuple[dict[str, Any], bytes, int]]:
        """Yield what each whole line says, its bytes without the end, and its offset."""
        at = 0
        while at < len(self.data):
            end = self.data.find(b"\n", at)
            if end < 0:
                self.torn = f"{NAME}: offset {at}: a torn last line of {len(self.data) - at} bytes is left out"
                return
            line, offset, at = self.data[at:end], at, end + 1
            try:
                yield _said(line), line, offset
            except InputError as error:
                self.is_understood = self.is_understood and not isinstance(error, NotUnderstoodError)
                self.add(offset, str(error))

    def add(self, offset: int, reason: str) -> None:
        """Take note of a line that cannot be used."""
        self.count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{NAME}: offset {offset}: {reason}")

    def listed(self) -> list[str]:
        """Return the problems, and how many more there were."""
        more = self.count - len(self.problems)
        return [*self.problems, *([f"{NAME}: {more} more lines could not be used"] if more else [])]


def read(directory: Path) -> Spool | None:
    """Return what a watcher left in a capture directory; ``None`` where nobody watched.

    Raises:
        InputError: It is no file that can be read, or too large.
    """
    path = directory / NAME
    if not path.exists() and not path.is_symlink():
        return None
    if not path.is_file():
        raise InputError(f"{NAME}: is no file" if path.exists() else f"{NAME}: leads nowhere")
    data = bounded_files.read(path, MAX_BYTES, NAME, InputError)
    return Spool(data, hashlib.sha256(data).hexdigest())


def _said(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise InputError(f"a line of {len(line)} bytes is longer than {MAX_LINE_BYTES}")
    said = parse(line)
    if not versions.is_known(said.get("schema"), SCHEMA):
        raise InputError(f"schema: is not {SCHEMA}")
    return said
