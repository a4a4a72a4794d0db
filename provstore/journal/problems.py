"""What can be wrong with a journal, as values."""

from __future__ import annotations

from dataclasses import dataclass

DAMAGED = "journal-damaged"
CHAIN_BROKEN = "journal-chain-broken"
TORN_TAIL = "journal-torn-tail"
UNACKNOWLEDGED = "journal-unacknowledged-tail"
UNKNOWN_FRAME = "journal-unknown-frame"
MARKER_WRONG = "journal-marker-wrong"
PAYLOAD_MISSING = "payload-missing"
PAYLOAD_WRONG = "payload-wrong"
STRAY_FILE = "journal-stray-file"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing a scan or check found."""

    code: str
    place: str
    """File below the journal's directory."""
    text: str
    """Plain words; complete by itself."""
    is_loss: bool
    """True when something that was acknowledged is gone or altered; False for what a crash may leave behind."""
    offset: int | None = None
    """Byte in the file."""
    first_jseq: int | None = None
    last_jseq: int | None = None
    """Numbers that are missing, or that are affected."""

    def __str__(self) -> str:
        return f"{self.place}: {self.code}: {self.text}"
