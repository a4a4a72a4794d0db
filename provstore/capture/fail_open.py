"""Failing open: a measurement that fails becomes a sentence, never an exception in training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_log = logging.getLogger("provstore.capture")
_said: set[str] = set()


def tried(action: Callable[..., Result], *arguments: object) -> tuple[Result | None, str | None]:
    """Return (result, ``None``), or (``None``, what went wrong in one line)."""
    try:
        return action(*arguments), None
    except Exception as error:  # noqa: BLE001  training is sacred: whatever torch throws stays here
        return None, f"{type(error).__name__}: {error}"


def say_once(text: str) -> None:
    """Write a warning to the log of ``provstore.capture``, once in the life of the process."""
    if text not in _said:
        _said.add(text)
        _log.warning("%s", text)
