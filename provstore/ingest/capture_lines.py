"""One line of a capture file as an action, an escalation or a row of a table; hostile values are refused by name.

Actions come as the values of their attributes: a run has many, and what is said of one changes until it is recorded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from provstore.errors import InputError
from provstore.evidence.recording import classes, policy
from provstore.model import canonical, ids
from provstore.model.action import LOAD, SAVE
from provstore.model.canonical import Json
from provstore.model.evidence import MODES
from provstore.model.recording import (
    CAPTURE_FAULT,
    CLASSES,
    NO_FILE_ACCESS,
    NO_TENSOR_ACCESS,
    SHORTFALLS,
    UNKNOWN,
    Escalation,
    RecordingPolicy,
    RiskContext,
)

Values = dict[str, Any]
"""Attributes of an action."""
_NAME = re.compile(r"[a-z][a-zA-Z0-9_]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HEX = re.compile(r"[0-9a-f]{64}")
_MAX_TEXT = 4_000
_ESCALATION_TEXTS = ("trigger", "source", "scope", "rule")
_EVENTS = ("opened", "extended", "closed")
_FULL = MODES[-1]


def call(said: Mapping[str, Any], rank: int, epoch: int, step: int | None) -> Values:
    """Return the action of a ``call`` line, with the mode that it claims.

    Raises:
        InputError: A member that is needed is missing, or a value is none of its kind.
    """
    op, backend, group = text(said, "op"), _backend(said), text(said, "group")
    ordinal, seq, op_id = count(said, "ordinal"), count_or_none(said, "seq"), count_or_none(said, "op_id")
    chain = base = f"{_component(backend)}/{group}/"
    if said.get("channel") in {"send", "recv"}:
        chain += f"p2p/{rank}/{op_id if op_id is not None else f's{seq}'}"
        action_id = chain
    else:
        chain += str(seq) if seq is not None else f"local/{rank}/call{ordinal}"
        action_id = f"{chain}/{rank}"
    return dict(
        action_id=action_id,
        op=op,
        rank=rank,
        at_ns=time(said),
        epoch=epoch,
        step=step,
        backend=backend,
        group=group,
        seq=seq,
        op_id=op_id,
        peer=count_or_none(said, "peer"),
        side=one_of(said, "side", ("in", "out", "call")),
        chain=chain,
        finite_in=flag_or_none(said, "finite_in"),
        finite_out=flag_or_none(said, "finite_out"),
        digest_in=digest_or_none(said, "in"),
        digest_out=digest_or_none(said, "out"),
        digest_kind=text_or_none(said, "kind"),
        shapes_in=shapes(said, "shapes_in"),
        shapes_out=shapes(said, "shapes_out"),
        dtypes_in=texts(said, "dtypes_in"),
        dtypes_out=texts(said, "dtypes_out"),
        reduce_op=text_or_none(said, "reduce_op"),
        root=count_or_none(said, "root"),
        extra=_notes(said, base, rank),
        **demanded(said, op),
    )


def _notes(said: Mapping[str, Any], base: str, rank: int) -> dict[str, str]:
    """Return what else is known of a call: taint, what it sets up, and of a part the action that has its tensors."""
    first, taint, setup = count_or_none(said, "part_of"), count_or_none(said, "taint"), text_or_none(said, "setup")
    notes = {"part_of": None if first is None else f"{base}{first}/{rank}", "setup": setup, "taint_chain_length": taint}
    return {name: str(value) for name, value in notes.items() if value is not None}


def tensor(said: Mapping[str, Any], rank: int, epoch: int, step: int | None) -> Values:
    """Return the action of a ``tensor`` line: its digest, shape and type stand where a call's output does.

    Raises:
        InputError: A member that is needed is missing, or a value is none of its kind.
    """
    op, name = text(said, "op"), text(said, "name")
    shape, dtype, reason = said.get("shape"), text_or_none(said, "dtype"), text_or_none(said, "uncarried")
    return dict(
        action_id=f"{ids.component(op)}/{rank}/{_step(step)}/{ids.component(name)}",
        op=op,
        rank=rank,
        at_ns=time(said),
        epoch=epoch,
        step=step,
        finite_out=flag_or_none(said, "finite"),
        digest_out=digest_or_none(said, "digest"),
        digest_kind=text_or_none(said, "kind"),
        shapes_out=None if shape is None else shapes({"shape": [shape]}, "shape"),
        dtypes_out=None if dtype is None else (dtype,),
        name=name,
        carried_by=texts(said, "carried_by") or (),
        extra={} if reason is None else {"uncarried": reason},
        **demanded(said, op),
    )


def checkpoint(said: Mapping[str, Any], rank: int, epoch: int, step: int | None, mode_floor: str) -> Values:
    """Return the action of a ``checkpoint`` line.

    Raises:
        InputError: A member that is needed is missing, or a value is none of its kind.
    """
    op = {"save": SAVE, "load": LOAD}[one_of(said, "action", ("save", "load"))]
    uri = without_userinfo(text(said, "uri"))
    found = classes.side_effect_class(op)
    wanted = policy.raised(_demanded_of_event(said, found), mode_floor)
    digest = digest_or_none(said, "state_digest")
    there = _FULL if _has_files(said.get("files")) else MODES[1] if digest else MODES[0]
    mode = min(there, wanted.mode, key=MODES.index)
    why = NO_FILE_ACCESS if said.get("shortfall") == [NO_FILE_ACCESS] else NO_TENSOR_ACCESS
    return {
        "action_id": f"{op}/{rank}/{_step(step)}/{ids.component(uri)}",
        "op": op,
        "rank": rank,
        "at_ns": time(said),
        "epoch": epoch,
        "step": step,
        "side_effect_class": found,
        "mode": mode,
        "policy_mode": wanted.mode,
        "policy_reason": wanted.reason,
        "shortfall": () if mode == wanted.mode else (why,),
        "digest_out": digest,
        "escalations": texts(said, "escalations") or (),
        "name": uri,
        "extra": {"uri": uri},
    }


def _demanded_of_event(said: Mapping[str, Any], side_effect_class: str) -> RecordingPolicy:
    """Return the policy that a line states, of a recorder that states none the one of its class."""
    stated = said.get("policy")
    if not isinstance(stated, dict):
        return policy.compile_recording_policy(RiskContext(side_effect_class=side_effect_class))
    return RecordingPolicy(one_of(stated, "mode", MODES), text(stated, "reason"), "")


def demanded(said: Mapping[str, Any], op: str) -> dict[str, Any]:
    """Return class, mode, policy, shortfalls and escalations of a line.

    A class that is none is unknown, and what is unknown is demanded in full.

    Raises:
        InputError: A mode is none.
    """
    found = said.get("class")
    if found not in CLASSES:
        found = classes.side_effect_class(op)
    wanted = said.get("policy")
    if not isinstance(wanted, dict):
        raise InputError("policy: is missing")
    mode, reason = one_of(wanted, "mode", MODES), text(wanted, "reason")
    if found == UNKNOWN and mode != _FULL:
        by_rule: RecordingPolicy = policy.compile_recording_policy(RiskContext())
        mode, reason = by_rule.mode, by_rule.reason
    named = texts(said, "shortfall") or ()
    shortfall = [one if one in SHORTFALLS else CAPTURE_FAULT for one in named]
    return {
        "side_effect_class": found,
        "mode": min(one_of(said, "mode", MODES), mode, key=MODES.index),
        "policy_mode": mode,
        "policy_reason": reason,
        "shortfall": tuple(dict.fromkeys(shortfall)),
        "escalations": texts(said, "escalations") or (),
    }


def escalation(said: Mapping[str, Any]) -> tuple[Escalation, str]:
    """Return the escalation of a line, and what happened to it.

    Raises:
        InputError: A member that is needed is missing, or a value is none of its kind.
    """
    inner = said.get("escalation")
    one: Mapping[str, Any] = inner if isinstance(inner, dict) else said
    texts_of = {name: text(one, name) for name in _ESCALATION_TEXTS}
    event = one_of(one if "event" in one else said, "event", _EVENTS)
    if texts_of["rule"] not in {"P1", "P2"}:
        raise InputError("rule: is neither P1 nor P2")
    return (
        Escalation(
            number=count(one, "number"),
            opened_ns=time(one, "opened_ns"),
            opened_step=count_or_none(one, "opened_step"),
            value=double_or_none(one, "value"),
            threshold=double_or_none(one, "threshold"),
            closed_ns=None if one.get("closed_ns") is None else time(one, "closed_ns"),
            closed_step=count_or_none(one, "closed_step"),
            close_reason=text_or_none(one, "close_reason"),
            latched=one.get("latched") is True,
            reason=text_or_none(one, "reason"),
            evidence=texts(one, "evidence") or (),
            **texts_of,
        ),
        event,
    )


def row(said: Mapping[str, Any], rank: int) -> bytes:
    """Return a line as a row of a table: canonical, with its rank, times and large numbers as tagged texts.

    Raises:
        InputError: It holds what no record can hold.
    """
    found: dict[str, Json] = {
        name: _canonical(value) for name, value in said.items() if name not in {"t", "at_ns", "rank"}
    }
    if "at_ns" in said:
        found["at"] = canonical.tag_integer(time(said))
    for name in found:
        if not _NAME.fullmatch(name):
            raise InputError(f"{name[:40]!a}: is no name of a member")
    return canonical.encode({**found, "rank": rank})


def _canonical(value: Any, depth: int = 0) -> Json:
    if depth > 8:
        raise InputError("value: more than 8 levels")
    if type(value) is float:
        return canonical.tag_double(value)
    if type(value) is int and abs(value) > canonical.MAX_INTEGER:
        return canonical.tag_integer(value) if abs(value) < 2**63 else str(value)
    if isinstance(value, list):
        return [_canonical(one, depth + 1) for one in value]
    if isinstance(value, dict):
        if all(_NAME.fullmatch(name) for name in value):
            return {name: _canonical(one, depth + 1) for name, one in value.items()}
        # Names that users chose are values.
        return [{"n": name, "v": _canonical(one, depth + 1)} for name, one in sorted(value.items())]
    found: Json = value
    return found


def without_userinfo(uri: str) -> str:
    """Return an address without user and password."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else uri


