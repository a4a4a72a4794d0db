"""Documents of the ``prov`` library, handed over as objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson
from prov.model import ProvDocument

from provstore.errors import InputError
from provstore.graph.prov_objects import document_parts
from provstore.model.prov import Document, Part, survey

READER_VERSION = "1"


def recognises(head: bytes, name: str) -> bool:  # noqa: ARG001 - the contract of sources
    """Return ``False``: no file is an object."""
    return False


def read(document: object, *, key: str | None = None, allow_empty: bool = True) -> Document:
    """Return a ``prov.model.ProvDocument`` as it is now; later changes to the object do not reach it.

    Args:
        document: The object.
        key: Id of the document in the graph; ``sha256-`` and the digest of its content, names, order and prefixes
            included, when not given.
        allow_empty: Take a document without any record.

    Raises:
        InputError: It is no ``ProvDocument``, or holds a value without PROV form; the message names record and
            attribute.
    """
    if not isinstance(document, ProvDocument):
        raise InputError(f"{type(document).__name__}: ingest: neither a path nor a prov.model.ProvDocument")
    parts = list(document_parts(document))
    kinds, bundles = survey(parts)
    if not kinds and not allow_empty:
        raise InputError("PROV document: ingest: the document holds no record")
    name = key or f"sha256-{_digest(parts)}"
    return Document(name, lambda: parts, sum(kinds.values()), bundles, kinds)


def _digest(parts: Iterable[Part]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        try:
            digest.update(orjson.dumps(part))
        except TypeError as error:
            raise InputError("PROV document: ingest: a text holds a lone surrogate, which is not Unicode") from error
        digest.update(b"\n")
    return digest.hexdigest()
