"""What is to be found in an action, and what was granted for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from provstore.capture.content.budget import Grant


@dataclass(slots=True)
class Wish:
    """What is to be found in an action beyond its flags, and what was granted for it."""

    is_wanted: bool = False
    with_snapshot: bool = False
    in_ring: bool = False
    """Its copies are only held, for the case that something escalates within the next steps."""
    is_deepened: bool = False
    """Something did: the call itself, or another before the copies came from their device."""
    grants: dict[tuple[str, str], Grant] = field(default_factory=dict)
    """By side and kind of work."""

    @property
    def needs_copies(self) -> bool:
        """Whether copies are to be made."""
        return self.is_wanted or self.in_ring
