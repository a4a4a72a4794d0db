"""Tensor records: ``tensor_rank_<r>.jsonl``, one line a tensor, that say whether its values were finite."""

from __future__ import annotations

from pathlib import Path

import orjson

from provstore.errors import InputError, NotUnderstoodError
from provstore.model import versions
from provstore.model.dump import Refusal, TensorRecord
from provstore.sources.flight_recorder.options import MIB

SCHEMA = "provstore-tensor-record/1"
_FILE_BYTES = 64 * MIB
_LINE_BYTES = 64 * 1024


def read_tensors(path: Path, file: str, rank: int) -> tuple[list[TensorRecord], Refusal | None]:
    """Return the good records of a file, and a refusal that names its first bad line."""
    try:
        size = path.stat().st_size
        if size > _FILE_BYTES:
            return [], Refusal(file, f"{size} bytes, more than {_FILE_BYTES}", size_bytes=size, path=str(path))
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        return [], Refusal(file, f"not readable: {error.strerror or error}", path=str(path))
    records, faults, is_understood = [], [], True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(_record(line, rank))
        except InputError as error:
            faults.append(f"line {number}: {error}")
            is_understood = is_understood and not isinstance(error, NotUnderstoodError)
    if not faults:
        return records, None
    reason = f"{faults[0]}; {len(faults)} lines set aside, {len(records)} used"
    return records, Refusal(file, reason, size_bytes=size, path=str(path), is_understood=is_understood)


def _record(line: bytes, rank: int) -> TensorRecord:
    if len(line) > _LINE_BYTES:
        raise InputError(f"{len(line)} bytes, more than {_LINE_BYTES}")
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}") from error
    if not isinstance(value, dict) or not versions.is_known(value.get("schema"), SCHEMA):
        raise InputError(f"not an object with the schema {SCHEMA}")
    counts = {name: value.get(name, 0) for name in ("seq", "nan_count", "inf_count")}
    if value.get("rank") != rank or type(value["rank"]) is not int:
        raise InputError(f"rank: {rank} is expected from the file's name")
    if not isinstance(value.get("group"), str):
        raise InputError("group: not a string")
    if value.get("side") not in ("in", "out"):
        raise InputError("side: neither in nor out")
    if type(value.get("finite")) is not bool:
        raise InputError("finite: neither true nor false")
    if "seq" not in value or not all(type(item) is int and 0 <= item < 1 << 63 for item in counts.values()):
        raise InputError("seq, nan_count, inf_count: not non-negative integers")
    return TensorRecord(rank, value["group"], side=value["side"], finite=value["finite"], **counts)
