"""Anchors against what is signed and what is here: rolled back, rewritten, held in part, or not held at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.evidence.anchors import Anchor, lies_within, scope_of
from provstore.evidence.verify.bundles import Chain, Expected, Signed
from provstore.evidence.verify.findings import Notes
from provstore.evidence.verify.tree import Tree
from provstore.model.verification import NO_ANCHOR, PARTLY_ANCHORED, AnchorReach


@dataclass(frozen=True, slots=True)
class Held:
    """The anchors that concern one attempt, split by what they show."""

    reach: AnchorReach
    matched: tuple[Anchor, ...]
    """Those whose tree the records here begin with."""


def concerning(anchors: Sequence[Anchor], expected: Expected, store: str) -> list[Anchor]:
    """Return the anchors about this attempt, smallest first; without a known store id, those of any store."""
    if store:
        origin = expected.origin(store)
        found = [one for one in anchors if one.origin == origin]
    else:
        wanted = (expected.org, expected.run, expected.attempt)
        scopes = ((one, scope_of(one.origin)) for one in anchors)
        found = [one for one, scope in scopes if scope and (scope.org, scope.run, scope.attempt) == wanted]
    return sorted(found, key=lambda one: (one.size, one.root, one.seen or "", one.source))


@dataclass(slots=True)
class AnchorCheck:
    """Compares anchors, each at its own size.

    Args:
        chain: How much is signed.
        bundles: What is signed, bundle by bundle.
        tree: The roots that the records give.
        first_broken: Smallest size at which a bundle and the records disagree.
        notes: Where findings go.
        within: Directory of the store; an anchor inside it holds nothing in place.
    """

    chain: Chain
    bundles: Sequence[Signed]
    tree: Tree
    first_broken: int | None
    notes: Notes
    within: Path | None = None

    def check(self, anchors: Sequence[Anchor]) -> Held:
        """Return how far the anchors reach, after noting what contradicts them."""
        matched, reach = [], AnchorReach(of=self.chain.signed_size)
        independent = 0
        for one in anchors:
            holds = self._one(one)
            if self.within is not None and lies_within(one, self.within):
                path = one.path or one.source
                text = f"the anchor {path} lies inside the store that it should hold in place."
                self.notes.add("anchor-not-independent", text, where=path)
                continue
            independent += 1
            if holds:
                matched.append(one)
            if holds and one.size > reach.size:
                reach = AnchorReach(one.size, self.chain.signed_size, one.source, one.seen)
        self._reach(reach, independent)
        return Held(reach, tuple(matched))

    def _one(self, one: Anchor) -> bool:
        """Return whether the records here begin with the tree of an anchor."""
        seen = f"seen {one.seen}" if one.seen else "of unknown date"
        if self.chain.is_whole and one.size > self.chain.signed_size:
            self.notes.add(
                "rollback",
                f"an anchor ({seen}) covers {one.size} records, and only {self.chain.signed_size} are signed here.",
                seq=self.chain.signed_size, where=one.source, cause=self.chain.cause,
            )  # fmt: skip
        root = self.tree.roots.get(one.size)
        fork, cause = root is not None and root != one.root, None
        if not fork and any(b.size == one.size and b.root != one.root and not b.is_foreign for b in self.bundles):
            fork = True
        broken = self.first_broken
        if not fork and root is None and broken is not None and broken <= one.size <= self.chain.signed_size:
            # The tree of the anchor cannot be built any more, but what is left does not begin it.
            fork, cause = True, "root-mismatch"
        if fork:
            text = f"the first {one.size} records are not the ones of an anchor ({seen}): the past was rewritten."
            self.notes.add("fork", text, where=one.source, cause=cause)
        return root is not None and not fork

    def _reach(self, reach: AnchorReach, independent: int) -> None:
        if not self.chain.signed_size:
            return
        if not independent:
            self.notes.add("unanchored", self.no_anchor(), is_whole=True)
        elif reach.size < reach.of and not self.notes.has("rollback", "fork"):
            text = PARTLY_ANCHORED.format(size=reach.size, records=reach.of)
            self.notes.add("anchor-partial", text, is_whole=True)

    def no_anchor(self) -> str:
        """Return what a missing anchor leaves open."""
        text = NO_ANCHOR.format(bundles=len(self.bundles), records=self.chain.signed_size)
        # Whoever found a fault must not say that none was found.
        return text[text.index("Not anchored") :] if self.notes.has_fault else text
