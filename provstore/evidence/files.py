"""Exported evidence as a place that can be verified: a directory of epoch files, envelopes and checkpoints.

What a file says about its run is a claim until its signature has been checked; the names of the files give the order.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence import checkpoint, dsse, statement
from provstore.model import canonical
from provstore.model.evidence import BundleAt, RecordAt

MAX_EPOCH_BYTES = 120 * 1024 * 1024
MAX_FILES = 1_000_000
MAX_LINES_BYTES = 64 << 30
MAX_SIGSTORE_BYTES = 2 * dsse.MAX_TEXT_BYTES

_NAME = re.compile(r"epoch-(0|[1-9][0-9]{0,9})\.(jsonl|dsse\.json|sigstore\.json|checkpoint)")
_RECORDS, _DSSE, _SIGSTORE, _CHECKPOINT = "jsonl", "dsse.json", "sigstore.json", "checkpoint"
_MEDIA_TYPE = re.compile(r"application/vnd\.dev\.sigstore\.bundle(\.v0\.3\+json|\+json;version=0\.[123])")


@dataclass(frozen=True, slots=True)
class Numbered:
    """The bundle under a number, and the files there that hold another one."""

    number: int
    bundle: BundleAt
    others: tuple[str, ...]
    """Names of the files with another envelope than the one that is meant; none where nothing tells which that is."""


class ExportedEvidence:
    """The evidence in a directory that ``provstore evidence export`` wrote; an ``EvidenceLog``.

    Run, attempt and journal are what the first readable statement claims.

    Args:
        directory: Holds ``epoch-N.jsonl`` and ``epoch-N.dsse.json`` or ``epoch-N.sigstore.json``, perhaps
            ``epoch-N.checkpoint``.
        is_signed: Returns whether a trusted key signed an envelope: tells which is meant where the two forms of an
            epoch hold different ones.

    Raises:
        InputError: It is no directory, or there is no such file in it.
        NotUnderstoodError: It holds more files than are looked at.
    """

    def __init__(self, directory: Path, is_signed: Callable[[bytes], bool] | None = None) -> None:
        self.directory, self._is_signed = directory, is_signed
        self._epochs = _epochs(directory)
        epoch = self._first_statement()
        self.run, self.attempt, self.store = ("", 0, "") if epoch is None else (epoch.run, epoch.attempt, epoch.store)
        self.is_stated = epoch is not None
        """False when no envelope could be read: then nothing says which run this is."""

    def bundles(self) -> Iterator[BundleAt]:
        """Yield the bundles by the numbers in their names, each with its checkpoint.

        What cannot be an envelope is yielded as it stands: whoever verifies refuses it and goes on. Of two files that
        hold different envelopes of one epoch, the one counts that a trusted key signed, else the one that is an
        envelope at all; where that is both or neither, nothing tells which of them is meant, and none is yielded.
        """
        return (one.bundle for one in self.numbered())

    def numbered(self) -> Iterator[Numbered]:
        """Yield the bundles with the numbers in their names; each file is read once."""
        for number, forms in self._epochs.items():
            told = self._told(number, forms)
            if told:
                envelope = self._meant(told)
                note = self._checkpoint(number) if _CHECKPOINT in forms else None
                holding = sorted(form for form in told if told[form] == envelope)
                where = _name(number, holding[0]) if holding else " and ".join(_name(number, form) for form in told)
                others = [_name(number, form) for form in told if envelope and told[form] != envelope]
                yield Numbered(number, BundleAt(envelope, note, where), tuple(others))

    def envelope(self, name: str) -> bytes:
        """Return the envelope in a file of the directory, of the form that its name tells.

        Raises:
            InputError: It is no regular file, or cannot be read.
            NotUnderstoodError: It is larger than is looked at.
            TrustError: It is to be a Sigstore bundle, and is none: see :func:`envelope_in`.
        """
        return _unwrapped(name, self._wrapped(name))

    def names(self) -> set[str]:
        """Return the names of everything in the directory."""
        with os.scandir(self.directory) as entries:
            return {entry.name for entry in entries}

    def read(self, name: str) -> bytes:
        """Return the bytes of a file of the directory that is no file of records.

        Raises:
            InputError: It is no regular file, or cannot be read.
            NotUnderstoodError: It is larger than is looked at.
        """
        return _read(self.directory / name, MAX_SIGSTORE_BYTES)

    def lines_of(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the lines of a file with their ends; a longer line than ``most`` comes in pieces.

        Raises:
            InputError: It is no regular file, or cannot be read.
            NotUnderstoodError: It is larger than is looked at.
        """
        with _opened(self.directory / name, MAX_LINES_BYTES) as file:
            while line := file.readline(most):
                yield line

    def sha256(self, name: str, most: int = MAX_LINES_BYTES) -> str:
        """Return the digest of a file of the directory in hex digits; never all of it is in memory.

        Raises:
            InputError: It is no regular file, or cannot be read.
            NotUnderstoodError: It is larger than ``most``.
        """
        found = hashlib.sha256()
        with _opened(self.directory / name, most) as file:
            while piece := file.read(1 << 20):
                found.update(piece)
        return found.hexdigest()

    def records(self) -> Iterator[RecordAt]:
        """Yield the record lines by the numbers in the names; the files state no indices.

        Raises:
            InputError: A file does not end with a line end, or cannot be read.
            NotUnderstoodError: A file or a line is larger than is looked at.
        """
        for number, forms in self._epochs.items():
            if _RECORDS in forms:
                yield from self._lines(_name(number, _RECORDS))

    def moved(self) -> Iterator[tuple[int, str]]:
        """Yield number and name of every file of records that is not the one that the bundle of its number states."""
        for one in self.numbered():
            epoch = _statement(one.bundle) if _RECORDS in self._epochs[one.number] else None
            name = _name(one.number, _RECORDS)
            if epoch is not None and self.sha256(name, MAX_EPOCH_BYTES) != epoch.subject_sha256:
                yield one.number, name

    def _lines(self, name: str) -> Iterator[RecordAt]:
        path, most = self.directory / name, canonical.MAX_RECORD_BYTES + 1
        with _opened(path, MAX_EPOCH_BYTES) as file:
            at = 0
            while line := file.readline(most):
                at += 1
                if not line.endswith(b"\n"):
                    if len(line) == most:
                        raise NotUnderstoodError(f"{path}: line {at}: more than {canonical.MAX_RECORD_BYTES} bytes")
                    raise InputError(f"{path}: line {at}: has no line end: the file was cut")
                yield RecordAt(None, line[:-1], f"{name} line {at}")

    def _told(self, number: int, forms: set[str]) -> dict[str, bytes]:
        """Return the envelope that each form of an epoch holds."""
        return {form: self._envelope(number, form) for form in (_DSSE, _SIGSTORE) if form in forms}

    def _meant(self, told: dict[str, bytes]) -> bytes:
        """Return the envelope of an epoch; nothing where its forms hold different ones and nothing tells them apart."""
        different = list(dict.fromkeys(told.values()))
        if len(different) == 1:
            return different[0]
        signed = [one for one in different if self._is_signed is not None and self._is_signed(one)]
        likely = signed or [one for one in different if self._is_signed is not None and _is_envelope(one)]
        return likely[0] if len(likely) == 1 else b""

    def _envelope(self, number: int, form: str) -> bytes:
        """Return the envelope as ``dsse.parse`` takes it, or what stands in its place."""
        name = _name(number, form)
        whole = self._wrapped(name)
        try:
            return _unwrapped(name, whole)
        except TrustError:
            return whole

    def _wrapped(self, name: str) -> bytes:
        return _read(self.directory / name, MAX_SIGSTORE_BYTES if name.endswith(_SIGSTORE) else dsse.MAX_TEXT_BYTES)

    def _checkpoint(self, number: int) -> bytes:
        return _read(self.directory / _name(number, _CHECKPOINT), checkpoint.MAX_NOTE_BYTES)

    def _first_statement(self) -> statement.Epoch | None:
        return next((said for bundle in self.bundles() if (said := _statement(bundle)) is not None), None)


