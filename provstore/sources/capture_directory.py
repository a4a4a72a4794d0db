"""Capture directories: what the ranks of a live job left, line by line, however they ended.

One file a rank, ``capture-rank<r>.jsonl``, continued by ``capture-rank<r>.<k>.jsonl`` after a restart. What goes wrong
here: a torn last line, lines that are no objects or have no known shape, files of another schema, lines without end.
Nothing of it stops the reading; each is named by file and offset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from provstore.errors import InputError, NotUnderstoodError
from provstore.model import versions
from provstore.model.canonical import without_repetition

SCHEMA = "provstore-capture/1"
MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_PROBLEMS = 100
MAX_EPOCH = 2**53 - 1
BLOBS = "blobs"
_FILE = re.compile(r"capture-rank(0|[1-9][0-9]{0,6})(?:\.([1-9][0-9]{0,5}))?\.jsonl")
_EPOCH = re.compile(rb'"epoch":\s?(0|[1-9][0-9]{0,15})[,}]')
_AHEAD = re.compile(rb'"t":\s?"(?:snap|step)"')
_MAX_RANK = 1 << 20


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring lines of one epoch in one file."""

    path: Path
    start: int
    end: int

    @property
    def restart(self) -> int:
        """How often the process had been restarted, as the name of the file tells."""
        found = _FILE.fullmatch(self.path.name)
        return int(found[2] or 0) if found else 0


@dataclass(slots=True)
class CapturedRank:
    """What one rank left in one attempt."""

    rank: int
    header: dict[str, Any]
    """Of its first file."""
    spans: dict[int, list[Span]] = field(default_factory=dict)
    """Epoch → where its lines are; −1 for those that no epoch holds."""

    @property
    def epochs(self) -> list[int]:
        """The training epochs it has lines of, ascending."""
        return sorted(epoch for epoch in self.spans if epoch >= 0)


@dataclass(slots=True)
class Problems:
    """What could not be used, the first hundred in words."""

    texts: list[str] = field(default_factory=list)
    count: int = 0
    refused: list[str] = field(default_factory=list)
    """Files of which nothing can be used."""
    torn: list[str] = field(default_factory=list)
    """Last lines that a process did not finish: it may be writing still."""
    is_understood: bool = True
    """False where a file or a line is of a version that is not known here."""

    def add(self, text: str) -> None:
        """Take note of one."""
        self.count += 1
        if len(self.texts) < MAX_PROBLEMS:
            self.texts.append(text)

    def judge(self, error: Exception) -> None:
        """Take note of what a file or a line failed with."""
        self.is_understood = self.is_understood and not isinstance(error, NotUnderstoodError)

    def listed(self) -> list[str]:
        """Return them, and how many more there were."""
        more = self.count - len(self.texts)
        return [*self.texts, *([f"capture: {more} more lines could not be used"] if more else [])]


@dataclass(slots=True)
class Capture:
    """A capture directory, its lines still on disk."""

    directory: Path
    attempts: dict[int, dict[int, CapturedRank]]
    """Attempt → rank → what it left."""
    problems: Problems

    def lines(self, span: Span, only: re.Pattern[bytes] | None = None) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the objects of a span, each with its place; what is none is a problem.

        Args:
            span: Where to read.
            only: Lines without it are passed over unread.
        """
        with span.path.open("rb") as file:
            file.seek(span.start)
            for line, offset in whole_lines(file, span.path.name, span.end):
                if only is not None and only.search(line) is None:
                    continue
                try:
                    yield parse(line), f"{span.path.name}: offset {offset}"
                except InputError as error:
                    if only is None:
                        self.problems.add(f"{span.path.name}: offset {offset}: {error}")

    def lines_ahead(self, spans: Iterable[Span]) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the lines that tell of snapshots and of steps: those of calls need them, and may come first."""
        for span in spans:
            yield from (one for one in self.lines(span, _AHEAD) if one[0].get("t") in {"snap", "step"})


def recognises(head: bytes, name: str) -> bool:
    """Return whether a file is one of a capture directory, by its first bytes and its name."""
    return _FILE.fullmatch(name) is not None and head.startswith(b"{")


