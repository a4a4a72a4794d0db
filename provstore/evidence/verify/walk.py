"""Verification of one attempt of one run: bytes, trust and anchors in, findings out; the same in gives the same out.

Nothing is written, nobody is asked, no clock is read. The walk does not stop at a bad bundle.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.evidence.anchors import Anchor
from provstore.evidence.moments import nanoseconds
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.anchors import AnchorCheck, concerning
from provstore.evidence.verify.blobs import Naming
from provstore.evidence.verify.bundles import BundleWalk, Chain, Expected, Signed
from provstore.evidence.verify.clock import WallClock
from provstore.evidence.verify.compare import Comparison, judge_end
from provstore.evidence.verify.content import Content
from provstore.evidence.verify.findings import ANCHOR, Notes
from provstore.evidence.verify.keys import KeyCheck
from provstore.evidence.verify.ranks import RankCheck
from provstore.evidence.verify.signatures import Opener
from provstore.evidence.verify.tree import Tree, TreeWalk, gaps
from provstore.model.evidence import EvidenceLog
from provstore.model.lost import Lost
from provstore.model.verification import ALWAYS, NEVER_CLOSED, PARTLY_ANCHORED, AnchorReach, EvidenceFinding

_NOTHING_LOST = Lost()
FIRST_USE = (
    "Trusted on first use: nobody vouched for the keys in the trust file; they were believed because they came first."
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found about one attempt."""

    findings: tuple[EvidenceFinding, ...]
    axes: Mapping[str, str]
    """Axis → state; those that need more than these bytes are not checked."""
    counts: Mapping[str, int]
    reach: AnchorReach
    limits: tuple[str, ...]
    signed: int
    """Records that the last good bundle covers."""
    leaves_seen: int
    head_note: bytes | None
    """The newest checkpoint, when it holds for the records here: fit to be the next anchor."""
    source: str
    """Which bytes were judged."""
    named: tuple[Naming, ...] = ()
    """Records that name blobs, which this walk does not look at."""


def verify(
    log: EvidenceLog,
    trust: Trust,
    anchors: Sequence[Anchor] = (),
    *,
    at: str | None = None,
    org: str = "provstore",
    source: str = "",
    within: Path | None = None,
    lost: Lost = _NOTHING_LOST,
) -> Checked:
    """Return what the bytes of one attempt show.

    Args:
        log: Where its bundles and records are; both are read as a stream, the bundles twice where ranks sign.
        trust: Whose signatures count.
        anchors: Checkpoints held outside the place; those about other runs are ignored.
        at: When this takes place, ISO 8601 in UTC; windows of keys are judged by it.
        org: First part of the origins of checkpoints.
        source: Name of the place, for the report.
        within: Directory of the store, where an anchor would hold nothing in place.
        lost: What damage has taken from the place: what follows from that alone is told as its consequence.

    Raises:
        InputError: ``at`` is no moment, or the name of the run is no text that can be signed.
    """
    expected = Expected(log.run, log.attempt, log.store, org)
    return _Run(log, trust, expected, at, within, lost).judge(anchors, source)


class _Run:
    """One verification."""

    def __init__(
        self, log: EvidenceLog, trust: Trust, expected: Expected, at: str | None, within: Path | None, lost: Lost
    ) -> None:
        self._lost = lost
        self._log, self._trust, self._expected, self._within = log, trust, expected, within
        self._at_ns = None if at is None else nanoseconds(at)
        self._notes = Notes(log.run, log.attempt)
        self._clock = WallClock(self._notes, self._at_ns)

    def judge(self, anchors: Sequence[Anchor], source: str) -> Checked:
        """Return what was found."""
        notes, opener = self._notes, Opener(self._log.run, self._trust, self._notes)
        walk = BundleWalk(self._log, self._expected, opener, notes, self._clock, self._lost.bundles)
        bundles = list(walk.signed())
        held = concerning(anchors, self._expected, walk.store)
        if held:
            notes.checked(ANCHOR)
        content = Content(notes, self._clock, epoch_finder(bundles))
        lost = gaps(self._lost, bundles)
        tree = TreeWalk(bundles, [one.size for one in held], content, notes, lost).walk(self._log)
        comparison = Comparison(tree, notes)
        comparison.compare(bundles)
        chain = walk.chain
        if chain.held:
            judge_end(chain, tree, content, notes)
        elif chain.is_whole:
            notes.add("no-bundles", f"no bundle is here, so nothing is said about its {tree.held} records.")
        own = [one for one in bundles if not one.is_foreign]
        anchored = AnchorCheck(chain, own, tree, comparison.first_broken, notes, self._within)
        reached = anchored.check(held)
        keys = KeyCheck(self._trust, reached.matched, self._at_ns, notes)
        doubtful = keys.check(bundles)
        keys.rotations(content.rotations, bundles)
        proven = max((b.size for b in own if b.position not in doubtful and comparison.is_sound(b)), default=0)
        ranks = RankCheck(tree, content, self._trust, proven, notes)
        ranks.check(self._log, bundles)
        ranks.name_doubts()
        limits = [*keys.limits, *self._limits(anchored, reached.reach)]
        return Checked(
            findings=notes.findings(),
            axes=notes.axes(),
            counts=_counts(chain, tree, content),
            reach=reached.reach,
            limits=tuple(limits),
            signed=chain.signed_size,
            leaves_seen=tree.here,
            head_note=_head_note(chain, tree),
            source=source,
            named=content.namings.found(),
        )

    def _limits(self, anchored: AnchorCheck, reach: AnchorReach) -> list[str]:
        notes = self._notes
        found = [FIRST_USE] if self._trust.first_use else []
        if notes.has("unanchored"):
            found.append(anchored.no_anchor())
        if 0 < reach.size < reach.of:
            found.append(PARTLY_ANCHORED.format(size=reach.size, records=reach.of))
        if notes.has("not-closed"):
            found.append(NEVER_CLOSED)
        return [*found, ALWAYS]


def epoch_finder(bundles: Sequence[Signed]) -> Callable[[int], int | None]:
    """Return what gives the number of the epoch that signs a record."""
    own = sorted((one.first, one.size, one.number) for one in bundles if not one.is_foreign)
    firsts = [first for first, _, _ in own]

    def epoch_of(seq: int) -> int | None:
        last = bisect_right(firsts, seq)
        # Honest epochs do not overlap; of others, the nearest are enough to name one.
        for first, size, number in reversed(own[max(0, last - 16) : last]):
            if first <= seq < size:
                return number
        return None

    return epoch_of


def _head_note(chain: Chain, tree: Tree) -> bytes | None:
    if chain.newest is None:
        return None
    size, root, note = chain.newest
    return note if tree.roots.get(size) == root else None


def _counts(chain: Chain, tree: Tree, content: Content) -> dict[str, int]:
    return {
        "bundles": chain.held,
        "records": tree.here,
        "signed": chain.signed_size,
        "unsigned": max(0, tree.held - chain.signed_size),
        "ranks": sum(1 for rank in content.ranks if rank is not None),
    }
