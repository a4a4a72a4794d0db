"""Anything given to ingest: folders and files of any known kind, and PROV documents in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from provstore import rooms
from provstore.errors import ConfigError, InputError
from provstore.ingest.evidence_folders import evidence_files
from provstore.ingest.flow import READER, ingest
from provstore.ingest.given import Request
from provstore.journal import Journal
from provstore.model.report import IngestReport
from provstore.stores import GraphStore

_HEAD_BYTES = 64 * 1024
_DOCUMENT_HEAD_BYTES = 4096
_DUMPS = READER
DOCUMENT_READERS = ("prov-json", "prov-n")
AGENT_READER, TRAINING_READER = "aep", "train-aep"
READERS = (_DUMPS, *DOCUMENT_READERS, AGENT_READER, TRAINING_READER)
EVIDENCE = "evidence"
"""Taken for agent evidence, or for a file of another recorder: never for anything else."""


def take_in(
    sources: Iterable[object], source: str | None, request: Request, journal: Journal, store: GraphStore
) -> IngestReport:
    """Take in everything that is given, each by its reader.

    Args:
        sources: Paths, and PROV documents as objects.
        source: Reader for all paths; recognised by content when not given.
        request: How to read; its paths are replaced.
        journal: Where facts are acknowledged.
        store: Where they are shown.

    Raises:
        ConfigError: No such reader.
        InputError: Nothing to read.
        StoreError: The journal or the graph cannot be written.
    """
    if source is not None and source not in (*READERS, EVIDENCE):
        raise ConfigError(f"{source}: --as: not known; known are {', '.join(READERS)}")
    given = list(sources)
    paths = [Path(one) for one in given if isinstance(one, str | os.PathLike)]
    objects = [one for one in given if not isinstance(one, str | os.PathLike)]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise InputError("\n".join(f"{path}: no such file or folder" for path in missing))
    inside = {path: _inside(path, source, request) for path in paths if path.is_dir()}
    paths = [path for path in paths if not inside.get(path)]
    readers = {path: _reader_of_evidence(path) if source == EVIDENCE else source or _reader(path) for path in paths}
    reports = []
    dumps = [path for path in paths if readers[path] == _DUMPS]
    if dumps:
        reports.append(ingest(replace(request, paths=dumps), journal, store))
    for folder, files in inside.items():
        if files:
            reports += _take_in_folder(folder, files, source, request, journal, store)
    others = [path for path in paths if readers[path] != _DUMPS]
    reports += [_take_in_file(path, readers[path], request, journal, store) for path in others]
    if objects:
        from provstore.ingest.documents import ingest_object

        reports += [ingest_object(one, journal, store) for one in objects]
    if not reports:
        raise InputError("ingest: paths: nothing was given")
    return _together(reports)


def _inside(folder: Path, source: str | None, request: Request) -> dict[Path, str]:
    """Return the files of agents' evidence in a folder, with their readers.

    Raises:
        InputError: Only such files were asked for, and there is none.
    """
    if source not in {None, EVIDENCE, AGENT_READER, TRAINING_READER}:
        return {}
    wanted = {source} if source in {AGENT_READER, TRAINING_READER} else {AGENT_READER, TRAINING_READER}

    def reader_of(path: Path) -> str | None:
        reader = _reader(path)
        return reader if reader in wanted else None

    found = evidence_files(folder, reader_of, recursive=request.options.recursive)
    if not found and source is not None:
        raise InputError(f"{folder}: agent evidence: no file of this folder holds any")
    return found


def _take_in_folder(
    folder: Path, files: Mapping[Path, str], source: str | None, request: Request, journal: Journal, store: GraphStore
) -> Iterator[IngestReport]:
    """Yield what became of the evidence of a folder, and of the dumps beside it."""
    if source is None:
        with contextlib.suppress(InputError):
            # There is no dump beside it.
            report = ingest(replace(request, paths=[folder]), journal, store)
            names = {path.relative_to(folder).as_posix() for path in files}
            yield replace(report, files=tuple(one for one in report.files if one.file not in names))
    for path, reader in files.items():
        yield _take_in_file(path, reader, request, journal, store)


def _take_in_file(path: Path, reader: str, request: Request, journal: Journal, store: GraphStore) -> IngestReport:
    if reader == AGENT_READER:
        from provstore.ingest import agent_chains

        return agent_chains.ingest_file(path, request, journal, store)
    if reader == TRAINING_READER:
        from provstore.ingest import training_imports

        return training_imports.ingest_file(path, request, journal, store)
    from provstore.ingest import documents

    return documents.ingest_file(path, reader, request, journal, store)


def _reader_of_evidence(path: Path) -> str:
    return TRAINING_READER if path.is_file() and _reader(path) == TRAINING_READER else AGENT_READER


def _reader(path: Path) -> str:
    """Return which reader recognises a file by its first bytes; a folder is one of dumps."""
    if not path.is_file():
        # A folder holds dumps; what is neither is refused by their reader, which never waits for a pipe.
        return _DUMPS
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        # The reader of dumps reports a file that cannot be read, and goes on with the others.
        return _DUMPS
    for reader in DOCUMENT_READERS:
        if rooms.load("sources", reader).recognises(head[:_DOCUMENT_HEAD_BYTES], path.name):
            return reader
    if rooms.load("sources", TRAINING_READER).recognises(head):
        return TRAINING_READER
    return AGENT_READER if rooms.load("sources", AGENT_READER).recognises(head) else _DUMPS


def _together(reports: Sequence[IngestReport]) -> IngestReport:
    last = reports[-1]
    return replace(
        last,
        files=tuple(file for report in reports for file in report.files),
        runs=tuple(dict.fromkeys(run for report in reports for run in report.runs)),
        run_from=reports[0].run_from,
        facts=sum(report.facts for report in reports),
        interrupted=any(report.interrupted for report in reports),
    )
