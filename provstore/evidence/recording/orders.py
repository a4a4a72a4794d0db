"""The control file of a capture directory: escalations that an operator, or a watcher, orders for a running job.

``control.json`` is written whole or not at all and read by every rank at its step boundaries. Writers take turns by the
lock on ``control.lock``. What cannot be read orders nothing: training goes on as before.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson

from provstore.errors import InputError, StoreError
from provstore.evidence import whole_files
from provstore.model import versions

SCHEMA = "provstore-control/1"
FILE = "control.json"
_LOCK = "control.lock"
MAX_BYTES = 1 << 20
STEPS_AHEAD = 2
"""An order takes effect so many steps after the latest that any rank has recorded, on all ranks alike."""

MOST_REASONS = 16
"""Of one order: a source that goes on reporting fills no file; the first ones and the latest are kept."""

Answer = TypeVar("Answer")

_TAIL_BYTES = 1 << 18
_STEP_MEMBER = b'"step"'
_NOT_OF_STEPS = frozenset(("epoch", "epoch-end", "rng", "checkpoint"))
"""Lines that a resumed job writes before it has ended a step; until then it does not know its number."""
_TEXTS = ("trigger", "scope", "rule", "reason", "source")


@dataclass(frozen=True, slots=True)
class Order:
    """One escalation that was ordered from outside the job."""

    number: int
    trigger: str
    """``manual``, ``xid``, ``prometheus``, ``desync`` or ``replica-disagreement``."""
    scope: str
    """``rank:<r>``, ``group:<name>``, ``host:<h>``, ``epoch`` or ``run``."""
    rule: str
    from_step: int
    """Training step at whose end it begins to hold."""
    reason: str
    source: str
    opened_ns: int
    steps: int | None = None
    """For so many steps; ``None``: until it is closed."""
    is_closed: bool = False
    value: float | None = None
    threshold: float | None = None
    earlier_reasons: tuple[str, ...] = ()
    """What was given before ``reason``, oldest first, where it was made to last longer."""
    before_steps: bool = False
    """It was given before any step was recorded: it begins with the first one, whatever number that has."""

    @property
    def first_step(self) -> int:
        """The first training step that is recorded as it says, by ranks that read it in time."""
        return self.from_step + 1

    @property
    def beginning(self) -> str:
        """The first step that is recorded as it says, in words."""
        return "the second step that is recorded" if self.before_steps else f"step {self.first_step}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was ordered, and then each time why it was made to last longer."""
        return (*self.earlier_reasons, self.reason)

    @property
    def name(self) -> str:
        """The id under which records refer to it."""
        return f"esc-{self.number}"


