"""Which record of an action a name means: its id, the id of its node, or one of the short forms that traces take."""

from __future__ import annotations

import re

import orjson

from provstore.evidence.actions import OPENING
from provstore.model import canonical, ids, short_forms
from provstore.model.short_forms import ShortForm


class ActionName:
    """A name of a recorded action.

    Args:
        text: What was written.
        short: It as one of the short forms; ``None`` where it is an id.
    """

    def __init__(self, text: str, short: ShortForm | None) -> None:
        self._text = text
        self._op = None if short is None else short.op
        self._pattern: re.Pattern[bytes] | None = None
        if short is not None:
            is_message = short.form == short_forms.P2P
            place = f"p2p/{short.rank}/{short.number}" if is_message else f"{short.number}/{short.rank}"
            # Backend and group come before it; a number that was given anew has its count behind it.
            form = rf'{re.escape(OPENING.decode())}"[^"/]+/[^"/]+/{place}(?:/again/[0-9]+)?",'
            self._pattern = re.compile(form.encode())

    def fits(self, run: str, attempt: int, line: bytes) -> bool:
        """Return whether the record with these canonical bytes, in an attempt of a run, is of such an action."""
        if self._pattern is None:
            prefix = f"{ids.attempt_iri(run, attempt)}/action/"
            local = self._text.removeprefix(prefix).removeprefix(prefix.removeprefix(ids.BASE))
            return line.startswith(OPENING + canonical.encode(local) + b",")
        if self._pattern.match(line) is None:
            return False
        return self._op is None or str(orjson.loads(line).get("tool_name", "")).rpartition(":")[2] == self._op


def action_name(text: str) -> ActionName | None:
    """Return a text as the name of an action; ``None`` where it has none of the forms.

    Raises:
        InputError: It is a short form, with a number that no store can hold.
    """
    short = short_forms.short_form(text)
    if short is not None and short.form != short_forms.RANK:
        return ActionName(text, short)
    return ActionName(text, None) if "/" in text else None
