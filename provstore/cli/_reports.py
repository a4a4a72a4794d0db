"""How the reports of ingest, export and the store commands read on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from provstore import errors
from provstore.cli._differences import differing
from provstore.cli._screen import Line
from provstore.cli._text import counted, folded, printable
from provstore.model.statuses import KNOWN, NEW, REFUSED, SKIPPED

if TYPE_CHECKING:
    from provstore.exports import ExportReport
    from provstore.model.report import CheckReport, FileReport, IngestReport, RebuildReport, StoreInfo

_NAMED_BY = {"--run": "named by --run", "sidecar": "named by the sidecars", "folder": "named after the folder"}
_STYLE = {NEW: "green", KNOWN: "dim", REFUSED: "bold red", SKIPPED: "yellow"}
_FILE_LIMIT = 20


def ingest_code(report: IngestReport) -> int:
    """Return the exit code of an ingest: interrupted over refused (or nothing usable) over done."""
    if report.interrupted:
        return errors.EXIT_INTERRUPTED
    if report.problems:
        return errors.EXIT_STORE
    usable = report.count(NEW) + report.count(KNOWN)
    return errors.EXIT_USAGE if report.count(REFUSED) or not usable else errors.EXIT_OK


def ingest_lines(report: IngestReport, *, width: int, verbose: bool = False, quiet: bool = False) -> Iterator[Line]:
    """Yield what each path was taken for, what was new, and what was left out and why."""
    for run, attempt in report.runs:
        yield from _wrapped(
            f"run {run}, attempt {attempt} ({_NAMED_BY.get(report.run_from, report.run_from)})", width, "bold"
        )
    shown = [
        file
        for file in report.files
        if verbose
        or file.status == REFUSED
        or (not quiet and (file.status == SKIPPED or file.set_aside or file.warnings))
    ]
    for file in shown if verbose else shown[:_FILE_LIMIT]:
        yield from _file(file, width, with_run=len(report.runs) > 1)
    if not verbose and len(shown) > _FILE_LIMIT:
        yield Line(f"… {counted(len(shown) - _FILE_LIMIT, 'more file')}: --verbose lists all", "dim")
    for taken_for in dict.fromkeys(file.taken_for for file in report.files if file.taken_for != "nothing"):
        yield from _wrapped(_kind_text(taken_for, report.files), width)
    for problem in report.problems:
        yield from _wrapped(f"journal: {problem}; what came in now is safe", width, "bold red")
    if report.interrupted:
        yield Line("interrupted: what is listed as new is kept; the same command completes the rest", "yellow")
    yield Line(f"{counted(report.facts, 'fact')} written, journal at {report.position}", "dim")


def export_lines(report: ExportReport, *, width: int) -> Iterator[Line]:
    """Yield what was written, and how it was checked."""
    checked = {True: ", read back equal", False: ", not read back", None: ""}[report.verified]
    yield Line(
        f"{report.format}: {counted(report.records, 'record')}, {report.characters:,} characters{checked}", "bold"
    )
    if report.hidden:
        yield Line(f"{counted(report.hidden, 'element')} left out of the picture; it says so itself", "yellow")
    for note in report.notes:
        yield from _wrapped(note, width, "dim")


def info_lines(info: StoreInfo, *, width: int) -> Iterator[Line]:
    """Yield what a store is and what it holds."""
    behind = info.position - info.applied
    yield from _pairs(
        {
            "store": info.uri,
            "engine": f"{info.engine} {info.version}",
            "journal": f"{info.journal} ({info.journal_id})",
            "position": f"{info.position}" + (f", the graph is {behind} behind" if behind > 0 else ""),
            "runs": ", ".join(f"{run}/{attempt}" for run, attempt in info.runs) or "none",
        },
        width,
    )
    for labels, count in info.counts.items():
        yield Line(f"  {count:>12,}  {printable(labels)}")


def check_code(report: CheckReport) -> int:
    """Return the exit code of a check."""
    if report.problems or report.difference_count:
        return errors.EXIT_STORE
    return errors.EXIT_NOT_UNDERSTOOD if report.is_unfinished else errors.EXIT_OK


def check_lines(report: CheckReport, *, width: int, verbose: bool = False) -> Iterator[Line]:
    """Yield whether journal and graph are whole and equal, and if not, where; what has one cause is counted."""
    if report.clean:
        yield Line(f"clean: {counted(report.compared, 'line')} of graph and journal are equal", "green")
    for problem in report.problems if verbose else _by_cause(report.problems):
        yield from _wrapped(f"journal: {problem}", width, "bold red")
    if report.difference_count:
        yield Line(f"{counted(report.difference_count, 'difference')} between graph and journal", "bold red")
    texts = list(differing(report.differences, is_cut=report.difference_count > len(report.differences)))
    # What the journal has lost may be the cause of them all.
    shown = texts[:1] if report.problems and not verbose else texts
    for text in shown:
        yield from _wrapped(text, width)
    if len(shown) < len(texts):
        yield Line(f"… {counted(report.difference_count - 1, 'more difference')}: --verbose lists the first", "dim")
    if report.difference_count and not report.problems:
        yield from _wrapped("provstore verify says more about each, and who signed what was recorded", width, "green")
        yield from _wrapped("provstore store rebuild makes the graph anew from the journal", width, "green")
    elif report.difference_count:
        yield from _wrapped(
            "what the journal has lost may be why they differ: restore it from a copy first", width, "green"
        )
    yield Line(f"journal at {report.position}, graph at {report.applied}", "dim")
    for note in report.notes if verbose else _by_cause(report.notes):
        yield from _wrapped(note, width, "dim")


def _by_cause(texts: Sequence[str]) -> Iterator[str]:
    """Yield each text; those that differ in their place alone, which stands first, as one with a count."""
    places: dict[str, list[str]] = {}
    for text in texts:
        place, _, said = text.partition(": ")
        places.setdefault(said, []).append(place)
    for said, found in places.items():
        if len(found) > 1:
            yield f"{len(found):,} × {said}; one is {found[0]}: --verbose lists all"
        else:
            yield f"{found[0]}: {said}" if said else found[0]


def rebuild_code(report: RebuildReport) -> int:
    """Return the exit code of a rebuild: damage of the journal is told."""
    return errors.EXIT_STORE if report.problems else errors.EXIT_OK


def rebuild_lines(report: RebuildReport, *, width: int) -> Iterator[Line]:
    """Yield what the new graph holds, and what it lacks."""
    for problem in report.problems:
        yield from _wrapped(f"journal: {problem}", width, "bold red")
    yield Line(f"rebuilt from {counted(report.batches, 'batch', 'batches')}, journal at {report.position}", "green")
    for labels, count in report.counts.items():
        yield from _wrapped(f"  {count:>12,}  {labels}", width)
    for problem in report.problems:
        yield from _wrapped(f"journal: {problem}; the graph lacks it", width, "bold red")


def _file(file: FileReport, width: int, *, with_run: bool) -> Iterator[Line]:
    name = f"{file.run}/{file.file}" if with_run and file.run else file.file
    rank = f", rank {file.rank}" if file.rank is not None else ""
    aside = f", {counted(file.set_aside, 'entry', 'entries')} set aside" if file.set_aside else ""
    reason = f": {file.reason}" if file.reason else ""
    yield from _wrapped(f"{file.status}: {name}{rank}{aside}{reason}", width, _STYLE.get(file.status, ""))
    for warning in file.warnings:
        yield from _wrapped(f"  warning: {warning}", width, "yellow")


def _kind_text(taken_for: str, files: Iterable[FileReport]) -> str:
    alike = [file for file in files if file.taken_for == taken_for]
    counts = [(status, sum(file.status == status for file in alike)) for status in (NEW, KNOWN, REFUSED, SKIPPED)]
    listed = ", ".join(f"{count} {status}" for status, count in counts if count)
    return f"{taken_for}: {counted(len(alike), 'file')} ({listed}), {counted(sum(f.records for f in alike), 'record')}"


def _pairs(facts: Mapping[str, str], width: int) -> Iterator[Line]:
    for name, value in facts.items():
        head = f"{name:<9} "
        yield from (Line(text) for text in folded(value, width, head, " " * len(head)))


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Line]:
    yield from (Line(line, style) for line in folded(text, width, "", "  "))
