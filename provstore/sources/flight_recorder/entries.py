"""Entries of one dump → columns, a chunk at a time: whole columns are checked at once, bad entries are set aside."""

from __future__ import annotations

import marshal
from array import array
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from operator import itemgetter

from provstore.sources.flight_recorder import shapes
from provstore.sources.flight_recorder.faults import Odd, Refused, shown
from provstore.sources.flight_recorder.guessing import Guesser
from provstore.sources.flight_recorder.plain import Copier, clean, raw_text
from provstore.sources.flight_recorder.shapes import ABSENT, Head, Shapes
from provstore.sources.flight_recorder.stacks import Stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 1024
_TRIED = 8
_KEPT_RAW = 1000
_EXTRA_PARTS = 200_000
_NAN = float("nan")
_SCALARS = frozenset((str, int, bool, float, type(None)))
_COUNTERS = (
    "record_id",
    "collective_seq_id",
    "seq_id",
    "p2p_seq_id",
    "op_id",
    "time_created_ns",
    "time_created_us",
    "time_discovered_started_ns",
    "time_discovered_completed_ns",
)
_MISSING: Mapping[str, None] = dict.fromkeys((*shapes.FIELDS, *_COUNTERS, "frames", "duration_ms"))
_KNOWN = frozenset(_MISSING)


class _Plan:
    """How to take the fields out of entries that have the same keys."""

    __slots__ = ("counters", "has_frames", "is_usable", "known", "shape", "shape_names", "take_counters", "take_shape")

    def __init__(self, keys: Container[object]) -> None:
        self.shape_names = tuple([name for name in shapes.FIELDS if name in keys])
        self.counters = tuple([name for name in _COUNTERS if name in keys])
        self.has_frames = "frames" in keys
        self.known = len(self.shape_names) + len(self.counters) + self.has_frames
        # With fewer than two names a getter gives no tuple; such a plan is never used.
        self.is_usable = len(self.shape_names) > 1 and len(self.counters) > 1
        self.take_shape: Callable[[Any], Any] = itemgetter(*self.shape_names or ("",))
        self.take_counters: Callable[[Any], Any] = itemgetter(*self.counters or ("",))


_WHOLE_PLAN = _Plan(_MISSING)


