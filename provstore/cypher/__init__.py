"""The only opener of ``.cypher`` files, where all query text lives, and the guard of a user's own queries."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from provstore.cypher.guard import check, parameters_of
from provstore.errors import ConfigError
from provstore.model.block import CAPTURED_RELATIONS, DERIVED_RELATIONS, STRUCTURE_RELATIONS, UNIQUE_KEY

ADHOC = "adhoc"
ADHOC_TIMEOUT_SECONDS = 10.0
ADHOC_MAX_ROWS = 10_000

NUMBERS = frozenset(("attempt", "end", "first", "index", "op_id", "p2p_seq", "rank", "seq"))
"""Parameters of shipped queries that are integers of 64 bits; the others are text or lists."""

OFFERED = tuple(f"read/{topic}" for topic in ("agents/", "collectives/", "documents/list", "evidence/", "runs/"))
"""How the names of questions that people ask begin; the others are building blocks."""

_PACKAGE = Path(__file__).parent.parent
_NAME = re.compile(r"[a-z0-9_]+(?:/[a-z0-9_]+)+")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HEADER_KEYS = ("params", "returns", "none", "names", "dialect", "order")
_RELATION_TYPES = frozenset((*CAPTURED_RELATIONS, *STRUCTURE_RELATIONS, *DERIVED_RELATIONS))


@dataclass(frozen=True, slots=True)
class Query:
    """One Cypher text with what it takes, what it gives and how far it may go."""

    name: str
    """Path below ``cypher/`` without ending, such as ``read/lineage/ancestors``; ``adhoc`` for a user's own text."""
    text: str
    params: tuple[str, ...]
    returns: tuple[str, ...]
    """Column names in order; empty for a write, and for ad-hoc text, whose columns only the engine knows."""
    timeout_seconds: float | None = None
    max_rows: int | None = None
    summary: str = ""
    """What the query answers, in one line."""
    none: str = ""
    """What it means that there are no rows, where the query says so."""


def query(name: str, engine: str | None = None) -> Query:
    """Return the shipped query ``name``, in the dialect of ``engine`` where a file of its own exists.

    Args:
        name: Path below ``cypher/`` without ending, such as ``read/lineage/ancestors``.
        engine: Module name of the store, such as ``neo4j``.

    Raises:
        ConfigError: No such query, or its header does not fit its text.
    """
    return _load(name, engine)


def dialect(query: Query, engine: str) -> Query:
    """Return ``query`` in the text that ``engine`` has of its own, with the same limits; else ``query`` itself."""
    own = _load(query.name, engine)
    if own.text == _load(query.name, None).text:
        return query
    return replace(own, timeout_seconds=query.timeout_seconds, max_rows=query.max_rows)


def full_name(name: str, topic: str) -> str:
    """Return the query below ``topic`` that ``name`` means: its path, or its last part where that is enough.

    Raises:
        ConfigError: None has this name, or several do; the message offers the likeliest of those that people ask.
    """
    known = names(topic.rstrip("/"))
    wanted = name if name.startswith(topic) else topic + name
    fits = [wanted] if wanted in known else [one for one in known if one.rpartition("/")[2] == name]
    if len(fits) == 1:
        return fits[0]
    if fits:
        several = ", ".join(one.removeprefix(topic) for one in fits)
        raise ConfigError(f"{name}: query: {len(fits)} have this name: {several}")
    ends = {one.rpartition("/")[2]: one.removeprefix(topic) for one in known if one.startswith(OFFERED)}
    close = difflib.get_close_matches(name.rpartition("/")[2], ends, n=3, cutoff=0.5)
    guess = f"; did you mean {' or '.join(ends[one] for one in close)}?" if close else ""
    raise ConfigError(f"{name}: query: no such query{guess}", hint="provstore query --list shows all")


def names(topic: str) -> list[str]:
    """Return the names of all queries below a folder such as ``read/lineage`` or ``read``, in alphabetical order."""
    folder = _root() / topic
    found = {path.relative_to(_root()).with_suffix("").as_posix().split(".")[0] for path in folder.rglob("*.cypher")}
    return sorted(found)


