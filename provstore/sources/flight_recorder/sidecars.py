"""Sidecars: what the capture helper (``fr_meta_rank_<r>.json``) or a bare list of groups (``pgs_<r>.json``) states."""

from __future__ import annotations

import json
from collections.abc import Mapping

from provstore.sources.flight_recorder.faults import Refused, shown
from provstore.sources.flight_recorder.groups import Declared, parse_ranks
from provstore.sources.flight_recorder.plain import clean
from provstore.sources.flight_recorder.shapes import Caps

SCHEMA = "provstore-fr-sidecar/"
_TEXTS = ("run", "host", "torch_version", "reason")
_NUMBERS = (
    "attempt",
    "world_size",
    "local_rank",
    "pid",
    "dumped_at_ns",
    "monotonic_ns",
    "still_ns",
    "still_limit_ns",
)
_ATTEMPTS = 1 << 31
_TABLES = ("device", "settings")
_MANY = 1000
_SHOWN_ERROR = 300


class SidecarFacts:
    """A sidecar's fields as JSON values, and its groups."""

    def __init__(self, fields: dict[str, object], groups: list[Declared], warnings: list[str]) -> None:
        self.fields = fields
        self.groups = groups
        self.warnings = warnings


def read_sidecar(data: bytes, caps: Caps) -> SidecarFacts:
    """Return what a sidecar states; fields of the wrong type are left out with a warning.

    Raises:
        Refused: Not a sidecar, one of another rank, or one with a number that no job has.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON: {str(error)[:200]}") from error
    if isinstance(value, list):
        return SidecarFacts({"rank": caps.rank}, _groups(value, caps), [])
    if not isinstance(value, dict) or not str(value.get("schema", "")).startswith(SCHEMA):
        raise Refused(f"{shown(value)} is neither a list of groups nor an object with the schema {SCHEMA}1")
    if value.get("rank") != caps.rank:
        raise Refused(f"rank: {shown(value.get('rank'))} is stated, {caps.rank} is expected from the file's name")
    _check_numbers(value, caps)
    warnings: list[str] = []
    if value["schema"] != f"{SCHEMA}1":
        warnings.append(f"sidecar: schema {shown(value['schema'])} is not known: read by its fields")
    fields = _fields(value, warnings)
    fields["rank"] = caps.rank
    return SidecarFacts(fields, _groups(value.get("process_groups") or [], caps), warnings)


def _check_numbers(value: Mapping[str, object], caps: Caps) -> None:
    below = {"world_size": caps.ranks, "local_rank": caps.ranks, "attempt": _ATTEMPTS}
    for name in _NUMBERS:
        stated, end = value.get(name), below.get(name, 1 << 63)
        if type(stated) is int and not 0 <= stated < end:
            raise Refused(f"{name}: {shown(stated)} is not from 0 to {end - 1}")


def _fields(value: Mapping[str, object], warnings: list[str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name in (*_TEXTS, *_NUMBERS, *_TABLES, "errors"):
        stated = value.get(name)
        if stated is None:
            continue
        if name in _TEXTS and isinstance(stated, str):
            fields[name] = clean(stated)
        elif name in _NUMBERS and type(stated) is int:
            fields[name] = stated
        elif name in _TABLES and isinstance(stated, dict):
            fields[name] = {clean(key): clean(item) for key, item in list(stated.items())[:_MANY]}
        elif name == "errors" and isinstance(stated, list):
            fields[name] = [clean(item) for item in stated[:_MANY]]
        else:
            warnings.append(f"sidecar: {name}: {shown(stated)}: ignored")
    return fields


def _groups(value: object, caps: Caps) -> list[Declared]:
    if not isinstance(value, list) or len(value) > caps.groups:
        raise Refused(f"process groups: {shown(value)} is not a list of at most {caps.groups} groups")
    groups = []
    for at, stated in enumerate(value):
        place = f"process_groups[{at}]"
        if not isinstance(stated, dict) or not isinstance(stated.get("pg_name"), str):
            raise Refused(f"{place}: {shown(stated)} is not a group")
        name, desc = clean(stated["pg_name"]), clean(stated.get("pg_desc") or "")
        ranks = parse_ranks(stated.get("ranks"), f"{place}.ranks", caps)
        if ranks and caps.rank not in ranks:
            raise Refused(f"{place}: rank {caps.rank}, expected from the file's name, is not among {shown(ranks)}")
        groups.append(Declared(name, desc, ranks, "sidecar", clean(stated.get("backend_config") or "")))
    return groups


def first_error(data: bytes) -> str:
    """Return the first error a sidecar of the capture helper states, short and printable; ``""`` when it states none.

    Nothing is known of the bytes: they may be of any file.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    errors = value.get("errors") if isinstance(value, dict) else None
    if not isinstance(errors, list) or not errors or not isinstance(errors[0], str):
        return ""
    text = "".join(char if char.isprintable() else " " for char in errors[0][: _SHOWN_ERROR + 1]).strip()
    return text if len(text) <= _SHOWN_ERROR else f"{text[:_SHOWN_ERROR]}…"
