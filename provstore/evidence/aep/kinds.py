"""Which kind of agent evidence a JSON object is, told by its members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from provstore.evidence.aep.schema import RECORD
from provstore.model.aep import BUNDLE, COMPACTED, LEDGER

TRAIN_AEP: Final = "train-aep/v0.1"

_MARKS: Final = (
    ("memory-evidence", {"mem_ref", "op"}),
    ("artifact-attestation", {"artifact_uri", "digest"}),
    ("replay-evidence", {"seed", "output_digest"}),
    ("fork", {"fork_id", "source_checkpoint_id"}),
    ("checkpoint-evidence", {"checkpoint_id", "created_at_ms"}),
    ("checkpoint", {"checkpoint_id", "created_at"}),
)
_ENVELOPE: Final = frozenset({"schema_version", "trace_id", "created_at_ms", "signature"})
WRAPPERS: Final = (
    (BUNDLE, frozenset({"manifest", "records"})),
    (LEDGER, frozenset({"seq", "prevHash", "record", "hash"})),
    (COMPACTED, frozenset({"fromSeq", "toSeq", "proofHash", "lastRecordHash"})),
)
"""Objects that hold records, or say that they were left out."""


def kind_of(value: Mapping[str, Any]) -> str | None:
    """Return the name of the schema that an object is to be held against, ``None`` when it is no agent evidence."""
    names = value.keys()
    version = value.get("schema_version")
    version = version if isinstance(version, str) else ""
    if version.startswith("canonical-event/"):
        return "canonical-event"
    if version.startswith("aep/") and "run_id" in names and "seed" not in names:
        return RECORD
    for kind, marks in _MARKS:
        if marks <= names:
            return kind
    if version.startswith("aep/"):
        return "evidence-envelope" if "created_at_ms" in names and names <= _ENVELOPE else RECORD
    return None


def wrapper_of(value: Mapping[str, Any]) -> str | None:
    """Return the kind of container whose wrapper an object is."""
    return next((kind for kind, marks in WRAPPERS if marks <= value.keys()), None)


def why_not(value: object) -> str:
    """Return why a JSON value is no agent evidence."""
    if not isinstance(value, dict):
        return "no JSON object"
    version = value.get("schema_version")
    if version == TRAIN_AEP:
        return f"{TRAIN_AEP}, evidence of a training run, which evidence import reads"
    if not value:
        return "an empty object"
    if version is None:
        return "an object without schema_version and without the members of any kind of agent evidence"
    return f"schema_version {str(version)[:40]!a} is none of agent evidence"
