"""One item of a restore plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a re-run needs."""

    name: str
    state: str
    """``present``, ``missing`` or ``mismatch``."""
    digest: str | None
    source: str
    """Where it is, or was looked for."""
    detail: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Digests or settings by name: of random states by rank."""
    checked: bool | None = None
    """Whether its bytes were compared with the digest; ``None`` where they are part of the evidence."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "state": self.state,
            "digest": self.digest,
            "source": self.source,
            "detail": self.detail,
            "parts": dict(self.parts),
            "checked": self.checked,
        }
