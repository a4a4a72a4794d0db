"""What needs no open store: opening one, diagnosing files, rebuilding a graph, listing the queries."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from provstore import config, cypher
from provstore.api.opening import GRAPH_FILE, existing
from provstore.api.store import Store
from provstore.errors import InputError, StoreError
from provstore.stores import open_store

if TYPE_CHECKING:
    from provstore.api.believing import Belief
    from provstore.evidence.bundles import Limits
    from provstore.evidence.keys import Signer
    from provstore.ingest.given import Progress
    from provstore.ingest.repair import AlterableStore
    from provstore.journal import Journal
    from provstore.model.finding import Diagnosis
    from provstore.model.report import Answer, RebuildReport
    from provstore.model.verification import Verification
    from provstore.stores import GraphStore


def open(  # noqa: A001 - the public name is ``provstore.open``
    uri: str | None = None,
    *,
    journal: str | Path | None = None,
    read_only: bool = False,
    progress: Progress | None = None,
    signer: Signer | None = None,
    limits: Limits | None = None,
) -> Store:
    """Open a store with its journal; a graph that is behind its journal catches up first.

    Args:
        uri: ``embedded:DIRECTORY``, ``memory:`` or a Neo4j address; else ``PROVSTORE_STORE``; else
            ``embedded:.provstore``.
        journal: Directory of the journal; else ``PROVSTORE_JOURNAL``, else beside the embedded store.
        read_only: Take no lock and change nothing, except to catch up when nobody else writes.
        progress: Called with (done, total, what) during long work.
        signer: Sign in the background what is ingested and recorded, and the rest on closing.
        limits: When an evidence epoch closes at the latest, with a signer.

    Raises:
        ConfigError: The address is not one of a store.
        StoreError: The store or its journal is missing, damaged, locked by another process, or does not answer.
    """
    return Store(config.store_uri(uri), journal, read_only=read_only, progress=progress, signer=signer, limits=limits)


def belief(
    *,
    public_keys: Sequence[str | Path] = (),
    trust_file: str | Path | None = None,
    pin: str | None = None,
    first_use: bool = False,
    anchors: Iterable[str | Path] = (),
    state: str | Path | None = None,
    at: str | None = None,
    org: str = "provstore",
    allow: Sequence[str] = (),
    tsa: Sequence[str | Path] = (),
    outside: Iterable[Path] = (),
) -> Belief:
    """Return what a verification believes: whose signatures count, and which checkpoints were seen before.

    Args:
        public_keys: Files with public keys in any form; instead of a trust file.
        trust_file: The trust file; else ``PROVSTORE_TRUST``, else that of the user.
        pin: Fingerprint of a root key of a trust file that was never believed before.
        first_use: Believe the root keys of a trust file that was never pinned; every answer says so.
        anchors: Checkpoints, or directories of them, held elsewhere.
        state: Directory of the verifier's own anchors; else ``PROVSTORE_ANCHORS``, else that of the user.
        at: Date, or time with its zone, at which keys are judged, ISO 8601; the present when not given.
        org: First part of the origin of checkpoints.
        allow: Limits that do not change the exit code: ``unanchored``, ``open``, ``tail``.
        tsa: Certificates of time-stamping authorities: a time stamp beside an anchor (``<file>.tsr``) dates it.
        outside: Directories of the store to be judged: a trust file inside one is refused unread.

    Raises:
        ConfigError: There is neither a key nor a trust file, or no such limit.
        InputError: A file cannot be read.
        TrustError: A key is weak, or the trust file or an anchor does not hold.
    """
    from provstore.api.believing import belief as make
    from provstore.evidence.trust.fields import moment

    return make(
        public_keys=public_keys,
        trust_file=trust_file,
        pin=pin,
        first_use=first_use,
        anchors=anchors,
        state=state,
        at=None if at is None else moment(at, "at"),
        org=org,
        allow=allow,
        tsa=tsa,
        outside=outside,
    )


def verify(*paths: str | Path, belief: Belief, blobs: bool = True) -> tuple[Verification, ...]:
    """Verify exported evidence, one answer a directory or file; no store is needed.

    Args:
        paths: Directories or files.
        belief: Whose signatures count; ``provstore.belief()`` makes one.
        blobs: Look at the bytes that bundles name by their SHA-256, where a directory carries them as ``blobs/``.

    Raises:
        InputError: A directory holds no exported evidence, or a file cannot be read.
    """
    from provstore.api.verifying_exports import verify_files

    return verify_files(map(Path, paths), belief, blobs=blobs)


def diagnose(
    *paths: str | Path,
    about: str | None = None,
    rank_regex: str | None = None,
    rank_map: Mapping[str, int] | None = None,
    recursive: bool = False,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say which rank and which call a hang, a mismatch, a slow step or a NaN starts from; no store is needed.

    Args:
        paths: Folders of dumps, or dumps, of one attempt of one run.
        about: ``hang``, ``nan`` or ``slow``; everything when not given.
        rank_regex: How a file name tells the rank: an expression with a group named ``rank``.
        rank_map: File name → rank, for names that tell nothing.
        recursive: Look into subfolders too.
        progress: Called with (done, total, what) while reading.

    Raises:
        InputError: There is nothing to read, or the files are of several runs or attempts.
    """
    from provstore import analysis
    from provstore.api.answers import timing
    from provstore.graph.merge import merge
    from provstore.ingest.given import Request, consistent, gather
    from provstore.model.dump import DumpSet
    from provstore.sources.flight_recorder import ReadOptions

    started = time.perf_counter()
    options = ReadOptions(rank_regex=rank_regex, rank_map=rank_map, recursive=recursive)
    gathered = gather(Request([Path(path) for path in paths], options=options, progress=progress))
    if len(gathered.scopes) != 1:
        found = ", ".join(f"{run} attempt {attempt}" for run, attempt in gathered.scopes) or "none"
        raise InputError(
            f"{', '.join(map(str, paths))}: runs: {found}; a diagnosis is about one attempt of one run",
            hint="give the files of one attempt, or ingest them and diagnose run:ID --attempt N",
        )
    ((run, attempt), given) = next(iter(gathered.scopes.items()))
    dumps, refused = consistent(given.dumps)
    refusals = [*given.refusals, *(refusal for refusal, _ in refused), *gathered.strays]
    read = time.perf_counter()
    evidence = DumpSet(run, attempt, merge(dumps).dumps, refusals, given.tensors)
    answer = analysis.diagnose(evidence, analysis.Options(about=about))
    return replace(answer, timing=timing(started, read))


