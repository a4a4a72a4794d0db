"""Signing what a journal holds: every batch gets its record, and every record the next signed bundle covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from provstore.errors import ConfigError, InputError, StoreError, TrustError
from provstore.evidence import bundles, dsse, keys, rank_heads, records, stated
from provstore.evidence.actions import OPENING
from provstore.evidence.bundles import Claims, Ledger, Limits
from provstore.evidence.recorded_modes import WeakestMode
from provstore.ingest.vouching import Vouching, require_same_key
from provstore.journal import Journal
from provstore.model.evidence import (
    CLOSE_REASONS,
    GAP,
    INGEST,
    MODES,
    RUN_CLOSE,
    AgreedDigest,
    Observation,
    RankHead,
    Scalar,
)
from provstore.model.report import SealedRun

Scope = tuple[str, int]
INGESTED = {"mode": "validation", "reason": "read from files after the fact: no access to tensors"}
"""Recording policy of what was ingested: nothing of a tensor's content is stored."""
LIVE_READER = "capture"
"""Reader of the lineage of calls that were recorded live."""
ORDER_ALONE = "order of recorded calls: their content is in their actions"


@dataclass(frozen=True, slots=True)
class SealRequest:
    """How to sign."""

    signer: keys.Signer
    close: str | None = None
    """Reason to close the run with: nothing may follow."""
    limits: Limits = field(default_factory=Limits)
    claims: Claims = field(default_factory=Claims)
    org: str = bundles.ORG
    vouch: Vouching | None = None
    """On top of what is signed; of what ``signer`` signed alone, when not given."""

    def __post_init__(self) -> None:
        """Refuse a signer and a reason that are none."""
        keys.require_signer(self.signer, "seal: signer")
        if self.close is not None and self.close not in CLOSE_REASONS:
            raise ConfigError(f"{self.close}: --close: not a reason; known are {', '.join(CLOSE_REASONS)}")


def load(journal: Journal, scope: Scope) -> Ledger:
    """Return how far a run is signed, every bundle compared with its records.

    Raises:
        TrustError: A bundle does not fit, or what waits is not what was ingested: nothing must be signed on top of it.
    """
    log = journal.evidence(*scope)
    ledger = bundles.load(log, log.heads())
    waiting = [records.parse(line) for line in ledger.waiting if b'"kind":"ingest"' in line]
    said = {record["batch"]: record for record in waiting if record["kind"] == INGEST}
    held = {number: batch for number, batch in journal.batches() if number in said} if said else {}
    for number, record in said.items():
        batch = held.get(number)
        expected = batch.stated() if batch is not None and (batch.run, batch.attempt) == scope else {}
        if not expected or any(record[name] != value for name, value in expected.items()):
            place = f"{scope[0]}: attempt {scope[1]}: batch {number}"
            raise TrustError(f"{place}: is not what its record says, which waits", code="subject-mismatch")
    return ledger


def seal(
    journal: Journal, ledger: Ledger, request: SealRequest, on_epoch: Callable[[int], None] | None = None
) -> SealedRun:
    """Sign everything of one run that is not signed yet; return what was signed.

    Only what is durable is signed, and what is signed is durable before it counts. A closed run that holds nothing new
    is left as it is.

    Args:
        journal: Open for writing.
        ledger: How far the run is signed; it moves on.
        request: How to sign.
        on_epoch: Called with the number of each evidence epoch when it is durable.

    Raises:
        InputError: The run is closed, and is to be closed again or holds something new.
        StoreError: A batch is missing or altered, or the journal cannot be written.
        TrustError: Nobody vouches for the last bundle, or a rank has a second key: see :mod:`.vouching`.
    """
    with ledger.lock:
        fresh = [] if ledger.closed else _missing(journal, ledger, request.close)
        vouch, last = request.vouch or Vouching(), journal.evidence(ledger.run, ledger.attempt).last_bundle()
        vouch.require_last(last, ledger, request.signer.public_key, is_idle=not (fresh or ledger.pending))
        vouch.require_one_key(ledger)
        if ledger.closed:
            _require_nothing_new(journal, ledger, request.close)
        elif fresh:
            is_closing = request.close is not None
            journal.append_records(ledger.run, ledger.attempt, fresh, closes=is_closing, made_again=True)
            ledger.add(fresh)
    return sign(journal, ledger, request, on_epoch)


