"""Replaying an epoch of a stored run: verified first, then planned, recomputed, compared with a re-run."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from provstore import config
from provstore.api.causes import drifted
from provstore.api.random_states import with_generators
from provstore.api.reexecuting import Recomputed, collectives, recomputed
from provstore.api.stored_runs import StoredRun, Trustworthiness, opened_journal, stored_run, trustworthiness
from provstore.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED, ConfigError, InputError
from provstore.evidence import epoch_bundles as roles
from provstore.evidence.replay import (
    AnchorComparison,
    EpochFacts,
    RestorePlan,
    compare_anchors,
    restore_plan,
    skips_in,
)
from provstore.evidence.replay.checkpoints import Given
from provstore.evidence.replay.documents import Check
from provstore.evidence.replay.plan import EXACT_POSSIBLE, NOT_POSSIBLE
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

    @property
    def is_unverified(self) -> bool:
        """Whether evidence was used that does not hold."""
        return self.trust.is_ignored or (self.rerun_trust is not None and self.rerun_trust.is_ignored)

    @property
    def exit_code(self) -> int:
        """0 exact, 1 a difference or not possible, 3 undecided."""
        codes = []
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
        if not codes:
            verdict = self.plan.verdict
            codes.append(
                EXIT_OK if verdict == EXACT_POSSIBLE else EXIT_NO if verdict == NOT_POSSIBLE else EXIT_UNDECIDED
            )
        return EXIT_NO if EXIT_NO in codes else max(codes)

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
        StoreError: The journal cannot be read.
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
    executed, count = None, 0
    if request.execute:
        count = collectives(run, request.epoch)
        executed = tuple(recomputed(run, request.epoch, request.instance, request.rank))
    notes = _notes(run, executed, is_chosen=request.attempt is None)
    anchors = again = None
    if request.against:
        other = stored_run(journal, request.against, None, request.epoch)
        again = trustworthiness(other, belief, unverified=request.unverified)
        anchors = _against(run, other, request.epoch)
        notes = (*notes, *drifted((run, other), request.epoch))
    is_part = request.instance is not None or request.rank is not None
    shown = tuple(page[: request.limit])
    has_more = len(page) > request.limit
    return Replay(plan, trust, shown, has_more, executed, count, is_part, anchors, notes, rerun_trust=again)


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
    """Return what is stored of an epoch, as a restore plan needs it.

    Raises:
        StoreError: A table is missing or altered.
    """
    bundles = run.of_epoch(epoch)
    first = bundles[0].record
    spans = [one.record["steps"] for one in bundles if one.record["steps"]]
    steps = (min(one[0] for one in spans), max(one[1] for one in spans)) if spans else None
    earlier = [number for number in run.epochs if number < epoch]
    anchors = run.rows(epoch, roles.ANCHORS)
    checkpoints = [row for number in (*earlier, epoch) for row in run.rows(number, roles.CHECKPOINTS)]
    ranks = sorted({row["rank"] for one in bundles for row in one.record["ranks"] or ()})
    missing = set(bundles[-1].missing_ranks)
    return EpochFacts(
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
        headers=run.rows(epoch, roles.HEADERS),
        data=run.rows(epoch, roles.DATA),
        samplers=run.rows(epoch, roles.SAMPLERS),
        rng=run.rows(epoch, roles.RNG),
        anchors=anchors,
        checkpoints=checkpoints,
        earlier_rng=[row for number in earlier for row in run.rows(number, roles.RNG)],
    )


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
    pairs = [(one.rows(epoch, roles.ANCHORS), one.rows(epoch, roles.DATA)) for one in (run, other)]
    (left, left_data), (right, right_data) = pairs
    found = compare_anchors(left, right, other.run, (left_data, right_data))
    return with_generators(found, run, other, (epoch,))


def _notes(run: StoredRun, executed: Sequence[Recomputed] | None, *, is_chosen: bool) -> tuple[str, ...]:
    notes = []
    if is_chosen and len(run.attempts) > 1:
        notes.append(
            f"attempt {run.attempt} was chosen of {', '.join(map(str, run.attempts))}: --attempt names another"
        )
    if executed is not None and not executed:
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
