"""The epochs of a capture directory: lines become actions, notes and rows; no label names more than is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from provstore.errors import InputError
from provstore.evidence import epoch_bundles, records
from provstore.evidence.epoch_bundles import EpochFacts
from provstore.evidence.recording import policy
from provstore.evidence.recording.ordered import LATE_BY
from provstore.ingest import capture_lines, capture_tables
from provstore.ingest.capture_faults import Faults
from provstore.ingest.capture_lineage import Line, RankLineage
from provstore.ingest.capture_lines import Values
from provstore.ingest.capture_tables import Snapshots, Tables
from provstore.ingest.record_epochs import EpochWriter
from provstore.model import versions
from provstore.model.action import Action, TraceContext
from provstore.model.evidence import MODES
from provstore.model.recording import CAPTURE_FAULT, NO_TENSOR_ACCESS, RecordingPolicy
from provstore.sources.capture_directory import SCHEMA, Capture, CapturedRank

_TABLES = {
    "step": epoch_bundles.STEPS,
    "data": epoch_bundles.DATA,
    "anchor": epoch_bundles.ANCHORS,
    "sampler": epoch_bundles.SAMPLERS,
}
_PASSED_OVER = frozenset(("header", "group", "epoch", "end", "snap"))
_MAX_DOCUMENT, _MAX_DOCUMENT_MEMBERS = 48_000, 100
NEXT_EPOCH = "next-epoch"


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What a caller says about a capture directory."""

    mode_floor: str = MODES[0]
    stated_epoch: int | None = None
    """Of lines that name none."""
    trace_id: str | None = None


