"""Suspicious actions of a stored run, from what its journal holds of their content."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from provstore.analysis.outliers import Sizes
from provstore.analysis.rank_lists import ranks_text
from provstore.analysis.replicas import Drift
from provstore.analysis.step_batches import RankData, with_batches
from provstore.analysis.suspicion import ORIGIN, suspicious
from provstore.api.drifting import stored_drifts
from provstore.api.stored_tables import StoredTables, notes, ranks_without
from provstore.errors import InputError
from provstore.evidence.content import statistics_line
from provstore.evidence.epoch_bundles import ANCHORS, CHECKPOINTS, DATA, STATISTICS, STEPS
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.action import Action
from provstore.model.finding import TrainingBatch, Undecided
from provstore.model.suspicion import Suspicion

_CONTENT = (b'"finite_in":false', b'"finite_out":false', b'"post_state_digest"', b'"delta_ref"')
"""What a record of an action holds that a finding can be made of."""
_NO_ACTIONS = Undecided(
    "no_calls", "no action of this run is recorded", "provstore record takes in what a job captured"
)
_NO_CONTENT = Undecided(
    "no_values",
    "nothing of the tensors' content is recorded: only which calls there were",
    "capture the job with provstore.capture.evidence",
)


def suspected(journal: Journal, run: str, attempt: int, epoch: int | None = None, *, of_nan: bool = False) -> Suspicion:
    """Return the suspicious actions of one attempt, or of one training epoch of it.

    A table beside the records that cannot be read is named among what stays open, ``unreadable_table``; the rest is
    told.

    Args:
        journal: Where the records are.
        run: The run.
        attempt: Its incarnation.
        epoch: Training epoch; all if it is not given.
        of_nan: Only what tells of values that are not finite is read.

    Raises:
        StoreError: The journal is damaged there.
        TrustError: A record is malformed.
    """
    return suspected_in(journal, run, attempt, (epoch,), of_nan=of_nan)[epoch]


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Let the collector of reference cycles rest: it would visit every action over and over, and none is in a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collecting()
def suspected_in(
    journal: Journal, run: str, attempt: int, epochs: Sequence[int | None], *, of_nan: bool = False
) -> dict[int | None, Suspicion]:
    """Return the suspicious actions of several training epochs of one attempt, and of all of it for ``None``.

    Everything is read once; see :func:`suspected`.

    Raises:
        StoreError: The journal is damaged there.
        TrustError: A record is malformed.
    """
    log = journal.evidence(run, attempt)
    stored = recording.stored_bundles(journal, run, attempt)
    tables = StoredTables(journal)
    compared = [one for one in stored if not of_nan and any(e is None or one.epoch <= e for e in epochs)]
    drifts = stored_drifts(tables, compared)
    gaps = tables.unreadable(ANCHORS, CHECKPOINTS)
    has_content = next(log.lines(*_CONTENT), None) is not None
    found: dict[int | None, Suspicion] = {}
    judged: dict[tuple[int, ...], Suspicion] = {}
    actions: list[Action] | None = None
    for epoch in epochs:
        bundles = [one for one in stored if epoch in {None, one.epoch}]
        known = [one for one in drifts if epoch is None or one.place[0] <= epoch]
        gone = notes(one for one in gaps if epoch is None or one.epoch <= epoch)
        if not (known or has_content):
            # Only identities are stored: nothing can be told, and nothing needs to be read.
            found[epoch] = _without_content(bundles, gone)
            continue
        if actions is None:
            actions = list(recording.actions(journal, run, attempt, epoch if len(epochs) == 1 else None))
        own = actions if epoch is None else [one for one in actions if one.epoch == epoch]
        # Of an attempt with one epoch, all of it is that epoch.
        key = (len(own), *(one.index for one in bundles))
        if key not in judged:
            one = _judged(tables, bundles, own, known, epoch, of_nan=of_nan)
            judged[key] = replace(one, undecided=(*one.undecided, *gone))
        found[epoch] = judged[key]
    return found


def _without_content(bundles: Sequence[StoredBundle], gone: Sequence[Undecided]) -> Suspicion:
    counted = sum(int(one.record["actions"]["count"]) for one in bundles)
    none = {"actions": counted, "with_digests": 0, "with_flags": 0, "with_statistics": 0}
    return Suspicion(undecided=(_NO_CONTENT if counted else _NO_ACTIONS, *gone), coverage=none)


def _judged(
    tables: StoredTables,
    bundles: Sequence[StoredBundle],
    actions: Sequence[Action],
    drifts: Sequence[Drift],
    epoch: int | None,
    *,
    of_nan: bool,
) -> Suspicion:
    sizes = {} if of_nan else _sizes(tables, bundles)
    epochs = {one.epoch for one in bundles}
    # Of an epoch that has lost statistics, ranks would be compared with those whose statistics happen to be left.
    partly = {one.epoch for one in tables.unreadable(STATISTICS, epochs=epochs)}
    found = suspicious(
        actions,
        (lambda action: None if action.epoch in partly else _put_in(action, sizes)) if sizes else None,
        losses=_losses(tables, bundles),
        drifts=[one for one in drifts if epoch in {None, one.place[0]}],
    )
    found = _told_batches(tables, bundles, actions, found)
    gone = notes(tables.unreadable(STEPS, STATISTICS, epochs=epochs))
    found = replace(found, undecided=(*found.undecided, *_earlier(drifts, epoch), *gone))
    unflagged = found.coverage["calls"] - found.coverage["with_flags"]
    if not unflagged:
        return found
    what = f"finite flags of {unflagged} of {found.coverage['calls']} calls are missing: a NaN there would not be seen"
    note = Undecided("no_values", what, "evidence show tells the shortfall of each", blocks_answer=False)
    return replace(found, undecided=(*found.undecided, note))


def _earlier(drifts: Sequence[Drift], epoch: int | None) -> Iterator[Undecided]:
    """Yield what began in an epoch before the one asked for: nothing of this epoch is its cause."""
    for one in drifts:
        if epoch is not None and one.place[0] < epoch:
            ranks = one.minority or one.members
            what = (
                f"ranks {ranks_text(ranks)}: hold other {one.what} than their replicas since step {one.place[1]} of "
                f"epoch {one.place[0]}"
            )
            text = f"ask for epoch {one.place[0]}"
            yield Undecided("tie" if not one.minority else "no_calls", what, text, ranks, blocks_answer=False)


def _told_batches(
    tables: StoredTables, bundles: Sequence[StoredBundle], actions: Sequence[Action], found: Suspicion
) -> Suspicion:
    """Return what was found with the batches that each origin of a NaN was recorded to have in its step."""
    origins = [one.action for one in found.suspicious if one.finding.code == ORIGIN]
    batches: dict[str, tuple[TrainingBatch, ...]] = {}
    for epoch in sorted({one.epoch for one in origins if one.epoch is not None}):
        own = {one.action_id: one.rank for one in origins if one.epoch == epoch}
        parts = [one for one in bundles if one.epoch == epoch]
        data = _data(tables, parts, actions, epoch, {*own.values()})
        told = {name: data[rank].of_action(name) for name, rank in own.items() if rank in data}
        batches |= told
        is_noted = any(one.blobs(DATA) for one in parts)
        silent = sorted({rank for name, rank in own.items() if is_noted and not told.get(name)})
        found = replace(found, undecided=(*found.undecided, *_without_batches(tables, epoch, silent)))
    named = (
        with_batches(one, batches.get(one.action.action_id, ())) if one.finding.code == ORIGIN else one
        for one in found.suspicious
    )
    return replace(found, suspicious=tuple(named)) if batches else found


def _without_batches(tables: StoredTables, epoch: int, ranks: Sequence[int]) -> Iterator[Undecided]:
    """Yield why the batches of some ranks are not told, where a table that cannot be read is the reason."""
    of_table: dict[str, list[int]] = {}
    gone = ranks_without(tables.unreadable(DATA, ANCHORS, epochs=(epoch,)), ranks)
    for rank, one in gone.items():
        of_table.setdefault(one.sha256, []).append(rank)
    for own in of_table.values():
        yield gone[own[0]].of_batches(own)


def _data(
    tables: StoredTables,
    bundles: Sequence[StoredBundle],
    actions: Sequence[Action],
    epoch: int,
    ranks: AbstractSet[int],
) -> dict[int, RankData]:
    """Return what some ranks noted of their data in one training epoch; nothing of those of whom a part is lost."""
    rows: dict[str, dict[int, list[dict[str, Any]]]] = {role: {rank: [] for rank in ranks} for role in (DATA, ANCHORS)}
    for role, bundle in ((role, bundle) for bundle in bundles for role in rows):
        for row in tables.rows(bundle, role):
            if row.get("rank") in ranks:
                rows[role][row["rank"]].append(row)
    steps: dict[int, dict[str, int | None]] = {rank: {} for rank in ranks}
    for action in actions:
        if action.rank in ranks and action.epoch == epoch:
            steps[action.rank][action.action_id] = action.step
    gone, uncounted = (ranks_without(tables.unreadable(role, epochs=(epoch,)), ranks) for role in (DATA, ANCHORS))
    return {
        rank: RankData(epoch, rows[DATA][rank], None if rank in uncounted else rows[ANCHORS][rank], steps[rank])
        for rank in ranks - gone.keys()
    }


def _losses(tables: StoredTables, bundles: Sequence[StoredBundle]) -> dict[int, dict[int, float]]:
    """Return the loss that each rank stated, by rank and step: of all epochs before one whose losses are lost."""
    found: dict[int, dict[int, float]] = {}
    for row in tables.rows_until_unreadable(bundles, STEPS):
        rank, step, loss = row.get("rank"), row.get("step"), row.get("loss")
        if type(rank) is int and type(step) is int and isinstance(loss, str):
            with contextlib.suppress(InputError):
                found.setdefault(rank, {})[step] = canonical.tagged_double(loss)
    return found


def _sizes(tables: StoredTables, bundles: Sequence[StoredBundle]) -> dict[str, Sizes]:
    """Return the sizes that each stored line of statistics tells, by the reference that actions have to it."""
    found: dict[str, Sizes] = {}
    for bundle in bundles:
        for line in (line for _, lines in tables.lines(bundle, STATISTICS) for line in lines):
            ref = statistics_line.ref(line)
            if ref in found:  # what a call gives to all its ranks alike has the same line on each of them
                continue
            try:
                told = statistics_line.sizes(line)
            except InputError:
                continue
            if told is not None:
                found[ref] = Sizes(*told)
    return found


def _put_in(action: Action, sizes: Mapping[str, Sizes]) -> Sizes | None:
    """Return the size of what a rank put into a call: of two lines of statistics, that of the output is first."""
    if action.delta_ref not in sizes:
        return None
    refs = action.evidence_refs
    if len(refs) != 1:
        refs = tuple(ref for ref in refs if ref in sizes)
    return sizes.get(refs[0]) if len(refs) == 1 else None
