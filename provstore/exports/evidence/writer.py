"""Writes the evidence of one attempt: every signed epoch in every form, read once and never held in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from provstore.errors import ConfigError, InputError
from provstore.evidence import checkpoint, public_forms
from provstore.evidence.keys import Signer
from provstore.exports.evidence import (
    ALL,
    ATTESTATIONS,
    CHECKPOINT,
    INSTRUCTIONS,
    KEYIDS,
    MAX_PROOFS,
    EpochRow,
    EvidenceExportOptions,
    EvidenceExportReport,
    ExportedKey,
    signing_forms,
)
from provstore.exports.evidence import _forms as forms
from provstore.exports.evidence._directory import Files, whole
from provstore.exports.evidence._instructions import Facts, instructions
from provstore.exports.evidence._proofs import Levels
from provstore.exports.evidence._walk import SignedEpoch, Walk
from provstore.exports.evidence.signing_forms import SignedForm
from provstore.model.evidence import EvidenceLog

DEFAULTS = EvidenceExportOptions()


@dataclass(frozen=True, slots=True)
class Signing:
    """What signs the export as a whole, in forms that sign other bytes than the envelopes do."""

    forms: Collection[str]
    """Some of ``signing_forms.FORMS``."""
    signer: Signer
    roles: Collection[str] = ()
    """Roles that the trust file gives its key."""


def export(
    log: EvidenceLog,
    directory: Path,
    publics: Mapping[str, bytes],
    options: EvidenceExportOptions = DEFAULTS,
    signing: Signing | None = None,
) -> EvidenceExportReport:
    """Write the signed epochs of ``log`` into ``directory``; it appears whole or not at all.

    Nothing is written of evidence that does not hold: digests, ranges, chain and roots are checked on the way, and the
    signatures of the keys that are known.

    Args:
        log: The evidence of one attempt.
        directory: Absent or empty, or with ``overwrite`` an older export.
        publics: Public keys by key id, as far as they are known.
        options: What to write.
        signing: Signs the whole of it too; everything else needs no private key.

    Raises:
        ConfigError: The directory, an option or a form cannot be used.
        InputError: Nothing is signed, or not the epoch or record that was asked for.
        TrustError: The evidence does not hold.
        NotUnderstoodError: An epoch is larger than foreign verifiers read.
    """
    if options.keyid not in KEYIDS:
        raise ConfigError(f"{options.keyid}: key id: not known; known are {', '.join(KEYIDS)}")
    if signing is not None:
        signing_forms.require_forms(signing.forms)
    walk = Walk(log, publics)
    with whole(directory, INSTRUCTIONS, overwrite=options.overwrite) as files:
        return _Export(log, walk, files, publics, options).write(directory, signing)


class _Export:
    """One export while it is written."""

    def __init__(
        self, log: EvidenceLog, walk: Walk, files: Files, publics: Mapping[str, bytes], options: EvidenceExportOptions
    ) -> None:
        self._log, self._walk, self._files = log, walk, files
        self._publics, self._options = publics, options
        self._leaves = bytearray() if options.records else None
        self._note: bytes | None = None
        self._rows: list[EpochRow] = []
        self._key_files: dict[str, str | None] = {}

    def write(self, directory: Path, signing: Signing | None) -> EvidenceExportReport:
        """Write everything and return the report."""
        with self._files.open(ATTESTATIONS) as attestations:
            for signed in self._walk.epochs():
                is_wanted = self._options.epoch in {None, signed.row.epoch}
                self._write_records(signed.row, is_wanted=is_wanted)
                self._note = signed.note
                if is_wanted:
                    self._rows.append(signed.row)
                    self._write_forms(signed, attestations)
                if signed.row.epoch == self._options.epoch:
                    break
        self._require_any()
        proofs = self._write_proofs()
        if self._note is not None:
            self._files.write(CHECKPOINT, self._note)
        facts = Facts(
            run=self._log.run,
            attempt=self._log.attempt,
            store=self._log.store,
            rows=self._rows,
            keys=tuple(ExportedKey(keyid, file) for keyid, file in self._key_files.items()),
            keyid=self._options.keyid,
            has_checkpoint=self._note is not None,
            has_proofs=proofs > 0,
            unsigned=self._walk.unsigned() if self._options.epoch is None else 0,
            signatures=() if signing is None else self._sign(signing),
        )
        self._files.write(INSTRUCTIONS, instructions(facts))
        return self._report(directory, facts, proofs)

    def _write_records(self, row: EpochRow, *, is_wanted: bool) -> None:
        """Read the records of one epoch, write them when they are wanted, and keep what proofs need."""
        if not is_wanted:
            for lines, leaves in self._walk.records(row):
                self._keep(lines, leaves)
            return
        with self._files.open(f"epoch-{row.epoch}.jsonl") as file:
            for lines, leaves in self._walk.records(row):
                file.write(b"\n".join(lines) + b"\n")
                self._keep(lines, leaves)

    def _keep(self, lines: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        if self._leaves is None:
            return
        first, wanted = len(self._leaves) // len(leaves[0]), self._options.records
        self._leaves += b"".join(leaves)
        for index, line in enumerate(lines, first):
            if wanted == ALL and index >= MAX_PROOFS:
                raise ConfigError(f"{self._walk.name}: proofs: more than {MAX_PROOFS} records; name some")
            if isinstance(wanted, str) or index in wanted:
                self._files.write(f"record-{index}.json", line)

    def _write_forms(self, signed: SignedEpoch, attestations: BinaryIO) -> None:
        """Write one envelope in every form, and its key when it is the first by it."""
        stem, keyid = f"epoch-{signed.row.epoch}", signed.row.keyid
        public = self._publics.get(keyid)
        told = forms.with_keyid(signed.envelope, self._options.keyid, public)
        encoded = told.encode()
        self._files.write(f"{stem}.dsse.json", encoded)
        self._files.write(f"{stem}.sigstore.json", forms.sigstore_bundle(told, keyid))
        attestations.write(encoded + b"\n")
        self._files.write(f"{stem}.pae.bin", signed.envelope.signed_bytes())
        self._files.write(f"{stem}.sig.raw", signed.envelope.signatures[0].sig)
        if signed.note is not None:
            self._files.write(f"{stem}.checkpoint", signed.note)
        if keyid not in self._key_files:
            self._key_files[keyid] = None if public is None else self._write_key(public, signed.note)

    def _write_key(self, public: bytes, note: bytes | None) -> str:
        """Write the public key in the forms that foreign programs read, and return the name of its PEM file."""
        at = len(self._key_files) + 1
        end = "" if at == 1 else f"-{at}"
        self._files.write(f"pub{end}.pem", public_forms.FORMS["pem"](public))
        self._files.write(f"pub{end}.ssh", public_forms.FORMS["openssh"](public))
        if note is not None:
            line = checkpoint.vkey(checkpoint.parse(note).origin, public)
            self._files.write(f"vkey{end}", line.encode() + b"\n")
        return f"pub{end}.pem"

    def _require_any(self) -> None:
        if self._rows:
            return
        before = self._walk.before
        if before is None:
            raise InputError(
                f"{self._walk.name}: bundles: nothing is signed", hint="provstore seal signs what is recorded"
            )
        raise InputError(f"{self._walk.name}: epoch {self._options.epoch}: the last one is {before.epoch}")

    def _write_proofs(self) -> int:
        """Write the proofs that were asked for, to the last checkpoint that was read, and return their number."""
        if self._leaves is None:
            return 0
        levels, records = Levels(self._leaves), self._options.records
        wanted = range(levels.size) if isinstance(records, str) else sorted(set(records))
        for index in wanted:
            if not 0 <= index < levels.size:
                raise InputError(f"{self._walk.name}: record {index}: those signed are 0 to {levels.size - 1}")
        if self._note is None:
            raise InputError(f"{self._walk.name}: proofs: the last bundle has no checkpoint that they could lead to")
        for index in wanted:
            proof = checkpoint.tlog_proof(index, levels.proof(index), self._note)
            self._files.write(f"record-{index}.tlog-proof", proof)
        return len(wanted)

    def _sign(self, signing: Signing) -> tuple[SignedForm, ...]:
        """Write signatures over everything that was written so far."""
        digests = signing_forms.digests_of(self._files.directory)
        made = signing_forms.signing_forms(digests, signing.forms, signing.signer, signing.roles)
        self._files.write(signing_forms.SUMS, signing_forms.sums(digests))
        for name, content in (item for one in made for item in one.files.items()):
            self._files.write(name, content)
        return made

    def _report(self, directory: Path, facts: Facts, proofs: int) -> EvidenceExportReport:
        rows = self._rows
        notes = [
            f"{key.keyid}: its public key is not known here: its signatures were not checked, and it is not exported"
            for key in facts.keys
            if key.file is None
        ]
        if facts.unsigned:
            notes.append(f"{facts.unsigned} records behind the last bundle are not signed and not exported")
        if self._note is None:
            notes.append("the last bundle has no checkpoint, so there is none in the export")
        return EvidenceExportReport(
            run=facts.run,
            attempt=facts.attempt,
            store=facts.store,
            directory=str(directory),
            keyid=facts.keyid,
            epochs=tuple(rows),
            keys=facts.keys,
            records=rows[-1].size - rows[0].first,
            proofs=proofs,
            signatures=tuple(one.form for one in facts.signatures),
            files=len(self._files.names),
            size_bytes=self._files.size_bytes,
            unsigned=facts.unsigned,
            closed=rows[-1].closed,
            notes=tuple(notes),
        )
