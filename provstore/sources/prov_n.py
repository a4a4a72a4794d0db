"""PROV-N files, read through the ``prov`` library."""

from __future__ import annotations

import hashlib
import re
import warnings as python_warnings
from pathlib import Path

import prov
from prov.model import ProvDocument
from prov.serializers.provn_lexer import ProvNSyntaxError

from provstore.errors import InputError, NotUnderstoodError
from provstore.graph.prov_objects import document_parts
from provstore.model.prov import Document, survey

FORMAT = "PROV-N"
READER_VERSION = "1"
MAX_BYTES = 64 << 20
"""The library holds about thirty times the text of a document in memory, so a larger one is refused."""

_LEAD = re.compile(r"\ufeff?(?:\s|//[^\n\r]*|/\*.*?\*/)*+", re.DOTALL)
_BEGINNING = re.compile(r"document\b")
_SHOWN = 200
"""Characters that the library is shown of a text that begins as none does: it reads all of it before it says so."""
_BEYOND_MICROSECONDS = re.compile(r"T\d\d:\d\d:\d\d\.\d{7,}")


def recognises(head: bytes, name: str) -> bool:
    """Return whether a file with these first bytes and this name is meant as PROV-N."""
    return name.lower().endswith(".provn") or _begins(head.decode(errors="ignore")) is None


def read(path: Path, *, key: str | None = None, allow_empty: bool = False) -> Document:
    """Return the document in a PROV-N file.

    Times keep microseconds only; ``precision_lost`` counts those that had more digits.

    Args:
        path: The file.
        key: Id of the document in the graph; ``sha256-`` and the digest of the bytes when not given.
        allow_empty: Take a document without any record.

    Raises:
        InputError: The file cannot be read or is no PROV-N; the message gives file, format and place.
        NotUnderstoodError: The file is larger than ``MAX_BYTES``.
    """
    data = _bytes(path)
    warnings: dict[str, int] = {}
    parts = list(document_parts(_parsed(path.name, data, warnings)))
    kinds, bundles = survey(parts)
    if not kinds and not allow_empty:
        raise InputError(f"{path.name}: {FORMAT}: the document holds no record")
    digest = hashlib.sha256(data).hexdigest()
    name = key or f"sha256-{digest}"
    return Document(name, lambda: parts, sum(kinds.values()), bundles, kinds, warnings, digest, len(data))


def _begins(text: str) -> int | None:
    """Return where a text begins, behind blanks and comments, with something else than a document; ``None`` if not."""
    lead = _LEAD.match(text)
    start = lead.end() if lead is not None else 0
    return None if _BEGINNING.match(text, start) else start


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise NotUnderstoodError(
                f"{path.name}: {FORMAT}: {size} bytes are more than {MAX_BYTES}", hint="PROV-JSON has no such limit"
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path.name}: {FORMAT}: cannot be read: {error.strerror or error}") from error


def _parsed(file: str, data: bytes, warnings: dict[str, int]) -> ProvDocument:
    try:
        text = data.decode()
        start = _begins(text)
        shown = text if start is None else text[: start + _SHOWN]
        with python_warnings.catch_warnings(record=True) as caught:
            python_warnings.simplefilter("always")
            document: ProvDocument = ProvDocument.deserialize(content=shown, format="provn")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: {FORMAT} offset {error.start}: not UTF-8 text") from error
    except ProvNSyntaxError as error:
        message = ascii(error.message)[1:-1]
        raise InputError(f"{file}: {FORMAT} line {error.line} column {error.column}: {message}") from error
    except (prov.Error, ValueError, RecursionError) as error:
        raise InputError(f"{file}: {FORMAT}: {ascii(str(error))[1:-1]}") from error
    if caught:
        warnings["announced_rejection"] = len(caught)
    lost = len(_BEYOND_MICROSECONDS.findall(text))
    if lost:
        warnings["precision_lost"] = lost
    return document