def rank_and_restart(name: str) -> tuple[int, int] | None:
    """Return whose file this is and how often its process had been restarted; ``None`` for another file."""
    found = _FILE.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def is_capture(path: Path) -> bool:
    """Return whether a path is a capture directory, or a file of one."""
    if path.is_dir():
        return any(_FILE.fullmatch(entry.name) for entry in path.iterdir())
    return path.is_file() and _FILE.fullmatch(path.name) is not None


def read_capture(path: Path) -> Capture:
    """Return what a capture directory holds; its lines are read when they are asked for.

    Args:
        path: The directory, or one file in it, which is then all that is read.

    Raises:
        InputError: No file there can be used.
        NotUnderstoodError: Nor can one, and one is of a version that is not known here.
    """
    directory = path if path.is_dir() else path.parent
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else [path.name]
    found = sorted((int(m[1]), int(m[2] or 0), m[0]) for m in map(_FILE.fullmatch, names) if m)
    problems = Problems()
    attempts: dict[int, dict[int, CapturedRank]] = {}
    for rank, _, name in found:
        try:
            _index(directory / name, rank, attempts, problems)
        except (InputError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.refused.append(f"{name}: {reason}")
            problems.judge(error)
    if not attempts:
        said = "; ".join(problems.refused[:3])
        kind = InputError if problems.is_understood else NotUnderstoodError
        raise kind(f"{directory}: capture: no file can be used" + (f": {said}" if said else ""))
    return Capture(directory, attempts, problems)


def parse(line: bytes) -> dict[str, Any]:
    """Return the object of a line.

    Raises:
        InputError: It is none, or a name is repeated in it.
    """
    try:
        said = orjson.loads(line)
        if orjson.dumps(said) != line:
            # Other spellings are fine, and equal names are not.
            said = json.loads(line, object_pairs_hook=without_repetition)
    except (orjson.JSONDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"no JSON: {str(error)[:80]}") from error
    if not isinstance(said, dict):
        raise InputError("no object")
    return said


def _index(path: Path, rank: int, attempts: dict[int, dict[int, CapturedRank]], problems: Problems) -> None:
    if not path.is_file() and not path.is_dir():
        raise InputError("is no file that has an end" if path.exists() else "leads nowhere")
    with path.open("rb") as file:
        lines = whole_lines(file, path.name, None, problems)
        header = _header(next(lines, (b"", 0))[0], rank)
        known = attempts.setdefault(header["attempt"], {})
        captured = known.setdefault(rank, CapturedRank(rank, header))
        epoch, start, end = -1, file.tell(), file.tell()
        for line, offset in lines:
            found = _EPOCH.search(line)
            here = epoch if found is None else min(int(found[1]), MAX_EPOCH)
            if here != epoch:
                _add(captured, epoch, Span(path, start, offset))
                epoch, start = here, offset
            end = offset + len(line) + 1
        _add(captured, epoch, Span(path, start, end))


def _add(captured: CapturedRank, epoch: int, span: Span) -> None:
    if span.end > span.start:
        captured.spans.setdefault(epoch, []).append(span)


def _header(line: bytes, rank: int) -> dict[str, Any]:
    if not line:
        raise InputError("is empty, or has no whole line")
    said = parse(line)
    if said.get("t") != "header" or not versions.is_known(said.get("schema"), SCHEMA):
        raise InputError(f"does not begin with a header of {SCHEMA}")
    if said.get("rank") != rank or isinstance(said.get("rank"), bool):
        raise InputError("its header names another rank than its name")
    attempt = said.get("attempt", 0)
    if type(attempt) is not int or not 0 <= attempt < 2**31:
        raise InputError("its header's attempt is no number")
    said["attempt"] = attempt
    return said


def whole_lines(
    file: BinaryIO, name: str, end: int | None = None, problems: Problems | None = None
) -> Iterator[tuple[bytes, int]]:
    """Yield each whole line without its end, and its offset; a torn or endless one is told and left out."""
    offset = file.tell()
    while end is None or offset < end:
        line = file.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        if line.endswith(b"\n"):
            yield line[:-1], offset
            offset += len(line)
            continue
        size = len(line)
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES + 1)
            size += len(line)
        if problems is not None and not line and size <= MAX_LINE_BYTES:
            problems.torn.append(f"{name}: offset {offset}: a torn last line of {size} bytes is left out")
        elif problems is not None:
            problems.add(f"{name}: offset {offset}: a line of {size} bytes is left out")
        offset += size
