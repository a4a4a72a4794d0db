"""Identifiers: readable, deterministic IRIs made from what one source file states."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from urllib.parse import unquote

ID_SCHEME_VERSION = 1
BASE = "https://w3id.org/provstore/id/"

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_INNER = _PLAIN | {"-", "."}
_EMPTY = "~"
_HASH_DIGITS = 12


def component(text: str) -> str:
    """Return ``text`` percent-encoded so that it is one component of an id and legal in a PROV-N local part.

    Letters, digits and ``_`` stay; ``-`` and ``.`` stay inside a component; everything else, ``/``, ``@`` and ``~``
    included, becomes ``%XX`` of its UTF-8 bytes. Distinct texts give distinct components; the empty text gives ``~``.

    Raises:
        ValueError: The text holds a lone surrogate, which no UTF-8 can carry.

    Source: PROV-N, production ``PN_LOCAL``.
    """
    if not text:
        return _EMPTY
    last = len(text) - 1
    return "".join(
        char if char in _PLAIN or (char in _INNER and 0 < at < last) else _escaped(char) for at, char in enumerate(text)
    )


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def component_text(encoded: str) -> str:
    """Return the text that :func:`component` encoded."""
    return "" if encoded == _EMPTY else unquote(encoded, errors="strict")


def rank_set(ranks: Iterable[int]) -> str:
    """Return the short, order-free name of a set of ranks: ``3``, ``0-255``, ``0-252x4``, else 12 hex digits.

    The hex digits are the head of the SHA-256 of the sorted ranks written in decimal and joined by commas. Ranks are
    below 2**20, so a single rank never has 12 digits.
    """
    ordered = sorted(set(ranks))
    if not ordered:
        return "none"
    if len(ordered) == 1:
        return str(ordered[0])
    step = ordered[1] - ordered[0]
    if all(right - left == step for left, right in pairwise(ordered)):
        return f"{ordered[0]}-{ordered[-1]}" + ("" if step == 1 else f"x{step}")
    return hashlib.sha256(",".join(map(str, ordered)).encode()).hexdigest()[:_HASH_DIGITS]


def group_key(name: str, ranks: Sequence[int] | None) -> str:
    """Return a process group's component: ``name@ranks``, or ``name@unknown`` when no file declares the members."""
    return f"{component(name)}@{'unknown' if ranks is None else rank_set(ranks)}"


@functools.lru_cache(maxsize=64)
def attempt_iri(run: str, attempt: int) -> str:
    """Return the prefix, without trailing slash, of every id of one attempt of one run."""
    return f"{BASE}{component(run)}/{attempt}"


def rank_iri(run: str, attempt: int, rank: int) -> str:
    """Return the id of a rank (an Agent) of one attempt."""
    return f"{attempt_iri(run, attempt)}/rank/{rank}"


def group_iri(run: str, attempt: int, backend: str, group: str) -> str:
    """Return the id of a process group; ``group`` comes from :func:`group_key`."""
    return f"{attempt_iri(run, attempt)}/{component(backend)}/{group}"


def instance_iri(run: str, attempt: int, backend: str, group: str, seq: int) -> str:
    """Return the id of a collective instance whose sequence number every member shares."""
    return f"{group_iri(run, attempt, backend, group)}/{seq}"


def p2p_iri(run: str, attempt: int, backend: str, group: str, rank: int, op_id: int) -> str:
    """Return the id of one send or receive, keyed by its own rank's operation counter."""
    return f"{group_iri(run, attempt, backend, group)}/p2p/{rank}/{op_id}"


def side_iri(instance: str, rank: int, side: str) -> str:
    """Return the id of what ``rank`` puts into (``in``) or gets from (``out``) an instance, or of its bare ``call``."""
    return f"{instance}/{rank}/{side}"


def dump_iri(run: str, attempt: int, rank: int, digest: str) -> str:
    """Return the id of a rank's dump, named by the SHA-256 of its bytes; two ranks may leave equal bytes."""
    return f"{attempt_iri(run, attempt)}/dump/{rank}/{digest}"
