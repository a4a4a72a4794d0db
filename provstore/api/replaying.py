"""Replaying an epoch of a stored run: verified first, then planned, recomputed, compared with a re-run."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from provstore import config
from provstore.api.causes import drifted
from provstore.api.random_states import comparable_anchors, with_generators
from provstore.api.reexecuting import Collectives, Recomputed, collectives, recomputed
from provstore.api.stored_runs import StoredRun, Trustworthiness, opened_journal, stored_run, trustworthiness
from provstore.api.stored_tables import Unreadable
from provstore.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED, ConfigError, InputError
from provstore.evidence import epoch_bundles as roles
from provstore.evidence.replay import (
    AnchorComparison,
    EpochFacts,
    RestorePlan,
    restore_plan,
    skips_in,
)
from provstore.evidence.replay.checkpoints import Given, nearest
from provstore.evidence.replay.documents import Check
from provstore.evidence.replay.epoch import MISMATCH, MISSING
from provstore.evidence.replay.plan import EXACT_POSSIBLE, NOT_POSSIBLE, steps_to_catch_up
from provstore.evidence.replay.script import script_of
from provstore.model.action import Action

if TYPE_CHECKING:
    from provstore.api.believing import Belief
    from provstore.api.verifying_epoch import EpochLook, Opens
    from provstore.journal import Journal
    from provstore.stores import GraphStore

SCHEMA = "provstore-replay/1"
PAGE = 50
BOTH = "both"
SOURCES = (BOTH, "journal")
_EXACT, _MISMATCH, _NOT_RECOMPUTABLE = "exact", "mismatch", "not-recomputable"
_NOT_KEPT, _NOT_ASKED = "not-kept", "not-asked"
_CLASSES = (_EXACT, "explained", "within-bound", _MISMATCH, _NOT_RECOMPUTABLE, _NOT_KEPT, _NOT_ASKED)
"""What becomes of a collective of the epoch: of each one thing, so that the counts add up to all of them."""


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is to be replayed."""

    run: str
    epoch: int
    attempt: int | None = None
    rank: int | None = None
    """Whose actions are listed; only its collectives are recomputed."""
    execute: bool = False
    instance: str | None = None
    against: str | None = None
    """A re-run, whose anchors are compared."""
    skip: Path | None = None
    checkpoint: Path | None = None
    unverified: bool = False
    source: str = BOTH
    """``both``, or ``journal``: then the graph is not compared with the records of the epoch."""
    offset: int = 0
    limit: int = PAGE

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        if self.instance is not None and not self.execute:
            raise ConfigError("--instance: it goes with --execute")
        if self.source not in SOURCES:
            raise ConfigError(f"{self.source}: --source: not known; known are {', '.join(SOURCES)}")
        if self.epoch < 0 or self.offset < 0 or self.limit < 0:
            raise ConfigError("--epoch, --offset, --limit: are no numbers below 0")


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay gives."""

    plan: RestorePlan
    trust: Trustworthiness
    actions: tuple[Action, ...] = ()
    """One page of the actions of the asked rank."""
    has_more: bool = False
    executed: tuple[Recomputed, ...] | None = None
    collectives: int = 0
    """How many the epoch has, where any were recomputed."""
    is_part: bool = False
    """One collective, or those of one rank, were asked for, and not all of the epoch."""
    anchors: AnchorComparison | None = None
    notes: tuple[str, ...] = ()
    emitted: tuple[Path, ...] = field(default=())
    rerun_trust: Trustworthiness | None = None
    """What verifying the re-run said, whose anchors were compared."""
    not_kept: tuple[tuple[str, int], ...] = ()
    """Why nothing was kept of a collective, and of how many that holds."""
    lost: tuple[Unreadable, ...] = ()
    """Bytes that records name, that the answer asked for, and that cannot be read."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of the collectives of the epoch, by class; all of them add up to ``collectives``."""
        executed = [one for one in self.executed or () if one.has_elements]
        counts = Counter(one.verdict.name for one in executed)
        without = self.collectives - len(executed)
        counts[_NOT_KEPT] = 0 if self.is_part or self.executed is None else without
        counts[_NOT_ASKED] = without - counts[_NOT_KEPT]
        return {name: counts[name] for name in _CLASSES}

    @property
    def is_unverified(self) -> bool:
        """Whether evidence was used that does not hold."""
        return self.trust.is_ignored or (self.rerun_trust is not None and self.rerun_trust.is_ignored)

    @property
    def exit_code(self) -> int:
        """0 exact, 1 a difference, damaged bytes or not possible, 3 undecided, 7 bytes that nothing can be said of."""
        codes = [one.exit_code for one in self.lost]
        if self.executed is not None:
            names = {one.verdict.name for one in self.executed}
            all_exact = names == {_EXACT} and all(one.verdict.is_whole for one in self.executed)
            is_all = self.is_part or len(self.executed) == self.collectives
            codes.append(EXIT_NO if _MISMATCH in names else EXIT_OK if all_exact and is_all else EXIT_UNDECIDED)
        if self.anchors is not None:
            compared = self.anchors.compared
            codes.append(
                EXIT_OK if self.anchors.is_equal else EXIT_NO if self.anchors.first and compared else EXIT_UNDECIDED
            )
        if self.executed is None and self.anchors is None:
            codes.append(self._exit_of_plan())
        return EXIT_NO if EXIT_NO in codes else max(codes)

    def _exit_of_plan(self) -> int:
        is_open = any(one.role == roles.CHECKPOINTS for one in self.lost)
        if self.plan.verdict == NOT_POSSIBLE:
            # Without the table of checkpoints nobody knows that there is none.
            return EXIT_UNDECIDED if is_open else EXIT_NO
        return EXIT_OK if self.plan.verdict == EXACT_POSSIBLE else EXIT_UNDECIDED

    @property
    def check(self) -> Check:
        """What may be claimed of it: only what was checked, and only when all of it was equal."""
        if self.anchors is not None:
            found = self.anchors
            lacking = "".join(f"; the re-run lacks {name} at {count}" for name, count in found.lacking.items())
            text = "all anchors are equal" if found.is_equal else f"{found.different} anchors differ{lacking}"
            digest = self.plan.item("anchors").digest
            wrong = [one for one in self.executed or () if one.verdict.name not in {_EXACT, _NOT_RECOMPUTABLE}]
            if wrong and found.is_equal:
                text = f"all anchors are equal, and {len(wrong)} recomputed collectives are not exact"
            return Check(text, [digest] if digest else [], is_exact=found.is_equal and not wrong)
        if self.executed:
            done = [one for one in self.executed if one.verdict.name != _NOT_RECOMPUTABLE]
            bad = [one for one in self.executed if one.verdict.name != _EXACT or not one.verdict.is_whole]
            outputs = [digest for one in self.executed for digest in one.outputs]
            text = (
                f"{len(done)} of {self.collectives} collectives were recomputed; of {len(self.executed)} whose bytes "
                f"were kept, {len(bad)} are not exact"
            )
            return Check(text, outputs, is_exact=not bad and len(self.executed) == self.collectives)
        return Check("nothing was checked: --execute or --against does", [], is_exact=False)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "schema": SCHEMA,
            "unverified": self.is_unverified,
            "verification": self.trust.to_dict(),
            "rerun_verification": self.rerun_trust.to_dict() if self.rerun_trust else None,
            "plan": self.plan.to_dict(),
            "script": script_of(self.plan),
            "actions": [_action(one) for one in self.actions],
            "more_actions": self.has_more,
            "executed": None if self.executed is None else [one.to_dict() for one in self.executed],
            "collectives": self.collectives,
            "counts": dict(self.counts),
            "not_kept": [{"reason": reason, "collectives": count} for reason, count in self.not_kept],
            "unreadable": [one.to_dict() for one in self.lost],
            "anchors": self.anchors.to_dict() if self.anchors else None,
            "emitted": [str(path) for path in self.emitted],
            "notes": list(self.notes),
            "exit_code": self.exit_code,
        }


