"""Reading record lines fast: the common kind by one expression that takes less than the strict reader, never more."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson

from provstore.errors import InputError
from provstore.model import canonical

# Strings without escapes, of printable ASCII: anything else goes to the strict reader.
STRING = rb'"[ !#-\[\]-~]*+"'
# So many digits are always inside 2**53 - 1 and 64 bits, and three digits of an exponent inside a double.
COUNT = rb"(?:0|[1-9][0-9]{0,14}+)"
LONG = rb"(?:0|-?[1-9][0-9]{0,17}+(?![0-9])|-?[1-8][0-9]{18}+)"
_DOUBLE = rb"-?0x1\.[0-9a-f]{13}p(?:\+(?:0|[1-9][0-9]{0,2}+)|-[1-9][0-9]{0,2}+)"
_VALUE = (
    rb'\{"n":' + STRING + rb',"t":(?:"f","v":"f64:' + _DOUBLE + rb'"|"i","v":"i64:' + LONG + rb'"|"s","v":'
    + STRING + rb'|"b","v":(?:true|false)|"z","v":null)\}'
)  # fmt: skip
_NAME = re.compile(rb'\{"n":"([^"]*)"')
_MOST_KNOWN = 1_024
"""Lists of names that are known to be in order; a run has few."""

Fields = tuple[int | None, int | None, int | None]
"""Rank, number among that rank's records (``None`` where nothing states one), wall time in nanoseconds."""


def quick_reader(run: str, attempt: int) -> Callable[[bytes], Fields | None]:
    """Return what reads a plain observation of this run, or says nothing: then the strict reader must decide."""
    match = re.compile(
        rb'\{"at":(?:null|"i64:(' + LONG + rb')"),"attempt":%d,"kind":"observation","n":(' % attempt + COUNT
        + rb'),"name":' + STRING + rb',"rank":(?:null|(' + COUNT + rb')),"run":' + re.escape(canonical.encode(run))
        + rb',"schema":1,"step":(?:null|' + COUNT + rb'),"values":\[(?:(' + _VALUE + rb"(?:," + _VALUE
        + rb")*+))?\]\}"
    ).fullmatch  # fmt: skip
    names_of = _NAME.findall
    ordered: set[tuple[bytes, ...]] = set()

    def read(line: bytes) -> Fields | None:
        # A record of the longest allowed size is rare, and the limit is the strict reader's to judge.
        if len(line) > 16_384 or (found := match(line)) is None:
            return None
        at, n, rank, values = found.groups()
        if values is not None and (names := tuple(names_of(values))) not in ordered:
            if list(names) != sorted(set(names)):
                return None
            if len(ordered) < _MOST_KNOWN:
                ordered.add(names)
        return None if rank is None else int(rank), int(n), None if at is None else int(at)

    return read


def quick_digest_reader(run: str, attempt: int) -> Callable[[bytes], dict[str, Any] | None]:
    """Return what reads a plain digest record of this run, or says nothing: then the strict reader must decide."""
    match = re.compile(
        rb'\{"at":(null|"i64:' + LONG + rb'"),"attempt":%d,"kind":"digest","n":(' % attempt + COUNT
        + rb'),"name":"(' + STRING[1:-1] + rb')","rank":(null|' + COUNT + rb'),"ranks":(\[(?:' + COUNT + rb"(?:,"
        + COUNT + rb')*+)?\]),"run":' + re.escape(canonical.encode(run))
        + rb',"schema":1,"sha256":"([0-9a-f]{64})","step":(null|' + COUNT + rb")\}"
    ).fullmatch  # fmt: skip
    groups: dict[bytes, tuple[int, ...]] = {}

    def read(line: bytes) -> dict[str, Any] | None:
        if len(line) > 16_384 or (found := match(line)) is None:
            return None
        at, n, name, rank, ranks, sha256, step = found.groups()
        group = groups.get(ranks)
        if group is None:
            group = tuple(orjson.loads(ranks))
            if any(left >= right for left, right in pairwise(group)):
                return None
            if len(groups) < _MOST_KNOWN:
                groups[ranks] = group
        return {
            "at": None if at == b"null" else at[1:-1].decode(),
            "n": int(n),
            "name": name.decode(),
            "rank": None if rank == b"null" else int(rank),
            "ranks": group,
            "sha256": sha256.decode(),
            "step": None if step == b"null" else int(step),
        }

    return read


def fields(said: dict[str, Any]) -> Fields:
    """Return rank, number and time of a record that the strict reader took."""
    return said["rank"], said["n"], None if said["at"] is None else canonical.tagged_integer(said["at"])


def guess(line: bytes) -> Fields:
    """Return rank and number of a line that is no record known here, as far as it has them."""
    try:
        canonical.require_shape(line, max_bytes=canonical.MAX_RECORD_BYTES, thing="record")
        said = orjson.loads(line)
    except (ValueError, InputError):
        return None, None, None
    found = said if isinstance(said, dict) else {}
    rank, n = found.get("rank"), found.get("n")
    return (rank if type(rank) is int else None), (n if type(n) is int else None), None
