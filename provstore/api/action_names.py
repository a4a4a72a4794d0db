"""Which record of an action a name means: its id, the id of its node, or one of the short forms that traces take."""

from __future__ import annotations

import re

import orjson

from provstore.evidence.actions import OPENING
from provstore.model import canonical, ids

_SHORT_FORMS = (
    re.compile(r"r(?P<rank>[0-9]{1,10}):seq(?P<number>[0-9]{1,19})"),
    re.compile(r"tensor:(?P<rank>[0-9]{1,10}):(?P<number>[0-9]{1,19}):(?:in|out|call)"),
    re.compile(r"act:(?P<rank>[0-9]{1,10}):(?P<op>[^:/]+):(?P<number>[0-9]{1,19})"),
    re.compile(r"p2p:(?P<rank>[0-9]{1,10}):(?P<number>[0-9]{1,19})"),
)


class ActionName:
    """A name of a recorded action.

    Args:
        text: What was written.
        short: It as one of the short forms; ``None`` where it is an id.
    """

    def __init__(self, text: str, short: re.Match[str] | None) -> None:
        self._text = text
        self._op = None if short is None else short.groupdict().get("op")
        self._pattern: re.Pattern[bytes] | None = None
        if short is not None:
            rank, number = int(short["rank"]), int(short["number"])
            place = f"p2p/{rank}/{number}" if text.startswith("p2p:") else f"{number}/{rank}"
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
    """Return a text as the name of an action; ``None`` where it has none of the forms."""
    if "/" in text:
        return ActionName(text, None)
    short = next((found for form in _SHORT_FORMS if (found := form.fullmatch(text)) is not None), None)
    return None if short is None else ActionName(text, short)
