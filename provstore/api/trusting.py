"""Changes of the trust file: whom it trusts, which keys replace which, and which are revoked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from provstore.api.keys import (
    TrustPlace,
    facts,
    keyid_of,
    own_keys,
    read_public_file,
    trusted_rows,
)
from provstore.errors import ConfigError, InputError
from provstore.evidence import key_uris, public_forms
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust import changes, fields
from provstore.evidence.trust import file as trust_file
from provstore.evidence.trust import signers as trust_signers
from provstore.evidence.trust.document import Signed
from provstore.evidence.trust.keys import ACTIVE, ALL_RUNS, ED25519, NAMESPACE, ROLES, ROOT, RUN, Trust, TrustedKey
from provstore.model.keys import TrustChange

NEVER = "never"
ROLE_NAMES = tuple(role for role in ROLES if role != ROOT)

_NAME = re.compile(r"[A-Za-z0-9_./@-][A-Za-z0-9_./@ -]{0,39}")
"""What may be a name or a path; a text that is longer could be a secret, and is never shown."""

_IN_CHAIN = "a key-rotation record inside a run grants nothing by itself: what counts is this trust file"
_NEW_ROOT = "who believed the old root follows to the new one; whoever is new needs --pin {}"
_FIRST_USE = "the root keys of this trust file were believed on first use; nobody has vouched for them"


@dataclass(frozen=True, slots=True)
class Grant:
    """What keys are trusted for; None leaves a listed key as it is, and gives a new one role ``run`` for all runs."""

    role: str | None = None
    runs: str | None = None
    alias: str | None = None
    namespaces: tuple[str, ...] | None = None
    not_before: str | None = None
    not_after: str | None = None

    def over(self, key: TrustedKey) -> TrustedKey:
        """Return a key as it is trusted for this."""
        return replace(
            key,
            role=self.role or key.role,
            runs=self.runs or key.runs,
            status=ACTIVE,
            alias=self.alias or key.alias,
            namespaces=self.namespaces if self.namespaces is not None else key.namespaces,
            not_before=fields.moment(self.not_before, "not-before") if self.not_before else key.not_before,
            not_after=fields.moment(self.not_after, "not-after") if self.not_after else key.not_after,
        )


@dataclass(frozen=True, slots=True)
class Signing:
    """Who signs a version of the trust file."""

    root_keys: Sequence[str] = ()
    """Key URIs; the user's own root keys when empty."""
    insecure_mode: bool = False
    """Also read key files that others can read."""


def grant(
    who: str | None,
    what: Grant | None = None,
    *,
    place: TrustPlace | None = None,
    signing: Signing | None = None,
    expires: str | None = None,
    threshold: int | None = None,
) -> TrustChange:
    """Trust a key, or extend how long the trust file holds; without a trust file, make the first version of one.

    Args:
        who: Name of an own key, a fingerprint or alias in the trust file, a file with a public key or with
            allowed_signers lines, or a public key as text. None only changes ``expires``.
        what: Role, runs and names.
        place: The trust file.
        signing: Who signs. The root of a first version is made of these keys, else of the own key that is trusted,
            else of the only own key.
        expires: The trust file holds until then; ``never`` takes an end away.
        threshold: Of a first version: how many root keys must sign the next.

    Raises:
        ConfigError: No such key, or the signers do not suffice.
        ProvstoreError: The trust file does not hold, or the key is not safe to trust.
    """
    what, place, signing = what or Grant(), place or TrustPlace(), signing or Signing()
    _require_known(what)
    until = None if expires in {None, NEVER} else fields.moment(expires or "", "expires")
    old = _held(place) if place.path.exists() or place.pin or place.first_use else None
    keys, skipped = _keys(who, what, old) if who is not None else ((), ())
    if not keys and until is None and expires != NEVER:
        why = "".join(f"; {one}" for one in skipped[:3])
        raise ConfigError(f"{who or 'keys trust'}: no key to trust{why}", hint="give a name, a file or a public key")
    if old is None:
        return _created(place.path, keys, signing, _First(until, threshold, skipped))
    if threshold is not None:
        raise ConfigError("--threshold: trust: only a first trust file takes it")
    new = changes.with_keys(old.trust, keys)
    new = replace(new, expires=until) if expires is not None else new
    action = "trusted" if keys else "extended"
    return _published(
        place.path, old, new, _signers(signing, old.trust), (action, [key.keyid for key in keys], skipped)
    )


