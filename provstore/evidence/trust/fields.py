"""The members of a trust file one by one: written and read in one spelling each, with the reason for a refusal."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence.keys import fingerprint, require_public
from provstore.evidence.trust.keys import ED25519, ROLES, ROOT, STATUSES, Revocation, TrustedKey
from provstore.model.canonical import Json

Row = TypeVar("Row", TrustedKey, Revocation)

MAX_TEXT = 256
"""Characters of an alias, a pattern, a namespace, a reason."""
MAX_NAMESPACES = 16
MAX_PUBLIC_BYTES = 4096
"""Of a key of an unknown algorithm."""

_KEY_MEMBERS = {
    "alg", "alias", "keyid", "namespaces", "notAfter", "notBefore", "public", "role", "runs", "status",
}  # fmt: skip
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]")
_ALGORITHM = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fault:
    """Makes the error of one place in a trust file, and reads the shapes that JSON has."""

    source: str
    place: str

    def __call__(self, reason: str, code: str = "envelope-malformed") -> TrustError:
        """Return the error."""
        return TrustError(f"{self.source}: {self.place}: {reason}", code=code)

    def members(self, value: Json, names: Collection[str]) -> Mapping[str, Json]:
        """Return an object that has exactly these members."""
        if not isinstance(value, dict):
            raise self("an object is expected")
        for name in sorted(set(names) ^ set(value)):
            raise self(f"{name[:40]!r} is {'missing' if name in names else 'no known member'}")
        return value

    def listed(self, value: Json, what: str, least: int, most: int) -> list[Json]:
        """Return a list of ``least`` to ``most`` items; one that is longer hit a cap."""
        if not isinstance(value, list) or len(value) < least:
            raise self(f"{what}: a list of at least {least} is expected")
        if len(value) > most:
            raise NotUnderstoodError(f"{self.source}: {self.place}: {what}: {len(value)} are more than {most}")
        return value

    def integer(self, value: Json, what: str, least: int, most: int) -> int:
        """Return an integer in its range."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self(f"{what}: an integer from {least} to {most} is expected")
        return value

    def text(self, value: Json, what: str, most: int = MAX_TEXT) -> str:
        """Return a text of 1 to ``most`` characters."""
        if not isinstance(value, str) or not 1 <= len(value) <= most:
            raise self(f"{what}: a text of 1 to {most} characters is expected")
        return value


def is_schema(value: Json, number: int) -> bool:
    """Return whether an object states that it has this schema; ``true`` is not 1."""
    stated = value.get("schema") if isinstance(value, dict) else None
    return not isinstance(stated, bool) and stated == number


def of_key(key: TrustedKey) -> dict[str, Json]:
    """Return a key as JSON."""
    return {
        "alg": key.alg,
        "alias": key.alias,
        "keyid": key.keyid,
        "namespaces": [*sorted(key.namespaces)],
        "notAfter": key.not_after,
        "notBefore": key.not_before,
        "public": key.public.hex(),
        "role": key.role,
        "runs": key.runs,
        "status": key.status,
    }


def key(value: Json, source: str, *, is_root: bool) -> TrustedKey:
    """Return the key that JSON states; its id is recomputed.

    Raises:
        TrustError: Not exactly such an object, a key nobody may trust (``untrusted-key``), or an id that is not the
            key's (``keyid-mismatch``).
    """
    fault = Fault(source, "root key" if is_root else "key")
    members = fault.members(value, _KEY_MEMBERS)
    keyid = fingerprint_text(members["keyid"], fault)
    fault = Fault(source, keyid)
    alg = members["alg"]
    if not isinstance(alg, str) or not _ALGORITHM.fullmatch(alg):
        raise fault("alg: no name of an algorithm")
    role = _one_of(members["role"], (ROOT,) if is_root else [one for one in ROLES if one != ROOT], "role", fault)
    alias = members["alias"]
    return TrustedKey(
        keyid=keyid,
        alg=alg,
        public=_public(members["public"], alg, keyid, fault),
        role=role,
        runs=fault.text(members["runs"], "runs"),
        namespaces=_namespaces(members["namespaces"], fault),
        not_before=optional_moment(members["notBefore"], "notBefore", fault),
        not_after=optional_moment(members["notAfter"], "notAfter", fault),
        status=_one_of(members["status"], STATUSES, "status", fault),
        alias=None if alias is None else fault.text(alias, "alias"),
    )


