"""What the records of a chain say of actions that records before them told already, in the order of a file.

One file at a time, and few records in memory: what many files say together is gathered where they are stored.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from provstore.evidence.aep.chains import LINK
from provstore.evidence.aep.gathering import FORK, REWRITTEN
from provstore.evidence.aep.text import JsonText

MOST_ENDS: Final = 1000
"""So many chains are followed at a time, those that went on last: logs hold millions of records that nobody follows."""

_Told = dict[tuple[str, str], tuple[bytes, ...]]
"""Run and id of an action → digests of what the chain said of it."""


class Histories:
    """The chains of one file."""

    def __init__(self) -> None:
        self._ends: OrderedDict[str, _Told] = OrderedDict()
        """Digest of the last record of a chain → what the chain told."""
        self._followers: dict[str, str] = {}
        """Digest of a record → that of the first one that names it."""

    def add(self, own: str, text: JsonText) -> tuple[str, ...]:
        """Take the next record and return the codes of what it contradicts.

        Args:
            own: Its digest, by which the next record names it.
            text: An object.
        """
        link = text.value.get(LINK)
        told: _Told = {}
        if isinstance(link, str):
            follower = self._followers.setdefault(link, own)
            if follower != own:
                return (FORK,)
            told = self._ends.pop(link, told)
        if own in self._ends:
            return ()
        is_rewritten = self._tell(told, text)
        self._ends[own] = told
        if len(self._ends) > MOST_ENDS:
            self._ends.popitem(last=False)
        return (REWRITTEN,) if is_rewritten else ()

    @staticmethod
    def _tell(told: _Told, text: JsonText) -> bool:
        run = text.value.get("run_id")
        said: _Told = {}
        for value, canon in text.listed("actions"):
            name = value.get("action_id") if isinstance(value, dict) else None
            if isinstance(name, str):
                key = (run if isinstance(run, str) else "", name)
                body = hashlib.sha256(canon).digest()
                if body not in told.get(key, ()):
                    said[key] = (*said.get(key, ()), body)
        is_rewritten = any(key in told for key in said)
        for key, bodies in said.items():
            told[key] = (*told.get(key, ()), *bodies)
        return is_rewritten
