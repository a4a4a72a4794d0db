"""Action records: the canonical line of one action of a run, and back.

Absent values are left out. What a line has no place of its own for stands in its member ``training``.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

import orjson

from provstore.errors import InputError, TrustError
from provstore.evidence import records
from provstore.model import canonical, evidence
from provstore.model.action import Action
from provstore.model.canonical import Json
from provstore.model.recording import READ

OPENING = b'{"action_id":'
"""Every action record begins so, and no record of another kind does."""
RECORDED = "recorded"
_NO_NOTES: Mapping[str, str] = {}
_USUAL_SIDE = "in"
"""Of a call in a group, where its record names no side."""
_NS_PER_MS = 1_000_000
_MOST_DIGITS = 20
_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_NUMBERED = b'"kind":"action","n":'
_TOP = (
    ("causal_chain_id", "chain"),
    ("delta_ref", "delta_ref"),
    ("parent_action_id", "parent"),
    ("post_state_digest", "digest_out"),
    ("pre_state_digest", "digest_in"),
    ("state_digest_kind", "digest_kind"),
)
"""Member of the line → attribute, where a value may be absent."""
_TRAINING = (
    "dtypes_in",
    "dtypes_out",
    "epoch",
    "finite_in",
    "finite_out",
    "group",
    "name",
    "op_id",
    "peer",
    "reduce_op",
    "root",
    "seq",
    "shapes_in",
    "shapes_out",
)
"""Members of ``training`` that are attributes of the same name, where a value may be absent."""


def record_line(action: Action, run: str, attempt: int, n: int) -> bytes:
    """Return the record of an action.

    Args:
        action: What was recorded.
        run: The run.
        attempt: Its incarnation.
        n: Number among the records of the action's rank.

    Raises:
        InputError: A value that no record can hold.
    """
    said = members(action)
    _shorten(said["training"])
    said["at"] = f"i64:{action.at_ns}"
    said["attempt"] = attempt
    said["kind"] = evidence.ACTION
    said["n"] = n
    said["rank"] = action.rank
    said["run"] = run
    said["schema"] = evidence.RECORD_SCHEMA
    try:
        line = b"%b" % orjson.dumps(said, option=_OPTIONS)
    except TypeError as error:
        raise InputError(f"record: action: {action.action_id[:80]!a}: {error}") from error
    if len(line) > records.MAX_LINE_BYTES:
        raise InputError(f"record: action: {len(line)} bytes are more than {records.MAX_LINE_BYTES}")
    return line


def members(action: Action) -> dict[str, Any]:
    """Return what a record and an agent's record say alike of an action: all but run, attempt, rank and time.

    Raises:
        InputError: It has a group and no library, or the other way round.
    """
    op, backend = action.op, action.backend
    if (backend is None) != (action.group is None) or ":" in (backend or ""):
        raise InputError(f"record: action: {action.action_id[:80]!a}: a library, without colon, goes with a group")
    training: dict[str, Any] = {
        "op": op,
        "policy_mode": action.policy_mode,
        "policy_reason": action.policy_reason,
        "shortfall": action.shortfall,
    }
    for name in _TRAINING:
        if (value := getattr(action, name)) is not None:
            training[name] = value
    if action.step is not None:
        training["step"] = action.step
        training["step_basis"] = RECORDED
    if action.side is not None:
        training["side"] = action.side
    if action.escalations:
        training["escalations"] = action.escalations
    if action.carried_by:
        training["carried_by"] = action.carried_by
    if action.extra:
        training["notes"] = [evidence.tag(name, value) for name, value in sorted(action.extra.items())]
    said: dict[str, Any] = {
        "action_id": action.action_id,
        "recording_mode": action.mode,
        "side_effect_class": action.side_effect_class,
        "state_changing": action.side_effect_class != READ,
        "timestamp_ms": action.at_ns // _NS_PER_MS,
        "tool_name": op if backend is None else f"{backend}:{op}",
        "training": training,
    }
    for name, attribute in _TOP:
        if (value := getattr(action, attribute)) is not None:
            said[name] = value
    if action.evidence_refs:
        said["evidence_refs"] = action.evidence_refs
    return said


def in_agent_record(action: Action, attempt: int) -> dict[str, Json]:
    """Return an action as it stands in an agent's record: attempt, rank and exact time are in ``training`` there."""
    said = members(action)
    said["training"] |= {} if action.backend is None else {"backend": action.backend}
    said["training"] |= {"attempt": attempt, "rank": action.rank, "timestamp_ns": f"i64:{action.at_ns}"}
    return said


def read(line: bytes) -> Action:
    """Return the action of a record.

    Raises:
        TrustError: The line is no record of an action.
    """
    said = records.parse(line)
    if said["kind"] != evidence.ACTION:
        raise TrustError(f"record: kind: {said['kind']} is no action", code="payload-noncanonical")
    return of_record(said)


