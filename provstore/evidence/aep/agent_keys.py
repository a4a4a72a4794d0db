"""Which public key an agent's key id means, and what stands against trusting it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from provstore.errors import ConfigError
from provstore.evidence.aep.key_ring import KeyRing
from provstore.evidence.keys import require_public
from provstore.evidence.trust.keys import AGENT, REVOKED, RUN, Trust, TrustedKey
from provstore.model.aep import Axis, ContainerVerdict, RecordVerdict

GIVEN, OTHER_RUN, OUT_OF_TIME = "given", "other-run", "out-of-time"
_REASONS: Final = {OTHER_RUN: "unknown-key", REVOKED: "key-revoked", OUT_OF_TIME: "key-out-of-time"}
_HEX = re.compile(r"[0-9a-fA-F]{64}")


def agent_keys(trust: Trust | None, given: Mapping[str, bytes] | None = None) -> KeyRing:
    """Return public keys by the ids that agents' signatures name them with.

    Args:
        trust: Keys of the role ``agent`` count by alias and by fingerprint, those of the role ``run`` by fingerprint
            alone; one with an unknown algorithm does not.
        given: Keys by id that the caller named; for these ids they alone count.

    Raises:
        TrustError: A given key is not safe to trust.
    """
    found = KeyRing()
    for name, public in (given or {}).items():
        found.put(name, require_public(public, f"agent key {name}"))
    for key in _listed(trust):
        names = (key.keyid, key.alias) if key.role == AGENT else (key.keyid,)
        for one in names:
            if one and one not in (given or {}):
                found.put(one, key.public)
    return found


def with_trust(verdict: ContainerVerdict, trust: Trust | None, moment: str) -> ContainerVerdict:
    """Return a verdict that also says what the trust file thinks of each key.

    A good signature of a key that is trusted for other runs, was revoked, or is outside its time is not evaluated: it
    proves nothing either way.

    Args:
        verdict: What was found with the keys of :func:`agent_keys`.
        trust: The trust file, if there is one.
        moment: When this takes place, ISO 8601 in UTC, to the second.
    """
    seen: dict[tuple[int, str | None], Axis] = {}
    records = []
    for one in verdict.records:
        axis = one.axes["authenticity"]
        if "key" in axis.details:
            place = (id(axis), one.run_id)
            if place not in seen:
                seen[place] = _with_standing(axis, trust, one.run_id, moment)
            one = _with_axis(one, seen[place])  # noqa: PLW2901 - the same record, with one axis more
        records.append(one)
    return replace(verdict, records=tuple(records))


def _with_axis(record: RecordVerdict, axis: Axis) -> RecordVerdict:
    return replace(record, axes={**record.axes, "authenticity": axis})


def _with_standing(axis: Axis, trust: Trust | None, run: str | None, moment: str) -> Axis:
    said = _standing(trust, str(axis.details["key"]), run, moment)
    details = {**axis.details, "key_trust": said}
    reason = _REASONS.get(str(said.get("state")))
    if reason is None or axis.status == "invalid":
        return replace(axis, details=details)
    return Axis(False, None, reason, {**details, "signature_says": axis.status})


def _standing(trust: Trust | None, keyid: str, run: str | None, moment: str) -> dict[str, object]:
    """Return what the trust file says of a key, as JSON values."""
    listed = [key for key in _listed(trust) if key.keyid == keyid]
    if trust is None or not listed:
        return {"source": GIVEN}
    key = next((one for one in listed if one.serves(run or "", (AGENT, RUN))), listed[0])
    said: dict[str, object] = {"source": "trust", "alias": key.alias, "role": key.role, "state": key.status}
    revocation = trust.revocation(keyid)
    if revocation is not None:
        said |= {"state": REVOKED, "since": revocation.since}
    elif not key.serves(run or "", (AGENT, RUN)):
        said["state"] = OTHER_RUN
    elif not key.is_valid_at(moment):
        said["state"] = OUT_OF_TIME
    return said


def is_hex(text: str) -> bool:
    """Return whether a text is spelled like a public key in hexadecimal digits."""
    return _HEX.fullmatch(text) is not None


def parse_public(text: str, place: str) -> bytes:
    """Return the public key of 64 hexadecimal digits.

    Raises:
        ConfigError: It is something else.
        TrustError: The key is not safe to trust.
    """
    if not is_hex(text):
        raise ConfigError(f"{place}: no public key: give 64 hexadecimal digits, or a file with a public key")
    return require_public(bytes.fromhex(text), place)


def _listed(trust: Trust | None) -> Iterable[TrustedKey]:
    return [key for key in trust.keys if key.role in {AGENT, RUN} and key.is_known] if trust is not None else ()
