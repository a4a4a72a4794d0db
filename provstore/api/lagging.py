"""What an answer says when the graph it comes from lacks what the journal holds already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from provstore.errors import InputError

if TYPE_CHECKING:
    from provstore.model.report import Answer

REASON = "graph_behind_journal"


def incomplete(answer: Answer, late: str) -> Answer:
    """Return an answer that says that rows may be missing; ``late`` says why, and is empty when none are."""
    if not late:
        return answer
    # What it means that there are no rows is not known then.
    notes = answer.notes if answer.rows else ()
    return replace(answer, complete=False, reason=answer.reason or REASON, notes=(*notes, late))


@contextmanager
def hinting(late: str) -> Iterator[None]:
    """Add to an error about something that is not there that the graph may only lack it."""
    try:
        yield
    except InputError as error:
        if late and late not in (error.hint or ""):
            error.hint = f"{late}: what was recorded last is not in it yet{'; ' + error.hint if error.hint else ''}"
        raise
