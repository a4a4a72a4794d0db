"""Agent records of a run as files: lines or a bundle, and, when asked, all actions in chained records of each rank."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from provstore.errors import ConfigError, InputError
from provstore.evidence import aep_record
from provstore.evidence.actions import in_agent_record
from provstore.evidence.aep import emit, schema
from provstore.evidence.keys import Signer
from provstore.exports.evidence._directory import Files, whole
from provstore.model.action import Action
from provstore.model.aep import AXES, Axis

JSONL, BUNDLE = "aep-jsonl", "aep-bundle"
FORMATS = (JSONL, BUNDLE)
MANIFEST = "manifest.json"
RECORDS_JSONL, RECORDS_BUNDLE = "records.aep.jsonl", "records.aep-bundle.json"
BUNDLE_SCHEMA = "aep-bundle/v0.1"
MANIFEST_SCHEMA = "provstore-agent-export/1"
_MAX_CANONICAL = 27_000
"""Of one record before signing: it comes twice in the signed one."""
_KIND = "aep-record"
_NOT_LOOKED_AT = "not looked at while writing: provstore verify judges it"


@dataclass(frozen=True, slots=True)
class AgentExportOptions:
    """What is written."""

    form: str = JSONL
    """``aep-jsonl`` or ``aep-bundle``."""
    per_action: bool = False
    """Every action too, one file and one chain a rank."""
    overwrite: bool = False
    producer: str = "provstore"
    """Name and version of what writes them."""

    def __post_init__(self) -> None:
        """Refuse a form that is none."""
        if self.form not in FORMATS:
            raise ConfigError(f"{self.form}: --format: is none of {', '.join(FORMATS)}")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One file of the export."""

    path: str
    bytes: int
    sha256: str
    records: int
    validation: Mapping[str, Mapping[str, object]]
    """Axis → ``evaluated``, with a ``status`` where it was, else a ``reason``; every axis is there."""


