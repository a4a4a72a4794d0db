"""The batches of a journal against the records that cover them: which are signed for, which are not, which differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from provstore.errors import InputError
from provstore.journal import Batch
from provstore.model import canonical
from provstore.model.evidence import INGEST, RecordAt
from provstore.model.verification import EvidenceFinding

_INGEST = b'"kind":"ingest"'
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Batches:
    """What a comparison of batches and records found."""

    findings: tuple[EvidenceFinding, ...]
    covered: int
    unsigned: int


def compare_batches(
    run: str,
    attempt: int,
    batches: Iterable[tuple[int, Batch]],
    records: Iterable[RecordAt],
    fault_of: Callable[[Batch], str | None],
) -> Batches:
    """Return where the batches of one attempt are not what its records say.

    Args:
        run: The run.
        attempt: Its incarnation.
        batches: (number, batch) of a whole journal.
        records: The records of the attempt.
        fault_of: Says what is wrong with the files of a batch, read now.
    """
    said = {record["batch"]: (at, record) for at, record in _ingests(records)}
    held = {number: batch for number, batch in batches if (batch.run, batch.attempt) == (run, attempt)}
    found: list[EvidenceFinding] = []
    for number, (at, record) in sorted(said.items()):
        problem = _difference(record, held.get(number), fault_of)
        if problem is not None:
            code, text = problem
            words = f"record {at.index} covers batch {number}: {text}"
            found.append(EvidenceFinding(run, attempt, None, at.index, code, at.where, words, record.get("rank")))
    unsigned = [number for number in sorted(held) if number not in said]
    if unsigned:
        listed = ", ".join(map(str, unsigned[:_SHOWN])) + (", …" if len(unsigned) > _SHOWN else "")
        text = f"{len(unsigned)} batches of facts have no record yet (journal {listed}): nobody has signed them"
        found.append(EvidenceFinding(run, attempt, None, None, "unsigned-tail", "the journal", text))
    return Batches(tuple(found), len(held) - len(unsigned), len(unsigned))


def _ingests(records: Iterable[RecordAt]) -> Iterator[tuple[RecordAt, dict[str, Any]]]:
    for at in records:
        if _INGEST not in at.line:
            continue
        try:
            said = canonical.parse(at.line)
        except InputError:
            continue
        if isinstance(said, dict) and said.get("kind") == INGEST and isinstance(said.get("batch"), int):
            yield at, said


def _difference(
    record: dict[str, Any], batch: Batch | None, fault_of: Callable[[Batch], str | None]
) -> tuple[str, str] | None:
    """Return (code, words) for what a batch is not although its record says so."""
    if batch is None:
        return "rows-missing", "the journal does not hold it for this run"
    facts, source = record.get("facts"), record.get("source")
    digest = facts.get("sha256") if isinstance(facts, dict) else None
    if digest != batch.facts_sha256():
        return "subject-mismatch", "its facts are not those that were signed"
    named = batch.source.sha256 if batch.source is not None else None
    if (source.get("sha256") if isinstance(source, dict) else None) != named:
        return "subject-mismatch", "it names another source file than was signed"
    fault = fault_of(batch)
    return None if fault is None else ("journal-damaged", f"its {fault}")