def replay(
    request: ReplayRequest,
    *,
    belief: Belief | None = None,
    store: str | None = None,
    journal: str | Path | None = None,
) -> Replay:
    """Plan to run an epoch again, and check what can be checked; nothing of the run is started.

    Args:
        request: What is asked.
        belief: Whose signatures count.
        store: Address of the store, which tells where its journal is.
        journal: Directory of the journal, where the address does not tell it.

    Raises:
        InputError: Run, epoch, attempt, rank, instance or skip list does not fit what is stored.
        TrustError: The evidence does not hold, and that is not ignored.
        StoreError: The journal cannot be read; bytes beside it that cannot be read are named in the answer.
        SafeModeError: Recomputing is asked for in safe mode.
    """
    if request.execute:
        from provstore.api.control import require_allowed

        require_allowed("replay --execute", store, journal)
    with opened_journal(store, journal) as found:
        return replayed(request, found, lambda: _graph_of(config.store_uri(store), found.directory), belief)


def replayed(request: ReplayRequest, journal: Journal, opens: Opens, belief: Belief | None) -> Replay:
    """Do what :func:`replay` does, with a journal that is open and a graph that ``opens`` gives if it is needed."""
    run = stored_run(journal, request.run, request.attempt, request.epoch)
    trust = trustworthiness(run, belief, unverified=request.unverified, look=_look(run, request, opens, belief))
    facts = epoch_facts(run, request.epoch)
    _require_rank(request, facts)
    skips = skips_in(request.skip) if request.skip else ()
    given = Given(request.checkpoint) if request.checkpoint else None
    plan = restore_plan(facts, run.held, skips, given)
    page = _page(run, request)
    executed, every = None, Collectives(0)
    if request.execute:
        every = collectives(run, request.epoch)
        executed = tuple(recomputed(run, request.epoch, request.instance, request.rank))
    notes = _notes(run, executed, request)
    anchors = again = None
    lost = [*run.lost]
    if request.against:
        other = stored_run(journal, request.against, None, request.epoch)
        again = trustworthiness(other, belief, unverified=request.unverified)
        anchors = _against(run, other, request.epoch)
        notes = (*notes, *drifted((run, other), request.epoch))
        lost = [*run.lost, *other.lost]
    is_part = request.instance is not None or request.rank is not None
    shown = tuple(page[: request.limit])
    has_more = len(page) > request.limit
    return Replay(
        plan,
        trust,
        shown,
        has_more,
        executed,
        every.total,
        is_part,
        anchors,
        notes,
        rerun_trust=again,
        not_kept=() if is_part else every.not_kept,
        lost=tuple(lost),
    )