def rotate(
    who: str,
    follower: str,
    *,
    place: TrustPlace | None = None,
    signing: Signing | None = None,
    alias: str | None = None,
) -> TrustChange:
    """Put another key in the place of one: in the root, in a role, or both; the old one stays listed as retired.

    A new root is signed by the threshold of the old root and of the new one, so the private key of a new root key
    must be at hand.

    Args:
        who: Fingerprint or alias of the old key, or its name among the own keys.
        follower: The new key: a name, a file or a public key as for :func:`grant`; a key URI for a root key.
        place: The trust file.
        signing: Who signs beside a new root key.
        alias: Name of the new key in the trust file.

    Raises:
        ConfigError: No such key, or the signers do not suffice; the old file stays in force.
    """
    place, signing = place or TrustPlace(), signing or Signing()
    old = _held(place)
    keyid = _listed_id(who, old.trust)
    is_root = any(key.keyid == keyid for key in old.trust.root)
    ask = _asking(signing)
    extra: list[PrivateKey] = []
    if is_root:
        extra = [key_uris.open_signer(follower, insecure_mode=signing.insecure_mode, ask=ask(follower))]
        public = extra[0].public_key
    else:
        found, _ = _keys(follower, Grant(), old)
        if len(found) != 1:
            raise ConfigError(f"{follower}: keys: {len(found)} keys; exactly one takes the place of another")
        public = found[0].public
    own = _own_key(fingerprint(public))
    new = changes.rotated(old.trust, keyid, public, alias=alias or (own[0].stem if own else None))
    signers = [*_signers(signing, old.trust, ask=ask, all_own=is_root), *extra]
    signers = list({signer.public_key: signer for signer in signers}.values())
    notes = (*((_NEW_ROOT.format(fingerprint(public)),) if is_root else ()), _IN_CHAIN)
    return _published(place.path, old, new, signers, ("rotated", [keyid, fingerprint(public)], notes))


def revoke(
    who: str,
    since: str,
    reason: str,
    *,
    place: TrustPlace | None = None,
    signing: Signing | None = None,
    force: bool = False,
) -> TrustChange:
    """Revoke a key: what it signed counts only as far as an anchor from before ``since`` covers it.

    Args:
        who: Fingerprint or alias, or the name of an own key.
        since: From when on the key may be in other hands; a date or time.
        reason: For people.
        place: The trust file.
        signing: Who signs.
        force: Agree to a moment in the future, until which the key goes on to count.

    Raises:
        ConfigError: No such key, a root key, revoked already, or ``since`` has not come yet.
    """
    place, signing = place or TrustPlace(), signing or Signing()
    _require_text("reason", reason)
    moment = fields.moment(since, "since")
    if moment > fields.now() and not force:
        raise ConfigError(
            f"{since}: --since: it has not come yet: until then the key would go on to count",
            hint="give the moment from which on the key may be in other hands; --force takes one in the future",
        )
    old = _held(place)
    keyid = _listed_id(who, old.trust)
    new = changes.revoked(old.trust, keyid, moment, reason)
    return _published(place.path, old, new, _signers(signing, old.trust), ("revoked", [keyid], ()))


@dataclass(frozen=True, slots=True)
class _First:
    expires: str | None
    threshold: int | None
    skipped: tuple[str, ...]


