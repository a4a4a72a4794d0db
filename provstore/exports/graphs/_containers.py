"""Sorting the parts of a PROV document into the document and its bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from provstore.model.prov import Bundle, Part, Record


class Container(Protocol):
    """The document or one bundle, as a writer holds it."""

    is_opened: bool
    """Whether a record or a head of its own went into it."""

    def add(self, record: Record) -> None:
        """Take one record."""
        ...


C = TypeVar("C", bound=Container)


def sorted_into(parts: Iterable[Part], make: Callable[[Bundle, C | None], C]) -> tuple[C, list[C]]:
    """Return (the document, its bundles in the order they were first met), each holding its records.

    Args:
        parts: Heads and records; a record belongs to the head before it, and a bundle may be entered again.
        make: Makes a container from its head and, for a bundle, the document.
    """
    document = make(Bundle(), None)
    bundles: dict[str, C] = {}
    current = document
    for part in parts:
        if isinstance(part, Record):
            current.add(part)
        elif part.name is None:
            if not document.is_opened:
                document = make(part, None)
            current = document
        elif part.name.iri in bundles:
            current = bundles[part.name.iri]
        else:
            current = bundles[part.name.iri] = make(part, document)
    return document, list(bundles.values())