def of_revocation(one: Revocation) -> dict[str, Json]:
    """Return a revocation as JSON."""
    return {"keyid": one.keyid, "reason": one.reason, "since": one.since}


def revocation(value: Json, source: str) -> Revocation:
    """Return the revocation that JSON states.

    Raises:
        TrustError: Not exactly such an object.
    """
    fault = Fault(source, "revocation")
    members = fault.members(value, {"keyid", "reason", "since"})
    since = optional_moment(members["since"], "since", fault)
    if since is None:
        raise fault("since: a moment is expected")
    return Revocation(fingerprint_text(members["keyid"], fault), since, fault.text(members["reason"], "reason"))


def fingerprint_text(value: Json, fault: Fault) -> str:
    """Return a text that could be a key id."""
    if not isinstance(value, str) or not _FINGERPRINT.fullmatch(value):
        raise fault(f"{str(value)[:60]!r} is no key id; one is SHA256: and 43 characters of base64")
    return value


def is_fingerprint(text: str) -> bool:
    """Return whether a text could be a key id."""
    return _FINGERPRINT.fullmatch(text) is not None


def optional_moment(value: Json, what: str, fault: Fault) -> str | None:
    """Return a moment as trust files spell it, such as ``2026-01-31T23:59:59Z``, or nothing."""
    if value is None:
        return None
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return value
    raise fault(f"{what}: {str(value)[:40]!r} is no moment; one is 2026-01-31T23:59:59Z")


def moment(text: str, what: str) -> str:
    """Return a date or time that a person wrote, in the spelling of trust files; a date is its first second in UTC.

    Raises:
        InputError: No date, or a time without a zone.
    """
    if _DATE.fullmatch(text):
        text += "T00:00:00Z"
    try:
        read = datetime.fromisoformat(text)
        if read.tzinfo is None:
            raise InputError(f"{text[:40]!r}: {what}: a time needs its zone, such as Z or +01:00")
        return _spelled(read.astimezone(UTC))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{text[:40]!r}: {what}: no date; one is 2026-01-31 or 2026-01-31T23:59:59Z") from error


def now() -> str:
    """Return this moment, in the spelling of trust files."""
    return _spelled(datetime.now(UTC))


def _spelled(utc: datetime) -> str:
    return utc.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _public(value: Json, alg: str, keyid: str, fault: Fault) -> bytes:
    text = fault.text(value, "public", 2 * MAX_PUBLIC_BYTES)
    if not _HEX.fullmatch(text):
        raise fault("public: lower-case hex digits are expected")
    public = bytes.fromhex(text)
    if alg == ED25519:
        require_public(public, f"{fault.source}: {keyid}")
        if fingerprint(public) != keyid:
            raise fault(f"the id of its key is {fingerprint(public)}", "keyid-mismatch")
    return public


def _namespaces(value: Json, fault: Fault) -> tuple[str, ...]:
    texts = [fault.text(one, "namespaces") for one in fault.listed(value, "namespaces", 0, MAX_NAMESPACES)]
    if texts != sorted(set(texts)):
        raise fault("namespaces: not in order, or one twice")
    return tuple(texts)


def _one_of(value: Json, known: Collection[str], what: str, fault: Fault) -> str:
    if not isinstance(value, str) or value not in known:
        raise fault(f"{what}: {str(value)[:40]!r} is not one of {', '.join(known)}")
    return value
