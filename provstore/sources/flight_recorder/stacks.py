"""Stacks of one dump, each kept once: frames in a table, a stack as the numbers of its frames."""

from __future__ import annotations

import json
from collections.abc import Sequence

from provstore.sources.flight_recorder.faults import Odd, shown
from provstore.sources.flight_recorder.guessing import Guesser
from provstore.sources.flight_recorder.shapes import ABSENT, LARGEST, Caps, text

_REMEMBERED = 50_000


class Stacks:
    """Numbers stacks by the identity of their frames: the unpickler gives equal frames as one object.

    The frames must stay alive while stacks are numbered, else an identity could be used twice.
    """

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._by_identity: dict[tuple[int, ...], int] = {}
        self._frame_by_identity: dict[int, int] = {}
        self._frames: dict[tuple[str, str, int], int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._guesser = Guesser(self._find)
        self._guesser.examples.append([])

    def __len__(self) -> int:
        return len(self._stacks)

    def to_json(self) -> bytes:
        """Return ``{"frames": [[name, file, line] …], "stacks": [[frame number …] …]}``."""
        tables = {"frames": list(self._frames), "stacks": list(self._stacks)}
        return json.dumps(tables, ensure_ascii=False, separators=(",", ":")).encode()

    def numbers(self, column: Sequence[object]) -> list[int]:
        """Return the number of each list of frames, ``ABSENT`` for an empty or missing one.

        Raises:
            Odd: Something else than a list of frames.
        """
        return [number - 1 for number in self._guesser.numbers(column)]

    def _find(self, frames: object) -> int:
        """Return one more than the stack's number; 0 stands for no stack."""
        if frames is None:
            return 0
        if not isinstance(frames, list) or len(frames) > self._caps.frames:
            raise Odd("frames", f"{shown(frames)} is not a list of at most {self._caps.frames} frames")
        if not frames:
            return 0
        identity = tuple(map(id, frames))
        number = self._by_identity.get(identity)
        if number is None:
            number = self._add(frames)
            if len(self._by_identity) < _REMEMBERED:
                self._by_identity[identity] = number
        return number

    def _add(self, frames: list[object]) -> int:
        numbers = tuple([self._frame(frame) for frame in frames])
        number = self._stacks.setdefault(numbers, len(self._stacks)) + 1
        if number == len(self._guesser.examples):
            # An example is compared with unchecked frames, so it must be flat: one with further keys never matches.
            is_flat = all(len(frame) == 3 for frame in frames)  # type: ignore[arg-type]
            self._guesser.examples.append(frames if is_flat else [None])
        return number

    def _frame(self, frame: object) -> int:
        known = self._frame_by_identity.get(id(frame), ABSENT)
        if known != ABSENT:
            return known
        if not isinstance(frame, dict):
            raise Odd("frames", f"{shown(frame)} is not a frame")
        most = self._caps.string
        name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
        if type(name) is not str or len(name) > most or not name.isascii():
            name = text(name, "frames.name", most)
        if type(file) is not str or len(file) > most or not file.isascii():
            file = text(file, "frames.filename", most)
        if type(line) is not int or not -1 <= line <= LARGEST:
            raise Odd("frames.line", f"{shown(line)} is not a line number")
        number = self._frames.setdefault((name, file, line), len(self._frames))
        self._frame_by_identity[id(frame)] = number
        return number