@dataclass(slots=True)
class CapturedEpoch:
    """Reads one epoch of all ranks of one attempt into a writer."""

    capture: Capture
    ranks: Mapping[int, CapturedRank]
    epoch: int
    writer: EpochWriter
    request: CaptureRequest
    lineage: Mapping[int, RankLineage]
    """Of each rank, where the epochs before this one left it."""
    told_faults: Faults
    """Of all epochs of the attempt."""
    tables: Tables = field(init=False)
    faults: int = 0
    unreadable: int = 0
    late: set[int] = field(default_factory=set)
    closed: dict[int, bool] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    ended_ns: int | None = None
    checkpoint: str | None = None
    names: dict[str, None] = field(default_factory=dict)
    """Escalations of this epoch."""
    _opened: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with empty tables."""
        self.tables = Tables(self.writer.output.journal)

    def read(self) -> EpochFacts:
        """Take in all lines of the epoch; return what its bundle says beside the actions."""
        present = [rank for rank in sorted(self.ranks) if self.epoch in self.ranks[rank].spans]
        for rank in present:
            self._rank(self.ranks[rank])
        self._late_ranks()
        header = self.ranks[present[0]].header
        world = max((one for rank in present if (one := _count(self.ranks[rank].header, "world_size"))), default=None)
        wanted = header.get("policy")
        said: Mapping[str, Any] = wanted if isinstance(wanted, dict) else {}
        floor = said.get("mode_floor")
        closed = all(self.closed.get(rank, False) for rank in present)
        return EpochFacts(
            epoch=self.epoch,
            source="capture",
            is_stated=self.request.stated_epoch is not None and self.epoch == self.request.stated_epoch,
            is_closed=closed,
            close_reason=next((self.reasons[rank] for rank in present if rank in self.reasons), None),
            world_size=world,
            missing_ranks=[rank for rank in range(min(world or 0, 1 << 20)) if rank not in present],
            late_ranks=sorted(self.late),
            blobs=self.tables.finish(),
            policy_digest=_text(said, "digest"),
            table_digest=_text(said, "table_digest"),
            mode_floor=floor if floor in MODES else None,
            trace=trace_of(header, self.request.trace_id),
            checkpoint=self.checkpoint,
            environment=_text(header, "env_digest"),
            faults=self.faults,
            unreadable=self.unreadable,
            escalations=tuple(self.names),
        )

    def open_ranks(self) -> tuple[int, ...]:
        """Return the ranks on which the epoch never ended; after :meth:`read`."""
        return tuple(rank for rank, is_closed in sorted(self.closed.items()) if not is_closed)

    def policy_document(self) -> dict[str, str | int] | None:
        """Return the policy that the ranks of this epoch obeyed, as the first of them states it."""
        present = [rank for rank in sorted(self.ranks) if self.epoch in self.ranks[rank].spans]
        wanted = self.ranks[present[0]].header.get("policy") if present else None
        found = wanted.get("document") if isinstance(wanted, dict) else None
        if not isinstance(found, dict) or len(found) > _MAX_DOCUMENT_MEMBERS:
            return None
        document = {name: value for name, value in found.items() if type(value) is int or isinstance(value, str)}
        is_small = sum(len(value) for value in document.values() if isinstance(value, str)) < _MAX_DOCUMENT
        return document if is_small and len(document) == len(found) else None

    def _rank(self, captured: CapturedRank) -> None:
        spans, is_new, before = captured.spans[self.epoch], False, len(self.tables.blobs)
        later = any(epoch > self.epoch for epoch in captured.epochs)
        self.closed[captured.rank] = later
        if later:
            self.reasons[captured.rank] = NEXT_EPOCH
        reader = _RankReader(self, captured.rank)
        reader.look_ahead(self.capture.lines_ahead(spans))
        problems = self.capture.problems
        unreadable = problems.count
        for span in spans:
            reader.file = span.restart
            for said, place in self.capture.lines(span):
                try:
                    is_new = reader.take(said) or is_new
                except InputError as error:
                    problems.add(f"{place}: {said.get('t')!a}: {error}")
                    problems.judge(error)
        is_new = reader.finish() or is_new
        self.lineage[captured.rank].write(reader.lines(), spans)
        self.unreadable += problems.count - unreadable
        wanted = is_new or not self.writer.known
        if wanted:
            self._keep_header(captured)
            reader.snapshots.end_rank()
        else:
            del self.tables.blobs[before:]
        self.tables.end_rank(is_wanted=wanted)

    def _keep_header(self, captured: CapturedRank) -> None:
        try:
            self.tables.add(epoch_bundles.HEADERS, capture_lines.row(captured.header, captured.rank))
        except InputError as error:
            self.capture.problems.add(f"rank {captured.rank}: header: {error}")

    def _late_ranks(self) -> None:
        """Find who switched later than others to an escalation that was meant for several."""
        for steps in self._opened.values():
            first = min(steps.values())
            self.late.update(rank for rank, step in steps.items() if step > first)

    def opened(self, source: str, number: int, rank: int, step: int) -> None:
        """Note when a rank opened an escalation that another one ordered."""
        if not source.startswith("rank:"):
            self._opened.setdefault((source, number), {})[rank] = step


class _RankReader:
    """Takes the lines of one rank."""

    def __init__(self, epoch: CapturedEpoch, rank: int) -> None:
        self._epoch, self._rank = epoch, rank
        self._parent: str | None = None
        self.file = 0
        output = epoch.writer.output
        self._tables = epoch.tables
        self.snapshots = Snapshots(epoch.capture.directory, output.journal, epoch.tables, epoch.capture.problems.add)
        self._snaps: dict[int, list[dict[str, Any]]] = {}
        self._steps: list[tuple[int, int, int]] = []
        self._calls: dict[str, Line] = {}
        self._before_restart: list[Line] = []
        self._notes: list[tuple[int, Callable[[int], bytes]]] = []

    def look_ahead(self, lines: Iterator[tuple[dict[str, Any], str]]) -> None:
        """Take in what calls need and may come after them."""
        for said, _ in lines:
            ordinal, ordinals = said.get("ordinal"), said.get("ordinals")
            if said["t"] == "snap" and type(ordinal) is int:
                self._snaps.setdefault(ordinal, []).append(said)
            elif isinstance(ordinals, list) and len(ordinals) == 2 and all(type(one) is int for one in ordinals):
                step = said.get("step")
                if type(step) is int and step >= 0:
                    self._steps.append((ordinals[0], ordinals[1], step))

    def take(self, said: dict[str, Any]) -> bool:
        """Take one line; return whether it gave an action that was not recorded before."""
        kind, epoch = said.get("t"), said.get("epoch")
        if epoch is not None and (type(epoch) is not int or epoch != self._epoch.epoch):
            raise InputError(f"epoch: {str(epoch)[:40]!a} is no number of an epoch")
        if kind == "call":
            return self._call(said)
        if kind == "tensor":
            self._keep(capture_lines.tensor(said, self._rank, self._epoch.epoch, self._step(said)), said)
        elif kind == "checkpoint":
            self._checkpoint(said)
        elif kind in _TABLES:
            self._tables.add(_TABLES[kind], capture_lines.row(said, self._rank))
        elif kind == "rng":
            self._rng(said)
        elif kind == "group":
            self._epoch.lineage[self._rank].group(said)
        elif kind == "escalation":
            self._escalation(said)
        elif kind == "fault":
            self._fault(said)
        elif kind == "epoch-end":
            self._end(said)
        else:
            _pass_over(said)
        return False

    def _call(self, said: dict[str, Any]) -> bool:
        self._keep(capture_lines.call(said, self._rank, self._epoch.epoch, self._step(said)), said)
        return False

    def _keep(self, action: Values, said: dict[str, Any]) -> None:
        """Hold an action back until the rank ends: what the ring of steps gave later replaces what came first."""
        ordinal = capture_lines.count(said, "ordinal") if "ordinal" in said else len(self._calls)
        held = self._calls.get(action["action_id"])
        if held is not None and held.file != self.file:
            self._before_restart.append(held)
        self._calls[action["action_id"]] = Line(action, ordinal, said, self.file)

    def finish(self) -> bool:
        """Record the actions in program order, the notes between them by their times; return whether one was new."""
        is_new, notes = False, sorted(self._notes, key=lambda one: one[0])[::-1]
        for line in sorted(self._calls.values(), key=lambda one: one.ordinal):
            action = line.action
            while notes and notes[-1][0] <= action["at_ns"]:
                self._epoch.writer.note(notes.pop()[1], self._rank)
            self._add_content(action, line.ordinal, line.said)
            is_new = self._epoch.writer.take(Action(**action, parent=self._parent), line.ordinal) or is_new
            self._parent = action["action_id"]
        while notes:
            self._epoch.writer.note(notes.pop()[1], self._rank)
        return is_new

    def lines(self) -> Iterator[Line]:
        """Yield what has an ordinal; of two calls with one number the first, if a restart lies between."""
        yield from self._before_restart
        yield from self._calls.values()

    def _note(self, at_ns: int | None, make: Callable[[int], bytes]) -> None:
        """Hold a note back until the rank ends; one that no record can hold is refused at once."""
        make(0)
        self._notes.append((at_ns or 0, make))

    def _add_content(self, action: Values, ordinal: int, said: Mapping[str, Any]) -> None:
        """Name the content that is really there, and let no mode stand above it."""
        names = [capture_tables.statistics(said.get(name), self._tables) for name in ("stats_out", "stats", "stats_in")]
        kept = [name for name in names if name is not None]
        if kept:
            action["delta_ref"], action["evidence_refs"] = kept[0], tuple(kept[1:])
        proven: set[str] = set()
        if action["mode"] == MODES[2]:
            proven = self.snapshots.proven(Action(**action), self._snaps.get(ordinal, ()))
        demand(action, self._epoch.request.mode_floor)
        there = content_mode(action, said, proven)
        if MODES.index(there) < MODES.index(action["mode"]):
            action["mode"], action["shortfall"] = there, action["shortfall"] or (CAPTURE_FAULT,)

    def _step(self, said: Mapping[str, Any]) -> int | None:
        step = capture_lines.count_or_none(said, "step")
        ordinal = said.get("ordinal")
        if step is not None or type(ordinal) is not int:
            return step
        return next((one for first, last, one in self._steps if first <= ordinal <= last), None)

    def _checkpoint(self, said: dict[str, Any]) -> None:
        request, epoch = self._epoch.request, self._epoch
        action = capture_lines.checkpoint(said, self._rank, epoch.epoch, self._step(said), request.mode_floor)
        clean = {**said, "uri": action["name"]}
        self._tables.add(epoch_bundles.CHECKPOINTS, capture_lines.row(clean, self._rank))
        if said["action"] == "save":
            epoch.checkpoint = action["name"]
        after = max((line.ordinal for line in self._calls.values()), default=0)
        self._calls[action["action_id"]] = Line(action, after, {}, self.file)

    def _rng(self, said: dict[str, Any]) -> None:
        epoch = self._epoch
        line, blob = capture_tables.keep_state(epoch.capture.directory, epoch.writer.output.journal, said, self._rank)
        self._tables.add(epoch_bundles.RNG, line)
        if blob is None and said.get("blob"):
            raise InputError("the state is not in the directory, or is another one")

    def _escalation(self, said: dict[str, Any]) -> None:
        one, event = capture_lines.escalation(said)
        epoch, rank, history = self._epoch, self._rank, self._epoch.writer.output.history
        epoch.names[f"{one.source}/{one.name}"] = None
        if event == "opened" and one.opened_step is not None:
            epoch.opened(one.source, one.number, rank, one.opened_step)
            if any(text.startswith(LATE_BY) for text in one.evidence):
                epoch.late.add(rank)
        at_ns = said.get("at_ns") if type(said.get("at_ns")) is int else None
        self._note(
            at_ns,
            lambda n: records.escalation(history.run, history.attempt, n, one, event=event, rank=rank, at_ns=at_ns),
        )

    def _fault(self, said: dict[str, Any]) -> None:
        place, error = capture_lines.text(said, "where"), str(said.get("error") or "unknown")[:300]
        count, at_ns = capture_lines.count_or_none(said, "count") or 1, capture_lines.time(said)
        history, rank = self._epoch.writer.output.history, self._rank
        self._epoch.faults += 1
        self._epoch.told_faults.add(place, error, rank, self.file, count)
        self._note(
            at_ns,
            lambda n: records.capture_fault(
                history.run, history.attempt, n, rank=rank, place=place, error=error, count=count, at_ns=at_ns
            ),
        )

    def _end(self, said: dict[str, Any]) -> None:
        epoch, at_ns = self._epoch, capture_lines.time(said)
        epoch.closed[self._rank] = epoch.closed[self._rank] or said.get("closed") is True
        if (reason := capture_lines.text_or_none(said, "reason")) is not None:
            epoch.reasons[self._rank] = reason
        epoch.ended_ns = max(epoch.ended_ns or 0, at_ns)


def _pass_over(said: Mapping[str, Any]) -> None:
    if said.get("t") == "header":
        # Of a later process in the same file: what follows it is in the format that it names.
        versions.is_known(said.get("schema"), SCHEMA)
    elif said.get("t") not in _PASSED_OVER:
        raise InputError("is no known kind of line")


def content_mode(action: Values, said: Mapping[str, Any], proven: set[str]) -> str:
    """Return the strongest mode whose content is there for every side of an action that has tensors.

    Args:
        action: With digests and shapes as captured.
        said: Its line, with the statistics of both sides.
        proven: Sides of which snapshots are kept that prove their digests.
    """
    sides = [side for side in ("in", "out") if action.get(f"shapes_{side}")]
    if not sides and action["op"].startswith("checkpoint."):
        mode: str = action["mode"]
        return mode
    for side in sides:
        stats = said.get(f"stats_{side}") or (said.get("stats") if side == "out" else None)
        if stats is None or action.get(f"digest_{side}") is None:
            return MODES[0]
    return MODES[2] if proven.issuperset(sides) else MODES[1]


def demand(action: Values, floor: str) -> None:
    """Demand at least ``floor`` of an action; what was not captured then stays a shortfall."""
    if MODES.index(floor) <= MODES.index(action["policy_mode"]):
        return
    wanted = policy.raised(RecordingPolicy(action["policy_mode"], action["policy_reason"], ""), floor)
    action["policy_mode"], action["policy_reason"] = wanted.mode, wanted.reason
    if action.get("shapes_in") or action.get("shapes_out"):
        action["shortfall"] = (*action["shortfall"], NO_TENSOR_ACCESS)
    else:
        action["mode"] = wanted.mode


def trace_of(header: Mapping[str, Any], trace_id: str | None) -> TraceContext:
    """Return what launched the run, as received; a given trace id that disagrees is kept beside the recorded one."""
    found = header.get("trace")
    said: Mapping[str, Any] = found if isinstance(found, dict) else {}
    try:
        conflicts = capture_lines.texts(said, "conflicts") or ()
    except InputError:
        conflicts = ()
    recorded = _text(said, "trace_id")
    if trace_id is not None and recorded not in {None, trace_id}:
        conflicts = tuple(dict.fromkeys((*conflicts, str(recorded))))
    return TraceContext(trace_id or recorded, _text(said, "parent_trace_id"), _text(said, "parent_action"), conflicts)


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) and value and len(value) <= 1_000 else None


def _count(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if type(value) is int and 0 < value <= 1 << 20 else 0
