"""Trace ids: which other spellings of an id mean the same trace, and by which rule.

Sources: W3C Trace Context (``traceparent``), B3 propagation (64-bit ids), RFC 9562 (UUID).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EXACT, HEX_CASE, TRACEPARENT, UUID, B3_64, OTEL_LOSSY = (
    "exact",
    "hex-case",
    "traceparent",
    "uuid",
    "b3-64",
    "otel-lossy",
)
STRONG, MEDIUM, WEAK = "strong", "medium", "weak"
STRENGTH = {EXACT: STRONG, HEX_CASE: STRONG, TRACEPARENT: STRONG, UUID: STRONG, B3_64: MEDIUM, OTEL_LOSSY: WEAK}
"""Rule → how much a join by it is worth."""
ORDER = (EXACT, HEX_CASE, TRACEPARENT, UUID, B3_64, OTEL_LOSSY)
"""Rules, strongest first."""

_PLACEHOLDERS = frozenset(("", "unknown", "undefined", "null", "none"))
_HEX32 = re.compile(r"[0-9A-Fa-f]{32}")
_HEX16 = re.compile(r"[0-9A-Fa-f]{16}")
_PARENT = re.compile(r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-fA-F]{32})-[0-9a-fA-F]{16}-[0-9a-fA-F]{2}(?:-.*)?")
_UUID = re.compile(r"(?:^|.*[^0-9A-Fa-f])([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})")
_LOSSY_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Alias:
    """Another spelling of a trace id, and the rule that made it."""

    key: str
    rule: str


def is_placeholder(raw: str) -> bool:
    """Return whether an id stands for none: empty, a word for nothing, or zeros only."""
    text = raw.strip()
    if text.lower() in _PLACEHOLDERS or not text.strip("0-"):
        return True
    parent = _PARENT.fullmatch(text)
    return parent is not None and not parent["trace"].strip("0")


def aliases(raw: str) -> tuple[Alias, ...]:
    """Return every key under which a trace id may be met, strongest rule first; none for a placeholder.

    The raw text itself is the first. Two ids mean the same trace when any two of their keys are equal; the rule of
    that join is the weaker one of both.
    """
    if is_placeholder(raw):
        return ()
    found = [Alias(raw, EXACT)]
    if _HEX32.fullmatch(raw):
        found.append(Alias(raw.lower(), HEX_CASE))
    parent = _PARENT.fullmatch(raw)
    if parent is not None and parent["version"] != "ff" and (parent["version"] != "00" or len(raw) == 55):
        found.append(Alias(parent["trace"].lower(), TRACEPARENT))
    if (uuid := _UUID.fullmatch(raw)) is not None:
        found.append(Alias(uuid[1].replace("-", "").lower(), UUID))
    if _HEX16.fullmatch(raw):
        found.append(Alias(raw.lower().rjust(32, "0"), B3_64))
    lossy = otel_image(raw)
    if lossy.strip("0"):
        found.append(Alias(lossy, OTEL_LOSSY))
    seen: dict[str, Alias] = {}
    for alias in found:
        seen.setdefault(alias.key, alias)
    return tuple(seen.values())


def otel_image(raw: str) -> str:
    """Return what a lossy bridge to OpenTelemetry makes of an id: 32 hex digits.

    It takes the first 32 characters, pads them with zeros on the right, drops what is no hex digit, and pads on the
    left. Different ids may have one image.
    """
    kept = re.sub(r"[^0-9A-Fa-f]", "", raw[:_LOSSY_LENGTH].ljust(_LOSSY_LENGTH, "0"))
    return kept.lower().rjust(_LOSSY_LENGTH, "0")


def meeting(left: str, right: str) -> str | None:
    """Return the strongest rule by which two ids mean the same trace, or ``None``."""
    others = {alias.key: alias.rule for alias in aliases(right)}
    rules = [max((alias.rule, others[alias.key]), key=ORDER.index) for alias in aliases(left) if alias.key in others]
    return min(rules, key=ORDER.index, default=None)
