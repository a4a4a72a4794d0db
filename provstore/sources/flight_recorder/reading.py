"""One request of the worker: read a file, check it, and answer with a header of plain values and raw columns."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from array import array
from collections.abc import Mapping, Sequence
from operator import ge

from provstore.sources.flight_recorder import folding
from provstore.sources.flight_recorder.bounds import MIB, set_limits
from provstore.sources.flight_recorder.entries import Entries
from provstore.sources.flight_recorder.faults import Refused, shown
from provstore.sources.flight_recorder.groups import Declared, GroupTable, Libraries, read_config, read_status
from provstore.sources.flight_recorder.loading import load_json, load_pickle
from provstore.sources.flight_recorder.plain import Copier, clean
from provstore.sources.flight_recorder.shapes import Caps, Shapes
from provstore.sources.flight_recorder.sidecars import read_sidecar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOP_KEYS = frozenset(("version", "pg_config", "pg_status", "entries", "comm_lib_version", "nccl_version"))
_TELLING_KEYS = _TOP_KEYS - {"version"}
_KNOWN_VERSIONS = {(1, 4), *((2, minor) for minor in range(1, 11))}
_EXTRA_PARTS = 100_000
# Libraries that report completions: a few calls that left their work list without one have timed out.
_EVENT_LIBRARIES = frozenset(("nccl", "ncclx", "rccl", "rcclx", "mccl", "hccl", "bccl", "xccl"))


def answer(request: Mapping[str, Any]) -> tuple[dict[str, object], bytes]:
    """Return the reply to a request; every failure is a reply too.

    The request holds ``path`` and ``sidecar`` (bytes as Latin-1 text), ``form``, ``rank``, ``active_only``, ``limits``,
    ``memory_bytes`` and ``cpu_seconds``.
    """
    header: dict[str, object] = {"status": "refused"}
    try:
        set_limits(request["memory_bytes"], request["cpu_seconds"])
        return _read(request, header)
    except Refused as refused:
        header |= {"status": "foreign" if refused.foreign else "refused", "reason": str(refused)}
    except MemoryError:
        header |= {"reason": f"asks for more memory than the {request['memory_bytes'] // MIB} MiB its size allows"}
    except RecursionError:
        header |= {"reason": "nested too deeply for a dump"}
    except OSError as error:
        header |= {"reason": f"not readable: {error.strerror or error}"}
    except Exception as error:  # noqa: BLE001 (a flaw of the reader must not cost more than one file)
        header |= {"reason": f"the reader failed on it: {type(error).__name__}: {str(error)[:200]}"}
    return header, b""


def _read(request: Mapping[str, Any], header: dict[str, object]) -> tuple[dict[str, object], bytes]:
    limits = request["limits"]
    caps = Caps(limits, request["rank"])
    data = _bytes_of(request["path"], limits["file_bytes"])
    header |= {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    if not data:
        raise Refused("empty file (0 bytes)")
    warnings: list[str] = []
    sidecar = _sidecar(request["sidecar"], limits, caps, header, warnings)
    dump, entries_value = _top(data, request["form"], warnings)
    del data
    if len(entries_value) > limits["entries"]:
        raise Refused(f"entries: {len(entries_value)}, more than {limits['entries']}")
    entries = Entries(Shapes(caps), is_json=request["form"] == "json")
    entries.read(entries_value, limits["bad_entries"])
    header |= _facts(dump, entries, warnings, request["active_only"], len(entries_value))
    table = GroupTable(entries, caps.rank, read_config(dump.get("pg_config"), caps), sidecar)
    table.check_rank()
    body = _calls(header, dump, entries, table, warnings)
    header |= {"status": "ok", "warnings": [*warnings, *table.warnings]}
    return header, body


def _bytes_of(latin_path: str, most: int) -> bytes:
    # O_NONBLOCK: a FIFO that took the place of the file must not hang the worker.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(os.fsdecode(latin_path.encode("latin-1")), flags)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 (a descriptor, not a path)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused("not a regular file")
        if facts.st_size > most:
            raise Refused(f"{facts.st_size} bytes, more than {most}")
        return file.read()


def _sidecar(
    latin_path: str | None, limits: Mapping[str, int], caps: Caps, header: dict[str, object], warnings: list[str]
) -> Sequence[Declared]:
    """Return the sidecar's groups; a bad sidecar is reported and does not stop its dump."""
    if latin_path is None:
        return ()
    try:
        data = _bytes_of(latin_path, limits["sidecar_bytes"])
        facts = read_sidecar(data, caps)
    except (Refused, OSError, MemoryError) as error:
        header["sidecar_reason"] = str(error) or "asks for too much memory"
        return ()
    warnings += facts.warnings
    groups = [[group.name, group.desc, group.ranks or None] for group in facts.groups]
    header["sidecar"] = {**facts.fields, "digest": hashlib.sha256(data).hexdigest(), "groups": groups}
    return facts.groups


def _top(data: bytes, form: str, warnings: list[str]) -> tuple[Mapping[object, object], Sequence[object]]:
    """Return a dump's table and its entries.

    Raises:
        Refused: Not a dump.
    """
    if form == "json":
        value = load_json(data)
    else:
        value, trailing = load_pickle(data)
        if trailing:
            warnings.append(f"{trailing} bytes follow the pickle: ignored")
    if isinstance(value, list) and (form == "pickle" or (value and _is_entry(value[0]))):
        value = {"entries": value}
    if not isinstance(value, dict) or not any(key in value for key in _TELLING_KEYS):
        raise Refused(f"{shown(value)}: not the table of a Flight Recorder dump", foreign=True)
    entries = value.get("entries")
    if entries is None:
        entries = []
    if not isinstance(entries, list):
        raise Refused(f"entries: {shown(entries)} is not a list")
    if entries and isinstance(entries[0], dict) and _is_train_replay(entries[0]):
        raise Refused("events of wasmagent-train-replay (rank, pg_name, collective_seq), not a Flight Recorder dump")
    return value, entries


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and ("profiling_name" in value or _is_train_replay(value))


