"""What a tool for assistants is: its arguments, its answer, and what it says when it has none."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from provstore.model.display import printable

MAX_TEXT = 512
MAX_LIMIT = 200


class ToolError(Exception):
    """A question that cannot be answered: what an assistant gets instead of an answer.

    Args:
        code: ``unknown-tool``, ``bad-arguments``, ``not-found``, ``ambiguous`` or ``unavailable``.
        message: What is wrong.
        hint: What would help; empty when nothing is sure to.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        said = {"code": self.code, "message": shown(self.message), "hint": shown(self.hint)}
        return {"error": said}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    kind: str
    """``string``, ``integer`` or ``number``."""
    help: str
    is_needed: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    default: object = None

    def schema(self) -> dict[str, object]:
        """Return its JSON Schema."""
        limits = {"minimum": self.least, "maximum": self.most, "default": self.default}
        said: dict[str, object] = {"type": self.kind, "description": self.help}
        said |= {name: value for name, value in limits.items() if value is not None}
        return said | ({"enum": list(self.choices)} if self.choices else {})


@dataclass(frozen=True, slots=True)
class Place:
    """Where the answers come from."""

    store: str | None = None
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """An answer with the rows that fit."""

    head: Mapping[str, object]
    name: str
    """Under which the rows stand."""
    rows: Sequence[Mapping[str, object]]
    limit: int
    skip: int = 0
    tail: Mapping[str, object] = field(default_factory=dict)


Answering = Callable[[Mapping[str, Any], Place], Page]


@dataclass(frozen=True, slots=True)
class Tool:
    """One question."""

    name: str
    help: str
    arguments: Mapping[str, Argument]
    answering: Answering

    def schema(self) -> dict[str, object]:
        """Return name, help and JSON Schema of the arguments."""
        needed = [name for name, argument in self.arguments.items() if argument.is_needed]
        return {
            "name": self.name,
            "description": self.help,
            "parameters": {
                "type": "object",
                "properties": {name: argument.schema() for name, argument in self.arguments.items()},
                "required": needed,
                "additionalProperties": False,
            },
        }


def shown(value: str) -> str:
    """Return a text as an answer may hold it: at most 512 characters, none of which controls anything."""
    text = printable(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def skipped(cursor: object) -> int:
    """Return how many rows the answers before have given.

    Raises:
        ToolError: The cursor is none that an answer gave.
    """
    if cursor is None:
        return 0
    try:
        number = int(base64.urlsafe_b64decode(str(cursor).encode()).decode("ascii"))
    except ValueError:
        number = -1
    if number < 0:
        raise ToolError("bad-arguments", "cursor: none that an answer gave under next")
    return number