def text(said: Mapping[str, Any], name: str) -> str:
    """Return a text that is not empty.

    Raises:
        InputError: There is none, or it is longer than anybody means.
    """
    value = said.get(name)
    if not isinstance(value, str) or not value or len(value) > _MAX_TEXT:
        raise InputError(f"{name}: is no text of 1 to {_MAX_TEXT} characters")
    return value


def text_or_none(said: Mapping[str, Any], name: str) -> str | None:
    """Return a text, or nothing where there is none."""
    return None if said.get(name) is None else text(said, name)


def count(said: Mapping[str, Any], name: str) -> int:
    """Return an integer from 0 to 2**53 - 1.

    Raises:
        InputError: There is none.
    """
    value = said.get(name)
    if type(value) is not int or not 0 <= value <= canonical.MAX_INTEGER:
        raise InputError(f"{name}: is no integer from 0 to 2**53 - 1")
    return value


def count_or_none(said: Mapping[str, Any], name: str) -> int | None:
    """Return such an integer, or nothing where there is none."""
    return None if said.get(name) is None else count(said, name)


def time(said: Mapping[str, Any], name: str = "at_ns") -> int:
    """Return a time in nanoseconds since 1970.

    Raises:
        InputError: There is none.
    """
    value = said.get(name)
    if type(value) is not int or not 0 <= value <= canonical.INT64_MAX:
        raise InputError(f"{name}: is no time in nanoseconds")
    return value


