"""PROV-JSON files, read strictly and one record at a time."""

from __future__ import annotations

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
    text, digest, size = _text(path)
    warnings: Counter[str] = Counter()
    held = list(parse_prov_json(text, path.name, warnings)) if size <= _HELD_BYTES else None
    kinds, bundles = survey(parse_prov_json(text, path.name, warnings) if held is None else held)
    if not kinds and not allow_empty:
        raise InputError(f"{path.name}: {FORMAT}: the document holds no record")
    del text

    def parts() -> Iterable[Part]:
        return _again(path, digest) if held is None else held

    name = key or f"sha256-{digest}"
    return Document(name, parts, sum(kinds.values()), bundles, kinds, dict(warnings), digest, size)


def _again(path: Path, digest: str) -> Iterator[Part]:
    text, now, _ = _text(path)
    if now != digest:
        raise InputError(f"{path.name}: {FORMAT}: the file changed while it was read")
    yield from parse_prov_json(text, path.name)


def _text(path: Path) -> tuple[str, str, int]:
    """Return (text, SHA-256 of the bytes, their number)."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path.name}: {FORMAT}: cannot be read: {error.strerror or error}") from error
    try:
        return data.decode().removeprefix("\ufeff"), hashlib.sha256(data).hexdigest(), len(data)
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: {FORMAT} offset {error.start}: not UTF-8 text") from error
