"""Whether the origin that is expected is one that this run was ever signed under: a mistyped option is no tampering."""

from __future__ import annotations

from collections.abc import Iterable

from provstore.errors import ConfigError, TrustError
from provstore.evidence import anchors, checkpoint
from provstore.evidence.trust.keys import LOG, RUN, Trust
from provstore.model.evidence import EvidenceLog


def require_org(logs: Iterable[EvidenceLog], trust: Trust, org: str) -> None:
    """Refuse a first part of origins that no checkpoint here has, where trusted keys signed under another.

    Args:
        logs: The attempts that were asked for.
        trust: Whose signatures count: what others wrote is for the verification to judge.
        org: First part of the origins.

    Raises:
        ConfigError: It is another than that of every checkpoint.
    """
    other: tuple[str, str, str] | None = None
    for log in logs:
        for bundle in log.bundles():
            try:
                point = checkpoint.parse(bundle.checkpoint or b"")
            except TrustError:
                continue
            about = anchors.scope_of(point.origin)
            if about is None or about.org == org:
                return
            if other is None and (about.run, about.attempt) == (log.run, log.attempt):
                keys = trust.candidates(None, log.run, (RUN, LOG))
                if any(checkpoint.check(point, key.public) for key in keys):
                    expected = checkpoint.origin(org, about.store, about.run, about.attempt)
                    other = (about.org, point.origin, expected)
    if other is not None:
        text = (
            f"{org}: --org: the checkpoints here are about another org, {other[0]}: "
            f"expected origin {other[2]}, and what is signed here is {other[1]}"
        )
        raise ConfigError(text, hint=f"--org {other[0]}")