class Entries:
    """Columns of the good entries, in the order of the file, and what was set aside."""

    def __init__(self, known_shapes: Shapes, *, is_json: bool) -> None:
        self.shapes = known_shapes
        self.stacks = Stacks(known_shapes.caps)
        self.is_json = is_json
        self.record = array("q")
        self.seq = array("q")
        self.p2p_seq = array("q")
        self.op = array("q")
        self.created = array("q")
        self.started = array("q")
        self.completed = array("q")
        self.duration = array("d")
        self.shape: list[int] = []
        self.stack: list[int] = []
        self.quarantined: list[tuple[int, str, str, str]] = []
        """(index, field, reason, raw text)."""
        self.extra: dict[str, object] = {}
        """record_id → unknown keys."""
        self.bad_count = 0
        self.record_ids_stated: bool | None = None
        self.has_collective_seq = False
        self.has_durations = False
        self._copier = Copier(_EXTRA_PARTS)
        self._counts: list[int] | None = None
        self._plans: dict[tuple[object, ...], tuple[_Plan, _Numbers]] = {}

    @property
    def extra_was_cut(self) -> bool:
        """Whether some unknown keys were too many to keep."""
        return self._copier.was_cut

    def shape_counts(self) -> list[int]:
        """Return how many entries have each shape."""
        if self._counts is None:
            times = Counter(self.shape)
            self._counts = [times[number] for number in range(len(self.shapes.shapes))]
        return self._counts

    def read(self, entries: Sequence[object], most_bad: int) -> None:
        """Read all entries.

        Raises:
            Refused: More bad entries than ``most_bad``, or nothing but bad ones.
        """
        for at in range(0, len(entries), _CHUNK):
            self._read_some(entries[at : at + _CHUNK], at)
            if self.bad_count > most_bad:
                break
        if self.bad_count and (self.bad_count > most_bad or not self.shape):
            index, field, reason, _ = self.quarantined[0]
            place = f"entries[{index}]" + (f".{field}" if field else "")
            too_many = f"there are more than {most_bad} bad entries" if self.shape else "there is no good entry"
            raise Refused(f"{place}: {reason}; {too_many}")

    def _read_some(self, chunk: Sequence[object], at: int) -> None:
        """Read a chunk whole; if it does not fit, halve it until the bad entry stands alone."""
        try:
            self._read_whole(chunk, at)
        except Odd as odd:
            half = len(chunk) // 2
            if half:
                self._read_some(chunk[:half], at)
                self._read_some(chunk[half:], at + half)
                return
            self.bad_count += 1
            if len(self.quarantined) < _KEPT_RAW:
                self.quarantined.append((at, odd.field, odd.reason, raw_text(chunk[0])))

    def _read_whole(self, chunk: Sequence[Any], at: int) -> None:
        kinds = {*map(type, chunk)}
        if kinds != {dict}:
            raise Odd("", f"{shown(chunk[0])} is not an entry with named fields")
        originals: Sequence[dict[str, object]] = chunk
        plan, numbers = self._plan(originals[0])
        durations = [entry.get("duration_ms") for entry in originals]
        try:
            rows = list(map(plan.take_shape, originals))
            columns: dict[str, Sequence[Any]] = dict(zip(plan.counters, zip(*map(plan.take_counters, originals))))
            stated = plan.known * len(originals) + len(originals) - durations.count(None)
            has_unknown = sum(map(len, originals)) != stated
            frames = [entry["frames"] for entry in originals] if plan.has_frames else None
        except KeyError:
            full = [{**_MISSING, **entry} for entry in originals]
            plan, numbers = self._plan(_MISSING)
            rows = list(map(plan.take_shape, full))
            columns = dict(zip(plan.counters, zip(*map(plan.take_counters, full))))
            has_unknown, frames = True, [entry["frames"] for entry in full]
        self._accept(at, columns, numbers.of(rows), frames, durations, originals if has_unknown else ())

    def _plan(self, entry: Mapping[str, object]) -> tuple[_Plan, _Numbers]:
        keys = tuple(entry)
        found = self._plans.get(keys)
        if found is None:
            plan = _Plan(keys)
            if not plan.is_usable:
                plan = _WHOLE_PLAN
            found = self._plans[keys] = plan, _Numbers(self.shapes, plan.shape_names)
        return found

    def _accept(
        self,
        at: int,
        columns: dict[str, Sequence[Any]],
        shape_numbers: list[int],
        frames: Sequence[object] | None,
        durations: list[Any],
        with_unknown: Sequence[Mapping[str, object]],
    ) -> None:
        """Check every column, then append them all: a chunk is taken whole or not at all."""
        size = len(shape_numbers)
        record = self._record_ids(columns, at, size)
        seq, is_collective_seq = self._sequence(columns)
        created = self._created(columns, size)
        rest = [
            _integers(columns, name, size, zero_is_absent=zero)
            for name, zero in (
                ("p2p_seq_id", False),
                ("op_id", False),
                ("time_discovered_started_ns", True),
                ("time_discovered_completed_ns", True),
            )
        ]
        milliseconds = self._milliseconds(durations)
        stack_numbers = [ABSENT] * size if frames is None else self.stacks.numbers(frames)
        self.record_ids_stated = "record_id" in columns
        self.has_collective_seq |= is_collective_seq
        self.has_durations |= any(durations)
        for column, values in zip((self.p2p_seq, self.op, self.started, self.completed), rest):
            column.extend(values)
        self.record.extend(record)
        self.seq.extend(seq)
        self.created.extend(created)
        self.duration.extend(milliseconds)
        self.shape += shape_numbers
        self.stack += stack_numbers
        for number, entry in zip(record, with_unknown):
            if not _KNOWN.issuperset(entry):
                self._keep_unknown(number, entry)

    def _record_ids(self, columns: dict[str, Sequence[Any]], at: int, size: int) -> array[int]:
        column = columns.get("record_id")
        stated = column is not None and column.count(None) < size
        if self.record_ids_stated is not None and self.record_ids_stated != stated:
            raise Odd("record_id", "stated by some entries only")
        if not stated:
            columns.pop("record_id", None)
            return array("q", range(at, at + size))
        record = _integers(columns, "record_id", size)
        if ABSENT in record:
            raise Odd("record_id", "missing")
        return record

    def _sequence(self, columns: Mapping[str, Sequence[Any]]) -> tuple[array[int], bool]:
        name = "collective_seq_id" if any(v is not None for v in columns.get("collective_seq_id", ())) else "seq_id"
        seq = _integers(columns, name, 0)
        if not seq or ABSENT in seq:
            raise Odd(name, "missing")
        return seq, name == "collective_seq_id"

    def _created(self, columns: Mapping[str, Sequence[Any]], size: int) -> array[int]:
        if "time_created_us" not in columns or (
            "time_created_ns" in columns and None not in columns["time_created_ns"]
        ):
            return _integers(columns, "time_created_ns", size, zero_is_absent=True)
        micros = _integers(columns, "time_created_us", size, zero_is_absent=True)
        if max(micros) > shapes.LARGEST // 1000:
            raise Odd("time_created_us", f"{max(micros)} is beyond 64 bits in nanoseconds")
        return array("q", [value if value == ABSENT else value * 1000 for value in micros])

    def _milliseconds(self, durations: list[Any]) -> array[float]:
        if durations.count(None) == len(durations):
            return array("d", [_NAN]) * len(durations)
        if not {*map(type, durations)} <= {float, int, type(None)}:
            raise Odd("duration_ms", f"{shown(durations[0])} is not a number")
        stated = [value for value in durations if value is not None]
        if not 0 <= min(stated) <= max(stated) < 1e300:
            raise Odd("duration_ms", f"{shown(durations[0])} is not a finite time")
        nothing = (None, 0) if self.is_json else (None,)
        return array("d", [_NAN if value in nothing else value for value in durations])

    def _keep_unknown(self, record_id: int, entry: Mapping[str, object]) -> None:
        kept = {clean(key): self._copier.copy(value) for key, value in entry.items() if key not in _KNOWN}
        if self._copier.left > 0:
            self.extra[str(record_id)] = kept


