"""Commands whose memory can be measured: a process starts with the peak of the one that forked it."""

from __future__ import annotations

from collections.abc import Sequence

_LAUNCH = '"$@" & wait $!'


def fresh(command: Sequence[str]) -> list[str]:
    """Return the command started by a small shell, so that its peak of memory is its own.

    On Linux the peak that ``getrusage`` tells survives ``exec``: of a test runner that has grown large, every child
    would seem large too.
    """
    return ["/bin/sh", "-c", _LAUNCH, "sh", *command]