def read(directory: Path) -> tuple[Order, ...]:
    """Return what is ordered, oldest first; nothing where there is no control file.

    What was ordered before the first step has that step as its beginning once a rank has recorded it.

    Raises:
        InputError: The file is there and is no control file.
        NotUnderstoodError: It is one of a version that is not known here.
    """
    path = directory / FILE
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{path}: control file: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: control file: more than {MAX_BYTES} bytes")
    try:
        said: Any = orjson.loads(data)
        if not versions.is_known(said["schema"], SCHEMA, f"{path}: control file"):
            raise ValueError(f"schema: {said['schema']!r:.80} is not {SCHEMA}")
        found = tuple(_order(entry) for entry in said["escalations"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: control file: {error}") from error
    first = first_step(directory) if any(one.before_steps for one in found) else None
    return found if first is None else tuple(_begun(one, first) for one in found)


def give(directory: Path, order: Order) -> Order:
    """Add an order, or make the one in force for its trigger and scope last longer; return it as it stands.

    Its number and its first step are set here: a number is never given twice, and an order takes effect
    ``STEPS_AHEAD`` steps after the latest step that any rank has recorded, or with the first one.

    Raises:
        InputError: There is no such directory, or its control file is none.
        NotUnderstoodError: Its control file is of a version that is not known here.
        StoreError: It could not be made durable; nothing has changed.
    """

    def changed(known: Sequence[Order]) -> tuple[list[Order], Order]:
        now = latest_step(directory)
        same = next((one for one in known if _is_same(one, order) and not _is_over(one, now)), None)
        if same is not None:
            longer = replace(
                same, steps=_extended(same, order, now), reason=order.reason, earlier_reasons=_kept(same, order)
            )
            return [longer if one is same else one for one in known], longer
        number = max((one.number for one in known), default=-1) + 1
        from_step = 0 if now is None else now + STEPS_AHEAD
        fresh = replace(order, number=number, from_step=from_step, before_steps=now is None)
        return [*known, fresh], fresh

    return _change(directory, changed)


def close(directory: Path, scope: str | None = None, trigger: str | None = None) -> tuple[Order, ...]:
    """Close orders; return those that were open.

    Args:
        directory: Capture directory.
        scope: Only those for this scope.
        trigger: Only those of this trigger.

    Raises:
        InputError: There is no such directory, or its control file is none.
        NotUnderstoodError: Its control file is of a version that is not known here.
        StoreError: It could not be made durable; nothing has changed.
    """

    def changed(known: Sequence[Order]) -> tuple[list[Order], tuple[Order, ...]]:
        meant = [one for one in known if scope in (None, one.scope) and trigger in (None, one.trigger)]
        ended = tuple(one for one in meant if not one.is_closed)
        return [replace(one, is_closed=True) if one in ended else one for one in known], ended

    return _change(directory, changed)


def latest_step(directory: Path) -> int | None:
    """Return the latest training step that any rank has recorded; ``None`` where none has recorded one."""
    steps = (_last_step(path) for path in directory.glob("capture-rank*.jsonl"))
    return max((step for step in steps if step is not None), default=None)


def first_step(directory: Path) -> int | None:
    """Return the first training step that a rank's earliest process recorded; ``None`` where none has recorded one."""
    # All ranks begin with the same step: the first file that tells is enough.
    for path in sorted(directory.glob("capture-rank*.jsonl"), key=_restart):
        with contextlib.suppress(OSError), path.open("rb") as file:
            for line in file:
                if _STEP_MEMBER in line and (step := _step_of(line)) is not None:
                    return step
    return None


def _begun(one: Order, first: int) -> Order:
    return replace(one, from_step=first, before_steps=False) if one.before_steps else one


def _restart(path: Path) -> tuple[int, str]:
    """Return what puts the files of earlier processes first."""
    number = path.name.split(".")[1]
    return int(number) if number.isascii() and number.isdecimal() else 0, path.name


def _is_same(one: Order, other: Order) -> bool:
    return (one.trigger, one.scope, one.rule) == (other.trigger, other.scope, other.rule) and not one.is_closed


def _is_over(one: Order, now: int | None) -> bool:
    return one.steps is not None and now is not None and now >= one.from_step + one.steps


def _extended(one: Order, other: Order, now: int | None) -> int | None:
    if one.steps is None or other.steps is None:
        return None
    begun = max(one.from_step, (now + STEPS_AHEAD) if now is not None else 0)
    return max(one.from_step + one.steps, begun + other.steps) - one.from_step


def _kept(one: Order, other: Order) -> tuple[str, ...]:
    """Return the reasons before that of ``other``."""
    known = one.reasons if other.reason != one.reason else one.earlier_reasons
    return known[: MOST_REASONS - 1]


def _last_step(path: Path) -> int | None:
    """Return the step in the last line of a rank's file that states one."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        for line in reversed(file.read().split(b"\n")):
            if (step := _step_of(line)) is not None:
                return step
    return None


def _step_of(line: bytes) -> int | None:
    """Return the step that a line states, if that step has ended: others only say where the job was taken to be."""
    with contextlib.suppress(orjson.JSONDecodeError):
        said = orjson.loads(line)
        step = said.get("step") if isinstance(said, dict) and said.get("t") not in _NOT_OF_STEPS else None
        return step if type(step) is int else None
    return None


def _change(directory: Path, change: Callable[[Sequence[Order]], tuple[list[Order], Answer]]) -> Answer:
    if not directory.is_dir():
        raise InputError(f"{directory}: capture directory: no such directory")
    try:
        with _turn(directory):
            orders, answer = change(read(directory))
            _write(directory / FILE, orders)
            return answer
    except OSError as error:
        raise StoreError(f"{directory}: control file: {error.strerror}: nothing was changed") from error


@contextlib.contextmanager
def _turn(directory: Path, wait_seconds: float = 10.0) -> Iterator[None]:
    import fcntl

    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        until = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, orders: Sequence[Order]) -> None:
    said = {"schema": SCHEMA, "escalations": [_said(one) for one in orders]}
    whole_files.write(path, orjson.dumps(said, option=orjson.OPT_SORT_KEYS), None)


def _said(order: Order) -> dict[str, object]:
    said = asdict(order)
    return {("closed" if name == "is_closed" else name): value for name, value in said.items()}


def _order(said: Any) -> Order:
    texts = {name: said[name] for name in _TEXTS}
    numbers = {name: said[name] for name in ("number", "from_step", "opened_ns")}
    steps, closed = said.get("steps"), said.get("closed", False)
    if not all(type(text) is str for text in texts.values()):
        raise ValueError("escalations: a text is of another type")
    if not all(type(number) is int and number >= 0 for number in (*numbers.values(), 0 if steps is None else steps)):
        raise ValueError("escalations: a number is of another type, or below 0")
    # Before there was such a member, nothing but an order before the first step began with step 0.
    before = said.get("before_steps", numbers["from_step"] == 0)
    for name, value in (("closed", closed), ("before_steps", before)):
        if type(value) is not bool:
            raise ValueError(f"escalations: {name}: is neither true nor false")
    figures = {name: said.get(name) for name in ("value", "threshold")}
    if not all(figure is None or type(figure) in (int, float) for figure in figures.values()):
        raise ValueError("escalations: a value or threshold is no number")
    earlier = said.get("earlier_reasons", [])
    if not isinstance(earlier, list) or len(earlier) >= MOST_REASONS or not all(type(one) is str for one in earlier):
        raise ValueError("escalations: earlier_reasons: no list of at most 15 texts")
    return Order(
        **texts, **numbers, steps=steps, is_closed=closed, **figures, earlier_reasons=tuple(earlier),
        before_steps=before,
    )  # fmt: skip
