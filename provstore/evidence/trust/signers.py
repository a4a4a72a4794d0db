"""OpenSSH ``allowed_signers`` files: trusted keys in the form that ``ssh-keygen -Y verify`` reads, and back.

Source: ssh-keygen(1), ALLOWED SIGNERS.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from provstore.errors import InputError, TrustError
from provstore.evidence.keys import PUBLIC_BYTES, fingerprint, require_public, wire_form
from provstore.evidence.trust.fields import MAX_TEXT
from provstore.evidence.trust.keys import ED25519, NAMESPACE, Trust, TrustedKey

MAX_BYTES = 8 * 1024 * 1024
MAX_LINES = 10_000

_KEY_TYPE = "ssh-ed25519"
_PRINCIPAL = re.compile(r"[^\s\"\\,*?!#\x00-\x20\x7f]+")
_PART = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+')
_OPTION = re.compile(r'([a-z-]+)(?:=(?:"((?:[^"\\]|\\.)*)"|([^",]*)))?(?:,|$)')
_TIME = re.compile(r"(\d{8})(\d{4})?(\d{2})?(Z)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Imported:
    """What an allowed_signers file gave."""

    keys: tuple[TrustedKey, ...]
    skipped: tuple[str, ...]
    """Why a line was left out."""


def export_lines(trust: Trust) -> bytes:
    """Return an allowed_signers file of the keys that are not revoked; a key's alias, or else its id, is its principal.

    The pattern of runs has no place in such a file: a reader of it trusts each key for all runs.
    """
    # A line without namespaces would be trusted in all of them.
    listed = [key for key in trust.keys if key.is_known and key.namespaces and not trust.revocation(key.keyid)]
    return "".join(f"{line(key)}\n" for key in listed).encode()


def revoked_lines(trust: Trust) -> bytes:
    """Return the public keys that are revoked, one a line, as ``ssh-keygen -Y verify -r`` reads them."""
    listed = [key for key in trust.keys if key.is_known and trust.revocation(key.keyid)]
    return "".join(f"{_KEY_TYPE} {_blob(key.public)}\n" for key in listed).encode()


def line(key: TrustedKey) -> str:
    """Return the allowed_signers line of a key."""
    options = [f'namespaces="{",".join(key.namespaces)}"'] if key.namespaces else []
    options += [f'valid-after="{_ssh_time(key.not_before)}"'] if key.not_before else []
    options += [f'valid-before="{_ssh_time(key.not_after)}"'] if key.not_after else []
    principal = key.alias if key.alias and _PRINCIPAL.fullmatch(key.alias) else key.keyid
    return " ".join(part for part in (principal, ",".join(options), _KEY_TYPE, _blob(key.public)) if part)


def import_lines(data: bytes, place: str, *, role: str, runs: str) -> Imported:
    """Return the Ed25519 keys of an allowed_signers file in one role; lines of other keys are named as skipped.

    Raises:
        InputError: Larger than is looked at, not text, or a line that is no such line.
        TrustError: A key that is not safe to trust, or one twice.
    """
    if len(data) > MAX_BYTES:
        raise InputError(f"{place}: allowed_signers: larger than {MAX_BYTES} bytes")
    try:
        rows = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: allowed_signers: not UTF-8") from error
    if len(rows) > MAX_LINES:
        raise InputError(f"{place}: allowed_signers: more than {MAX_LINES} lines")
    keys: dict[str, TrustedKey] = {}
    skipped = []
    for number, row in enumerate(rows, 1):
        text = row.strip(" \t\r")
        if not text or text.startswith("#"):
            continue
        found = _key(text, f"{place}: line {number}", role, runs)
        if isinstance(found, str):
            skipped.append(found)
        elif found.keyid in keys:
            raise TrustError(f"{place}: line {number}: the key of an earlier line", code="untrusted-key")
        else:
            keys[found.keyid] = found
    return Imported(tuple(keys.values()), tuple(skipped))


def _key(text: str, place: str, role: str, runs: str) -> TrustedKey | str:
    principal, *rest = _PART.findall(text)
    options = {} if rest and _is_key_type(rest[0]) else _options(rest.pop(0) if rest else "", place)
    if len(rest) < 2 or not _is_key_type(rest[0]):
        raise InputError(f"{place}: no allowed_signers line: principals, options, key type, key")
    if "cert-authority" in options:
        return f"{place}: a certificate authority, not a key"
    if rest[0] != _KEY_TYPE:
        return f"{place}: {rest[0][:40]} is not {_KEY_TYPE}"
    public = _public(rest[1], place)
    namespaces = options.get("namespaces", NAMESPACE)
    return TrustedKey(
        fingerprint(public),
        ED25519,
        public,
        role,
        runs=runs,
        namespaces=tuple(sorted({one for one in namespaces.split(",") if one})),
        not_before=_moment(options.get("valid-after"), place),
        not_after=_moment(options.get("valid-before"), place),
        alias=principal.strip('"')[:MAX_TEXT],
    )


def _options(text: str, place: str) -> dict[str, str]:
    options, at = {}, 0
    while at < len(text):
        match = _OPTION.match(text, at)
        if match is None or match.end() == at:
            raise InputError(f"{place}: {text[at : at + 40]!r}: no option of an allowed_signers line")
        name, quoted, bare = match.groups()
        if name in options or name not in {"cert-authority", "namespaces", "valid-after", "valid-before"}:
            raise InputError(f"{place}: {name[:40]!r}: an option that is unknown or given twice")
        options[name], at = quoted if quoted is not None else bare or "", match.end()
    return options


def _public(text: str, place: str) -> bytes:
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{place}: the key is not base64") from error
    public = blob[-PUBLIC_BYTES:]
    if blob != wire_form(public):
        raise InputError(f"{place}: not an {_KEY_TYPE} key")
    return require_public(public, place)


def _moment(text: str | None, place: str) -> str | None:
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        day, minute, second, zone = match.groups()
        read = datetime.strptime(day + (minute or "0000") + (second or "00"), "%Y%m%d%H%M%S")  # noqa: DTZ007 - below
        # OpenSSH's rule: without Z the time is that of the machine.
        read = read.replace(tzinfo=UTC) if zone else read.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{place}: {text[:40]!r} is no time; one is 20260131235959Z") from error
    return read.replace(tzinfo=None).isoformat() + "Z"


def _is_key_type(text: str) -> bool:
    return text.startswith(("ssh-", "ecdsa-", "sk-", "rsa-"))


def _ssh_time(moment: str) -> str:
    return re.sub(r"[-:T]", "", moment)


def _blob(public: bytes) -> str:
    return base64.b64encode(wire_form(public)).decode("ascii")