def _graph_of(uri: str, directory: Path) -> contextlib.AbstractContextManager[tuple[GraphStore | None, str]]:
    from provstore.api.verifying_epoch import graph_of

    return graph_of(uri, directory)


def _look(run: StoredRun, request: ReplayRequest, opens: Opens, belief: Belief | None) -> EpochLook | None:
    """Return what looks at blobs and graph of the epoch; without a belief nothing is judged."""
    if belief is None:
        return None
    from provstore.api.verifying_epoch import EpochLook

    if request.source != BOTH:
        return EpochLook(run.journal, run.bundles, request.epoch, lambda: contextlib.nullcontext((None, "as asked")))
    return EpochLook(run.journal, run.bundles, request.epoch, opens)


def epoch_facts(run: StoredRun, epoch: int) -> EpochFacts:
    """Return what is stored of an epoch, as a restore plan needs it, and which tables of it cannot be read."""
    bundles = run.of_epoch(epoch)
    first = bundles[0].record
    spans = [one.record["steps"] for one in bundles if one.record["steps"]]
    steps = (min(one[0] for one in spans), max(one[1] for one in spans)) if spans else None
    earlier = [number for number in run.epochs if number < epoch]
    anchors, data = run.rows(epoch, roles.ANCHORS), run.rows(epoch, roles.DATA)
    headers, samplers, rng = (run.rows(epoch, role) for role in (roles.HEADERS, roles.SAMPLERS, roles.RNG))
    ranks = sorted({row["rank"] for one in bundles for row in one.record["ranks"] or ()})
    missing = set(bundles[-1].missing_ranks)
    found = EpochFacts(
        run=run.run,
        attempt=run.attempt,
        epoch=epoch,
        bundles=tuple(one.digest for one in bundles),
        is_closed=all(one.record["closed"] for one in bundles),
        steps=steps,
        world_size=first["world_size"],
        ranks=tuple(ranks),
        missing_ranks=tuple(sorted(missing - set(ranks))),
        environment=first["environment"],
        is_first=not earlier and (steps is None or steps[0] <= 1),
        headers=headers,
        data=data,
        samplers=samplers,
        rng=rng,
        anchors=anchors,
    )
    found = _with_checkpoints(found, run, earlier)
    return replace(found, unread=_unread(run.lost, epoch))


