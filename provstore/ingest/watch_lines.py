"""One line of ``watch.jsonl`` as what was seen; hostile values are refused by name."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from provstore.errors import InputError
from provstore.ingest.capture_lines import count, count_or_none, double_or_none, flag_or_none, one_of, text, time
from provstore.model import signals as kinds
from provstore.model.codes import FINDINGS
from provstore.model.evidence import Scalar
from provstore.model.signal_codes import SIGNALS
from provstore.model.signals import SeenSignal

DISAGREEMENT = "replica-disagreement"
_TRIGGERS = ("xid", "prometheus")
_ORDERED = ("manual", *_TRIGGERS, "desync", DISAGREEMENT)
_RULES = ("P1", "P2")
_PREFIX = "signal-"
_PROBLEMS = tuple(one.name.removeprefix(_PREFIX) for one in SIGNALS)
_DIAGNOSES = tuple(one.name for one in FINDINGS)
_HEX = re.compile(r"[0-9a-f]{64}")
_MAX_TEXT = 4_000
_MAX_RANKS = 10_000
_MAX_RANK = 1 << 20

Said = Mapping[str, Any]


def seen(said: Said, line: bytes, offset: int) -> SeenSignal:
    """Return what a line tells.

    Args:
        said: Its members.
        line: Its bytes without the end.
        offset: Where it stands in its file.

    Raises:
        InputError: It is of no known kind, a member that is needed is missing, or a value is none of its kind.
    """
    what, digest = one_of(said, "t", kinds.SEEN), hashlib.sha256(line).hexdigest()
    return SeenSignal(what=what, seen_ns=time(said, "seen_ns"), line=digest, offset=offset, **_READERS[what](said))


def _signal(said: Said) -> dict[str, Any]:
    return {
        "trigger": one_of(said, "trigger", _TRIGGERS),
        "source": text(said, "source"),
        "text": _any_text(said, "line") or "",
        "at_ns": None if said.get("at_ns") is None else time(said),
        "host": _any_text(said, "host"),
        "device": _any_text(said, "device"),
        "ranks": _ranks(said, "ranks"),
        "values": _stated(
            xid=count_or_none(said, "code"),
            fault_class=_any_text(said, "fault_class"),
            name=_any_text(said, "name"),
            cursor=_any_text(said, "cursor"),
            is_context=flag_or_none(said, "is_context"),
            value=_figure(said, "value"),
            threshold=_figure(said, "threshold"),
        ),
    }


def _disagreement(said: Said) -> dict[str, Any]:
    op, group, seq = text(said, "op"), text(said, "group"), count(said, "seq")
    told, minority = _ranks(said, "ranks") or (), _ranks(said, "minority") or ()
    who = f"ranks {', '.join(map(str, minority))} differ" if minority else "there is no majority"
    return {
        "trigger": DISAGREEMENT,
        "source": "watch",
        "code": DISAGREEMENT,
        "text": f"{op} #{seq} of {group}: ranks hold different bytes: {who}"[:_MAX_TEXT],
        "ranks": minority or told,
        "step": count_or_none(said, "step"),
        "values": {"op": op, "group": group, "seq": seq, "compared": ", ".join(map(str, told))},
    }


def _finding(said: Said) -> dict[str, Any]:
    return {
        "trigger": "desync",
        "source": "diagnosis",
        "code": None if said.get("code") is None else one_of(said, "code", _DIAGNOSES),
        "text": text(said, "summary"),
        "ranks": _ranks(said, "ranks"),
        "values": _stated(
            key=_any_text(said, "key"),
            confidence=_any_text(said, "confidence"),
            group=_any_text(said, "group"),
            op=_any_text(said, "op"),
            seq=count_or_none(said, "seq"),
        ),
    }


def _problem(said: Said) -> dict[str, Any]:
    kind = one_of(said, "kind", _PROBLEMS)
    return {
        "source": text(said, "source"),
        "code": f"{_PREFIX}{kind}",
        "text": text(said, "text"),
        "values": {"count": count(said, "count")},
    }


def _order(said: Said) -> dict[str, Any]:
    source, number, because = text(said, "source"), count(said, "number"), said.get("because")
    if because is not None and not (isinstance(because, str) and _HEX.fullmatch(because)):
        raise InputError("because: is no SHA-256 in 64 hex digits")
    return {
        "trigger": one_of(said, "trigger", _ORDERED),
        "source": source,
        "text": text(said, "reason"),
        "scope": text(said, "scope"),
        "step": count(said, "from_step"),
        "opens": f"{source}/esc-{number}",
        "because": because,
        "values": _stated(
            rule=one_of(said, "rule", _RULES),
            steps=count_or_none(said, "steps"),
            opened_ns=time(said, "opened_ns"),
            value=_figure(said, "value"),
            threshold=_figure(said, "threshold"),
        ),
    }


def _closed(said: Said) -> dict[str, Any]:
    number, source = count(said, "number"), text(said, "source")
    trigger = one_of(said, "trigger", _ORDERED)
    name = f"esc-{number}"
    return {
        "trigger": trigger,
        "source": source,
        "text": f"{name} is over",
        "scope": text(said, "scope"),
        "opens": f"{source}/{name}",
    }


_READERS: Mapping[str, Callable[[Said], dict[str, Any]]] = {
    kinds.SIGNAL: _signal,
    kinds.DISAGREEMENT: _disagreement,
    kinds.FINDING: _finding,
    kinds.PROBLEM: _problem,
    kinds.ORDER: _order,
    kinds.CLOSED: _closed,
}


def _stated(**values: Scalar) -> dict[str, Scalar]:
    return {name: value for name, value in values.items() if value is not None}


def _any_text(said: Said, name: str) -> str | None:
    """Return a text, empty or not, or nothing where there is none."""
    value = said.get(name)
    if value is not None and not (isinstance(value, str) and len(value) <= _MAX_TEXT):
        raise InputError(f"{name}: is no text of at most {_MAX_TEXT} characters")
    return value


def _ranks(said: Said, name: str) -> tuple[int, ...] | None:
    value = said.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= _MAX_RANK for one in value):
        raise InputError(f"{name}: is no list of ranks")
    if len(value) > _MAX_RANKS:
        raise InputError(f"{name}: names more than {_MAX_RANKS} ranks")
    return tuple(sorted(set(value)))


def _figure(said: Said, name: str) -> float | None:
    value = double_or_none(said, name)
    if value is not None and not math.isfinite(value):
        raise InputError(f"{name}: is no finite number")
    return value
