"""Chains of agent records: whether each record names the one before it.

A link that is absent is counted and never read as evidence. Records are judged in the order in which they lie.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from provstore.evidence.aep import forms
from provstore.evidence.aep.text import JsonText
from provstore.model.aep import Axis

LINK: Final = "prev_record_hash"
DROPPED: Final = ("signature", "dsse_envelope")
"""Members that no link and no signature covers."""
_MOST_LISTED = 1000
_HELD_BYTES = 32 * 1024 * 1024


def canonical(raw: bytes, drop: tuple[str, ...] = DROPPED, variant: str = "verbatim") -> bytes:
    """Return the canonical bytes of a record.

    Args:
        raw: Its JSON text.
        drop: Members of the outermost object that are left out.
        variant: One of ``forms.VARIANTS``.

    Raises:
        InputError: It is no JSON, or JSON that readers understand in different ways.
    """
    from provstore.evidence.aep.text import parse

    return parse(raw, "record").canon(forms.form_of(variant), drop=drop)


def digest(text: JsonText, form: forms.Form = forms.VERBATIM) -> str:
    """Return what the next record writes as its link to this one."""
    return hashlib.sha256(text.canon(form, drop=DROPPED)).hexdigest()


class Predecessor:
    """The record that the next one has to name.

    Args:
        text: The record; one that could not be read is named by nothing.
        own: Its verbatim digest.
    """

    __slots__ = ("_data", "_others", "_own")

    def __init__(self, text: JsonText, own: str | None) -> None:
        self._own = own
        self._data = text.data if own is not None else b""
        self._others: dict[str, str] | None = None

    @property
    def held(self) -> int:
        """Bytes that are kept for a look at other variants."""
        return len(self._data)

    def variant(self, link: object) -> str | None:
        """Return the variant under which ``link`` names this record, ``None`` when it does not."""
        if link == self._own and self._own is not None:
            return forms.VERBATIM.variant
        if self._own is None or not isinstance(link, str):
            return None
        return self._digests().get(link)

    def settle(self) -> None:
        """Give the bytes back: what the other variants need of them is worked out."""
        self._digests()
        self._data = b""

    def release(self) -> None:
        """Give the bytes back: nothing will be compared with this record any more."""
        self._data, self._others = b"", {}

    def _digests(self) -> dict[str, str]:
        if self._others is None:
            text = JsonText(self._data)
            self._others = {}
            for form in forms.FORMS[1:]:
                self._others.setdefault(digest(text, form), form.variant)
        return self._others


@dataclass(slots=True)
class Chain:
    """What was seen so far of the records of one scope."""

    scope: str
    """``file`` or ``run``."""
    count: int = 0
    first_has_link: bool = False
    linked: int = 0
    """Links that name the record before."""
    absent: list[int] = field(default_factory=list)
    """Places in the scope whose link is absent, the first record aside; the first thousand."""
    absent_count: int = 0
    broken: tuple[int, int] | None = None
    """The first record whose link fails: its place in the scope, and in the file."""
    variants: set[str] = field(default_factory=set)
    gap_at: int | None = None
    """Place of the first record behind a gap that the container declares."""

    def add(self, record: int, link: object, before: Predecessor | None, *, behind_gap: bool = False) -> None:
        """Take the next record.

        Args:
            record: Its place in the file.
            link: What it says of the record before it; ``None`` when nothing.
            before: The record before it in this scope.
            behind_gap: The container declares that records before it were left out.
        """
        place, self.count = self.count, self.count + 1
        if behind_gap:
            self.gap_at = place if self.gap_at is None else self.gap_at
        elif place == 0:
            self.first_has_link = link is not None
        elif link is None:
            self.absent_count += 1
            if len(self.absent) < _MOST_LISTED:
                self.absent.append(place)
        elif before is not None and (variant := before.variant(link)) is not None:
            self.linked += 1
            self.variants.add(variant)
        elif self.broken is None:
            self.broken = (place, record)

    def axis(self) -> Axis:
        """Return the verdict; the first rule that fits decides."""
        details: dict[str, object] = {"chain_scope": self.scope, "records": self.count}
        if self.absent_count:
            details |= {"absent": list(self.absent), "absent_count": self.absent_count}
        other = sorted(self.variants - {forms.VERBATIM.variant})
        if other:
            details["canonical_variants"] = other
        if self.broken is not None:
            place, record = self.broken
            details |= {"index": place, "record": record}
            return Axis(True, "broken", f"the link of record {place} does not name the record before it", details)
        if self.gap_at is not None:
            details["declared_gap_before"] = self.gap_at
            return Axis(True, "partial", "the container declares that records were left out", details)
        if not self.first_has_link and not self.linked:
            return Axis(True, "not-present", None, details)
        if self.first_has_link:
            return Axis(True, "orphaned", "the first record names one before it that is not here", details)
        if self.absent_count:
            return Axis(True, "partial", f"{self.absent_count} of {self.count} records name none before them", details)
        return Axis(True, "intact", None, details)


class Chains:
    """The chain of a whole file, and of each run in it, in one pass."""

    def __init__(self) -> None:
        self.whole = Chain("file")
        self.runs: dict[str | None, Chain] = {}
        self._last: Predecessor | None = None
        self._last_of: dict[str | None, Predecessor] = {}
        self._held: deque[Predecessor] = deque()
        self._held_bytes = 0

    def add(self, record: int, run: str | None, text: JsonText, own: str | None, *, behind_gap: bool = False) -> None:
        """Take the next record of the file.

        Args:
            record: Its place in the file.
            run: Its run id, if it says one.
            text: Its JSON.
            own: Its verbatim digest; ``None`` when it could not be read.
            behind_gap: The container declares that records before it were left out.
        """
        link = text.value.get(LINK) if isinstance(text.value, dict) else None
        now = Predecessor(text, own)
        self.whole.add(record, link, self._last, behind_gap=behind_gap)
        before = self._last_of.get(run)
        self.runs.setdefault(run, Chain("run")).add(record, link, before, behind_gap=behind_gap)
        if before is not None:
            self._held_bytes -= before.held
            before.release()
        self._last = self._last_of[run] = now
        self._keep(now)

    def _keep(self, one: Predecessor) -> None:
        self._held.append(one)
        self._held_bytes += one.held
        while self._held_bytes > _HELD_BYTES and len(self._held) > 1:
            oldest = self._held.popleft()
            self._held_bytes -= oldest.held
            if oldest.held:
                oldest.settle()
