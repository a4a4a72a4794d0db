"""Limits of the worker process on itself: address space, CPU time, files it may open or write."""

from __future__ import annotations

import sys

has_limits = sys.platform != "win32"
if has_limits:
    import resource

MIB = 1024 * 1024
_GROWTH_BYTES = 160 * MIB

has_memory_limit = sys.platform.startswith(("linux", "freebsd"))
"""macOS accepts ``RLIMIT_AS`` and does not enforce it; there, and on Windows, pickles are scanned first."""


def confine() -> None:
    """Give up, once and for all, what reading a dump never needs: writing files, core dumps, many descriptors."""
    if not has_limits:
        return
    for kind, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NOFILE, 32)):
        hard = resource.getrlimit(kind)[1]
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


def set_limits(memory_bytes: int, cpu_seconds: float) -> None:
    """Bound address space and further CPU time: beyond the first comes ``MemoryError``, beyond the second SIGXCPU."""
    if not has_limits:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu_seconds) + 1)
    if has_memory_limit:
        _lower(resource.RLIMIT_AS, memory_bytes)


def _lower(kind: int, soft: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def has_grown() -> bool:
    """Return whether the process holds so much memory that the next small file would meet its limit too early."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 (pathlib is slow to import)
            pages = int(statm.read().split()[0])
    except OSError:
        return False
    return pages * resource.getpagesize() > _GROWTH_BYTES
