"""Verification of one file by itself: a bundle, a checkpoint, or the proof of one record."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from provstore.errors import InputError, TrustError
from provstore.evidence import anchors, bounded_files, checkpoint, dsse, files, keys, merkle, records, statement
from provstore.evidence.trust.keys import LOG, RUN, Trust, TrustedKey
from provstore.evidence.verify.keys import named
from provstore.evidence.verify.signatures import UNREAD
from provstore.model.verification import ALWAYS, FAULT, OK, REVOKED, UNKNOWN, UNPROVEN, EvidenceFinding, Verification

ALONE = "One file by itself: what came before and after it, and whether anything of the run is missing, is not checked."
MAX_BYTES = files.MAX_SIGSTORE_BYTES
_PROOF = checkpoint.PROOF_HEAD.encode()
_FOLDER = "give its folder"
_KEY = ("a public key", "--public-key takes it; give the folder or file that the key signed")
_RECORD = ("one record", "give its folder, or the proof of it ({stem}.tlog-proof)")
_BESIDE = (
    (r"record-[0-9]+\.json", *_RECORD),
    (r"epoch-[0-9]+\.jsonl", "the record lines of an epoch", "give its folder, or {stem}.dsse.json beside it"),
    (r".*\.jsonl", "a file of lines", "give its folder, or a .dsse.json in it"),
    (r"epoch-[0-9]+\.(pae\.bin|sig\.raw)", "a part of a bundle", "give its folder, or {stem}.dsse.json beside it"),
    (r"(pub|vkey)(-[0-9]+)?(\.pem|\.ssh)?", *_KEY),
    (r"VERIFY\.txt", "a text about an export", _FOLDER),
    (r"SHA256SUMS(\..*)?", "a list of the digests of an export, or its signature", _FOLDER),
)
"""Names of an export, what they hold, and what to give instead."""


@dataclass(frozen=True, slots=True)
class _Found:
    run: str = ""
    attempt: int = 0
    epoch: int | None = None
    seq: int | None = None
    axes: tuple[tuple[str, str], ...] = ()
    findings: tuple[tuple[str, str], ...] = ()
    keyid: str | None = None


def verify_file(path: Path, trust: Trust, at: str | None = None) -> Verification:
    """Return what one file shows by itself.

    Args:
        path: A bundle (DSSE or Sigstore), a checkpoint, or a ``.tlog-proof`` with its record beside it.
        trust: Whose signatures count.
        at: When this takes place, ISO 8601 in UTC; windows of keys are judged by it.

    Raises:
        InputError: It cannot be read, or is none of these.
    """
    data = _read(path)
    if (other := _other(path, data)) is not None:
        what, hint = other
        raise InputError(f"{path}: evidence: is {what}: no signature covers it by itself", hint=hint)
    try:
        if data.startswith(b"{"):
            found = _bundle(path, data, trust, at)
        elif data.startswith(_PROOF):
            found = _proof(path, data, trust, at)
        else:
            found = _note(data, trust, at)
    except TrustError as error:
        unread = error.code in UNREAD
        found = _Found(axes=(("envelope", UNKNOWN if unread else FAULT),), findings=((error.code, str(error)),))
        if not unread:
            # The form is not signed: an odd one must never pass for a signed one.
            found = replace(found, findings=(*found.findings, ("bad-signature", "no signature covers what it holds")))
    return _answer(path, found)


def is_evidence(path: Path) -> bool:
    """Return whether a file may be evidence by itself, sound or not.

    Raises:
        ProvstoreError: It cannot be read, or is longer than evidence can be.
    """
    data = _read(path)
    if _other(path, data) is not None:
        return False
    return data.startswith((b"{", _PROOF)) or b"\n\n\xe2\x80\x94 " in data


def _other(path: Path, data: bytes) -> tuple[str, str] | None:
    """Return what a file is that belongs to exported evidence and is none by itself, and what to do instead."""
    for pattern, what, hint in _BESIDE:
        if re.fullmatch(pattern, path.name):
            return what, hint.format(stem=path.name.partition(".")[0])
    if data.startswith((b"-----BEGIN ", b"ssh-ed25519 ")):
        return _KEY
    return (_RECORD[0], _RECORD[1].format(stem=path.stem)) if _is_record(data) else None


def _is_record(data: bytes) -> bool:
    try:
        records.parse(data.removesuffix(b"\n"))
    except (TrustError, InputError):
        return False
    return True


def _bundle(path: Path, data: bytes, trust: Trust, at: str | None) -> _Found:
    envelope = dsse.parse(files.envelope_in(data) if b'"dsseEnvelope"' in data else data)
    signature = envelope.signatures[0]
    key = _signer(trust.keys, envelope.signed_bytes(), signature.sig)
    if key is None:
        known = trust.key(signature.keyid)
        code = "bad-signature" if known is not None and known.is_known else "untrusted-key"
        text = f"it names key {signature.keyid[:80]}, and no trusted key made its signature"
        return _Found(axes=(("envelope", OK), ("signature", FAULT)), findings=((code, text),))
    said = statement.parse(envelope.payload)
    findings = [*_of_key(key, trust, said.run, (RUN,), at)]
    if key.keyid != signature.keyid:
        findings.append(("keyid-mismatch", f"it names key {signature.keyid[:80]}, but key {key.keyid} signed it"))
    axes = {"envelope": OK, "signature": OK, "key": _key_state(findings)}
    lines = path.with_name(f"epoch-{said.number}.jsonl")
    if lines.is_file():
        same = _digest(lines) == said.subject_sha256
        axes["tree"] = OK if same else FAULT
        if not same:
            findings.append(("subject-mismatch", f"{lines.name} does not hold the records that it signs"))
    return _Found(said.run, said.attempt, said.number, None, tuple(axes.items()), tuple(findings), key.keyid)


def _note(data: bytes, trust: Trust, at: str | None) -> _Found:
    point = checkpoint.parse(data)
    about = anchors.scope_of(point.origin)
    run, attempt = (about.run, about.attempt) if about is not None else ("", 0)
    signed = [key for key in trust.keys if key.is_known and checkpoint.check(point, key.public)]
    if not signed:
        text = f"checkpoint {point.origin}: no trusted key signed it"
        return _Found(run, attempt, axes=(("signature", FAULT),), findings=(("untrusted-key", text),))
    findings = _of_key(signed[0], trust, run, (RUN, LOG), at)
    axes = (("signature", OK), ("key", _key_state(findings)))
    return _Found(run, attempt, axes=axes, findings=tuple(findings), keyid=signed[0].keyid)


def _proof(path: Path, data: bytes, trust: Trust, at: str | None) -> _Found:
    index, hashes, point = checkpoint.parse_tlog_proof(data)
    found = replace(_note(point.note, trust, at), seq=index)
    record = path.with_suffix(".json")
    if not record.is_file():
        raise InputError(f"{path}: proof: the record that it proves is not beside it ({record.name})")
    line = _read(record).removesuffix(b"\n")
    try:
        merkle.check_inclusion(merkle.leaf_hash(line), index, point.size, point.root, hashes)
    except TrustError as error:
        added = (*found.findings, (error.code, f"{record.name} is not record {index} of the tree: {error}"))
        return replace(found, axes=(*found.axes, ("tree", FAULT)), findings=added)
    return replace(found, axes=(*found.axes, ("tree", OK)))


def _signer(known: Iterable[TrustedKey], message: bytes, signature: bytes) -> TrustedKey | None:
    return next((key for key in known if key.is_known and keys.is_signed(key.public, message, signature)), None)


def _of_key(key: TrustedKey, trust: Trust, run: str, roles: Sequence[str], at: str | None) -> list[tuple[str, str]]:
    """Return what a key that made a signature may not, or what nobody can tell of it."""
    if not key.serves(run, roles):
        return [("untrusted-key", f"{named(key)} is not trusted to sign {run or 'this'}")]
    revoked = trust.revocation(key.keyid)
    if revoked is not None:
        return [("key-unproven", f"{REVOKED.format(since=revoked.since)} It is {named(key)}.")]
    if (key.not_before or key.not_after) and (at is None or not key.is_valid_at(at)):
        window = f"from {key.not_before or 'the beginning'} to {key.not_after or 'further notice'}"
        return [("key-unproven", f"{named(key)} is valid {window}, and nothing shows that it signed in that time")]
    return []


def _key_state(findings: Iterable[tuple[str, str]]) -> str:
    codes = {code for code, _ in findings}
    if codes & {"untrusted-key", "keyid-mismatch"}:
        return FAULT
    return UNPROVEN if codes else OK


def _answer(path: Path, found: _Found) -> Verification:
    listed = [*found.findings, ("unanchored", ALONE)]
    findings = [
        EvidenceFinding(found.run, found.attempt, found.epoch, found.seq, code, str(path), text, keyid=found.keyid)
        for code, text in listed
    ]
    return Verification(
        run=found.run,
        attempt=found.attempt,
        axes={**dict(found.axes), "anchor": UNPROVEN},
        findings=tuple(sorted(findings, key=EvidenceFinding.order)),
        limits=(ALONE, ALWAYS),
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> bytes:
    too_long = functools.partial(TrustError, code="cap-exceeded")
    return bounded_files.read(path, MAX_BYTES, f"{path}: evidence", too_long)
