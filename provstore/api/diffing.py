"""Where two stored runs part: their calls compared by digest, and their anchors beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provstore.api.causes import cause_of, drifted, explained
from provstore.api.random_states import comparable_anchors, with_generators
from provstore.api.stored_runs import StoredRun, Trustworthiness, opened_journal, stored_run, trustworthiness
from provstore.api.stored_tables import Unreadable
from provstore.errors import EXIT_NO, ConfigError, InputError
from provstore.evidence import epoch_bundles as roles
from provstore.evidence.replay import AnchorComparison
from provstore.evidence.replay.anchors import KindDifference
from provstore.ingest import recording
from provstore.ingest.record_signals import seen_events
from provstore.model import canonical
from provstore.model.action import Action

if TYPE_CHECKING:
    from provstore.analysis.divergence import Divergence, Event, GroupFacts
    from provstore.api.believing import Belief
    from provstore.journal import Journal

SCHEMA = "provstore-diff/1"
CONTEXT_STEPS = 5
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Diff:
    """What comparing two stored runs gives."""

    divergence: Divergence
    trust: tuple[Trustworthiness, Trustworthiness]
    anchors: AnchorComparison | None
    epochs: tuple[int, ...]
    lost: tuple[Unreadable, ...] = ()
    """Bytes that records name, that the answer asked for, and that cannot be read."""

    @property
    def cause(self) -> KindDifference | None:
        """What differs of samples, random states or order before any call does, or in the same step."""
        return cause_of(self.divergence, self.anchors)

    @property
    def exit_code(self) -> int:
        """0 no difference in what was compared, 1 one or damaged bytes, 3 nothing comparable, or lost bytes."""
        from provstore.analysis.divergence import exit_code

        is_apart = self.anchors is not None and self.anchors.first is not None
        codes = [EXIT_NO if is_apart else exit_code(self.divergence), *(one.exit_code for one in self.lost)]
        return EXIT_NO if EXIT_NO in codes else max(codes)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "schema": SCHEMA,
            "unverified": any(one.is_ignored for one in self.trust),
            "verification": [one.to_dict() for one in self.trust],
            "epochs": list(self.epochs),
            **self.divergence.to_dict(),
            "cause": self.cause.to_dict() if self.cause else None,
            "anchors": self.anchors.to_dict() if self.anchors else None,
            "unreadable": [one.to_dict() for one in self.lost],
            "exit_code": self.exit_code,
        }


def diff(
    a: str,
    b: str,
    *,
    epoch: int | None = None,
    context: int = CONTEXT_STEPS,
    attempts: tuple[int | None, int | None] = (None, None),
    belief: Belief | None = None,
    unverified: bool = False,
    store: str | None = None,
    journal: str | Path | None = None,
) -> Diff:
    """Compare two runs of a store by the digests of their recorded calls.

    Args:
        a: Name of the first run.
        b: Name of the second run.
        epoch: Only this training epoch.
        context: How many steps from the first difference other events are told.
        attempts: Incarnation of each; else the last closed one.
        belief: Whose signatures count.
        unverified: Go on although the evidence does not hold.
        store: Address of the store, which tells where its journal is.
        journal: Directory of the journal, where the address does not tell it.

    Raises:
        ConfigError: Fewer than 0 steps of context.
        InputError: A run, attempt or epoch is not stored.
        TrustError: The evidence does not hold, and that is not ignored.
        StoreError: The journal cannot be read.
    """
    with opened_journal(store, journal) as found:
        return compared(
            found, (a, b), epoch=epoch, context=context, attempts=attempts, belief=belief, unverified=unverified
        )  # fmt: skip


def compared(
    journal: Journal,
    ab: tuple[str, str],
    *,
    epoch: int | None,
    context: int,
    attempts: tuple[int | None, int | None],
    belief: Belief | None,
    unverified: bool,
) -> Diff:
    """Do what :func:`diff` does, with a journal that is open."""
    from provstore.analysis.divergence import compare

    if context < 0:
        raise ConfigError(f"--context {context}: is less than 0")
    runs = stored_run(journal, ab[0], attempts[0], epoch), stored_run(journal, ab[1], attempts[1], epoch)
    trust = [trustworthiness(one, belief, unverified=unverified) for one in runs]
    epochs = (epoch,) if epoch is not None else tuple(n for n in runs[0].epochs if n in runs[1].epochs)
    names = _names(runs[0], runs[1])
    readers = _reader(runs[0], epoch), _reader(runs[1], epoch)
    events = [event for one, name in zip(runs, names, strict=True) for event in _events(one, name)]
    groups = _groups(runs[0], epochs), _groups(runs[1], epochs)
    single = [number for number in epochs if all(len(one.of_epoch(number)) == 1 for one in runs)]
    divergence = compare(names, groups, epochs, readers, events=events, context=context, by_rank=single)
    anchors = _anchors(runs[0], runs[1], epochs)
    divergence = explained(divergence, anchors).with_notes(*_lone_epochs(runs, names, epochs), *drifted(runs, epoch))
    return Diff(divergence, (trust[0], trust[1]), anchors, epochs, (*runs[0].lost, *runs[1].lost))


def _names(a: StoredRun, b: StoredRun) -> tuple[str, str]:
    if (a.run, a.attempt) == (b.run, b.attempt):
        raise InputError(f"{a.run}: attempt {a.attempt}: is compared with itself")
    if a.run == b.run:
        return f"{a.run}, attempt {a.attempt}", f"{b.run}, attempt {b.attempt}"
    return a.run, b.run


def _lone_epochs(runs: tuple[StoredRun, StoredRun], names: tuple[str, str], epochs: tuple[int, ...]) -> Iterator[str]:
    """Yield what was not compared because only one run has it."""
    for run, name in zip(runs, names, strict=True):
        lone = [str(number) for number in run.epochs if number not in epochs]
        if lone:
            more = f" and {len(lone) - _SHOWN} more" if len(lone) > _SHOWN else ""
            said = ", ".join(lone[:_SHOWN]) + more
            yield f"not compared: epochs of {name} that were not asked for or are stored of it alone: {said}"


def _reader(run: StoredRun, epoch: int | None) -> Callable[[int], Iterable[Action]]:
    """Return what gives the actions of an epoch: one pass over the journal, as long as epochs are asked in order."""
    stored = [one.epoch for one in sorted(run.bundles, key=lambda one: one.index)]
    is_ordered = all(left < right for left, right in itertools.pairwise(stored))
    return _Blocks(run).of if epoch is None and is_ordered else run.actions


class _Blocks:
    """Actions epoch by epoch, in the order in which they are stored."""

    def __init__(self, run: StoredRun) -> None:
        self._blocks = itertools.groupby(run.actions(), key=lambda one: one.epoch)
        self._next: tuple[int | None, Iterator[Action]] | None = next(self._blocks, None)

    def of(self, epoch: int) -> Iterator[Action]:
        """Yield the actions of an epoch, which no earlier call has passed."""
        while self._next is not None and (self._next[0] is None or self._next[0] <= epoch):
            if self._next[0] == epoch:
                yield from self._next[1]
            self._next = next(self._blocks, None)


def _groups(run: StoredRun, epochs: Iterable[int]) -> dict[str, GroupFacts]:
    from provstore.analysis.divergence import GroupFacts

    return {
        str(group["group"]): GroupFacts(group.get("desc"), tuple(group.get("ranks") or ()))
        for epoch in epochs
        for row in run.rows(epoch, roles.HEADERS)
        for group in row.get("groups") or ()
    }


def _events(run: StoredRun, name: str) -> Iterator[Event]:
    from provstore.analysis.divergence import Event

    last = {(said["source"], said["number"]): said for said in recording.escalations(run.journal, run.run, run.attempt)}
    for said in last.values():
        at = said.get("opened_ns") or said.get("at")
        at_ns = canonical.tagged_integer(at) if isinstance(at, str) else at
        what = f"escalation {said.get('trigger')}"
        yield Event(name, what, str(said.get("scope")), at_ns, said.get("opened_step"), said.get("reason"))
    for one in seen_events(run.journal, run.run, run.attempt):
        yield Event(name, one.what, one.scope, one.at_ns, one.step, one.text)


def _anchors(a: StoredRun, b: StoredRun, epochs: Iterable[int]) -> AnchorComparison | None:
    """Return the anchors compared, of epochs that both runs have; nothing where there are none."""
    both = [one for one in epochs if one in a.epochs and one in b.epochs]
    if not all(any(one.rows(epoch, roles.ANCHORS) for epoch in both) for one in (a, b)):
        return None
    return with_generators(comparable_anchors(a, b, both), a, b, both)
