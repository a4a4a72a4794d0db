"""Limits of what recording content may cost, with their defaults."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from provstore.errors import ConfigError

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What recording may cost one rank; 0 switches off what a limit is for.

    Raises:
        ConfigError: A limit is negative or no number.
    """

    steady_share: float = 0.02
    """Own time per step in the mean, as a part of the moving median of step times; one step plans for twice at most."""
    escalated_share: float = 0.25
    """The same while a scope of the rank is escalated."""
    digest_bytes_step: int = 64 * MIB
    clone_bytes: int = 256 * MIB
    """Copies that are held at one time, on the host and on its device alike."""
    ring_bytes: int = 64 * MIB
    """What is held of the last steps, to be written when a scope escalates."""
    snapshot_bytes_tensor: int = 16 * MIB
    snapshot_bytes_step: int = 64 * MIB
    snapshot_bytes_epoch: int = 2 * GIB
    snapshot_bytes_run: int = 20 * GIB
    reserve_bytes: int = 5 * GIB
    """Space that stays free where the files go: this or ``reserve_share``, whichever is more."""
    reserve_share: float = 0.10

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ConfigError(f"limits: {one.name}: {value!r} is not a number of 0 or more")

    def reserve(self, disk_bytes: int) -> int:
        """Return how many bytes of a disk of this size stay free."""
        return max(int(self.reserve_bytes), int(self.reserve_share * disk_bytes))

    def to_dict(self) -> dict[str, object]:
        """Return them as JSON values, by name."""
        return asdict(self)