def _unwrapped(name: str, data: bytes) -> bytes:
    """Return the envelope in a file; in a Sigstore bundle it is a member."""
    return envelope_in(data) if name.endswith(_SIGSTORE) else data


def _statement(bundle: BundleAt) -> statement.Epoch | None:
    """Return what a bundle states; ``None`` where it is none that can be read."""
    try:
        return statement.parse(dsse.parse(bundle.envelope).payload)
    except TrustError:
        return None


def _is_envelope(data: bytes) -> bool:
    try:
        dsse.parse(data)
    except TrustError:
        return False
    return True


def envelope_in(bundle: bytes) -> bytes:
    """Return the DSSE envelope of a Sigstore bundle that is verified with a key, as its own canonical text.

    Members that a key does not need, such as entries of a public log, are not looked at.

    Raises:
        TrustError: ``envelope-malformed``, ``unknown-schema`` (another version of the format) or ``cap-exceeded``.
    """
    try:
        value: Any = canonical.parse(bundle, max_bytes=MAX_SIGSTORE_BYTES, thing="Sigstore bundle")
    except NotUnderstoodError as error:
        raise TrustError(str(error), code="cap-exceeded") from error
    except InputError as error:
        raise TrustError(str(error), code="envelope-malformed") from error
    kind = value.get("mediaType") if isinstance(value, dict) else None
    envelope = value.get("dsseEnvelope") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not isinstance(envelope, dict):
        text = "Sigstore bundle: members: need a media type and an envelope"
        raise TrustError(text, code="envelope-malformed")
    if not _MEDIA_TYPE.fullmatch(kind):
        raise TrustError(f"Sigstore bundle: media type: {kind[:80]!a} is not known", code="unknown-schema")
    return canonical.encode(envelope)


