"""What a verification believes before it looks: whose signatures count, anchors held before, and the moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore import config
from provstore.errors import ConfigError, InputError
from provstore.evidence import anchors as held
from provstore.evidence import bundles, public_forms, timestamps, trust
from provstore.evidence.trust_fields import now
from provstore.model.verification import ALLOWED


@dataclass(frozen=True, slots=True)
class Belief:
    """What a verification believes before it looks at the evidence."""

    trust: trust.Trust
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
    public_keys: Sequence[str | Path],
    trust_file: str | Path | None,
    pin: str | None,
    first_use: bool,
    anchors: Iterable[str | Path],
    state: str | Path | None,
    at: str | None,
    org: str,
    allow: Sequence[str],
    tsa: Sequence[str | Path],
    outside: Iterable[Path],
) -> Belief:
    """Return what a verification believes; ``provstore.belief`` documents it."""
    own = held.AnchorState(config.anchor_directory(state))
    if public_keys:
        keys = [_public_key(Path(path)) for path in public_keys]
        known = trust.Trust.of_keys(keys, ", ".join(map(str, public_keys)))
        return Belief(known, read_anchors(anchors, known, tsa), own, at, org, tuple(allow))
    path = config.trust_file(trust_file)
    if not path.exists():
        raise ConfigError(
            f"{path}: trust: there is none: nothing says whose signatures count",
            hint="provstore keys trust NAME makes one; --public-key FILE names a single key",
        )
    for directory in outside:
        trust.require_outside(path, directory)
    known = trust.load(path, pin=pin, first_use=first_use, at=at)
    if at is None and any(key.not_before or key.not_after for key in known.keys):
        # Only then the moment changes an answer; without it, answers of different days are equal.
        at = now()
    return Belief(known, read_anchors(anchors, known, tsa), own, at, org, tuple(allow), path)


def _public_key(path: Path) -> bytes:
    return public_forms.read_public(_bytes_of(path, "public key"), str(path))


def _bytes_of(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {what}: cannot be read: {error.strerror}") from error


def read_anchors(
    paths: Iterable[str | Path], known: trust.Trust, tsa: Sequence[str | Path] = ()
) -> tuple[held.Anchor, ...]:
    """Return the anchors in files and directories; one with a time stamp beside it (``<file>.tsr``) is dated by that.

    Args:
        paths: Checkpoints, or directories of anchors.
        known: Whose signature under a checkpoint a time stamp may date.
        tsa: Certificates of time-stamping authorities that are trusted; without any, time stamps are not looked at.

    Raises:
        InputError: A file cannot be read.
        TrustError: A file holds no checkpoint, or a time stamp does not hold for it.
    """
    found: list[held.Anchor] = []
    roots = [_bytes_of(Path(path), "certificate") for path in tsa]
    for path in map(Path, paths):
        if path.is_dir():
            found += held.AnchorState(path).all()
            continue
        anchor, token = held.read(path), path.with_name(f"{path.name}.tsr")
        if roots and token.exists():
            publics = [key.public for key in known.keys]
            anchor = timestamps.dated(anchor, _bytes_of(token, "time stamp"), roots, publics)
        found.append(anchor)
    return tuple(found)
