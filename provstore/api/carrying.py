"""Which recorded actions and bundles carry a finding, asked by its code or id: of graph and journal together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from provstore import config
from provstore.analysis.suspicion import ORIGIN
from provstore.api.evidence_export import Evidence
from provstore.api.opening import Opened, open_both
from provstore.api.suspecting import suspected
from provstore.errors import ConfigError, IncompleteError, InputError
from provstore.journal import Journal
from provstore.model.codes import ACTION_FINDINGS, FINDINGS
from provstore.model.evidence_report import CarriedFinding, CarriedPage, EvidenceList, RunEvidence
from provstore.model.signal_codes import SIGNALS
from provstore.model.suspicion import UNREADABLE
from provstore.queries.findings import NamedAction, StoredFinding, named_actions, stored_findings
from provstore.stores import GraphStore

LEAST_PREFIX = 4
DEFAULT_LIMIT = 50
_MOST_CANDIDATES = 20
_CODES = frozenset(one.name for one in (*FINDINGS, *ACTION_FINDINGS, *SIGNALS))
_JUDGED = frozenset((ORIGIN, *(one.name for one in ACTION_FINDINGS)))
"""Codes of what is judged from the stored content of actions."""

Scope = tuple[str, int]


def listed_with(
    finding: str,
    run: str | None = None,
    attempt: int | None = None,
    *,
    epoch: int | None = None,
    mode: str | None = None,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    store: str | None = None,
    journal: str | Path | None = None,
) -> EvidenceList:
    """Return the evidence that carries a finding: one of a saved diagnosis, of recorded content, or seen beside a job.

    Args:
        finding: Code, such as ``replica-disagreement``, or the id of a finding or its beginning.
        run: Only this run; so does ``attempt`` narrow it.
        attempt: See ``run``.
        epoch: Only this training epoch.
        mode: Only training epochs whose weakest recorded mode is this one.
        limit: Rows of the page.
        offset: Rows before it.
        store: Address of the store.
        journal: Directory of the journal, where the address does not tell it.

    Raises:
        ConfigError: No such mode, or a limit or offset below 0.
        InputError: No such run; no such code, and no finding has this id, or several begin with it.
        IncompleteError: No finding has this id, and not everything could be read that findings are judged by.
        StoreError: The store cannot be read.
        TrustError: A record is malformed.
    """
    uri = config.store_uri(store)
    with contextlib.ExitStack() as exits:
        opened = open_both(uri, config.journal_directory(uri, journal), exits, read_only=True, progress=None)
        return carried(opened, finding, (run, attempt), epoch=epoch, mode=mode, page=(limit, offset))


def carried(
    opened: Opened,
    finding: str,
    asked: tuple[str | None, int | None],
    *,
    epoch: int | None,
    mode: str | None,
    page: tuple[int, int],
) -> EvidenceList:
    """Do what :func:`listed_with` does, with a store that is open; ``page`` is limit and offset."""
    limit, offset = page
    for name, number in (("--limit", limit), ("--offset", offset)):
        if number < 0:
            raise ConfigError(f"{number}: {name}: is below 0")
    everything = Evidence(opened.journal).listed(*asked, epoch=epoch, mode=mode)
    rows: list[CarriedFinding] = []
    notes: list[str] = []
    for one in everything.runs:
        bundles = {found.epoch: found.digest for found in one.recorded}
        found = _of(opened.journal, opened.graph, (one.run, one.attempt), finding, notes)
        rows += (row for row in _placed(found, bundles) if _is_asked(row, bundles, epoch, mode))
    keys = sorted({row.finding for row in rows})
    if finding not in _CODES and len(keys) != 1:
        _refuse(finding, keys, notes)
    shown = CarriedPage(finding, tuple(rows[offset : offset + limit]), len(rows), offset, tuple(notes))
    runs = tuple(one for one in (_only(one, rows) for one in everything.runs) if one is not None)
    return EvidenceList(runs, shown)


def _of(journal: Journal, graph: GraphStore, scope: Scope, asked: str, notes: list[str]) -> Iterator[CarriedFinding]:
    """Yield what carries a finding in one attempt; what could not be read for it is added to the notes."""
    if asked in _JUDGED or asked not in _CODES:
        judged = suspected(journal, *scope, of_nan=asked == ORIGIN)
        notes += (f"{scope[0]}, attempt {scope[1]}: {one.what}" for one in judged.undecided if one.code == UNREADABLE)
        for one in judged.suspicious:
            if _fits(asked, one.finding.code, one.finding.key):
                stored = StoredFinding(
                    one.finding.key, one.finding.code, one.finding.confidence, one.finding.summary, (), None, None
                )
                act = one.action
                yield _row(
                    scope,
                    stored,
                    NamedAction(act.action_id, act.rank, act.op, act.group, act.seq, act.step, act.epoch),
                )
    for stored in stored_findings(graph, *scope):
        if _fits(asked, stored.code, stored.key):
            named = list(named_actions(graph, *scope, stored))
            yield from (_row(scope, stored, action) for action in named)
            if not named:
                yield _row(scope, stored, None)


def _fits(asked: str, code: str, key: str) -> bool:
    if asked in _CODES:
        return asked == code
    return asked == key or (len(asked) >= LEAST_PREFIX and key.startswith(asked))


def _row(scope: Scope, found: StoredFinding, action: NamedAction | None) -> CarriedFinding:
    row = CarriedFinding(*scope, found.code, found.key, found.confidence, found.summary, None)
    if action is None:
        return row
    return replace(
        row,
        action_id=action.action_id,
        rank=action.rank,
        op=action.op,
        group=action.group,
        seq=action.seq,
        step=action.step,
        epoch=action.epoch,
    )


def _placed(rows: Iterator[CarriedFinding], bundles: Mapping[int, str]) -> Iterator[CarriedFinding]:
    for row in rows:
        yield row if row.epoch is None else replace(row, bundle=bundles.get(row.epoch))


def _is_asked(row: CarriedFinding, bundles: Mapping[int, str], epoch: int | None, mode: str | None) -> bool:
    return (epoch is None and mode is None) or (row.epoch is not None and row.epoch in bundles)


def _only(one: RunEvidence, rows: list[CarriedFinding]) -> RunEvidence | None:
    """Return a run with the training epochs that carry the finding; ``None`` where nothing of it does."""
    own = [row for row in rows if (row.run, row.attempt) == (one.run, one.attempt)]
    if not own:
        return None
    epochs = {row.epoch for row in own}
    return replace(one, recorded=tuple(found for found in one.recorded if found.epoch in epochs))


def _refuse(asked: str, keys: list[str], notes: list[str]) -> None:
    if not keys and notes:
        raise IncompleteError(f"{asked}: --finding: no finding that can be told has this id: {notes[0]}")
    if not keys:
        known = ", ".join(sorted(_CODES))
        raise InputError(
            f"{asked}: --finding: no such code, and no finding that is stored has this id", hint=f"codes are {known}"
        )
    more = f" and {len(keys) - _MOST_CANDIDATES} more" if len(keys) > _MOST_CANDIDATES else ""
    listed = ", ".join(keys[:_MOST_CANDIDATES])
    raise InputError(f"{asked}: --finding: {len(keys)} fit: {listed}{more}", hint="write more of the id")