class _Draft:
    """An action that is being filled in: filling in a frozen one takes three times as long, and runs have many."""

    __slots__ = Action.__slots__


def of_record(said: Mapping[str, Any]) -> Action:
    """Return the action of a record that was read strictly."""
    training = said["training"]
    top, own = said.get, training.get
    draft: Any = _Draft()
    draft.action_id = said["action_id"]
    backend, op = named(said)
    draft.backend, draft.op = _once(backend), _once(op)
    draft.rank = said["rank"]
    draft.at_ns = _moment(said["at"])
    draft.side_effect_class = _once(said["side_effect_class"])
    draft.mode = _once(said["recording_mode"])
    draft.policy_mode = _once(training["policy_mode"])
    draft.policy_reason = _once(training["policy_reason"])
    draft.epoch = own("epoch")
    draft.step = own("step")
    draft.group = _once(own("group"))
    draft.seq = own("seq")
    draft.op_id = own("op_id")
    draft.peer = own("peer")
    draft.side = own("side", None if "group" not in training else _USUAL_SIDE)
    draft.chain = _once(top("causal_chain_id"))
    draft.parent = top("parent_action_id")
    draft.shortfall = tuple(training["shortfall"])
    draft.escalations = tuple(training["escalations"]) if "escalations" in training else ()
    draft.finite_in = own("finite_in")
    draft.finite_out = own("finite_out")
    draft.digest_in = top("pre_state_digest")
    draft.digest_out = _once(top("post_state_digest"))
    draft.digest_kind = _once(top("state_digest_kind"))
    _fill_in_tensors(draft, training)
    draft.reduce_op = _once(own("reduce_op"))
    draft.root = own("root")
    draft.delta_ref = _once(top("delta_ref"))
    draft.evidence_refs = tuple(said["evidence_refs"]) if "evidence_refs" in said else ()
    draft.name = own("name")
    draft.carried_by = tuple(training["carried_by"]) if "carried_by" in training else ()
    draft.extra = {row["n"]: row["v"] for row in training["notes"]} if "notes" in training else _NO_NOTES
    draft.__class__ = Action
    action: Action = draft
    return action


def _once(text: str | None) -> str | None:
    """Return a text that many actions have alike so that it is held once: a run has too many for a copy each."""
    return None if text is None else intern(text)


def _fill_in_tensors(draft: Any, training: Mapping[str, Any]) -> None:
    """Say what went in and came out; what came out need not be said again where it is as what went in."""
    dtypes, shapes = training.get("dtypes_in"), training.get("shapes_in")
    draft.dtypes_in = dtypes = None if dtypes is None else tuple(map(intern, dtypes))
    draft.shapes_in = shapes = None if shapes is None else tuple(map(tuple, shapes))
    if not training.get("out_as_in"):
        shapes = training.get("shapes_out")
        shapes = None if shapes is None else tuple(map(tuple, shapes))
    draft.shapes_out = shapes
    dtypes_out = training.get("dtypes_out")
    if dtypes_out is not None:
        dtypes = tuple(map(intern, dtypes_out))
    elif shapes is None:
        dtypes = None
    draft.dtypes_out = dtypes


def _moment(text: str) -> int:
    """Return a tagged integer; one that is spelled as it would be written needs no closer look."""
    digits = text[4:]
    if len(digits) < _MOST_DIGITS and digits.isdecimal():
        value = int(digits)
        if value <= canonical.INT64_MAX and text == f"i64:{value}":
            return value
    return canonical.tagged_integer(text)


def _shorten(training: dict[str, Any]) -> None:
    """Leave out what another member says too, and what most calls have alike: it is read back all the same."""
    del training["op"]
    if training.get("side") == _USUAL_SIDE and "group" in training:
        del training["side"]
    dtypes, shapes = training.get("dtypes_in"), training.get("shapes_in")
    if dtypes is not None and dtypes == training.get("dtypes_out") and "shapes_out" in training:
        del training["dtypes_out"]
        if shapes and shapes == training["shapes_out"]:
            del training["shapes_out"]
            training["out_as_in"] = True


def named(said: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return library and operation of an action's record: a call in a group is named ``library:operation``."""
    name: str = said["tool_name"]
    if "group" not in said["training"]:
        return None, name
    backend, _, op = name.partition(":")
    return backend, op


def content(line: bytes) -> bytes:
    """Return an action record without its number, which differs between stores: what a bundle's digest is over."""
    start = line.index(_NUMBERED) + len(_NUMBERED) - len(b',"n":')
    return line[:start] + line[line.index(b",", start + 1) :]
