"""XID events of a kernel log: journal as JSON, text of dmesg, or a file that grows; each event is told once."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from provstore.errors import InputError
from provstore.model.recording import ExternalSignal, SignalProblem
from provstore.sources.signals.devices import Devices, pci_address
from provstore.sources.signals.xid_lines import XidLine, gpu_named, has_form, is_text, xid
from provstore.sources.signals.xid_table import TABLE, XidTable

SOURCE = "kernel-log"
MOST_SEEN = 20_000
MAX_READ = 64 << 20
MAX_LINE = 1 << 20
_SHOWN = 512
_HEAD = 256
_FIRST_LINES = 10_000
"""By so many a file is known for a kernel log."""


class KernelLog:
    """Reads the kernel log of one host, poll by poll.

    Args:
        devices: The GPUs of the run's ranks.
        host: Whose log it is, where the lines do not say.
        boot_id: Of the running machine, for text that does not say.
        boot_ns: When the machine was started, nanoseconds since 1970, so that times since then can be placed.
        run_ns: When the run was started: events before it are context.
        table: Classes of XID codes.
        state: What :meth:`state` gave before a restart.
    """

    def __init__(
        self,
        devices: Devices | None = None,
        *,
        host: str | None = None,
        boot_id: str = "",
        boot_ns: int | None = None,
        run_ns: int | None = None,
        table: XidTable = TABLE,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._devices, self._host, self._boot_id = devices or Devices(), host, boot_id
        self._boot_ns, self._run_ns, self._table = boot_ns, run_ns, table
        said = state or {}
        self._seen: dict[str, None] = dict.fromkeys(said.get("seen", ()))
        self.cursor: str | None = said.get("cursor")
        """Of the journal: where to go on (``journalctl --after-cursor``)."""
        self._files: dict[str, list[Any]] = {path: [*at] for path, at in said.get("files", {}).items()}
        self._has_read: bool = said.get("has_read", False)
        self._uuids: dict[str, str] = dict(said.get("uuids", {}))
        self.problems: list[SignalProblem] = []
        """What could not be read; the caller empties it."""

    def state(self) -> dict[str, Any]:
        """Return what a later process goes on from, as JSON values."""
        return {
            "cursor": self.cursor,
            "files": self._files,
            "has_read": self._has_read,
            "seen": [*self._seen],
            "uuids": self._uuids,
        }

    def read_journal(self, lines: bytes | Iterable[bytes]) -> list[ExternalSignal]:
        """Return the new events in what ``journalctl -k -o json`` printed, one object a line."""
        found = []
        for line in lines.split(b"\n") if isinstance(lines, bytes) else lines:
            if line.strip():
                signal = self._entry(line)
                if signal is not None:
                    found.append(signal)
        self._has_read = True
        return found

    def read_dmesg(self, output: str) -> list[ExternalSignal]:
        """Return the new events in the whole text that ``dmesg`` printed, with or without time stamps.

        Each poll gives the text anew. A line is known again by its time since boot, else by its text and how often
        that text came before.
        """
        times: Counter[str] = Counter()
        found = []
        for line in output.split("\n"):
            said = self._xid(line)
            if said is not None:
                times[line] += 1
                text = f"t{_short(line.encode(errors='replace'))}#{times[line]}"
                place = text if said.boot_ns is None else f"b{said.boot_ns}"
                found.append(self._event(said, place, line))
        self._has_read = True
        return [one for one in found if one is not None]

    def read_file(self, path: Path) -> list[ExternalSignal]:
        """Return the new events in a file that grows, such as ``/var/log/kern.log``.

        Reading goes on where it stopped; a file that is shorter, or begins otherwise, is another one and is read from
        its start. An unfinished last line is read at the next poll.

        Raises:
            InputError: The file cannot be read, or is no kernel log: then its beginning is looked at again next time.
        """
        try:
            with open(path, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise InputError(f"{path}: kernel log: is no regular file")
                at, length, head = self._place(file, str(path))
                file.seek(at)
                data = file.read(MAX_READ)
        except OSError as error:
            raise InputError(f"{path}: kernel log: {error.strerror}") from error
        *lines, rest = data.split(b"\n")
        if len(rest) == MAX_READ:
            raise InputError(f"{path}: kernel log: a line of more than {MAX_READ} bytes")
        if at == 0 and not _is_kernel_log(lines, rest):
            raise InputError(f"{path}: kernel log: holds no lines of a kernel log")
        found = []
        for line in lines:
            text = line.decode(errors="replace")
            said = self._xid(text)
            if said is not None:
                found.append(self._event(said, f"f{head}@{at}", text))
            at += len(line) + 1
        self._files[str(path)] = [at, length, head]
        self._has_read = True
        return [one for one in found if one is not None]

    def _place(self, file: BinaryIO, path: str) -> tuple[int, int, str]:
        """Return where reading goes on, and length and digest of the beginning by which the file is known."""
        at, length, head = self._files.get(path, (0, 0, ""))
        begins = file.read(_HEAD)
        if file.seek(0, 2) >= at and length and _short(begins[:length]) == head:
            return at, length, head
        return 0, len(begins), _short(begins)

    def _entry(self, line: bytes) -> ExternalSignal | None:
        if len(line) > MAX_LINE:
            self._problem(f"an entry of {len(line)} bytes is not read")
            return None
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            self._problem(f"an entry is no JSON: {error}")
            return None
        if not isinstance(entry, dict):
            self._problem("an entry is no JSON object")
            return None
        cursor = _text(entry, "__CURSOR")
        self.cursor = cursor or self.cursor
        if _text(entry, "_TRANSPORT") not in (None, "kernel"):
            return None
        message = _message(entry.get("MESSAGE"))
        said = self._xid(message)
        if said is None:
            return None
        place = cursor or _text(entry, "__MONOTONIC_TIMESTAMP") or _text(entry, "__REALTIME_TIMESTAMP")
        return self._event(
            said,
            f"j{place}",
            message,
            host=_text(entry, "_HOSTNAME"),
            boot_id=_text(entry, "_BOOT_ID"),
            at_ns=_microseconds(_text(entry, "_SOURCE_REALTIME_TIMESTAMP") or _text(entry, "__REALTIME_TIMESTAMP")),
            cursor=cursor,
        )

    def _xid(self, line: str) -> XidLine | None:
        named = gpu_named(line)
        if named is not None:
            self._uuids[named[0]] = named[1]
        return None if named is not None else xid(line)

    def _event(
        self,
        said: XidLine,
        place: str,
        line: str,
        *,
        host: str | None = None,
        boot_id: str | None = None,
        at_ns: int | None = None,
        cursor: str | None = None,
    ) -> ExternalSignal | None:
        address = pci_address(said.address)
        key = "|".join((boot_id or self._boot_id, place, address or said.address, str(said.code)))
        if key in self._seen:
            return None
        self._seen[key] = None
        while len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        at = at_ns if at_ns is not None else self._when(said)
        signal = ExternalSignal(
            "xid",
            SOURCE,
            line.strip()[:_SHOWN],
            said.code,
            self._table.fault_class(said.code),
            host or said.host or self._host,
            address or said.address,
            at_ns=at,
            cursor=cursor or place,
            is_context=self._is_context(at),
        )
        return self._devices.placed(signal, pci=address, uuid=self._uuids.get(address) if address else None)

    def _when(self, said: XidLine) -> int | None:
        if said.at_ns is not None:
            return said.at_ns
        return None if said.boot_ns is None or self._boot_ns is None else self._boot_ns + said.boot_ns

    def _is_context(self, at_ns: int | None) -> bool:
        """Return whether an event is older than the run; without a time, what the first poll finds is."""
        if at_ns is None:
            return not self._has_read
        return self._run_ns is not None and at_ns < self._run_ns

    def _problem(self, reason: str) -> None:
        self.problems.append(SignalProblem(SOURCE, "malformed", f"kernel log: journal: {reason}"[:_SHOWN]))


def boot_moment_ns(stat: str) -> int | None:
    """Return when the machine was started, from the text of ``/proc/stat``; None where it does not say."""
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name == "btime" and value.strip().isdecimal():
            return int(value) * 10**9
    return None


def _is_kernel_log(lines: Sequence[bytes], rest: bytes) -> bool:
    """Return whether a beginning may be that of a kernel log: it has such lines, or no whole line yet.

    A crash may leave bytes that are no text in a log; among many of them a line may look like one by chance.
    """
    said = [line.decode(errors="replace") for line in lines[:_FIRST_LINES] if line.strip()]
    if not said:
        return is_text(rest.decode(errors="replace"))
    of_form = sum(map(has_form, said))
    return of_form > 0 and of_form >= sum(not is_text(line) for line in said)


def _message(value: object) -> str:
    """Return a message of the journal, which is a list of bytes where it is no UTF-8."""
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte < 256 for byte in value):
        return bytes(value).decode(errors="replace")
    return value if isinstance(value, str) else ""


def _text(entry: Mapping[str, object], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) else None


def _microseconds(text: str | None) -> int | None:
    return int(text) * 1000 if text and text.isascii() and text.isdecimal() and len(text) < 20 else None


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would be waited for without end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