def rebuild(
    uri: str | None = None, *, journal: str | Path | None = None, progress: Progress | None = None
) -> RebuildReport:
    """Recreate a graph from its journal; a damaged graph file need not open.

    An embedded graph is written beside the old one and swapped in. On a server, what is not as it was recorded is
    removed, and everything the journal holds is written again.

    Raises:
        StoreError: There is no journal, it is locked, or the graph cannot be written.
    """
    from provstore.ingest.upkeep import replay
    from provstore.journal import Journal
    from provstore.model.report import RebuildReport
    from provstore.queries.info import node_counts

    address = config.store_uri(uri)
    problems: list[str] = []
    with Journal.open(existing(config.journal_directory(address, journal), address), writable=True) as held:
        directory = config.embedded_directory(address)
        with contextlib.ExitStack() as stack:
            place = address
            if directory is not None:
                beside = stack.enter_context(tempfile.TemporaryDirectory(dir=directory, prefix="rebuild-"))
                place = f"embedded:{beside}"
            with contextlib.closing(open_store(place, writable=True)) as store:
                if directory is None:
                    problems += _forget(store, held)
                batches = replay(store, held, 0, progress, lambda problem: problems.append(str(problem)))
                counts = node_counts(store)
            if directory is not None:
                problems += _set_aside(address, directory, held)
                (Path(beside) / GRAPH_FILE).replace(directory / GRAPH_FILE)
        return RebuildReport(batches, held.position, counts, tuple(problems))


def _forget(server: GraphStore, journal: Journal) -> list[str]:
    """Remove from a server what is not as it was recorded; return what had to stay."""
    from provstore.ingest.repair import forget_what_differs

    with contextlib.closing(open_store("memory:", writable=True)) as empty:
        return forget_what_differs(cast("AlterableStore", server), journal, empty)


def _set_aside(address: str, directory: Path, journal: Journal) -> list[str]:
    """Keep a graph that holds what its journal does not, and say so; one that cannot be read is an index no more."""
    from provstore.queries.info import foreign_journal, lost

    path = directory / GRAPH_FILE
    if not path.exists():
        return []
    try:
        with contextlib.closing(open_store(address, writable=False)) as old:
            other = foreign_journal(old, journal)
            gone = lost(old, journal)
            found = (
                f"acked-lost: {gone}"
                if gone
                else (f"the old graph was made from another journal ({other})" if other else None)
            )
    except StoreError:
        return []
    if found is None:
        return []
    kept = directory / f"{path.stem}-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}{path.suffix}"
    path.replace(kept)
    return [f"{found}; it is kept as {kept.name}"]


def shipped_queries() -> Answer:
    """Return the shipped queries with what they answer, take and give."""
    from provstore.api.answers import READ_QUERIES
    from provstore.model.report import Answer

    rows = []
    for name in cypher.names("read"):
        query = cypher.query(name)
        rows.append(
            {
                "name": name.removeprefix(READ_QUERIES),
                "answers": query.summary,
                "parameters": ", ".join(query.params),
                "returns": ", ".join(query.returns),
            }
        )
    return Answer(("name", "answers", "parameters", "returns"), tuple(rows))
