"""One line of a kernel log: is it an XID, of which GPU, with which code, and when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from provstore.sources.signals.devices import gpu_uuid, pci_address

_STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_OTHER_STAMPS = (
    r"[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}(?:\.[0-9]{1,9})?",
    r"[A-Z][a-z]{2} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,9})? [A-Z0-9+-]{1,6}",
    r"[0-9]{9,11}\.[0-9]{1,9}",
)
"""Of syslog, and of journalctl: short-full and short-unix. Without year or zone nobody can place them."""
_SINCE_BOOT = r"[0-9]{1,12}\.[0-9]{1,9}"
# What stands before the message: level, record head of /dev/kmsg, facility, time, time since boot, host and "kernel:"
# (with its facility, or as in RFC 5424), and who printed it.
_PREFIX = re.compile(
    r"\s*(?:<[0-9]{1,3}>(?:1 )?)?"
    r"(?:[0-9]{1,3},[0-9]+,(?P<kmsg>[0-9]+),[^;]{0,64};)?"
    r"(?:[a-z0-9]+\s*:\s?[a-z]+\s*:\s*)?"
    rf"(?:(?P<stamp>{_STAMP})\s+|\[{_STAMP}\]\s+|(?:{'|'.join(_OTHER_STAMPS)})\s+)?"
    rf"(?:\[\s*(?P<monotonic>{_SINCE_BOOT})\]\s+(?=[A-Za-z0-9]))?"
    r"(?:(?:(?P<host>[A-Za-z0-9._-]{1,255})\s+)?(?:kern\.[a-z]{1,8}\s+)?kernel(?:\[[0-9]+\])?(?::| - - -)\s*)?"
    rf"(?:\[\s*(?P<boot>{_SINCE_BOOT})(?:@[^\]]*)?\]\s*|\[[A-Z][a-z]{{2}} [^\]]{{8,40}}\]\s*)?"
    r"(?:\[\s*[TC][0-9]{1,10}\]\s*)?"
)
_XID = re.compile(r"(?:NVRM: ){1,4}Xid \(([^)]{1,200})\): ([0-9]{1,9})(?![0-9A-Za-z_]|\.[0-9])(.*)", re.DOTALL)
_PID = re.compile(r"\bpid='?([0-9]{1,10})'?")
_NAME = re.compile(r"\bname=([^,\n]{1,200})")
_GPU = re.compile(r"NVRM:\s*GPU at (?:PCI:)?([0-9A-Fa-f:.]+): (\S+)")
_LONGEST = 8192
_NO_TEXT = re.compile(r"[\x00-\x08\x0a-\x0c\x0e-\x1f\x7f]")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9 _.,()@#/-]{0,80}: \S|Linux version ")
"""A message without anything before it: who says it, and what."""


@dataclass(frozen=True, slots=True)
class XidLine:
    """An XID as one line states it."""

    code: int
    address: str
    """What stands between the parentheses."""
    pid: int | None = None
    process: str | None = None
    host: str | None = None
    at_ns: int | None = None
    """Wall clock, where the line has a whole one."""
    boot_ns: int | None = None
    """Since the start of the machine, where the line has that."""


def is_text(line: str) -> bool:
    """Return whether a line holds no control characters but tabs and a carriage return: the kernel prints none."""
    return _NO_TEXT.search(line) is None


def has_form(line: str) -> bool:
    """Return whether a line looks like one of a kernel log, with or without a time before it."""
    begin = line[:_LONGEST]
    head = _PREFIX.match(begin)
    stamped = head is not None and bool(head[0].strip())
    return is_text(line) and (stamped or _BARE.match(begin.lstrip()) is not None)


def xid(line: str) -> XidLine | None:
    """Return the XID that a line of a kernel log states; None when it states none.

    The message begins with ``NVRM: Xid (…): <code>``. A line that has such words anywhere else, such as one in which a
    program reports about XIDs, states none.
    """
    head = _PREFIX.match(line[:_LONGEST])
    if head is None:
        return None
    found = _XID.match(line[:_LONGEST], head.end())
    if found is None or int(found[2]) == 0:
        return None
    pid, name = _PID.search(found[3]), _NAME.search(found[3])
    return XidLine(
        int(found[2]),
        found[1],
        None if pid is None else int(pid[1]),
        None if name is None else name[1].strip("'"),
        head["host"],
        _moment(head["stamp"]),
        _since_boot(head["boot"] or head["monotonic"], head["kmsg"]),
    )


def gpu_named(line: str) -> tuple[str, str] | None:
    """Return PCI address and UUID of a GPU that the driver names in a line of its own; None in any other line."""
    head = _PREFIX.match(line[:_LONGEST])
    found = None if head is None else _GPU.match(line[:_LONGEST], head.end())
    if found is None:
        return None
    address, uuid = pci_address(found[1]), gpu_uuid(found[2])
    return None if address is None or uuid is None else (address, uuid)


def _since_boot(seconds: str | None, microseconds: str | None) -> int | None:
    if seconds is not None:
        whole, _, part = seconds.partition(".")
        return int(whole) * 10**9 + int(part.ljust(9, "0"))
    return None if microseconds is None else int(microseconds) * 1000


def _moment(stamp: str | None) -> int | None:
    """Return a moment with its zone in nanoseconds since 1970; None without a zone, which nobody can place."""
    if stamp is None:
        return None
    text, _, fraction = stamp.replace(",", ".").partition(".")
    digits = re.match(r"[0-9]*", fraction)
    zone = fraction[digits.end() :] if digits is not None else ""
    try:
        moment = datetime.fromisoformat(text + zone)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    part = int(digits[0].ljust(9, "0")) if digits is not None and digits[0] else 0
    return (since.days * 86_400 + since.seconds) * 10**9 + part
