"""Consent: whether an agent's records show that the action that launched a run was denied, or asked for unapproved.

What the records say is taken as they say it: whether they are authentic is a question of its own. A decision that is
not there at all is no anomaly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Said = Mapping[str, Any]

_DENIED = frozenset({"deny", "denied", "blocked", "rejected"})
_ASKED = frozenset({"ask_user"})
_DENYING_MODES = frozenset({"policy-deny-with-evidence"})
_ASKING_MODES = frozenset({"one-shot-payload", "re-approval-on-drift"})
"""Ways of approving that ask for this one payload, which leaves the hash of what was shown."""
_MOST_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Consent:
    """What is known of the consent to an action."""

    is_evaluated: bool
    has_anomaly: bool
    reason: str


def consent_of(records: Iterable[Said], action: str) -> Consent:
    """Return what an agent's records say of the consent to one of its actions.

    Args:
        records: In the order of the file; other runs may be among them.
        action: ``<run_id>/<action_id>``.

    A decision stands in the action itself, or among the decisions of its record. Those name no action: they count for
    the action that they name by tool or reference, else for the only state-changing one that the record adds to those
    before it.
    """
    run, _, name = action.partition("/")
    known: set[str] = set()
    is_found = False
    decisions = 0
    for record in records:
        if record.get("run_id") != run:
            continue
        actions = _objects(record.get("actions"))
        meant = [one for one in actions if one.get("action_id") == name]
        for one in meant:
            about = [*_own(one), *(() if is_found else _of_record(record, one, actions, known))]
            is_found = True
            decisions += len(about)
            for said in about:
                if (reason := _anomaly(said, one)) is not None:
                    return Consent(is_evaluated=True, has_anomaly=True, reason=f"{_short(action)}: {reason}")
        known.update(one["action_id"] for one in actions if isinstance(one.get("action_id"), str))
    if not is_found:
        return Consent(is_evaluated=False, has_anomaly=False, reason=f"{_short(action)} is not in the file")
    said_of_it = "no decision about it is recorded" if not decisions else "nothing denies it or lacks an approval"
    return Consent(is_evaluated=True, has_anomaly=False, reason=f"{_short(action)}: {said_of_it}")


@dataclass(frozen=True, slots=True)
class _Decision:
    """One decision about an action, and where it stands."""

    where: str
    decision: str
    mode: str = ""
    reason: str = ""


def _own(action: Said) -> Iterator[_Decision]:
    """Yield what stands in the action itself."""
    said = action.get("capability_decision")
    if isinstance(said, dict):
        yield _decision("capability_decision", said)
    elif isinstance(said, str):
        yield _Decision("capability_decision", said.lower())
    for name, member in (("permission_gate", "decision"), ("argument_drift", "resolution")):
        inner = action.get(name)
        if isinstance(inner, dict) and isinstance(inner.get(member), str):
            yield _Decision(name, inner[member].lower(), reason=_text(inner.get("reason")))
    if isinstance(action.get("outcome"), str):
        yield _Decision("outcome", action["outcome"].lower())


def _of_record(record: Said, action: Said, actions: Sequence[Said], known: set[str]) -> list[_Decision]:
    """Return the decisions of a record that are about an action; of several about one thing the last counts."""
    if isinstance(action.get("capability_decision"), dict | str):
        return []
    added = [one for one in actions if one.get("action_id") not in known and one.get("state_changing") is not False]
    is_only = all(one.get("action_id") == action.get("action_id") for one in added)
    refs = action.get("evidence_refs")
    names = {action.get("tool_name"), *(ref for ref in (refs if isinstance(refs, list) else ()) if type(ref) is str)}
    last: dict[tuple[str, str], _Decision] = {}
    for said in _objects(record.get("capability_decisions")):
        capability, resource = _text(said.get("capability")), _text(said.get("resource"))
        if is_only or names & {said.get("capability"), said.get("resource")}:
            last[capability, resource] = _decision("capability_decisions of its record", said)
    return list(last.values())


def _decision(where: str, said: Said) -> _Decision:
    capability = _text(said.get("capability"))
    where = f"{where}: {capability}" if capability else where
    return _Decision(
        where, _text(said.get("decision")).lower(), _text(said.get("approval_mode")), _text(said.get("reason_code"))
    )


def _anomaly(said: _Decision, action: Said) -> str | None:
    """Return what is wrong with a decision about an action, if anything is."""
    more = f" ({said.reason})" if said.reason else ""
    if said.decision in _DENIED or said.mode in _DENYING_MODES:
        return f"{said.where}: denied{more}"
    approval = action.get("approval_context_hash")
    has_approval = isinstance(approval, str) and bool(approval.strip())
    if (said.decision in _ASKED or said.mode in _ASKING_MODES) and not has_approval:
        return f"{said.where}: asked for without an approval_context_hash{more}"
    return None


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return _short(value) if isinstance(value, str) else ""


def _short(text: str) -> str:
    """Return a text of others, cut, with what is not printable spelled out."""
    cut = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    return cut if cut.isprintable() else ascii(cut)[1:-1]
