"""What a verification believes before it looks: whose signatures count, anchors held before, and the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from provstore import config
from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import anchors as held
from provstore.evidence import bounded_files, bundles, public_forms, timestamps
from provstore.evidence.trust.fields import now
from provstore.evidence.trust.file import load, require_outside
from provstore.evidence.trust.keys import Trust
from provstore.model.verification import ALLOWED

_Read = TypeVar("_Read")
_MOST_BYTES = 1 << 20
"""Of a given key, certificate or time stamp; what it may be by its kind is less."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What a verification believes before it looks at the evidence."""

    trust: Trust
    anchors: tuple[held.Anchor, ...] = ()
    """Given beside those of the state."""
    state: held.AnchorState | None = None
    """The verifier's own anchors: read before, refreshed after."""
    at: str | None = None
    """Moment at which keys are judged; the present when not given."""
    org: str = bundles.ORG
    allow: tuple[str, ...] = ()
    trust_path: Path | None = None
    """The trust file, which must not lie inside the store that it judges; ``None`` for single keys."""
    remarks: tuple[str, ...] = ()
    """What the answers say of anchors that were given: a folder that holds none."""

    def __post_init__(self) -> None:
        """Refuse limits that do not exist."""
        unknown = sorted(set(self.allow) - set(ALLOWED))
        if unknown:
            raise ConfigError(f"{', '.join(unknown)}: --allow: not a limit; known are {', '.join(ALLOWED)}")

    def inputs(self, source: str, anchors: Sequence[held.Anchor]) -> dict[str, object]:
        """Return what an answer depends on, as JSON values."""
        return {
            "source": source,
            "trust": {
                "source": self.trust.source,
                "version": self.trust.version,
                "first_use": self.trust.first_use,
            },
            "anchors": [
                {"origin": one.origin, "size": one.size, "source": one.source, "seen": one.seen} for one in anchors
            ],
            "at": self.at,
            "org": self.org,
        }


def belief(
    *,
    public_keys: Sequence[str | Path] = (),
    trust_file: str | Path | None = None,
    pin: str | None = None,
    first_use: bool = False,
    anchors: Iterable[str | Path] = (),
    state: str | Path | None = None,
    at: str | None = None,
    org: str = bundles.ORG,
    allow: Sequence[str] = (),
    tsa: Sequence[str | Path] = (),
    outside: Iterable[Path] = (),
) -> Belief:
    """Return what a verification believes; ``provstore.belief`` documents it."""
    own = held.AnchorState(config.anchor_directory(state))
    given = [Path(one) for one in anchors]
    remarks = tuple(_empty_folders(given))
    if public_keys:
        keys = [read_public_key(Path(path)) for path in public_keys]
        known = Trust.of_keys(keys, ", ".join(map(str, public_keys)))
        return Belief(known, read_anchors(given, known, tsa), own, at, org, tuple(allow), remarks=remarks)
    path = config.trust_file(trust_file)
    if not path.exists():
        raise ConfigError(
            f"{path}: trust: there is none: nothing says whose signatures count",
            hint="provstore keys trust NAME makes one; --public-key FILE names a single key",
        )
    for directory in outside:
        require_outside(path, directory)
    known = load(path, pin=pin, first_use=first_use, at=at)
    if at is None and any(key.not_before or key.not_after for key in known.keys):
        # Only then the moment changes an answer; without it, answers of different days are equal.
        at = now()
    return Belief(known, read_anchors(given, known, tsa), own, at, org, tuple(allow), path, remarks)


def read_public_key(path: Path) -> bytes:
    """Return the public key in a file.

    Raises:
        ConfigError: A fingerprint is given instead of a file.
        InputError: The file cannot be read, or holds no public key.
        TrustError: The key is not safe to trust.
    """
    # A path holds no two slashes in a row, which a fingerprint may.
    if str(path).startswith("SHA256:") and not path.exists():
        raise ConfigError(
            f"{path}: --public-key: a fingerprint names a key and does not tell it",
            hint="--public-key takes a file with the public key; --pin FINGERPRINT goes with --trust FILE",
        )
    return public_forms.read_public(_bytes_of(path, "public key"), str(path))


def _bytes_of(path: Path, what: str) -> bytes:
    return bounded_files.read(path, _MOST_BYTES, f"{path}: {what}", InputError)


def read_anchors(paths: Iterable[str | Path], known: Trust, tsa: Sequence[str | Path] = ()) -> tuple[held.Anchor, ...]:
    """Return the anchors in files and directories; one with a time stamp beside it (``<file>.tsr``) is dated by that.

    Args:
        paths: Checkpoints, or directories of anchors.
        known: Whose signature under a checkpoint a time stamp may date.
        tsa: Certificates of time-stamping authorities that are trusted; without any, time stamps are not looked at.

    Raises:
        InputError: A file cannot be read, or holds no checkpoint.
        TrustError: A time stamp does not hold for its checkpoint.
    """
    found: list[held.Anchor] = []
    roots = [_bytes_of(Path(path), "certificate") for path in tsa]
    for path in map(Path, paths):
        if path.is_dir():
            # Only the verifier's own anchors count whatever key signed them: these name the file they came from.
            found += [replace(one, source=one.path or str(path)) for one in _readable(held.AnchorState(path).all)]
            continue
        anchor = _readable(partial(held.read, path))
        token = path.with_name(f"{path.name}.tsr")
        if roots and token.exists():
            publics = [key.public for key in known.keys]
            anchor = timestamps.dated(anchor, _bytes_of(token, "time stamp"), roots, publics)
        found.append(anchor)
    return tuple(found)


def _readable(read: Callable[[], _Read]) -> _Read:
    """Return what is given for an anchor or several; a file of another form says nothing against the store."""
    try:
        return read()
    except TrustError as error:
        raise InputError(
            str(error),
            hint="an anchor is a checkpoint: a file that provstore seal --json or "
            "provstore evidence export wrote, or a folder of anchors that provstore verify keeps",
        ) from error


def _empty_folders(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        if path.is_dir() and not any(path.glob(f"*{held.SUFFIX}")):
            yield f"{path} holds no anchor (no file NAME{held.SUFFIX}): give a checkpoint by the name of its file."
