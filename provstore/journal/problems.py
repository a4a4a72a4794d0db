"""What can be wrong with a journal, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provstore.errors import StoreError
from provstore.journal import segments
from provstore.journal.segments import Entry

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


def of_frame(entry: Entry, error: StoreError, code: str = DAMAGED) -> Problem:
    """Return that what one frame carries or names cannot be read."""
    place = segments.file_name(entry.segment)
    return Problem(code, place, str(error), True, entry.offset, entry.jseq, entry.jseq)


def report(found: Problem, directory: Path, on_problem: Callable[[Problem], None] | None) -> None:
    """Tell a problem to whoever asked to be told.

    Raises:
        StoreError: Nobody did.
    """
    if on_problem is None:
        raise StoreError(f"journal: {directory / found.place}: {found.text}")
    on_problem(found)
