"""The two ways in which input fails inside the worker: the whole file, or one entry of it."""

from __future__ import annotations

_SHOWN = 120


class Refused(Exception):  # noqa: N818 (reads as what happened to the file)
    """The file cannot be used. ``foreign``: it is something else than a dump."""

    def __init__(self, reason: str, *, foreign: bool = False) -> None:
        super().__init__(reason)
        self.foreign = foreign


class Odd(Exception):  # noqa: N818 (reads as what an entry is)
    """A value does not fit the schema."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def shown(value: object) -> str:
    """Return a short, bounded text of any value, however deep or large it is."""
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
    if isinstance(value, str):
        return repr(value[:_SHOWN]) + ("…" if len(value) > _SHOWN else "")
    if isinstance(value, list | tuple) and len(value) <= 8 and all(type(item) in (int, str) for item in value):
        return "[" + ", ".join(map(shown, value)) + "]"
    kind = type(value).__name__
    return f"a {kind} of {len(value)} items" if isinstance(value, list | tuple | dict | set | bytes) else f"a {kind}"
