"""The recording mode that an evidence epoch states: the weakest that its records state or really have."""

from __future__ import annotations

import re
from dataclasses import dataclass

import orjson

from provstore.model.evidence import MODES

_RANK = {mode: at for at, mode in enumerate(MODES)}
_MODE = re.compile(
    rb'"recording_mode":"([a-z]+)".*"policy_mode":"([a-z]+)","policy_reason":"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL
)


@dataclass(slots=True)
class WeakestMode:
    """Takes what records say of modes, in any number; both who signs and who verifies fold them so."""

    _stated: tuple[str, str] | None = None
    _recorded: str | None = None
    _demanded: tuple[str, str] | None = None

    def state(self, mode: str, reason: str) -> None:
        """Take a mode that a record states of what it covers; of equal ones the first counts."""
        if self._stated is None or _RANK[mode] < _RANK[self._stated[0]]:
            self._stated = (mode, reason)

    def action(self, recorded: str, demanded: str, reason: str) -> None:
        """Take an action: the mode that it has, the one that was demanded, and why."""
        if self._recorded is None or _RANK[recorded] < _RANK[self._recorded]:
            self._recorded = recorded
        if self._demanded is None or _RANK[demanded] > _RANK[self._demanded[0]]:
            self._demanded = (demanded, reason)

    def line(self, line: bytes) -> None:
        """Take the record of an action that is known to be one."""
        found = _MODE.search(line)
        if found is None:
            return
        recorded, demanded = found[1].decode(), found[2].decode()
        if recorded in _RANK and demanded in _RANK:
            self.action(recorded, demanded, _text(found[3]))

    def weakest(self) -> tuple[str, str] | None:
        """Return the weakest mode and why; of actions the reason of the strongest demand, the first of equals."""
        if self._recorded is None or self._demanded is None:
            return self._stated
        if self._stated is not None and _RANK[self._stated[0]] <= _RANK[self._recorded]:
            return self._stated
        return self._recorded, self._demanded[1]


def _text(spelled: bytes) -> str:
    if b"\\" not in spelled:
        return spelled.decode()
    found: str = orjson.loads(b'"%b"' % spelled)
    return found
