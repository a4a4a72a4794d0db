"""What bytes of evidence say, member by member: a value of the type that is asked for, else nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provstore.errors import InputError
from provstore.model import canonical


def string(value: object) -> str | None:
    """Return a text."""
    return value if isinstance(value, str) else None


def integer(value: object) -> int | None:
    """Return a whole number; true and false are none."""
    return value if type(value) is int else None


def tagged_integer(value: object) -> int | None:
    """Return the number in a text such as ``i64:5``."""
    try:
        return canonical.tagged_integer(value) if isinstance(value, str) else None
    except InputError:
        return None


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