@dataclass(frozen=True, slots=True)
class AgentExportReport:
    """What was written."""

    run: str
    directory: str
    form: str
    records: int
    bundles: tuple[str, ...]
    """Digests of the epochs' bundles, in the order of their records."""
    files: tuple[AgentFile, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values; the keys are documented and stable."""
        return asdict(self)


def export_agent_records(
    directory: Path,
    source: tuple[str, str],
    stored: Sequence[tuple[str, bytes]],
    options: AgentExportOptions,
    *,
    actions: Iterable[tuple[int, Action]] = (),
    signer: Signer | None = None,
) -> AgentExportReport:
    """Write the agent records of a run; the directory appears whole or not at all.

    Args:
        directory: Absent, empty, or with ``options.overwrite`` an older export.
        source: Run, and id of the journal.
        stored: Digest of each epoch's bundle and its record, byte for byte, in the order of their chain.
        options: What to write.
        actions: With ``per_action``: attempt and action, those of one rank in their order.
        signer: Signs the records of single actions.

    Raises:
        ConfigError: The directory is in use.
        InputError: There is no record.
        StoreError: It cannot be written.
    """
    if not stored:
        raise InputError(f"{source[0]}: agent records: the journal holds none", hint="provstore record makes them")
    with whole(directory, MANIFEST, overwrite=options.overwrite) as files:
        lines = [data for _, data in stored]
        name, data = (
            (RECORDS_JSONL, b"".join(line + b"\n" for line in lines))
            if options.form == JSONL
            else (RECORDS_BUNDLE, bundle_of(lines, options.producer))
        )
        written = [_write(files, name, data, lines)]
        if options.per_action:
            written += _per_action(files, (source[0], options.producer), actions, signer)
        digests = tuple(digest for digest, _ in stored)
        manifest = {
            "schema": MANIFEST_SCHEMA,
            "source": {"run": source[0], "journal": source[1], "producer": options.producer},
            "format": options.form,
            "bundles": digests,
            "files": [asdict(one) for one in written],
        }
        files.write(MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
    return AgentExportReport(source[0], str(directory), options.form, len(stored), digests, tuple(written))


def bundle_of(lines: Sequence[bytes], producer: str) -> bytes:
    """Return an ``aep-bundle/v0.1`` that holds records byte for byte."""
    said = [orjson.loads(line) for line in lines]
    times = [one["created_at_ms"] for one in said]
    created = datetime.fromtimestamp(max(times) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    manifest: dict[str, Any] = {
        "schema_version": BUNDLE_SCHEMA,
        "producer": producer,
        "created_at": created,
        "record_count": len(lines),
        "run_ids": sorted({one["run_id"] for one in said}),
        "started_at_ms": min(times),
        "ended_at_ms": max(times),
        "records": [{"index": at, "digest": _digest(one), "run_id": one["run_id"]} for at, one in enumerate(said)],
    }
    canon = orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)
    manifest["bundle_digest"] = hashlib.sha256(canon).hexdigest()
    return orjson.dumps({"manifest": manifest, "records": [orjson.Fragment(line) for line in lines]}) + b"\n"


def _digest(record: dict[str, Any]) -> str:
    bare = {name: value for name, value in record.items() if name not in emit.SIGNATURE_MEMBERS}
    return emit.link(emit.canonical_record(bare))


def _per_action(
    files: Files, named: tuple[str, str], actions: Iterable[tuple[int, Action]], signer: Signer | None
) -> Iterator[AgentFile]:
    by_rank: dict[tuple[int, int], list[Action]] = {}
    for attempt, action in actions:
        by_rank.setdefault((attempt, action.rank), []).append(action)
    for (attempt, rank), own in sorted(by_rank.items()):
        records = list(_records(named, attempt, own, signer))
        name = f"attempt-{attempt}-rank-{rank}.aep.jsonl"
        yield _write(files, name, b"".join(line + b"\n" for line in records), records)


def _records(named: tuple[str, str], attempt: int, actions: Sequence[Action], signer: Signer | None) -> Iterator[bytes]:
    """Yield records over a rank's actions, each chained to the one before it and small enough to be read anywhere."""
    run, producer = named
    prev: str | None = None
    first = 0
    for part in _parts(actions, attempt):
        record = aep_record.action_records_of(
            part,
            run,
            attempt,
            created_ms=max(one.at_ns for one in part) // 1_000_000,
            prev=prev,
            producer=producer,
            first=first,
        )
        prev = emit.link(emit.canonical_record(record))
        first += len(part)
        yield aep_record.stored_form(record, signer)


def _parts(actions: Sequence[Action], attempt: int) -> Iterator[list[Action]]:
    part: list[Action] = []
    size = 0
    for action in actions:
        own = len(orjson.dumps(in_agent_record(action, attempt))) + 1
        if part and size + own > _MAX_CANONICAL:
            yield part
            part, size = [], 0
        part.append(action)
        size += own
    if part:
        yield part


def _write(files: Files, name: str, data: bytes, records: Sequence[bytes]) -> AgentFile:
    files.write(name, data)
    return AgentFile(name, len(data), hashlib.sha256(data).hexdigest(), len(records), _validation(records))


def _validation(records: Sequence[bytes]) -> dict[str, dict[str, object]]:
    """Return what was looked at while writing, axis by axis."""
    said = [orjson.loads(line) for line in records]
    axes = {name: Axis(evaluated=False, reason=_NOT_LOOKED_AT) for name in AXES}
    axes["structural"] = _structural(said)
    axes["authenticity"] = _authenticity(said)
    axes["capture"] = Axis(evaluated=False, reason="records alone cannot show that nothing was left out")
    return {name: axis.to_dict() for name, axis in axes.items()}


def _structural(said: Sequence[dict[str, Any]]) -> Axis:
    for at, one in enumerate(said):
        found = schema.errors(_KIND, one)
        if found is None:
            return Axis(evaluated=False, reason="the schemas are not installed")
        if found:
            return Axis(evaluated=True, status="fail", reason=f"record {at}: {found[0]}")
    return Axis(evaluated=True, status="pass")


def _authenticity(said: Sequence[dict[str, Any]]) -> Axis:
    bare = sum(not (set(one) & set(emit.SIGNATURE_MEMBERS)) for one in said)
    if bare == len(said):
        return Axis(evaluated=True, status="unsigned")
    more = f"{bare} of {len(said)} records are unsigned; " if bare else ""
    return Axis(evaluated=False, reason=f"{more}signatures are judged by provstore verify, with the keys of its reader")