def _with_checkpoints(facts: EpochFacts, run: StoredRun, earlier: Sequence[int]) -> EpochFacts:
    """Return the facts with what is read of earlier epochs: back to the checkpoint that is nearest, no further."""
    for number in (facts.epoch, *reversed(earlier)):
        facts = replace(facts, checkpoints=(*run.rows(number, roles.CHECKPOINTS), *facts.checkpoints))
        if nearest(facts) is not None:
            break
    if steps_to_catch_up(facts):
        facts = replace(facts, earlier_rng=[row for number in earlier for row in run.rows(number, roles.RNG)])
    return facts


def _unread(lost: Sequence[Unreadable], epoch: int) -> dict[str, tuple[str, str]]:
    """Return which tables that a plan of the epoch needs cannot be read, and how its items stand therefore."""
    found: dict[str, tuple[str, str]] = {}
    for one in lost:
        state = MISMATCH if one.state == "damaged" else MISSING
        where = "" if one.epoch == epoch else f"epoch {one.epoch}: "
        found.setdefault(one.role, (state, f"{where}{one.words}"))
    return found


def _require_rank(request: ReplayRequest, facts: EpochFacts) -> None:
    if request.rank is not None and facts.ranks and request.rank not in facts.ranks:
        raise InputError(f"{request.run}: rank {request.rank}: not recorded in epoch {request.epoch}")


def _page(run: StoredRun, request: ReplayRequest) -> list[Action]:
    """Return one page of a rank's actions and one more, if there is one."""
    if request.rank is None:
        return []
    mine = run.actions_of_rank(request.epoch, request.rank)
    return list(itertools.islice(mine, request.offset, request.offset + request.limit + 1))


def _against(run: StoredRun, other: StoredRun, epoch: int) -> AnchorComparison:
    if (run.run, run.attempt) == (other.run, other.attempt):
        raise InputError(f"{run.run}: attempt {run.attempt}: --against: is compared with itself")
    found = comparable_anchors(run, other, (epoch,))
    return with_generators(found, run, other, (epoch,))


def _notes(run: StoredRun, executed: Sequence[Recomputed] | None, request: ReplayRequest) -> tuple[str, ...]:
    notes = []
    is_index_read = not run.unreadable(roles.SNAPSHOTS_INDEX, epoch=request.epoch)
    if request.attempt is None and len(run.attempts) > 1:
        notes.append(
            f"attempt {run.attempt} was chosen of {', '.join(map(str, run.attempts))}: --attempt names another"
        )
    if executed is not None and not executed and is_index_read:
        notes.append("nothing was recomputed: of no collective of the epoch were bytes kept (mode full keeps them)")
    return tuple(notes)


def _action(one: Action) -> dict[str, object]:
    return {
        "action_id": one.action_id,
        "op": one.op,
        "rank": one.rank,
        "step": one.step,
        "group": one.group,
        "seq": one.seq,
        "name": one.name,
        "mode": one.mode,
        "policy_mode": one.policy_mode,
        "shortfall": list(one.shortfall),
        "digest_in": one.digest_in,
        "digest_out": one.digest_out,
    }
