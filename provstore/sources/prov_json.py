"""PROV-JSON files, read strictly and one record at a time."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from provstore.errors import InputError
from provstore.graph.prov_json_text import FORMAT, parse_prov_json
from provstore.model.prov import FORMAL, Document, Part, survey

READER_VERSION = "1"
_HELD_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20
_FIRST_KEY = re.compile(r'\s*\{\s*"([^"\\]*)"\s*:')
_KEYS = frozenset({*FORMAL, "prefix", "bundle"})


def recognises(head: bytes, name: str) -> bool:
    """Return whether a file with these first bytes and this name is meant as PROV-JSON."""
    if name.lower().endswith((".provjson", ".prov.json")):
        return True
    found = _FIRST_KEY.match(head.decode(errors="ignore").removeprefix("\ufeff"))
    return found is not None and found[1] in _KEYS


def read(path: Path, *, key: str | None = None, allow_empty: bool = False) -> Document:
    """Return the document in a PROV-JSON file, read through once so that it is known to be whole.

    A file of up to 16 MiB is held as records; a larger one is read again each time its parts are asked for, and must
    not change meanwhile.

    Args:
        path: The file.
        key: Id of the document in the graph; ``sha256-`` and the digest of the bytes when not given.
        allow_empty: Take a document without any record.

    Raises:
        InputError: The file cannot be read or is no PROV-JSON; the message gives file, format and place.
    """
    digest, size = _digest(path)
    warnings: Counter[str] = Counter()
    held = list(_parsed(path, warnings)) if size <= _HELD_BYTES else None
    kinds, bundles = survey(_parsed(path, warnings) if held is None else held)
    if not kinds and not allow_empty:
        raise InputError(f"{path.name}: {FORMAT}: the document holds no record")

    def parts() -> Iterable[Part]:
        if held is not None:
            return held
        if _digest(path)[0] != digest:
            raise InputError(f"{path.name}: {FORMAT}: the file changed while it was read")
        return _parsed(path, Counter())

    name = key or f"sha256-{digest}"
    return Document(name, parts, sum(kinds.values()), bundles, kinds, dict(warnings), digest, size)


def _parsed(path: Path, warnings: Counter[str]) -> Iterator[Part]:
    try:
        with path.open(encoding="utf-8", newline="") as text:
            yield from parse_prov_json(text, path.name, warnings)
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: {FORMAT} offset {_bad_byte(path)}: not UTF-8 text") from error


def _digest(path: Path) -> tuple[str, int]:
    """Return (SHA-256 of the bytes, their number)."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path.name}: {FORMAT}: cannot be read: {error.strerror or error}")


def _bad_byte(path: Path) -> int:
    """Return the offset of the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                return offset - pending + error.start
            offset += len(chunk)
    return offset
