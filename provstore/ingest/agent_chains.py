"""Files of agent evidence into journal and graph: their bytes are kept, and what they state is shown.

Nothing is verified here: a record is taken in as it is, and judged when somebody asks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from provstore.errors import InputError, NotUnderstoodError
from provstore.evidence.aep import gather
from provstore.evidence.aep.gathering import Gathered
from provstore.evidence.aep.schema import RECORD
from provstore.evidence.aep.text import JsonText
from provstore.graph.agent_facts import agent_block, file_iri
from provstore.ingest.agent_joins import READER, VERSION, is_own
from provstore.ingest.flow import Ingest
from provstore.ingest.given import Request
from provstore.ingest.own_records import OwnRecords
from provstore.ingest.upkeep import show_joins
from provstore.journal import Journal, Origin
from provstore.journal.kept import KeptBytes
from provstore.model.aep import Container, RawRecord
from provstore.model.agent_record import StatedAction, StatedFile, StatedRecord
from provstore.model.block import Block
from provstore.model.report import KNOWN, NEW, REFUSED, FileReport, IngestReport
from provstore.sources import aep
from provstore.stores import GraphStore

_SCOPE = ("", 0)
"""Agents' records belong to no training run."""
_CHUNK = 1 << 20
_MOST_TOLD = 20
_OWN = "made by provstore itself: what they say is in the journal of their run, and nothing is added"
_CLAIMED = "say that provstore made them, and this journal does not hold what they say: they are kept as another's"


def ingest_file(path: Path, request: Request, journal: Journal, store: GraphStore) -> IngestReport:
    """Take in a file of agent evidence; one that nobody can read is refused and named, and nothing has changed."""
    try:
        digest = _sha256(path)
        container = aep.read(path, name=str(path))
        if not container.gaps and next(iter(container.records), None) is None:
            raise InputError(f"{path}: {container.kind}: holds no record")
        stated, own, claimed = _stated(container, digest, path.stat().st_size, OwnRecords(journal))
    except NotUnderstoodError:
        raise
    except (InputError, OSError) as error:
        reason = str(error) if isinstance(error, InputError) else f"cannot be read: {error.strerror or error}"
        file = FileReport(str(path), READER, REFUSED, reason.replace(f"{path}: ", ""))
        return IngestReport(files=(file,), position=journal.position)
    warnings = [*container.problems, *_faults(container)]
    if own:
        warnings.append(f"{own} of {own + len(stated.records)} records are {_OWN}")
    if claimed:
        warnings.append(f"{claimed} of {own + len(stated.records)} records {_CLAIMED}")
    if not request.keep_source:
        warnings.append("its bytes are kept all the same: verifying and joining read them")
    going = Ingest(journal, store)
    origin = Origin(digest, stated.size_bytes, READER, VERSION, path, element=file_iri(digest))
    is_known = going.is_known(_SCOPE, origin)
    is_lost = is_known and KeptBytes(journal.directory).fault(digest, stated.size_bytes) is not None
    if is_lost:
        warnings.append("its bytes were lost from the journal, and are kept again")
    is_new = bool(stated.records or not own) and (not is_known or is_lost)
    if is_new:
        going.accept(agent_block(stated), origin)
        show_joins(store, journal)
        going.finish(Block(*_SCOPE))
    file = FileReport(
        str(path),
        READER,
        NEW if is_new else KNOWN,
        records=len(stated.records) + own,
        set_aside=sum(one.fault is not None for one in container.records),
        warnings=tuple(warnings[:_MOST_TOLD]),
    )
    return IngestReport(files=(file,), facts=going.facts, position=journal.position)


def _stated(container: Container, sha256: str, size_bytes: int, held: OwnRecords) -> tuple[StatedFile, int, int]:
    """Return what a file states, how many of its records are the journal's own, and how many only say so."""
    gathered = gather([container])
    records = {one.digest: one for one in _chained(gathered)}
    claiming = {digest for digest, one in records.items() if is_own(one.value)}
    own = {digest for digest in claiming if held.holds(records[digest].value)}
    others = {one.digest: one for raw in container.records if (one := _other(raw)) is not None}
    kept = [one for one in (*records.values(), *others.values()) if one.digest not in own]
    return StatedFile(sha256, size_bytes, container.kind, tuple(kept)), len(own), len(claiming) - len(own)


def _chained(gathered: Gathered) -> Iterator[StatedRecord]:
    told: dict[str, list[StatedAction]] = {}
    first: dict[tuple[str, str, str], str] = {}
    for action in gathered.actions:
        alike = action.run_id or "", action.action_id, action.body
        first[alike] = min(first.get(alike, action.record), action.record)
    for action in gathered.actions:
        # One direction is enough: the first in order is what the others are alternates of.
        teller = first[action.run_id or "", action.action_id, action.body]
        others = (teller,) if teller != action.record else ()
        told.setdefault(action.record, []).append(StatedAction(action.action_id, action.body, action.value, others))
    for one in gathered.records:
        chain = None if one.chain.startswith("orphan:") else one.chain
        actions = tuple(told.get(one.digest, ()))
        yield StatedRecord(one.digest, RECORD, one.value, chain, one.parent, _keyids(one.value), actions)


def _other(raw: RawRecord) -> StatedRecord | None:
    """Return evidence of another kind than records of actions, as one object."""
    if raw.kind == RECORD or raw.fault is not None:
        return None
    text = raw.text if isinstance(raw.text, JsonText) else JsonText(raw.data)
    if not isinstance(text.value, dict):
        return None
    digest = hashlib.sha256(text.canon(drop=("signature", "dsse_envelope"))).hexdigest()
    return StatedRecord(digest, raw.kind, text.value, keyids=_keyids(text.value))


def _keyids(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that a record's signatures name; whether they hold is not asked."""
    envelope, copy = value.get("dsse_envelope"), value.get("signature")
    signatures = envelope.get("signatures") if isinstance(envelope, dict) else None
    said = [one.get("keyid") for one in signatures if isinstance(one, dict)] if isinstance(signatures, list) else []
    said += [copy.get("key_id")] if isinstance(copy, dict) else []
    return tuple(dict.fromkeys(one for one in said if isinstance(one, str) and one))


def _faults(container: Container) -> Iterator[str]:
    for raw in container.records:
        if raw.fault is not None:
            yield f"record {raw.index} at byte {raw.offset}: {raw.fault}: only its bytes are kept"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
