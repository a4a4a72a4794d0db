"""The lineage of the calls in a capture directory: rank after rank, epoch after epoch, into the journal.

The facts are those that ingesting the dumps of the same job gives. They stand in batches of their own, so that the
records of actions, and the bundles over them, are what they would be without.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.graph.captured_calls import COLLECTIVE, CapturedCall, CapturedCalls, CapturedGroup
from provstore.ingest.capture_lines import Values
from provstore.ingest.sealing import LIVE_READER
from provstore.journal import Journal, Origin
from provstore.model import ids
from provstore.model.recording import CAPTURE_FAULT, NO_TENSOR_ACCESS, UNKNOWN
from provstore.sources.capture_directory import CapturedRank, Span

READER_VERSION = "1"
MOST_CALLS = 5_000
"""Of one batch."""
_PIECE_BYTES = 1 << 20
_CHANNELS = ("send", "recv")
_UNSEEN = frozenset((NO_TENSOR_ACCESS, CAPTURE_FAULT))
_GROUP = re.compile(r"[^/]+@[^/]+")
_MOST_RANKS, _MOST_HOST = 1 << 20, 255


@dataclass(frozen=True, slots=True)
class Line:
    """A line with an ordinal: the action that it gives, and its place in the program of its rank."""

    action: Values
    ordinal: int
    said: Mapping[str, Any]
    file: int = 0
    """How often its process had been restarted."""


@dataclass(slots=True)
class RankLineage:
    """One rank of one attempt on its way through the epochs, which must come in order."""

    journal: Journal
    run: str
    attempt: int
    captured: CapturedRank
    written: int = 0
    """Calls of which the facts were put into the journal."""
    repeated: int = 0
    """Calls with the number of one that the rank made before its process was restarted."""
    unnamed: int = 0
    """Calls in a group whose name is none of an id."""
    _calls: CapturedCalls = field(init=False)
    _groups: dict[tuple[str, str], CapturedGroup] = field(default_factory=dict)
    _at: tuple[int, int] = (-1, -1)
    """File and ordinal of the latest action."""
    _homes: dict[str, int] | None = None
    """Instance of a call → its file, where the rank has several."""

    def __post_init__(self) -> None:
        """Begin before the first call."""
        self._calls = CapturedCalls(self.run, self.attempt, self.captured.rank)
        if len({span.path for spans in self.captured.spans.values() for span in spans}) > 1:
            self._homes = {}
        stated = self.captured.header.get("groups")
        for one in stated if isinstance(stated, list) else ():
            self.group(one)

    def group(self, said: object) -> None:
        """Take note of what a line states of a process group; what states none is left out."""
        found = _group(said) if isinstance(said, dict) else None
        if found is not None:
            self._groups[found.backend, found.group] = found

    def write(self, lines: Iterable[Line], spans: Sequence[Span]) -> None:
        """Put the calls of an epoch into the journal, but for those that it holds as made of these very bytes.

        Args:
            lines: Everything that has an ordinal: with it, gaps show.
            spans: Where they stand.

        Raises:
            StoreError: They could not be made durable.
        """
        digest, size = _digest(spans)
        taken, is_held, origin = 0, False, self._origin(digest, size, 0)
        for line in sorted(lines, key=lambda one: (one.file, one.ordinal)):
            self._move(line)
            call = self._call(line)
            if call is None:
                continue
            if taken % MOST_CALLS == 0:
                self._flush(origin)
                origin = self._origin(digest, size, taken // MOST_CALLS)
                scope = (self.run, self.attempt)
                is_held = self.journal.has_batch(origin.sha256, origin.reader, origin.version, *scope)
            taken += 1
            if is_held:
                self._calls.pass_over(call)
            else:
                self._calls.add(call)
        self._flush(origin)

    def problems(self) -> Iterator[str]:
        """Yield of which calls there is no lineage because their numbers are those of others, and what to do."""
        if self.repeated:
            said = f"rank {self.captured.rank}: {self.repeated} calls have numbers of earlier ones and are left out"
            why = "their process was restarted and counts anew"
            yield f"{said} of the lineage: {why}: give each start an attempt of its own: evidence(attempt=…)"

    def notes(self) -> Iterator[str]:
        """Yield of which other calls there is no lineage, and why."""
        if self.unnamed:
            who = f"rank {self.captured.rank}"
            yield f"{who}: {self.unnamed} calls are left out of the lineage: their group is no name@ranks"

    def _call(self, line: Line) -> CapturedCall | None:
        action = line.action
        if action.get("group") is None:
            return None
        if not _GROUP.fullmatch(action["group"]):
            self.unnamed += 1
            return None
        if self._homes is not None and self._homes.setdefault(action["action_id"], line.file) != line.file:
            self.repeated += 1
            self._calls.forget()
            return None
        return _captured(action, line.said)

    def _move(self, line: Line) -> None:
        """Go on to a line; what follows nothing, or something that is missing, has no predecessor."""
        file, ordinal = self._at
        if line.file != file or line.ordinal - ordinal not in {0, 1}:
            self._calls.forget()
        self._at = (line.file, line.ordinal)

    def _flush(self, origin: Origin) -> None:
        if self._calls.count:
            self.written += self._calls.count
            host = self.captured.header.get("host")
            is_name = isinstance(host, str) and 0 < len(host) <= _MOST_HOST
            self.journal.append(self._calls.block(self._groups, str(host) if is_name else None), origin)

    def _origin(self, digest: str, size: int, part: int) -> Origin:
        # The numbers of a rank's records are those of its actions: what covers a batch when it is signed counts apart.
        version = f"{READER_VERSION}@{self.captured.rank}" + (f"/{part}" if part else "")
        return Origin(digest, size, LIVE_READER, version, None, keep_source=False)


def _captured(action: Values, said: Mapping[str, Any]) -> CapturedCall:
    channel = said.get("channel")
    return CapturedCall(
        chain=action["chain"],
        op=action["op"],
        backend=action["backend"],
        group=action["group"],
        channel=channel if channel in _CHANNELS else COLLECTIVE,
        seq=action["seq"],
        op_id=action["op_id"],
        peer=action["peer"],
        input_sizes=action["shapes_in"] or (),
        output_sizes=action["shapes_out"] or (),
        input_dtypes=action["dtypes_in"] or (),
        output_dtypes=action["dtypes_out"] or (),
        is_done=_is_done(action, said),
        is_known=action["op"] != UNKNOWN or bool(action["shapes_in"] or action["shapes_out"]),
        is_part=said.get("part_of") is not None,
    )


def _is_done(action: Values, said: Mapping[str, Any]) -> bool:
    """Return whether the recorder saw that the output is there: it tells at once where it did not."""
    if action["finite_out"] is not None or action["digest_out"] is not None or said.get("stats_out") is not None:
        return True
    return _UNSEEN.isdisjoint(said.get("shortfall") or ())


def _group(said: Mapping[str, Any]) -> CapturedGroup | None:
    """Return what a header or line states of a group; ``None`` where its id is another than its members give."""
    name, desc, ranks, backend = (said.get(one) for one in ("name", "desc", "ranks", "backend"))
    if not isinstance(name, str) or not isinstance(backend, str) or not backend or not isinstance(ranks, list):
        return None
    if not all(type(rank) is int and 0 <= rank < _MOST_RANKS for rank in ranks) or len(ranks) > _MOST_RANKS:
        return None
    key = ids.group_key(name, ranks)
    if said.get("group") != key:
        return None
    return CapturedGroup(backend, key, name, desc if isinstance(desc, str) else None, tuple(ranks))


def _digest(spans: Sequence[Span]) -> tuple[str, int]:
    """Return SHA-256 and size of the bytes of an epoch."""
    found, size = hashlib.sha256(), 0
    for span in spans:
        with span.path.open("rb") as file:
            file.seek(span.start)
            left = span.end - span.start
            while left > 0 and (data := file.read(min(left, _PIECE_BYTES))):
                found.update(data)
                left -= len(data)
                size += len(data)
    return found.hexdigest(), size
