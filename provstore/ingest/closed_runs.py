"""A run whose end is signed, given once more: what it holds is recorded already, and nothing is written for it."""

from __future__ import annotations

import hashlib
from typing import NoReturn, cast

from provstore.errors import InputError
from provstore.journal import Journal, JournalEvidence

Scope = tuple[str, int]


class ClosedRunError(InputError):
    """Something new is given of a run whose end is signed.

    Args:
        scope: Run and attempt.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            f"{scope[0]}: attempt {scope[1]}: is closed: its end is signed and nothing may follow",
            hint="give it another --attempt",
        )
        self.scope = scope


def reading_only(journal: Journal, scope: Scope) -> Journal:
    """Return what stands for a journal where records of a closed run are to go: it can be read, and refuses to write.

    Its writing methods raise :class:`ClosedRunError`.
    """
    return cast("Journal", _Closed(journal, scope))


class _Closed:
    """As much of a journal as recording uses."""

    def __init__(self, journal: Journal, scope: Scope) -> None:
        self._journal, self._scope = journal, scope

    def evidence(self, run: str, attempt: int) -> JournalEvidence:
        """Return the evidence about one attempt."""
        return self._journal.evidence(run, attempt)

    def kept(self, sha256: str, size_bytes: int) -> bytes:
        """Return bytes that records name."""
        return self._journal.kept(sha256, size_bytes)

    def keep(self, data: bytes) -> str:
        """Return the name of bytes; what no new record names is not kept."""
        return hashlib.sha256(data).hexdigest()

    def has_batch(self, *_: object) -> bool:
        """Return that nothing is to be added: a closed run gets no lineage that it did not have."""
        return True

    def append(self, *_: object) -> NoReturn:
        """Refuse a batch."""
        raise ClosedRunError(self._scope)

    def append_records(self, *_: object) -> NoReturn:
        """Refuse records."""
        raise ClosedRunError(self._scope)