def _created(path: Path, keys: Sequence[TrustedKey], signing: Signing, first: _First) -> TrustChange:
    """Make the first version, signed by all of its root keys."""
    ask = _asking(signing)
    signers = [
        key_uris.open_signer(uri, insecure_mode=signing.insecure_mode, ask=ask(uri)) for uri in signing.root_keys
    ]
    if not signers:
        own = {fingerprint(public): file for file, public in own_keys(lambda _: None)}
        files = [own[key.keyid] for key in keys if key.keyid in own] or list(own.values())
        if len(files) != 1:
            raise ConfigError(
                f"{path}: trust: there is none yet, and {'several' if files else 'no'} own keys could be its root",
                hint="--root-key NAME says which" if files else "provstore keys generate NAME makes one",
            )
        signers = [key_uris.open_signer(str(files[0]), insecure_mode=signing.insecure_mode, ask=ask(files[0].stem))]
    if first.threshold is not None and not 1 <= first.threshold <= len(signers):
        raise ConfigError(f"--threshold: trust: from 1 to the number of root keys, {len(signers)}")
    publics = [signer.public_key for signer in signers]
    root = changes.first(publics, threshold=first.threshold or 1, expires=first.expires, source=str(path))
    new = replace(changes.with_keys(root, keys), version=1)
    _require_future(new)
    trust_file.publish(path, new, signers, old=None)
    return _change(new, ("created", [key.keyid for key in (*new.root, *keys)], first.skipped), signers)


def _published(
    path: Path, old: Signed, new: Trust, signers: Sequence[PrivateKey], what: tuple[str, list[str], tuple[str, ...]]
) -> TrustChange:
    _require_future(new)
    trust_file.publish(path, new, signers, old=old)
    return _change(replace(new, first_use=old.trust.first_use), what, signers)


def _change(new: Trust, what: tuple[str, list[str], tuple[str, ...]], signers: Sequence[PrivateKey]) -> TrustChange:
    action, ids, notes = what
    rows = {row.keyid: row for row in trusted_rows(new)}
    signed_by = tuple(sorted(fingerprint(one.public_key) for one in signers))
    about = tuple(rows[keyid] for keyid in dict.fromkeys(ids) if keyid in rows)
    return TrustChange(action, facts(new), about, signed_by, (*notes, *([_FIRST_USE] if new.first_use else [])))


def _held(place: TrustPlace) -> Signed:
    """Return the trust file that is in force, after every check but that it has not expired: it is to be extended."""
    before = trust_file.read(place.path)
    expires = before.trust.expires
    at = expires if expires is not None and expires < fields.now() else None
    held = trust_file.load(place.path, pin=place.pin, first_use=place.first_use, at=at)
    if replace(before.trust, first_use=held.first_use) != held:
        raise ConfigError(f"{place.path}: trust: it was changed meanwhile", hint="try again")
    return replace(before, trust=held)


def _require_future(new: Trust) -> None:
    if new.expires is not None and new.expires < fields.now():
        raise ConfigError(
            f"{new.source}: trust: it expired at {new.expires}", hint="--expires DATE, or --expires never"
        )


def _signers(
    signing: Signing, held: Trust, *, ask: Callable[[str], Callable[[], bytes]] | None = None, all_own: bool = False
) -> list[PrivateKey]:
    """Return the private keys that sign the next version: those given, else as many own root keys as must sign."""
    ask = ask or _asking(signing)
    uris = list(signing.root_keys)
    if not uris:
        root = {key.public for key in held.root}
        uris = [str(path) for path, public in own_keys(lambda _: None) if public in root]
        if len(uris) < held.threshold:
            names = ", ".join(key.alias or key.keyid for key in held.root)
            raise ConfigError(
                f"{held.source}: trust: {held.threshold} of its root keys must sign, {len(uris)} are here: {names}",
                hint="--root-key URI, once for each",
            )
        uris = uris if all_own else uris[: held.threshold]
    return [key_uris.open_signer(uri, insecure_mode=signing.insecure_mode, ask=ask(Path(uri).stem)) for uri in uris]


