"""Records of agents as they lie in the journal, found by their digest or run, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from provstore.evidence.aep.text import JsonText
from provstore.ingest.agent_joins import agent_files
from provstore.journal import Journal
from provstore.model.aep import RawRecord
from provstore.model.evidence_report import EvidenceItem

AGENT_RECORD = "agent-record"
RUN_TARGET = "agent:"
_UNSIGNED = ("signature", "dsse_envelope")


def of_run(journal: Journal, run_id: str) -> Iterator[EvidenceItem]:
    """Yield the records of an agent's run."""
    return (one for one in _all(journal) if one.run == run_id)


def with_digest(journal: Journal, prefix: str, run_id: str | None) -> Iterator[EvidenceItem]:
    """Yield the records whose bytes, or whose canonical form without signatures, have such a digest.

    Args:
        journal: Where they lie.
        prefix: The first hex digits.
        run_id: Only of this agent's run.
    """
    for one in _all(journal):
        if run_id in {None, one.run} and any(digest.startswith(prefix) for digest in one.digests.values()):
            yield one


def _all(journal: Journal) -> Iterator[EvidenceItem]:
    """Yield every record once, however many files hold its bytes."""
    seen: set[str] = set()
    for file in agent_files(journal):
        for raw in file.container.records:
            sha256 = raw.sha256 or hashlib.sha256(raw.data).hexdigest()
            if sha256 not in seen:
                seen.add(sha256)
                yield _item(raw, sha256, f"{file.source}: record {raw.index} at byte {raw.offset}")


def _item(raw: RawRecord, sha256: str, where: str) -> EvidenceItem:
    text = raw.text if isinstance(raw.text, JsonText) else JsonText(raw.data)
    value = text.value if raw.fault is None and isinstance(text.value, dict) else None
    digests = {"sha256": sha256}
    if value is not None:
        digests["record_digest"] = hashlib.sha256(text.canon(drop=_UNSIGNED)).hexdigest()
    run = value.get("run_id") if value is not None else None
    return EvidenceItem(
        AGENT_RECORD,
        run if isinstance(run, str) else "",
        0,
        raw.index,
        where,
        raw.data,
        digests,
        value,
        fault=raw.fault or text.fault,
    )
