"""Moments as text: ISO 8601 in UTC, read to the nanosecond, so that they can be compared."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from provstore.errors import InputError

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d):(\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds(text: str) -> int:
    """Return a moment such as ``2026-01-31T23:59:59.123456789Z`` in nanoseconds since 1970.

    A leap second (``:60``) is the first second of the next minute.

    Raises:
        InputError: No such text, or no such day or time.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise InputError(f"{text[:40]!r}: moment: not ISO 8601 in UTC, such as 2026-01-31T23:59:59Z")
    day, minute, second, fraction = match.groups()
    try:
        whole = datetime.fromisoformat(f"{day}T{minute}:00+00:00")
    except ValueError as error:
        raise InputError(f"{text[:40]!r}: moment: {error}") from error
    if int(second) > 60:
        raise InputError(f"{text[:40]!r}: moment: a minute has no second {second}")
    since = whole - _EPOCH
    seconds = since.days * 86_400 + since.seconds + int(second)
    return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