def _require_nothing_new(journal: Journal, ledger: Ledger, close: str | None) -> None:
    place, scope = f"{ledger.run}: attempt {ledger.attempt}", (ledger.run, ledger.attempt)
    if close is not None:
        raise InputError(f"{place}: is closed already: its end is signed")
    found = ((number, batch.run, batch.attempt) for number, batch in journal.batches())
    late = sum((run, attempt) == scope and number not in ledger.batches for number, run, attempt in found)
    if late or ledger.pending:
        raise InputError(
            f"{place}: is closed; {late} batches and {ledger.pending} records came after its end and stay unsigned",
            hint=f"provstore verify {ledger.run} names them; ingest them with another --attempt",
        )


def _missing(journal: Journal, ledger: Ledger, close: str | None) -> list[bytes]:
    """Return the records that are still to be made: of recoveries, of batches, of the end."""
    events = list(_of_events(journal, ledger))
    ingested = list(_of_batches(journal, ledger, {None: len(events)}))
    fresh = [*events, *ingested]
    if close is not None and not _waits_closed(ledger, close):
        without_rank = sum(b'"rank":null' in line for line in fresh)
        fresh.append(
            records.run_close(
                ledger.run,
                ledger.attempt,
                ledger.next_count(None) + without_rank,
                reason=close,
                records=ledger.total + len(fresh),
                batches=len(ledger.batches) + len(ingested),
            )
        )
    return fresh


def _waits_closed(ledger: Ledger, close: str) -> bool:
    """Return whether the record of this end waits already: the signer failed at it.

    Raises:
        InputError: It gives another reason.
    """
    last = records.parse(ledger.waiting[-1]) if ledger.pending else {}
    if last.get("kind") != RUN_CLOSE:
        return False
    if last["reason"] != close:
        place = f"{ledger.run}: attempt {ledger.attempt}"
        raise InputError(f"{place}: its end is recorded as {last['reason']}, and waits", hint="seal it without --close")
    return True


def sign(
    journal: Journal, ledger: Ledger, request: SealRequest, on_epoch: Callable[[int], None] | None = None
) -> SealedRun:
    """Sign the records that wait, one bundle after the other."""
    numbers, note, keyid = [], b"", keys.fingerprint(request.signer.public_key)
    with ledger.signing:
        start = ledger.size
        while ledger.pending:
            sealed = ledger.seal(request.signer, limits=request.limits, claims=request.claims, org=request.org)
            journal.append_bundle(ledger.run, ledger.attempt, sealed.envelope, sealed.note)
            with ledger.lock:
                ledger.accept(sealed)
            numbers.append(sealed.epoch.number)
            note = sealed.note
            if on_epoch:
                on_epoch(sealed.epoch.number)
    if not numbers:
        note, keyid = _last(journal, ledger)
    return SealedRun(
        run=ledger.run,
        attempt=ledger.attempt,
        epochs=tuple(numbers),
        records=ledger.size - start,
        size=ledger.size,
        root=ledger.tree.root().hex(),
        keyid=keyid,
        closed=ledger.closed,
        checkpoint=note.decode(),
    )


def _last(journal: Journal, ledger: Ledger) -> tuple[bytes, str]:
    """Return checkpoint and key id of the last bundle; both empty when nothing is signed."""
    last = journal.evidence(ledger.run, ledger.attempt).last_bundle()
    if last is None:
        return b"", ""
    return last.checkpoint or b"", dsse.parse(last.envelope).signatures[0].keyid


def record(
    journal: Journal,
    ledger: Ledger,
    items: Sequence[Observation | AgreedDigest],
    rank_signer: keys.Signer | None = None,
) -> int:
    """Make records of what a run states and acknowledge them; return the index of the first in the run tree.

    Args:
        journal: Open for writing.
        ledger: How far the run is; the records wait in it for a signature.
        items: What is stated.
        rank_signer: Key of the one rank that states all of it; signs how far its records go.

    Raises:
        InputError: The run is closed; a value cannot be kept; or several ranks are given with one rank's key.
        StoreError: They could not be made durable.
    """
    lines, ranks = _lines(ledger, items)
    heads: tuple[RankHead, ...] = ()
    if rank_signer is None:
        ledger.add_plain(lines, ranks, [item.step for item in items])
    else:
        rank = _only(ledger, ranks)
        certificate = _certificate(ledger, rank, rank_signer)
        ledger.add(certificate)
        ledger.add_plain(lines, ranks, [item.step for item in items])
        at = ledger.chain(rank)
        head = bytes.fromhex(at.head)
        heads = (rank_heads.sign(ledger.run, ledger.attempt, rank, at.count, head, rank_signer),)
        lines = [*certificate, *lines]
    first = journal.append_records(ledger.run, ledger.attempt, lines, heads)
    ledger.add_heads(heads)
    return first


