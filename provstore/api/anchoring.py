"""Which anchors an answer uses: the verifier's own, and of those that are given the ones that a trusted key signed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from provstore.api.believing import Belief
from provstore.errors import StoreError, TrustError
from provstore.evidence import anchors as held
from provstore.evidence import checkpoint
from provstore.evidence.trust.keys import LOG, RUN, Trust
from provstore.model.verification import EvidenceFinding

_LISTED = 3
"""Anchors that are said by name not to be used; more are counted."""


def is_vouched(anchor: held.Anchor, trust: Trust, run: str) -> bool:
    """Return whether a key that is trusted for a run, retired and revoked ones too, signed an anchor."""
    try:
        point = checkpoint.parse(anchor.note)
    except TrustError:
        return False
    if (point.origin, point.size, point.root) != (anchor.origin, anchor.size, anchor.root):
        return False
    return any(checkpoint.check(point, key.public) for key in trust.keys if key.serves(run, (RUN, LOG)))


@dataclass(slots=True)
class AnchorChoice:
    """Chooses the anchors of each answer, and remembers which of the given ones no answer used.

    Args:
        belief: The verifier's own anchors, and the given ones.
        within: Directory that is judged: anchors that are kept in there hold nothing in place.
        used: Given anchors that were about an origin.
    """

    belief: Belief
    within: Path
    used: set[held.Anchor] = field(default_factory=set)

    def of(self, origin: str, run: str) -> list[held.Anchor]:
        """Return the anchors that count for an origin.

        The verifier's own count whatever key signed them. One that is given may come from anybody: only a trusted
        key's signature lets it accuse the store.
        """
        state = self.belief.state
        own = state.for_origin(origin) if state is not None else []
        return [*own, *(one for one in self._given(origin) if is_vouched(one, self.belief.trust, run))]

    def given(self) -> list[held.Anchor]:
        """Return the given anchors that a trusted key signed, whatever they are about."""
        abouts = ((one, held.scope_of(one.origin)) for one in self.belief.anchors)
        return [one for one, about in abouts if about and is_vouched(one, self.belief.trust, about.run)]

    def findings(self, origin: str, scope: tuple[str, int]) -> list[EvidenceFinding]:
        """Return what keeps anchors about an origin from counting."""
        texts = {
            one.source: f"the anchor {one.source} is about this run, and no trusted key signed it: it was not used."
            for one in self._given(origin)
            if not is_vouched(one, self.belief.trust, scope[0])
        }
        words = f"Run {scope[0] or '(no name)'}, attempt {scope[1]}"
        found = [_finding(scope, "anchor-untrusted", source, f"{words}: {text}") for source, text in texts.items()]
        if self.is_inside:
            place = self._directory()
            text = f"{words}: your own anchors in {place} lie inside the store that they should hold in place."
            found.append(_finding(scope, "anchor-not-independent", place, text))
        return found

    @property
    def is_inside(self) -> bool:
        """Whether the verifier's own anchors lie in what is judged."""
        state = self.belief.state
        return state is not None and state.directory.resolve().is_relative_to(self.within.resolve())

    def keep(self, note: bytes, place: str, now: str) -> str | None:
        """Make a checkpoint the next anchor of the verifier; return why that was not possible, in words."""
        state = self.belief.state
        if state is None or self.is_inside:
            return None
        try:
            state.refresh(note, checkpoint.parse(note).origin, place, now)
        except StoreError as error:
            return (
                f"Your next anchor could not be kept: {error}. "
                "PROVSTORE_ANCHORS names another folder for anchors; --no-keep-anchor keeps none."
            )
        return None

    def _given(self, origin: str) -> list[held.Anchor]:
        found = [one for one in self.belief.anchors if one.origin == origin]
        self.used.update(found)
        return found

    def _directory(self) -> str:
        return "" if self.belief.state is None else str(self.belief.state.directory)


def remarks(belief: Belief, used: Collection[held.Anchor], answered: Iterable[tuple[str, int]]) -> list[str]:
    """Return in words which of the given anchors no answer used, and why."""
    known = set(answered)
    unused = [one for one in belief.anchors if one not in used]
    texts = [_unused(one, known) for one in unused[:_LISTED]]
    if len(unused) > _LISTED:
        texts.append(f"{len(unused) - _LISTED} more of the given anchors are about other runs: not used.")
    return [*belief.remarks, *texts]


def _finding(scope: tuple[str, int], code: str, where: str, text: str) -> EvidenceFinding:
    return EvidenceFinding(*scope, None, None, code, where, text)


def _unused(one: held.Anchor, answered: Collection[tuple[str, int]]) -> str:
    about = held.scope_of(one.origin)
    if about is None:
        return f"{one.source} is about {one.origin}, which is none of our runs: not used."
    words = f"run {about.run}, attempt {about.attempt}"
    if (about.run, about.attempt) in answered:
        return f"{one.source} is about {words} of another store or organisation ({one.origin}): not used."
    return f"{one.source} is about {words}: not used."