def _epochs(directory: Path) -> dict[int, set[str]]:
    """Return the forms that stand under each number, by number."""
    found: dict[int, set[str]] = {}
    if not directory.is_dir():
        what = "neither a folder nor a file" if os.path.lexists(directory) else "no such directory"
        raise InputError(f"{directory}: evidence: {what}")
    with os.scandir(directory) as entries:
        for seen, entry in enumerate(entries):
            if seen >= MAX_FILES:
                raise NotUnderstoodError(f"{directory}: evidence: more than {MAX_FILES} files")
            named = _NAME.fullmatch(entry.name)
            if named is not None:
                found.setdefault(int(named[1]), set()).add(named[2])
    if not found:
        raise InputError(
            f"{directory}: evidence: holds no epoch-N.jsonl, .dsse.json or .sigstore.json",
            hint="provstore evidence export writes such folders; run:NAME is a run of the store",
        )
    return dict(sorted(found.items()))


def _name(number: int, form: str) -> str:
    return f"epoch-{number}.{form}"


def _read(path: Path, most: int) -> bytes:
    """Return the bytes of a file.

    Raises:
        InputError: It is no regular file, or cannot be read.
        NotUnderstoodError: It is larger than is looked at.
    """
    with _opened(path, most) as file:
        return file.read()


@contextlib.contextmanager
def _opened(path: Path, most: int) -> Iterator[BinaryIO]:
    """Give a regular file of at most ``most`` bytes; a link or pipe in its place is neither followed nor waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{path}: evidence: is no regular file")
            if found.st_size > most:
                raise NotUnderstoodError(f"{path}: evidence: {found.st_size} bytes are more than {most}")
            yield file
    except OSError as error:
        raise InputError(f"{path}: evidence: {error.strerror}") from error