class _Numbers:
    """Numbers the shared fields of entries that have the same keys."""

    def __init__(self, known: Shapes, names: Sequence[str]) -> None:
        self._shapes = known
        self._head_names = [name for name in names if name in shapes.HEAD_FIELDS]
        size = len(self._head_names)
        # The tensor fields that are there, in their order; the others read as None.
        self._tensors_at = [names.index(name) if name in names else None for name in shapes.TENSOR_FIELDS]
        self._size = size
        self._heads: list[Head] = []
        self._head_by_text: dict[bytes, int] = {}
        self._head_guesser = Guesser(self._find_head)
        self._shape_of: list[int] = []
        self._example_of: dict[int, int] = {}
        self._by_name: dict[str, list[int]] = {}
        self._guesser = Guesser(self._find)

    def of(self, rows: Sequence[tuple[object, ...]]) -> list[int]:
        """Return the shape number of each row."""
        shape_of = self._shape_of
        return [shape_of[number] for number in self._guesser.numbers(rows)]

    def _find(self, row: Any) -> int:
        """Return the number of a row that was not guessed: one of the latest with its name, or a new one."""
        name, examples = row[0], self._guesser.examples
        candidates = self._by_name.setdefault(name, []) if type(name) is str else []
        for number in candidates[-_TRIED:]:
            if row == examples[number]:
                return number
        head = self._heads[self._head_guesser.number(row[: self._size])]
        shape = self._shapes.number(head, [None if at is None else row[at] for at in self._tensors_at])
        number = self._example_of.setdefault(shape, len(self._shape_of))
        if number == len(self._shape_of):
            self._shape_of.append(shape)
            examples.append(row)
            candidates.append(number)
        return number

    def _find_head(self, row: Any) -> int:
        for name, value in zip(self._head_names, row):
            if type(value) not in _SCALARS and not _is_shallow(value):
                raise Odd(name, f"{shown(value)} is nested too deeply, or not made of plain values")
        text = marshal.dumps(row, 2)
        number = self._head_by_text.get(text)
        if number is None:
            self._heads.append(self._shapes.head(dict(zip(self._head_names, row))))
            number = self._head_by_text[text] = len(self._head_guesser.examples)
            self._head_guesser.examples.append(row)
        return number


def _is_shallow(value: object) -> bool:
    """Return whether a value is a short list of scalars: safe to walk and to compare."""
    return isinstance(value, list | tuple) and len(value) <= 8 and {*map(type, value)} <= _SCALARS


def _integers(
    columns: Mapping[str, Sequence[Any]], name: str, size: int, *, zero_is_absent: bool = False
) -> array[int]:
    """Return a column of non-negative 64-bit integers, ``ABSENT`` where nothing is stated."""
    column = columns.get(name)
    if column is None:
        return array("q", [ABSENT]) * size
    kinds = {*map(type, column)}
    if kinds == {type(None)}:
        return array("q", [ABSENT]) * len(column)
    if not kinds <= {int, type(None)}:
        raise Odd(name, f"{shown(column[0])} is not an integer")
    values: Sequence[Any] = column if len(kinds) == 1 else [v for v in column if v is not None]
    least = min(values)
    try:
        packed = array("q", values)
    except OverflowError:
        least = ABSENT
    if least < 0:
        raise Odd(name, f"{shown(column[0])} is not a non-negative 64-bit integer")
    if len(kinds) == 1 and (least or not zero_is_absent):
        return packed
    nothing: tuple[object, ...] = (None, 0) if zero_is_absent else (None,)
    return array("q", [ABSENT if value in nothing else value for value in column])
