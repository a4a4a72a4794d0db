"""The batches of a journal against the records that cover them: which are signed for, which are not, which differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from provstore.errors import InputError
from provstore.journal import Batch
from provstore.model import canonical
from provstore.model.evidence import INGEST, RecordAt
from provstore.model.lost import DAMAGED
from provstore.model.verification import EvidenceFinding

MOST_FINDINGS = 1_000
"""Records that do not fit and are told one by one; the rest is counted."""
_INGEST = b'"kind":"ingest"'
_CLOSE = b'"kind":"run-close"'
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Batches:
    """What a comparison of batches and records found."""

    findings: tuple[EvidenceFinding, ...]
    covered: int
    unsigned: int
    records: Mapping[int, int]
    """Batch → index of the first record that names it."""


def compare_batches(
    run: str,
    attempt: int,
    batches: Iterable[tuple[int, Batch]],
    records: Iterable[RecordAt],
    fault_of: Callable[[Batch], str | None],
    cause_of: Callable[[int], str | None] = lambda _: None,
    *,
    is_partial: bool = False,
) -> Batches:
    """Return where the batches of one attempt are not what its records say.

    Every record that names a batch is compared: a later one takes nothing back.

    Args:
        run: The run.
        attempt: Its incarnation.
        batches: (number, batch) of a whole journal.
        records: The records of the attempt.
        fault_of: Says what is wrong with the files of a batch, read now.
        cause_of: Gives the code of what explains that a batch is missing.
        is_partial: Damage may have taken records away: nobody can say that a batch is in none of them.
    """
    held = {
        number: (batch.stated(), replace(batch, lines=()))
        for number, batch in batches
        if (batch.run, batch.attempt) == (run, attempt)
    }
    covered: dict[int, int] = {}
    found: list[EvidenceFinding] = []
    rest, is_closed = 0, False
    for at, record in _told(records):
        if record is None:
            is_closed = True
            continue
        number, index = record["batch"], at.index
        problem = _difference(record, held.get(number), fault_of if number not in covered else lambda _: None)
        if problem is None and number in covered:
            problem = ("seq-gap-or-dup", f"record {covered[number]} covers it already")
        covered.setdefault(number, -1 if index is None else index)
        if problem is not None and len(found) < MOST_FINDINGS:
            code, text = problem
            words = f"record {index} covers batch {number}: {text}"
            cause = None if number in held else cause_of(number)
            found.append(EvidenceFinding(run, attempt, None, index, code, at.where, words, _rank(record), cause=cause))
        elif problem is not None:
            rest += 1
    if rest:
        text = f"{rest} more records do not fit their batches and are not listed"
        found.append(EvidenceFinding(run, attempt, None, None, "subject-mismatch", "the journal", text))
    unsigned = [number for number in sorted(held) if number not in covered]
    found += _without_record(run, attempt, unsigned, is_closed=is_closed, cause=DAMAGED if is_partial else None)
    return Batches(tuple(found), len(held) - len(unsigned), len(unsigned), covered)


def _without_record(
    run: str, attempt: int, unsigned: list[int], *, is_closed: bool, cause: str | None
) -> Iterator[EvidenceFinding]:
    if not unsigned:
        return
    listed = ", ".join(map(str, unsigned[:_SHOWN])) + (", …" if len(unsigned) > _SHOWN else "")
    text = f"{len(unsigned)} batches of facts have no record yet (journal {listed}): nobody has signed them"
    yield EvidenceFinding(run, attempt, None, None, "unsigned-tail", "the journal", text, cause=cause)
    if is_closed:
        text = f"the run is closed, and {len(unsigned)} batches of facts are in none of its records (journal {listed})"
        yield EvidenceFinding(run, attempt, None, None, "after-close", "the journal", text, cause=cause)


def _told(records: Iterable[RecordAt]) -> Iterator[tuple[RecordAt, dict[str, Any] | None]]:
    """Yield every record of a file with what it says, and with nothing every one that closes the run."""
    for at in records:
        if _CLOSE in at.line:
            yield at, None
        if _INGEST not in at.line:
            continue
        try:
            said = canonical.parse(at.line)
        except InputError:
            continue
        if isinstance(said, dict) and said.get("kind") == INGEST and type(said.get("batch")) is int:
            yield at, said


def _difference(
    record: dict[str, Any],
    held: tuple[Mapping[str, object], Batch] | None,
    fault_of: Callable[[Batch], str | None],
) -> tuple[str, str] | None:
    """Return (code, words) for what a batch is not although its record says so."""
    if held is None:
        return "rows-missing", "the journal does not hold it for this run"
    stated, batch = held
    if record.get("facts") != stated["facts"]:
        return "subject-mismatch", "its facts are not those that were signed"
    if record.get("source") != stated["source"]:
        return "subject-mismatch", "it names another source file than was signed"
    for name in ("quarantined", "rank"):
        if record.get(name) != stated[name]:
            return "subject-mismatch", f"its {name} is not what was signed"
    fault = fault_of(batch)
    return None if fault is None else ("journal-damaged", f"its {fault}")


def _rank(record: dict[str, Any]) -> int | None:
    rank = record.get("rank")
    return rank if type(rank) is int else None
