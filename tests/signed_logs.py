"""Runs signed in memory, without a store: what the parts of the evidence are tried on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from provstore.evidence import bundles, records
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.model.evidence import FINISHED, BundleAt, Observation, RecordAt

STORE = "0123456789abcdef"


@dataclass
class MemoryLog:
    """An EvidenceLog of lists."""

    run: str
    attempt: int
    store: str
    lines: list[bytes]
    signed: list[BundleAt]
    publics: dict[str, bytes] = field(default_factory=dict)
    """Of the keys that signed it, by key id."""

    def bundles(self) -> Iterator[BundleAt]:
        return iter(self.signed)

    def records(self) -> Iterator[RecordAt]:
        return (RecordAt(index, line, f"line {index}") for index, line in enumerate(self.lines))


def observations(run: str, count: int, *, ranks: int = 4, attempt: int = 0) -> list[bytes]:
    """Return records of the ranks in turn."""
    return [
        records.observation(
            run,
            attempt,
            index // ranks,
            Observation("loss", {"value": 1 / (index + 1)}, rank=index % ranks, step=index, at_ns=index),
        )
        for index in range(count)
    ]


def signed_run(
    run: str = "run-1",
    sizes: Sequence[int] = (40,) * 5,
    *,
    attempt: int = 0,
    closed: bool = False,
    keys: Sequence[PrivateKey] = (),
    unsigned: int = 0,
) -> MemoryLog:
    """Return a run of one epoch a size, signed by the keys in turn, or by a fresh one.

    Args:
        run: Its name.
        sizes: Records of each epoch.
        attempt: Its incarnation.
        closed: Whether the last record closes it.
        keys: The key of each epoch; the last one signs all further epochs.
        unsigned: Records behind the last epoch.
    """
    keys = list(keys) or [PrivateKey.generate()]
    total = sum(sizes)
    lines = observations(run, total + unsigned, attempt=attempt)
    if closed:
        lines[total - 1] = records.run_close(run, attempt, 0, reason=FINISHED, records=total - 1, batches=0)
    ledger, signed = bundles.Ledger(run, attempt, STORE), []
    start = 0
    for number, size in enumerate(sizes):
        ledger.add(lines[start : start + size])
        sealed = ledger.seal(
            keys[min(number, len(keys) - 1)],
            limits=bundles.Limits(records=max(sizes)),
            clock_ns=lambda now=number: (1_790_000_000 + now) * 1_000_000_000,
        )
        ledger.accept(sealed)
        signed.append(BundleAt(sealed.envelope, sealed.note, f"bundle {number}"))
        start += size
    publics = {fingerprint(key.public_key): key.public_key for key in keys}
    return MemoryLog(run, attempt, STORE, lines, signed, publics)


def replaced(log: MemoryLog, number: int, **changes: object) -> MemoryLog:
    """Return the log with one bundle changed."""
    signed = list(log.signed)
    signed[number] = replace(signed[number], **changes)
    return MemoryLog(log.run, log.attempt, log.store, list(log.lines), signed, log.publics)
