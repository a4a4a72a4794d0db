"""Exports for the foreign verifiers, and ways of altering one bit of them."""

from __future__ import annotations

import json
from pathlib import Path

from provstore.exports.evidence import EvidenceExportOptions, EvidenceExportReport
from provstore.exports.evidence.writer import export
from tests.signed_logs import MemoryLog, signed_run

HOSTILE_RUN = "run'; touch pwned #\n--- openssl\n$(touch pwned)`touch pwned`\u202e\u2028"
"""A run's name is its user's: none of it may become a command or a line of its own."""


def exported(
    directory: Path, log: MemoryLog | None = None, **options: object
) -> tuple[MemoryLog, EvidenceExportReport]:
    """Return a log, by default five closed epochs, and the report of its export into ``directory``."""
    log = log or signed_run(closed=True)
    return log, export(log, directory, log.publics, EvidenceExportOptions(**options))


def flip(path: Path, *, bit: int = 0, at: int | None = None) -> None:
    """Change one bit of a file: in the byte at ``at``, else in an envelope's payload, a note's root, or the middle."""
    data = bytearray(path.read_bytes())
    if at is None:
        payload = data.find(b'"payload":"')
        if path.name.endswith("checkpoint"):
            at = data.find(b"\n", data.find(b"\n") + 1) + 6
        else:
            at = payload + 61 if payload >= 0 else len(data) // 2
    data[at] ^= 1 << bit
    path.write_bytes(data)


def with_keyid(path: Path, keyid: str | None) -> None:
    """Rewrite the key id of an envelope, or of the one in a Sigstore bundle; ``None`` leaves the member out."""
    told = json.loads(path.read_bytes())
    signature = told.get("dsseEnvelope", told)["signatures"][0]
    del signature["keyid"]
    if keyid is not None:
        signature["keyid"] = keyid
    path.write_text(json.dumps(told))