def one_of(said: Mapping[str, Any], name: str, known: Sequence[str]) -> str:
    """Return one of several texts.

    Raises:
        InputError: It is another.
    """
    value = said.get(name)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}: is none of {', '.join(known)}")
    return value


def flag_or_none(said: Mapping[str, Any], name: str) -> bool | None:
    """Return a truth value, or nothing where there is none."""
    value = said.get(name)
    if value is not None and type(value) is not bool:
        raise InputError(f"{name}: is neither true nor false")
    return value


def digest_or_none(said: Mapping[str, Any], name: str) -> str | None:
    """Return a digest, or nothing where there is none."""
    value = said.get(name)
    if value is not None and not (isinstance(value, str) and _DIGEST.fullmatch(value)):
        raise InputError(f"{name}: is no sha256: digest")
    return value


def double_or_none(said: Mapping[str, Any], name: str) -> float | None:
    """Return a number that is spelled exactly, or nothing where there is none."""
    value = said.get(name)
    if isinstance(value, str):
        return canonical.tagged_double(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InputError(f"{name}: is no number")
    return None if value is None else float(value)


def texts(said: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return a list of texts, or nothing where there is none."""
    value = said.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) and len(one) <= _MAX_TEXT for one in value):
        raise InputError(f"{name}: is no list of texts")
    return tuple(value)


def shapes(said: Mapping[str, Any], name: str) -> tuple[tuple[int, ...], ...] | None:
    """Return a list of shapes, or nothing where there is none."""
    value = said.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        isinstance(one, list) and all(type(size) is int and 0 <= size <= canonical.MAX_INTEGER for size in one)
        for one in value
    ):
        raise InputError(f"{name}: is no list of shapes")
    return tuple(map(tuple, value))


def _has_files(found: Any) -> bool:
    """Return whether size and SHA-256 of each file of a checkpoint are there."""
    return (
        isinstance(found, list)
        and bool(found)
        and all(
            isinstance(one, dict)
            and type(one.get("bytes")) is int
            and isinstance(one.get("sha256"), str)
            and _HEX.fullmatch(one["sha256"])
            for one in found
        )
    )


@functools.lru_cache(256)
def _component(text: str) -> str:
    return ids.component(text)


def _backend(said: Mapping[str, Any]) -> str:
    return text(said, "backend" if "backend" in said else "library")


def _step(step: int | None) -> str:
    return "~" if step is None else str(step)