def _is_train_replay(entry: Mapping[object, object]) -> bool:
    return "collective_seq" in entry and "pg_name" in entry and "profiling_name" not in entry


def _facts(
    dump: Mapping[object, object], entries: Entries, warnings: list[str], active_only: bool | None, total: int
) -> dict[str, object]:
    version = _version(dump, entries, warnings)
    copier = Copier(_EXTRA_PARTS)
    # A table that is there and empty, as nccl_comm_state in JSON, says nothing.
    extra = {clean(key): copier.copy(value) for key, value in dump.items() if key not in _TOP_KEYS and value}
    if entries.extra:
        extra["entries"] = entries.extra
    if copier.was_cut or entries.extra_was_cut:
        warnings.append("unknown keys: too many or too deep to keep them all; the file's bytes hold the rest")
    library = dump.get("comm_lib_version", dump.get("nccl_version"))
    if entries.bad_count > len(entries.quarantined):
        warnings.append(f"{entries.bad_count} bad entries, of which the first {len(entries.quarantined)} are shown")
    ids = entries.record.tolist()
    if any(map(ge, ids, ids[1:])):
        warnings.append("record_id does not rise from entry to entry: the order of the file is kept")
    return {
        "version": version,
        "comm_lib_version": clean(library) if isinstance(library, str) and library else None,
        "extra": extra,
        "quarantined": entries.quarantined,
        "entry_count": total,
        "seq_comparable": entries.has_collective_seq or not entries.shape,
        "record_ids_stated": entries.record_ids_stated is not False,
        **_completeness(dump, entries, active_only, total),
    }


def _version(dump: Mapping[object, object], entries: Entries, warnings: list[str]) -> str | None:
    version = dump.get("version")
    if version is None:
        if entries.has_collective_seq:
            warnings.append("no format version is stated: read by its fields")
        return None
    pair = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", version, re.ASCII) if isinstance(version, str) else None
    if pair is None:
        warnings.append(f"version: {shown(version)} is not a format version: read by its fields")
    elif (int(pair[1]), int(pair[2])) not in _KNOWN_VERSIONS:
        warnings.append(f"version: {version} is not known (newest known: 2.10): read by its fields")
    return clean(version)


def _completeness(
    dump: Mapping[object, object], entries: Entries, active_only: bool | None, total: int
) -> dict[str, object]:
    """Return what the file says about itself: an eventless recorder, unfinished calls only, a ring that has wrapped."""
    shapes = list(zip(entries.shapes.shapes, entries.shape_counts()))
    seen = sum(times for shape, times in shapes if shape.state > 0)
    retired = sum(times for shape, times in shapes if shape.state == 0 and shape.retired)
    library = Libraries(entries).main
    is_usual = library not in _EVENT_LIBRARIES or retired > max(1, len(entries.shape) // 2)
    is_eventless = library == "gloo" or (bool(retired) and not seen and is_usual)
    if active_only is None:
        active_only = not is_eventless and _holds_active_only(dump, entries, shapes, total)
    first = min(entries.record, default=0) if entries.record_ids_stated else _first_seq(entries)
    return {"eventless": is_eventless, "active_only": active_only, "wrapped": first > 0 and not active_only}


def _holds_active_only(
    dump: Mapping[object, object], entries: Entries, shapes: Sequence[tuple[Any, int]], total: int
) -> bool:
    if not total:
        return any(status[0] > 0 for status in read_status(dump.get("pg_status"), []).values())
    if not entries.record_ids_stated or any(times for shape, times in shapes if shape.state == 2):
        return False
    first, last = min(entries.record), max(entries.record)
    return last - first + 1 > total or (first > 0 and not any(times for shape, times in shapes if shape.retired))


def _first_seq(entries: Entries) -> int:
    """Return 0 if some group still has its first number (0 or 1): without record ids the only sign of a whole ring."""
    return max(min(entries.seq, default=0) - 1, 0)


def _calls(
    header: dict[str, object],
    dump: Mapping[object, object],
    entries: Entries,
    table: GroupTable,
    warnings: list[str],
) -> bytes:
    """Put the tables into the header; return the columns and the stacks as bytes."""
    libraries = Libraries(entries)
    if len(libraries.all) > 1:
        warnings.append(f"entries of several libraries: {', '.join(libraries.all)}")
    peers = table.peers(entries)
    rows = folding.fold(entries)
    columns = folding.columns(entries, rows, peers) if entries.shape else {}
    stacks = entries.stacks.to_json()
    packed = {name: column for name, column in columns.items() if isinstance(column, array)}
    places: dict[str, object] = {
        name: len(column) if isinstance(column, array) else [column] for name, column in columns.items()
    }
    status = read_status(dump.get("pg_status"), warnings)
    only = libraries.main if len(libraries.all) == 1 else ""
    header |= {
        "backend": libraries.main,
        "groups": table.rows(libraries.by_group, only, status, rows.batched_groups if rows else set()),
        "signatures": entries.shapes.signatures.rows,
        "threads": list(entries.shapes.threads),
        "row_count": len(rows.kept) if rows and rows.kept is not None else len(entries.shape),
        "columns": places,
        "stack_count": len(entries.stacks),
        "stack_bytes": len(stacks),
    }
    return b"".join([*packed.values(), stacks])
