"""Which public key an agent's key id means, and what stands against trusting it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from provstore.errors import ConfigError
from provstore.evidence.keys import fingerprint, require_public
from provstore.evidence.trust.keys import AGENT, REVOKED, Trust, TrustedKey

GIVEN: Final = "given"
_HEX = re.compile(r"[0-9a-fA-F]{64}")


def agent_keys(trust: Trust | None, given: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    """Return public keys by the ids that agents' signatures name them with.

    Args:
        trust: Keys of the role ``agent`` count, by alias and by fingerprint; those with an unknown algorithm do not.
        given: Keys by id that the caller named; they win.

    Raises:
        TrustError: A given key is not safe to trust.
    """
    found: dict[str, bytes] = {}
    for key in _agents(trust):
        found[key.keyid] = key.public
        if key.alias:
            found[key.alias] = key.public
    for name, public in (given or {}).items():
        found[name] = require_public(public, f"agent key {name}")
    return found


def standing(trust: Trust | None, public: bytes, run: str | None) -> dict[str, object]:
    """Return what the trust file says of a key that made a signature about ``run``.

    ``source`` is ``trust`` or ``given``; ``state`` is ``active``, ``retired``, ``revoked`` or ``other-run``.
    """
    keyid = fingerprint(public)
    listed = next((key for key in _agents(trust) if key.public == public), None)
    if trust is None or listed is None:
        return {"source": GIVEN, "keyid": keyid}
    said: dict[str, object] = {"source": "trust", "keyid": keyid, "alias": listed.alias, "state": listed.status}
    revocation = trust.revocation(keyid)
    if revocation is not None:
        said |= {"state": REVOKED, "since": revocation.since}
    elif not listed.serves(run or "", (AGENT,)):
        said["state"] = "other-run"
    return said


def parse_public(text: str, place: str) -> bytes:
    """Return the public key of 64 hexadecimal digits.

    Raises:
        ConfigError: It is something else.
        TrustError: The key is not safe to trust.
    """
    if not _HEX.fullmatch(text):
        raise ConfigError(f"{place}: no public key: give 64 hexadecimal digits, or a file with a public key")
    return require_public(bytes.fromhex(text), place)


def _agents(trust: Trust | None) -> Iterable[TrustedKey]:
    return [key for key in trust.keys if key.role == AGENT and key.is_known] if trust is not None else ()
