"""XID errors as the health checks of GCM report them: exit code and output of ``check-syslogs xid``.

The check looks through the whole kernel log each time and names no GPU. So a code is news only when the poll before did
not name it, and it concerns the host. Its warning also means that it could not look at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from provstore.model.recording import ExternalSignal, SignalProblem
from provstore.sources.signals.devices import Devices
from provstore.sources.signals.xid_table import TABLE, XidTable

SOURCE = "gcm"
OK, WARN, CRITICAL = 0, 1, 2

_CODE = re.compile(r"\bXID error: ([0-9]{1,9})\b")
_FAILED = re.compile(r"\bfailed to execute\b|\bdid not exit normally\b|\bdisabled by killswitch\b", re.IGNORECASE)
_SHOWN = 512


class Gcm:
    """Follows the health check of one host, poll by poll.

    Args:
        devices: The GPUs of the run's ranks.
        host: Where the check runs.
        table: Classes of XID codes; GCM's own judgement of a code does not count.
        state: What :meth:`state` gave before a restart.
    """

    def __init__(
        self,
        devices: Devices | None = None,
        *,
        host: str | None = None,
        table: XidTable = TABLE,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._devices, self._host, self._table = devices or Devices(), host, table
        said = (state or {}).get("seen")
        self._seen: frozenset[int] | None = None if said is None else frozenset(said)
        self.problems: list[SignalProblem] = []
        """Polls that gave no information; the caller empties it."""

    def state(self) -> dict[str, Any]:
        """Return what a later process goes on from, as JSON values."""
        return {"seen": None if self._seen is None else sorted(self._seen)}

    def read(self, exit_code: int, output: str, at_ns: int | None = None) -> list[ExternalSignal]:
        """Return the codes that one run of the check names for the first time; those of the first run are context."""
        codes = [*dict.fromkeys(int(found) for found in _CODE.findall(output) if int(found))]
        if exit_code not in (OK, WARN, CRITICAL) or _FAILED.search(output) or (exit_code != OK and not codes):
            text = f"gcm: check-syslogs xid: exit {exit_code}: no information: {output.strip()!r:.300}"
            self.problems.append(SignalProblem(SOURCE, "failed", text))
            return []
        if exit_code == OK:
            codes = []
        before, self._seen = self._seen, frozenset(codes)
        return [self._signal(code, output, at_ns, before is None) for code in codes if code not in (before or ())]

    def _signal(self, code: int, output: str, at_ns: int | None, is_context: bool) -> ExternalSignal:
        return self._devices.placed(
            ExternalSignal(
                "xid",
                SOURCE,
                output.strip()[:_SHOWN],
                code,
                self._table.fault_class(code),
                self._host,
                at_ns=at_ns,
                is_context=is_context,
            )
        )
