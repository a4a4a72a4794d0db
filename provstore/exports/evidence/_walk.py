"""Reads signed evidence front to back, once, and refuses whatever does not hold: no export carries it further."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from provstore.errors import ConfigError, NotUnderstoodError, TrustError
from provstore.evidence import checkpoint, dsse, merkle, statement
from provstore.evidence.dsse import Envelope
from provstore.evidence.keys import fingerprint, is_signed
from provstore.evidence.statement import Epoch
from provstore.exports.evidence import IMPORTED, MAX_EPOCH_BYTES, EpochRow
from provstore.model.evidence import BundleAt, EvidenceLog

_HINT = "provstore verify says what else is wrong"
_ZEROS = "0" * 64
_CHUNK_RECORDS = 1024


@dataclass(frozen=True, slots=True)
class SignedEpoch:
    """One bundle that fits what came before it."""

    envelope: Envelope
    note: bytes | None
    """Its checkpoint; ``None`` when the place holds none."""
    row: EpochRow


class Walk:
    """The bundles of one attempt in their order, and beside them the records that they sign.

    Args:
        log: The evidence.
        publics: Public keys by key id, as far as they are known; the signatures of others are not checked.

    Raises:
        ConfigError: A key stands under an id that is not its own.
    """

    def __init__(self, log: EvidenceLog, publics: Mapping[str, bytes]) -> None:
        for keyid, public in publics.items():
            if fingerprint(public) != keyid:
                raise ConfigError(f"{keyid}: public key: its own id is {fingerprint(public)}")
        self._log, self._publics = log, publics
        self.name = log.run or IMPORTED
        """What messages call the run."""
        self._records = log.records()
        self._tree = merkle.Frontier()
        self._before: EpochRow | None = None

    @property
    def before(self) -> EpochRow | None:
        """The bundle that was read last."""
        return self._before

    def epochs(self) -> Iterator[SignedEpoch]:
        """Yield the bundles; between two of them, :meth:`records` must be read to its end.

        Raises:
            TrustError: A bundle does not hold or does not follow from the one before.
        """
        for bundle in self._log.bundles():
            envelope = dsse.parse(bundle.envelope)
            (signature,) = envelope.signatures
            public = self._publics.get(signature.keyid)
            if public is not None and not is_signed(public, envelope.signed_bytes(), signature.sig):
                text = f"{self.name}: {bundle.where}: the signature by {signature.keyid} does not hold"
                raise TrustError(text, code="bad-signature", hint=_HINT)
            epoch = statement.parse(envelope.payload)
            self._require_place(epoch, bundle.where)
            self._require_checkpoint(bundle, epoch, public)
            row = EpochRow(
                epoch=epoch.number,
                first=epoch.first,
                size=epoch.size,
                keyid=signature.keyid,
                closed=epoch.closed,
                wall=epoch.wall,
                root=epoch.root,
                payload_sha256=hashlib.sha256(envelope.payload).hexdigest(),
                subject_sha256=epoch.subject_sha256,
            )
            yield SignedEpoch(envelope, bundle.checkpoint, row)
            self._before = row

    def records(self, row: EpochRow) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield the records of one epoch, some at a time, with their leaf hashes.

        Raises:
            TrustError: They are not the records that were signed.
            NotUnderstoodError: They are more bytes than foreign verifiers read.
        """
        digest, taken, size_bytes = hashlib.sha256(), 0, 0
        while taken < row.size - row.first:
            lines = self._next_lines(row, taken)
            if not lines:
                reason = f"{row.size} records are signed, {row.first + taken} are there"
                raise self._refusal(row.epoch, reason, "rows-missing")
            taken += len(lines)
            size_bytes += sum(map(len, lines)) + len(lines)
            if size_bytes > MAX_EPOCH_BYTES:
                text = f"{self.name}: epoch {row.epoch}: its records are more than {MAX_EPOCH_BYTES} bytes"
                raise NotUnderstoodError(f"{text}, the most that foreign verifiers read")
            digest.update(b"\n".join(lines) + b"\n")
            leaves = merkle.leaf_hashes(lines)
            self._tree.extend(leaves)
            yield lines, leaves
        if digest.hexdigest() != row.subject_sha256:
            raise self._refusal(row.epoch, "its records are not those that were signed", "subject-mismatch")
        if self._tree.root().hex() != row.root:
            raise self._refusal(row.epoch, "the root of the tree is not the signed one", "root-mismatch")

    def unsigned(self) -> int:
        """Return how many records stand behind the last bundle."""
        return sum(1 for _ in self._records)

    def _next_lines(self, row: EpochRow, taken: int) -> list[bytes]:
        most = min(_CHUNK_RECORDS, row.size - row.first - taken)
        lines = []
        for at, record in enumerate(itertools.islice(self._records, most), row.first + taken):
            if record.index not in {None, at}:
                reason = f"{record.where}: record {record.index} stands where {at} should"
                raise self._refusal(row.epoch, reason, "seq-gap-or-dup")
            if b"\n" in record.line:
                raise self._refusal(row.epoch, f"{record.where}: is more than one line", "payload-noncanonical")
            lines.append(record.line)
        return lines

    def _require_place(self, epoch: Epoch, where: str) -> None:
        """Check that a bundle is of this run and follows from the one before."""
        log, before = self._log, self._before
        number, first, prev = (
            (0, 0, _ZEROS) if before is None else (before.epoch + 1, before.size, before.payload_sha256)
        )
        if (epoch.run, epoch.attempt, epoch.store) != (log.run, log.attempt, log.store):
            stated = f"run {epoch.run}, attempt {epoch.attempt}, journal {epoch.store}"
            raise self._refusal(epoch.number, f"{where}: signed for {stated}", "wrong-run")
        if before is not None and before.closed:
            raise self._refusal(epoch.number, f"{where}: follows the bundle that closed the run", "after-close")
        if epoch.number != number:
            raise self._refusal(epoch.number, f"{where}: stands where epoch {number} should", "epoch-order")
        if epoch.prev != prev:
            raise self._refusal(epoch.number, f"{where}: does not follow from the bundle before", "chain-broken")
        if epoch.first != first:
            raise self._refusal(epoch.number, f"{where}: begins at record {epoch.first}, not {first}", "range-gap")

    def _require_checkpoint(self, bundle: BundleAt, epoch: Epoch, public: bytes | None) -> None:
        if bundle.checkpoint is None:
            return
        note = checkpoint.parse(bundle.checkpoint)
        if (note.size, note.root.hex()) != (epoch.size, epoch.root):
            raise self._refusal(epoch.number, f"{bundle.where}: its checkpoint is about another tree", "root-mismatch")
        if public is not None and not checkpoint.check(note, public):
            reason = f"{bundle.where}: its checkpoint is not signed by the key of the bundle"
            raise self._refusal(epoch.number, reason, "bad-signature")

    def _refusal(self, number: int, reason: str, code: str) -> TrustError:
        return TrustError(f"{self.name}: epoch {number}: {reason}", code=code, hint=_HINT)