def _asking(signing: Signing) -> Callable[[str], Callable[[], bytes]]:
    """Return what asks for the passphrase of a key: once for all where it is set, for each on a terminal."""
    known: list[bytes] = []

    def of(what: str) -> Callable[[], bytes]:
        def ask() -> bytes:
            if known:
                return known[0]
            is_set = key_uris.PASSPHRASE in os.environ
            secret = key_uris.passphrase(what, insecure_mode=signing.insecure_mode)
            if is_set:
                known.append(secret)
            return secret

        return ask

    return of


def _keys(who: str, what: Grant, old: Signed | None) -> tuple[tuple[TrustedKey, ...], tuple[str, ...]]:
    """Return the keys that a person means, as they are to be trusted, and why lines of a file were left out."""
    held = old.trust if old else None
    listed = keyid_of(who, held)
    found = held.key(listed) if held and listed else None
    if found is not None and found.role != ROOT:
        return (what.over(found),), ()
    own = _own_key(who)
    if own is not None:
        return (what.over(_plain(own[1], own[0].stem)),), ()
    if found is not None:
        return (what.over(_plain(found.public, found.alias)),), ()
    path = Path(who)
    if path.is_file():
        return _from_file(path, what)
    try:
        public = public_forms.read_public(who, "keys")
    except InputError as error:
        if not _NAME.fullmatch(who):
            raise
        said = f"{who}: keys: no own key, no key of the trust file, no file, and no public key"
        hint = "provstore keys list shows them; provstore keys generate NAME makes one"
        raise ConfigError(said, hint=hint) from error
    return (what.over(_plain(public, None)),), ()


def _from_file(path: Path, what: Grant) -> tuple[tuple[TrustedKey, ...], tuple[str, ...]]:
    data = read_public_file(path)
    rows = [row.split() for row in data.decode("utf-8", "replace").splitlines()]
    rows = [row for row in rows if row and not row[0].startswith("#")]
    is_signers = any("ssh-ed25519" in row[1:3] for row in rows)
    if not is_signers:
        return (what.over(_plain(public_forms.read_public(data, str(path)), None)),), ()
    found = trust_signers.import_lines(data, str(path), role=what.role or RUN, runs=what.runs or ALL_RUNS)
    if what.alias is not None and len(found.keys) > 1:
        raise ConfigError(f"{path}: keys: {len(found.keys)} keys cannot have one alias")
    return tuple(what.over(key) for key in found.keys), found.skipped


def _own_key(who: str) -> tuple[Path, bytes] | None:
    """Return file and public key of the own key of that name, path or fingerprint."""
    own = own_keys(lambda _: None)
    return next(((path, public) for path, public in own if who in {path.stem, str(path), fingerprint(public)}), None)


def _plain(public: bytes, alias: str | None) -> TrustedKey:
    return TrustedKey(fingerprint(public), ED25519, public, RUN, alias=alias, namespaces=(NAMESPACE,))


def _listed_id(who: str, held: Trust) -> str:
    keyid = keyid_of(who, held)
    if keyid is None or held.key(keyid) is None:
        raise ConfigError(f"{who}: trust: {held.source} lists no such key", hint="provstore keys list shows them")
    return keyid


def _require_known(what: Grant) -> None:
    if what.role is not None and what.role not in ROLE_NAMES:
        raise ConfigError(f"{what.role}: role: not known; known are {', '.join(ROLE_NAMES)}")
    for option, text in (
        ("alias", what.alias),
        ("runs", what.runs),
        *(("namespaces", one) for one in what.namespaces or ()),
    ):
        _require_text(option, text)


def _require_text(option: str, text: str | None) -> None:
    if text is not None and not 1 <= len(text) <= fields.MAX_TEXT:
        raise ConfigError(f"--{option}: trust: 1 to {fields.MAX_TEXT} characters, not {len(text)}")
