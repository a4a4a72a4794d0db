"""Whose root keys a verifier believes: remembered where nobody else writes, never beside a file that was handed over.

The pin of the user's own trust file lies beside it, in the directory of settings. That of any other file lies in the
state directory under its lineage, with the place at which that file was believed: whoever hands over a folder cannot
bring a pin along, and another trust file in the place of a known one is noticed.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from provstore import config
from provstore.evidence.trust import fields
from provstore.evidence.trust.document import MAX_SIGNATURES, SCHEMA, is_lineage
from provstore.evidence.trust.state import read_own, write_atomically
from provstore.evidence.trust.steps import Root
from provstore.model import canonical
from provstore.model.canonical import Json


@dataclass(frozen=True, slots=True)
class Pin:
    """Whose root keys are believed, and why."""

    root: Root
    pinned: str | None
    """The fingerprint that a person gave; ``None`` after trust on first use."""


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins of one verifier.

    Args:
        state: The verifier's own directory of state.
    """

    state: Path

    def of(self, trust: Path, lineage: str) -> Pin | None:
        """Return what is believed of the file that lies at a place, or else of the trust file with this lineage.

        Args:
            trust: The place.
            lineage: Of the file that lies there now.

        Raises:
            TrustError: What was remembered cannot be used, or others may write to it.
        """
        if is_own(trust):
            return _read(beside(trust))
        return _read(self._path(self._lineage_at(trust) or lineage))

    def keep(self, trust: Path, pin: Pin) -> None:
        """Remember what is believed of a trust file, and that it lies there.

        Raises:
            StoreError: It cannot be written.
        """
        if is_own(trust):
            _write(beside(trust), pin)
            return
        _write(self._path(pin.root.lineage), pin)
        self.keep_place(trust, pin.root.lineage)

    def keep_place(self, trust: Path, lineage: str) -> None:
        """Remember which trust file lies at a place.

        Raises:
            StoreError: It cannot be written.
        """
        if is_own(trust) or self._lineage_at(trust) == lineage:
            return
        document: dict[str, Json] = {"lineage": lineage, "schema": SCHEMA}
        write_atomically(self._place(trust), canonical.encode(document) + b"\n", 0o600)

    def _lineage_at(self, trust: Path) -> str | None:
        path = self._place(trust)
        fault = fields.Fault(str(path), "place")
        value = read_own(path, fault)
        if value is None:
            return None
        lineage = fault.text(fault.members(value, {"lineage", "schema"})["lineage"], "lineage", 32)
        if not is_lineage(lineage):
            raise fault("lineage: 32 hex digits are expected")
        return lineage

    def _path(self, lineage: str) -> Path:
        return self.state / "trust" / f"{lineage}.pin"

    def _place(self, trust: Path) -> Path:
        name = hashlib.sha256(os.fsencode(trust.parent.resolve() / trust.name)).hexdigest()
        return self.state / "trust" / "places" / f"{name}.json"


def is_own(trust: Path) -> bool:
    """Return whether this is the user's own trust file, in the directory of settings."""
    own = config.own_trust_file()
    return (trust.parent.resolve(), trust.name) == (own.parent.resolve(), own.name)


def beside(trust: Path) -> Path:
    """Return where the pin of the user's own trust file lies; beside any other file it counts for nothing."""
    return trust.with_name(trust.name + ".pin")


def _read(path: Path) -> Pin | None:
    fault = fields.Fault(str(path), "pin")
    value = read_own(path, fault)
    if value is None:
        return None
    members = fault.members(value, {"keys", "lineage", "pinned", "schema", "threshold", "version"})
    rows = fault.listed(members["keys"], "keys", 1, MAX_SIGNATURES)
    keys = tuple(fields.key(row, str(path), is_root=True) for row in rows)
    root = Root(
        lineage=fault.text(members["lineage"], "lineage", 32),
        version=fault.integer(members["version"], "version", 1, canonical.MAX_INTEGER),
        keys=keys,
        threshold=fault.integer(members["threshold"], "threshold", 1, len(keys)),
    )
    pinned = members["pinned"]
    return Pin(root, None if pinned is None else fields.fingerprint_text(pinned, fault))


def _write(path: Path, pin: Pin) -> None:
    document: dict[str, Json] = {
        "keys": [fields.of_key(key) for key in pin.root.keys],
        "lineage": pin.root.lineage,
        "pinned": pin.pinned,
        "schema": SCHEMA,
        "threshold": pin.root.threshold,
        "version": pin.root.version,
    }
    write_atomically(path, canonical.encode(document) + b"\n", 0o600)
