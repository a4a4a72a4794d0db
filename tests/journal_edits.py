"""A journal changed on its bytes by whoever knows its format: every checksum and number fits again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from provstore.journal import evidence, frames, segments
from tests.sealing import Log


def write(journal, log: Log) -> None:
    """Append the evidence of a log to a journal that is open for writing."""
    journal.append_records(log.run, log.attempt, log.lines)
    for bundle in log.signed:
        journal.append_bundle(log.run, log.attempt, bundle.envelope, bundle.checkpoint or b"")


def rewrite(directory: Path, log: Log) -> None:
    """Put the evidence of a log in the place of all that the only segment of a journal holds."""
    (number, path), *others = segments.listing(directory).items()
    assert not others
    header = segments.read_header(path, number)
    assert header is not None
    start = frames.seed(header.journal_id, number)
    with path.open("rb") as file:
        first = frames.unchecked(file, len(frames.MAGIC))
    assert first is not None
    made = [frames.MAGIC, first.raw]
    for jseq, (kind, payload) in enumerate(_payloads(log), first.jseq + 1):
        made.append(frames.encode(kind, jseq, payload, start))
    path.write_bytes(b"".join(made))


def _payloads(log: Log) -> Iterator[tuple[int, bytes]]:
    scope = (log.run, log.attempt)
    numbers = list(range(len(log.lines))) if log.numbers is None else log.numbers
    begin = 0
    for at in range(1, len(numbers) + 1):
        # Records of one frame have numbers in a row.
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield frames.RECORDS, evidence.records_payload(scope, numbers[begin], log.lines[begin:at], (), closes=False)
            begin = at
    for bundle in log.signed:
        yield frames.BUNDLE, evidence.bundle_payload(scope, bundle.envelope, bundle.checkpoint or b"")
