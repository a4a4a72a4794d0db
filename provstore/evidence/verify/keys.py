"""When a signature was made, as far as anchors show: revoked keys, keys outside their window, announced rotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from provstore.errors import InputError
from provstore.evidence.anchors import Anchor
from provstore.evidence.moments import nanoseconds
from provstore.evidence.trust.keys import REVOKED, Trust, TrustedKey
from provstore.evidence.verify.bundles import Signed
from provstore.evidence.verify.findings import KEY, Notes
from provstore.model.verification import REVOKED as REVOKED_WORDS

MOST_ROTATIONS = 256
"""Announced rotations that are looked at."""


@dataclass(slots=True)
class KeyCheck:
    """Judges by anchors, and by the time that the caller states, never by the writer's clock.

    Args:
        trust: Windows and revocations of keys.
        anchors: Those whose tree the records begin with.
        at_ns: When the verification takes place, if anybody said so.
        notes: Where findings go.
    """

    trust: Trust
    anchors: Sequence[Anchor]
    at_ns: int | None
    notes: Notes
    limits: list[str] = field(default_factory=list)
    """The fixed words for what stays unproven."""

    def check(self, bundles: Sequence[Signed]) -> set[int]:
        """Return the positions of the bundles whose key is in doubt."""
        doubtful = set()
        for one in bundles:
            if not one.is_foreign and (self._is_revoked(one) or self._is_outside(one)):
                doubtful.add(one.position)
        return doubtful

    def rotations(self, announced: Sequence[tuple[int, str, str]], bundles: Sequence[Signed]) -> None:
        """Note rotations whose epoch the old key did not sign; a rotation grants the new key nothing in any case."""
        own = [one for one in bundles if not one.is_foreign]
        for seq, old, where in announced[:MOST_ROTATIONS]:
            for one in own:
                if one.first <= seq < one.size and one.key.keyid != old:
                    self.notes.add(
                        "keyid-mismatch",
                        f"the record hands over from key {old}, but key {one.key.keyid} signed its epoch.",
                        epoch=one.number, seq=seq, where=where, keyid=one.key.keyid,
                    )  # fmt: skip
        if len(announced) > MOST_ROTATIONS:
            seq = announced[MOST_ROTATIONS][0]
            self.notes.add(
                "cap-exceeded", f"it hands its key over more than {MOST_ROTATIONS} times.", seq=seq, axis=KEY
            )

    def _is_revoked(self, one: Signed) -> bool:
        found = self.trust.revocation(one.key.keyid)
        if found is None:
            if one.key.status == REVOKED:
                self._unproven(one, None)
                return True
            return False
        since = nanoseconds(found.since)
        if one.quoted_ns is not None and one.quoted_ns >= since:
            self._revoked(one, found.since, "its bundle quotes an anchor from after that")
            return True
        covered = self._covered_before(since)
        if covered is None:
            self._unproven(one, found.since)
            return True
        if one.size > covered:
            self._revoked(one, found.since, f"the last anchor from before that covers {covered} records")
            return True
        return False

    def _is_outside(self, one: Signed) -> bool:
        key = one.key
        if key.not_before is not None:
            begin = nanoseconds(key.not_before)
            covered = self._covered_before(begin)
            if (covered is not None and one.size <= covered) or (self.at_ns is not None and self.at_ns < begin):
                self._window(
                    one, "untrusted-key", f"its bundle was signed before {named(key)} was valid, {key.not_before}."
                )
                return True
            if self.at_ns is None and all((_seen(held) or 0) < begin for held in self.anchors):
                text = (
                    f"{named(key)} is valid from {key.not_before} on, and nothing shows that this has come: an anchor "
                    "from since then, or --at, would."
                )
                self._window(one, "key-unproven", text)
                return True
        if key.not_after is None:
            return False
        end = nanoseconds(key.not_after)
        covered = self._covered_before(end + 1)
        if (covered is not None and one.size <= covered) or (self.at_ns is not None and self.at_ns <= end):
            return False
        text = (
            f"{named(key)} was valid until {key.not_after}, and nothing shows that its bundle is older: an anchor from "
            "before that would."
        )
        self._window(one, "key-unproven", text)
        return True

    def _covered_before(self, moment_ns: int) -> int | None:
        """Return how many records an anchor dated before a moment covers; ``None`` without such an anchor."""
        return max(
            (one.size for one in self.anchors if (seen := _seen(one)) is not None and seen < moment_ns), default=None
        )

    def _unproven(self, one: Signed, since: str | None) -> None:
        words = REVOKED_WORDS.format(since=since or "an unknown time")
        if words not in self.limits:
            self.limits.append(words)
        self.notes.add(
            "key-unproven", f"{words} {of_revoked(one.key, since)}",
            epoch=one.number, where=one.where, keyid=one.key.keyid, is_whole=True,
        )  # fmt: skip

    def _revoked(self, one: Signed, since: str, reason: str) -> None:
        text = f"{named(one.key)} is revoked since {since}, and {reason}: whoever stole the key may have signed."
        self._window(one, "key-revoked", text)

    def _window(self, one: Signed, code: str, text: str) -> None:
        self.notes.add(code, text, epoch=one.number, seq=one.first, where=one.where, keyid=one.key.keyid)


def named(key: TrustedKey) -> str:
    """Return how a key is told: its alias, when the trust file gives one, and its fingerprint."""
    return f"key {key.alias} ({key.keyid})" if key.alias else f"key {key.keyid}"


def of_revoked(key: TrustedKey, since: str | None) -> str:
    """Return which key it is whose signatures are in doubt, and what would help."""
    if since is None:
        return f"It is {named(key)}; its trust file states no moment before which it counts."
    return (
        f"It is {named(key)}; an anchor that was seen before {since}, or a checkpoint with a time stamp from before "
        "(--anchor, --tsa), would show it."
    )


def _seen(anchor: Anchor) -> int | None:
    try:
        return None if anchor.seen is None else nanoseconds(anchor.seen)
    except InputError:
        return None
