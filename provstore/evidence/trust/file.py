"""The trust file of a verifier: read, checked against what was seen before, and changed only as its root keys allow."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from provstore import config
from provstore.errors import ConfigError, InputError, ProvstoreError, StoreError, TrustError
from provstore.evidence import kinds
from provstore.evidence.keys import Signer
from provstore.evidence.trust import fields
from provstore.evidence.trust.document import MAX_TEXT_BYTES, Signed, parse, sign
from provstore.evidence.trust.keys import Revocation, Trust, TrustedKey
from provstore.evidence.trust.pins import Pin, Pins, beside, is_own
from provstore.evidence.trust.state import Seen, locked, read_file, read_seen, write_atomically, write_seen
from provstore.evidence.trust.steps import Root, followed, require_step

__all__ = ["Revocation", "Trust", "TrustedKey", "load", "publish", "read", "require_outside"]

_MAX_HISTORY = 1_000
_MAX_LINKS = 40


def load(
    path: Path, *, pin: str | None = None, first_use: bool = False, at: str | None = None, state: Path | None = None
) -> Trust:
    """Return the trust that a file states, after all checks, and remember what must not be undone.

    Args:
        path: The trust file; earlier versions may lie beside it (``trust.json.v2``), for readers who missed a new root.
        pin: Fingerprint of a root key, obtained elsewhere; needed once, then remembered.
        first_use: Believe the root keys of a file that was never pinned; stays visible in ``Trust.first_use``.
        at: Moment at which it must not be expired; now, when not given.
        state: Where the highest version seen is remembered, and the pin of a file that is not the user's own trust
            file; the user's state directory, when not given. A pin beside such a file counts for nothing.

    Raises:
        ConfigError: Never pinned, and neither ``pin`` nor ``first_use`` is given; or ``pin`` is no fingerprint.
        InputError: The file cannot be read.
        NotUnderstoodError: Its schema is not known here, or it is larger than is looked at.
        TrustError: It does not hold: malformed, signatures, expiry, the pin, an older version, another of the same
            number, a new root that the old one did not sign.
        StoreError: What was seen cannot be remembered.
    """
    if pin is not None and not fields.is_fingerprint(pin):
        raise ConfigError(f"{pin[:60]}: pin: no fingerprint; one is SHA256: and 43 characters of base64")
    new = read(path)
    moment = fields.moment(at, "at") if at else fields.now()
    if new.trust.expires is not None and new.trust.expires < moment:
        raise TrustError(f"{path}: trust: expired at {new.trust.expires}", code="untrusted-key")
    with locked(_seen_lock(state, new)):
        _require_not_older(new, state)
        pins = _pins(state)
        kept = pins.of(path, new.trust.lineage)
        believed = _believed(path, new, kept, pin, first_use=first_use)
        # A pin that is given each time need not be kept: the directory may be the administrator's.
        with contextlib.suppress(*([StoreError] if pin else [])):
            if believed != kept:
                pins.keep(path, believed)
            else:
                pins.keep_place(path, believed.root.lineage)
        _remember(new, state)
    return replace(new.trust, first_use=believed.pinned is None)


def read(path: Path) -> Signed:
    """Return what a trust file states and who signed it, without asking who may vouch for it.

    Raises:
        InputError: The file cannot be read, or is of another kind.
        NotUnderstoodError, TrustError: As :func:`load`.
    """
    try:
        data, _ = read_file(path, MAX_TEXT_BYTES)
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: trust: no such file", hint="provstore keys trust NAME --role run makes a first one"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: trust: {error.strerror}") from error
    try:
        return parse(data, str(path))
    except TrustError:
        wrong = kinds.mistaken(data, f"{path}: trust", kinds.TRUST_FILE)
        if wrong is None:
            raise
    raise wrong


def publish(
    path: Path, new: Trust, signers: Sequence[Signer], *, old: Signed | None, state: Path | None = None
) -> None:
    """Sign a version of a trust file and put it in place of ``old``, all or nothing; ``old`` is kept beside it.

    Raises:
        ConfigError: There is a file although ``old`` is None; or the signers do not fit.
        TrustError: ``new`` may not follow ``old``, or a signature does not hold; the old file stays in force.
        StoreError: It cannot be written.
    """
    data = sign(new, signers)
    made = parse(data, str(path))
    with locked(path), locked(_seen_lock(state, made)):
        if old is None:
            if path.exists():
                raise ConfigError(f"{path}: trust: there is one already")
            # Before the file: a crash in between leaves a pin without a file, which the next attempt replaces.
            _pins(state).keep(path, Pin(Root.of(new), min(made.signers(new.root))))
            write_atomically(path, data, 0o644)
        else:
            _replace(path, old, made, data, _pins(state))
        _remember(made, state)


def require_outside(path: Path, store_directory: Path) -> None:
    """Return if a trust file lies outside the store that it judges.

    Raises:
        TrustError: It lies inside: whoever can write to the store would choose whom it is judged by.
    """
    for place in _places(path):
        if any(_is_same_place(one, store_directory) for one in (place, *place.parents)):
            raise TrustError(
                f"{path}: trust: it lies inside the store that it would judge, {store_directory}", code="untrusted-key"
            )


def _places(path: Path) -> list[Path]:
    """Return where a path lies and where each symbolic link on its way to the file lies."""
    places = []
    for _ in range(_MAX_LINKS):
        place = path.parent.resolve() / path.name
        places.append(place)
        if not place.is_symlink():
            break
        path = place.parent / place.readlink()
    return places


def _is_same_place(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other.absolute()


def _believed(path: Path, new: Signed, kept: Pin | None, pin: str | None, *, first_use: bool) -> Pin:
    """Return the root to believe from now on, and who vouches for it."""
    root = Root.of(new.trust)
    if kept is not None and kept.root.lineage == root.lineage and pin in {None, kept.pinned}:
        # An unchanged root may skip versions; a changed one needs those in between.
        skips = not kept.root.is_same(root) and root.version > kept.root.version + 1
        between = _history(path, new, kept.root.version) if skips else []
        return Pin(followed(kept.root, [*between, new]), kept.pinned)
    if pin is not None:
        return Pin(_pinned(path, new, pin), pin)
    if kept is not None:
        raise TrustError(
            f"{path}: trust: another trust file than the one that was pinned here",
            code="untrusted-key",
            hint="--pin FINGERPRINT accepts it, with the fingerprint of a root key obtained elsewhere",
        )
    if not first_use:
        ignored = not is_own(path) and beside(path).exists()
        more = f"; {beside(path).name} beside it counts for nothing: it may come from whoever made the file"
        raise ConfigError(
            f"{path}: trust: nothing says whose root keys these are{more if ignored else ''}",
            hint="--pin FINGERPRINT, with the fingerprint of a root key obtained elsewhere; or --first-use",
        )
    return Pin(root, None)


def _pinned(path: Path, new: Signed, pin: str) -> Root:
    """Return the root that a key vouches for: it signed this version, or an earlier one that leads to it."""
    if pin in new.signers(new.trust.root):
        return Root.of(new.trust)
    chain = [*_history(path, new, 0), new]
    vouched = [at for at, one in enumerate(chain) if pin in one.signers(one.trust.root)]
    if not vouched:
        names = ", ".join(key.keyid for key in new.trust.root)
        raise TrustError(f"{path}: trust: no root key {pin} signed it; its root is {names}", code="untrusted-key")
    return followed(Root.of(chain[vouched[-1]].trust), chain[vouched[-1] :])


def _replace(path: Path, old: Signed, made: Signed, data: bytes, pins: Pins) -> None:
    if read(path).payload != old.payload:
        raise ConfigError(f"{path}: trust: it was changed meanwhile", hint="try again")
    if made.trust.version != old.trust.version + 1:
        raise TrustError(
            f"{path}: trust: version {old.trust.version + 1} is next, not {made.trust.version}", code="untrusted-key"
        )
    require_step(Root.of(old.trust), made)
    before, _ = read_file(path, MAX_TEXT_BYTES)
    write_atomically(_version_path(path, old.trust.version), before, 0o644)
    write_atomically(path, data, 0o644)
    kept = pins.of(path, made.trust.lineage)
    if kept is not None and kept.root.lineage == made.trust.lineage:
        pins.keep(path, Pin(Root.of(made.trust), kept.pinned))


def _history(path: Path, new: Signed, after: int) -> list[Signed]:
    """Return the earlier versions of ``new`` that lie beside it, in order; what is no such version is passed over."""
    pattern = re.compile(re.escape(path.name) + r"\.v([1-9][0-9]{0,15})")
    matches = [match for one in path.parent.iterdir() if (match := pattern.fullmatch(one.name))]
    numbers = sorted(number for match in matches if after < (number := int(match[1])) < new.trust.version)
    found = []
    for number in numbers[-_MAX_HISTORY:]:
        with contextlib.suppress(ProvstoreError):
            one = read(_version_path(path, number))
            if (one.trust.lineage, one.trust.version) == (new.trust.lineage, number):
                found.append(one)
    return found


def _version_path(path: Path, version: int) -> Path:
    return path.with_name(f"{path.name}.v{version}")


def _pins(state: Path | None) -> Pins:
    return Pins(state or config.state_directory())


def _seen_lock(state: Path | None, signed: Signed) -> Path:
    return (state or config.state_directory()) / "trust" / signed.trust.lineage


def _require_not_older(new: Signed, state: Path | None) -> None:
    seen = read_seen(state or config.state_directory(), new.trust.lineage)
    if seen is None or seen.version < new.trust.version:
        return
    if seen.version > new.trust.version:
        raise TrustError(
            f"{new.trust.source}: trust: version {new.trust.version} is older than version {seen.version}, seen before",
            code="rollback",
        )
    if seen.sha256 != _digest(new):
        raise TrustError(
            f"{new.trust.source}: trust: another version {seen.version} than the one seen before", code="fork"
        )


def _remember(new: Signed, state: Path | None) -> None:
    place = state or config.state_directory()
    seen = read_seen(place, new.trust.lineage)
    if seen is None or seen.version < new.trust.version:
        write_seen(place, new.trust.lineage, Seen(new.trust.version, _digest(new)))


def _digest(signed: Signed) -> str:
    return hashlib.sha256(signed.payload).hexdigest()
