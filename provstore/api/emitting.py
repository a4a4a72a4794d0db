"""Files of a replay: the plan, its script, random states to restore, and what may be stated of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from provstore import config
from provstore.api.replaying import Replay
from provstore.api.stored_runs import opened_journal, stored_run
from provstore.errors import ConfigError, InputError
from provstore.evidence.replay import documents
from provstore.evidence.replay.epoch import PRESENT
from provstore.evidence.replay.plan import CHECKPOINT, RNG
from provstore.evidence.replay.script import rng_name, script_of

if TYPE_CHECKING:
    from provstore.journal import Journal

PLAN, SCRIPT = "plan.json", "restore.py"
Files = dict[str, bytes]


def emit(
    replay: Replay,
    directory: Path,
    *,
    fork_reason: str = "other",
    store: str | None = None,
    journal: str | Path | None = None,
    version: str,
) -> Replay:
    """Write the files of a replay; the digest of each document becomes a record of the run, which seal signs.

    Args:
        replay: What was planned and checked.
        directory: New, or empty.
        fork_reason: Why a fork is made, one of ``documents.FORK_REASONS``.
        store: Address of the store.
        journal: Directory of its journal.
        version: Of the program that checked.

    Raises:
        ConfigError: The directory is in use, or something would be stated that was not shown.
        StoreError: The journal cannot be read, or not be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(f"{directory}: --emit: is no empty folder")
    from provstore.api.control import require_allowed

    now_ns = time.time_ns()
    stated, notes = _documents(replay, fork_reason, f"provstore/{version}", now_ns)
    if stated:
        require_allowed("replay --emit", store, journal)
    with opened_journal(store, journal) as found:
        files = dict(_plain(replay, found)) | stated
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    if stated:
        notes += _recorded(replay, stated, store, journal)
    emitted = tuple(directory / name for name in files)
    return replace(replay, emitted=emitted, notes=(*replay.notes, *notes))


def _documents(replay: Replay, fork_reason: str, engine: str, now_ns: int) -> tuple[Files, tuple[str, ...]]:
    """Return what may be stated, and why something may not."""
    plan, notes = replay.plan, list[str]()
    if replay.is_unverified:
        return {}, ("nothing is stated of evidence that does not hold",)
    found: dict[str, documents.Document] = {}
    checkpoint = plan.item(CHECKPOINT)
    if checkpoint.state == PRESENT and checkpoint.digest is not None:
        found[documents.CHECKPOINT_EVIDENCE] = documents.checkpoint_evidence(plan, now_ns)
        if plan.is_fork:
            found[documents.FORK] = documents.fork(plan, fork_reason, now_ns)
            found[documents.CHECKPOINT] = documents.checkpoint(plan, now_ns)
    else:
        notes.append("there is no checkpoint to state anything of")
    try:
        found[documents.REPLAY_EVIDENCE] = documents.replay_evidence(plan, replay.check, engine, now_ns)
    except ConfigError as error:
        notes.append(str(error))
    for kind, document in found.items():
        if not documents.require_valid(kind, document):
            notes.append(f"{kind}: not compared with its schema: the extra evidence is not installed")
    return {f"{kind}.json": _bytes(document) for kind, document in found.items()}, tuple(notes)


def _plain(replay: Replay, journal: Journal) -> Iterator[tuple[str, bytes]]:
    """Yield plan, script and the random states that are there."""
    plan = replay.plan
    yield PLAN, _bytes({"unverified": replay.is_unverified, **plan.to_dict()})
    mark = "# UNVERIFIED: the evidence behind it does not hold.\n" if replay.is_unverified else ""
    yield SCRIPT, (mark + script_of(plan)).encode()
    run = stored_run(journal, plan.run, plan.attempt)
    item = plan.item(RNG)
    for rank, digest in item.parts.items() if item.state == PRESENT else ():
        yield rng_name(rank), run.random_state(digest)


def _bytes(document: Mapping[str, object]) -> bytes:
    import orjson

    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _recorded(replay: Replay, stated: Files, store: str | None, journal: str | Path | None) -> tuple[str, ...]:
    """Keep the digests of the documents as records; return what could not be kept."""
    from provstore.api.opening import journal_for_writing
    from provstore.evidence import stated as statements
    from provstore.ingest import sealing
    from provstore.model.evidence import Observation

    plan = replay.plan
    items = [
        Observation(
            "provstore.document",
            {"kind": name.removesuffix(".json"), "epoch": plan.epoch, "sha256": hashlib.sha256(data).hexdigest()},
        )
        for name, data in stated.items()
    ]
    uri = config.store_uri(store)
    writing = journal_for_writing(uri, config.journal_directory(uri, journal))
    with writing:
        try:
            ledger = sealing.load(writing, (plan.run, plan.attempt))
            sealing.record(writing, ledger, statements.statements(items, plan.run))
        except InputError as error:
            return (f"the digests of the documents could not be recorded: {error}",)
    return ("the digests of the documents are records of the run now; provstore seal signs them",)