def adhoc(text: str) -> Query:
    """Return a user's own reading query with its limits: 10 s and 10,000 rows.

    Raises:
        InputError: The text could do anything but read, could run without bound, or is longer than 64 KiB; the
            message names the first offending word.
    """
    check(text)
    return Query(ADHOC, text, parameters_of(text), (), ADHOC_TIMEOUT_SECONDS, ADHOC_MAX_ROWS, "a query of the user")


def named(query: Query, stand_ins: Mapping[str, str | tuple[str, ...]]) -> Query:
    """Return ``query`` with the stand-ins its header lists replaced by names from the allow-list.

    Labels and relationship types cannot be parameters. ``BASE_LABEL``, ``SOURCE_LABEL`` and ``TARGET_LABEL`` take a key
    of ``UNIQUE_KEY`` (``UNIQUE_KEY``, ``SOURCE_KEY``, ``TARGET_KEY`` follow from it), ``RELATION_TYPE`` a known type,
    ``LABELS`` a tuple of plain label names.

    Raises:
        ConfigError: A name is not allowed.
    """
    text = query.text
    for stand_in, value in stand_ins.items():
        for word, plain in _replacements(query.name, stand_in, value):
            text = re.sub(rf"\b{word}\b", plain, text)
    return replace(query, text=text)


def _replacements(place: str, stand_in: str, value: str | tuple[str, ...]) -> list[tuple[str, str]]:
    if isinstance(value, tuple):
        bad = [label for label in value if not _LABEL.fullmatch(label)]
        if stand_in == "LABELS" and not bad and value:
            return [(stand_in, ":".join(value))]
    elif stand_in == "RELATION_TYPE" and value in _RELATION_TYPES:
        return [(stand_in, value)]
    elif stand_in in ("BASE_LABEL", "SOURCE_LABEL", "TARGET_LABEL") and value in UNIQUE_KEY:
        key = {"BASE_LABEL": "UNIQUE_KEY"}.get(stand_in, stand_in.replace("LABEL", "KEY"))
        return [(stand_in, value), (key, UNIQUE_KEY[value])]
    raise ConfigError(f"{place}: {stand_in}: {value!r} is not a name that may stand in a query")


def _root() -> Path:
    packaged = _PACKAGE / "_cypher"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "cypher"


@functools.cache
def _load(name: str, engine: str | None) -> Query:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name}: not the name of a query; a name looks like read/lineage/ancestors")
    for file in ([f"{name}.{engine}.cypher"] if engine else []) + [f"{name}.cypher"]:
        path = _root() / file
        if path.is_file():
            return _parse(name, file, path.read_text(encoding="utf-8"))
    known = names(name.rpartition("/")[0]) or names("read")
    raise ConfigError(f"{name}: no such query; known are {', '.join(known)}")


def _parse(name: str, place: str, source: str) -> Query:
    lines = source.splitlines()
    comments = [line[2:].strip() for line in lines if line.startswith("//")]
    text = "\n".join(line for line in lines if not line.startswith("//")).strip()
    header = {key: rest.strip() for key, _, rest in (line.partition(":") for line in comments) if key in _HEADER_KEYS}
    summary = comments[0] if comments else ""
    if not summary or summary.partition(":")[0] in _HEADER_KEYS or not {"params", "returns"} <= set(header):
        raise ConfigError(f"{place}: header: needs a line of what it answers, then params: and returns:")
    declared, used = _listed(header["params"]), parameters_of(text)
    if sorted(declared) != sorted(used):
        raise ConfigError(f"{place}: params: declared are {sorted(declared)}, used are {sorted(used)}")
    if "." in place.removesuffix(".cypher") and "dialect" not in header:
        raise ConfigError(f"{place}: dialect: the reason for a text of its own is missing")
    none = header.get("none", "")
    return Query(name, text, declared, _listed(header["returns"]), summary=summary, none=none)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