def _of_events(journal: Journal, ledger: Ledger) -> Iterator[bytes]:
    """Yield the records of what happened to the journal itself and no run has signed yet.

    What a full disk refused of a run is also a gap in that run, and waits for that run where there is one.
    """
    happened = list(journal.events())
    if not happened:
        # As a rule: then no record of any run needs to be read.
        return
    scopes = journal.scopes()
    known = {number for scope in scopes for number in _events_of(journal, scope)} | ledger.events
    count = ledger.next_count(None)
    for jseq, said in happened:
        name, cause = str(said.pop("event", "recovery")), str(said.get("cause", ""))
        refused = (said.get("run"), said.get("attempt"))
        if jseq in known or (name == GAP and refused in scopes and refused != (ledger.run, ledger.attempt)):
            continue
        lost = said.get("rows")
        if name == GAP and refused == (ledger.run, ledger.attempt) and isinstance(lost, int) and lost:
            yield records.gap(ledger.run, ledger.attempt, count, cause=cause, lost=lost)
            count += 1
        details: dict[str, Scalar] = {"event": name, "jseq": jseq}
        details |= {key: value for key, value in said.items() if isinstance(value, str | int) and key != "cause"}
        yield records.recovery(ledger.run, ledger.attempt, count, cause=cause or name, details=details)
        count += 1


def _events_of(journal: Journal, scope: Scope) -> Iterator[int]:
    for found in journal.evidence(*scope).records():
        if b'"kind":"recovery"' in found.line:
            yield from bundles.event_numbers(found.line)


def _of_batches(journal: Journal, ledger: Ledger, taken: Mapping[int | None, int]) -> Iterator[bytes]:
    """Yield a record for each batch of the run that has none; what it binds is read and compared first."""
    counts, live = dict(taken), None
    for jseq, batch in journal.batches():
        if (batch.run, batch.attempt) != (ledger.run, ledger.attempt) or jseq in ledger.batches:
            continue
        if (fault := journal.batch_fault(batch)) is not None:
            raise StoreError(
                f"journal: {journal.directory}: batch {jseq}: {fault}: it cannot be signed",
                hint="provstore store check names all damage; ingesting the file again heals a batch",
            )
        said = batch.stated()
        rank = said["rank"]
        is_live = batch.source is not None and batch.source.reader == LIVE_READER
        if is_live and live is None:
            live = _recorded_with(ledger)
        mode, reason = live if is_live and live is not None else (INGESTED["mode"], INGESTED["reason"])
        yield records.ingest(
            ledger.run,
            ledger.attempt,
            ledger.next_count(rank) + counts.get(rank, 0),
            batch=jseq,
            mode=mode,
            reason=reason,
            **said,
        )
        counts[rank] = counts.get(rank, 0) + 1


def _recorded_with(ledger: Ledger) -> tuple[str, str]:
    """Return mode and reason for the lineage of recorded calls: the weakest of the actions that are signed with it."""
    modes = WeakestMode()
    for line in ledger.waiting:
        if line.startswith(OPENING):
            modes.line(line)
    return modes.weakest() or (MODES[0], ORDER_ALONE)


def _lines(ledger: Ledger, items: Sequence[Observation | AgreedDigest]) -> tuple[list[bytes], list[int | None]]:
    counts: dict[int | None, int] = {}
    lines: list[bytes] = []
    ranks: list[int | None] = []
    for at, item in enumerate(items):
        rank = item.rank
        if rank not in counts:
            counts[rank] = ledger.next_count(rank)
        make = records.observation if isinstance(item, Observation) else records.digest
        try:
            lines.append(make(ledger.run, ledger.attempt, counts[rank], item))  # type: ignore[arg-type]
        except InputError as error:
            reason = stated.unspellable(item) or str(error).removeprefix("record: ")
            raise InputError(f"{stated.place(ledger.run, at, item)}: {reason}") from error
        ranks.append(rank)
        counts[rank] += 1
    return lines, ranks


def _only(ledger: Ledger, ranks: Sequence[int | None]) -> int:
    whose = set(ranks)
    rank = ranks[0] if len(whose) == 1 else None
    if rank is None:
        raise InputError(f"{ledger.run}: records: one rank's key signs records of that rank, and no others")
    return rank


def _certificate(ledger: Ledger, rank: int, signer: keys.Signer) -> list[bytes]:
    """Return the record that names a rank's key, when the run has none yet."""
    public = keys.require_public(signer.public_key, f"rank {rank}")
    if (rank, keys.fingerprint(public)) in ledger.certified:
        return []
    require_same_key(ledger, rank, keys.fingerprint(public))
    count = ledger.next_count(None)
    return [records.rank_certificate(ledger.run, ledger.attempt, count, certified=rank, public=public)]
