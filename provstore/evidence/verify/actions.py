"""Reading action records fast: one expression that takes less than the strict reader, never more."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from provstore.evidence.verify.records import COUNT, LONG, STRING, Fields
from provstore.model import canonical
from provstore.model.evidence import MODES
from provstore.model.recording import CLASSES, SHORTFALLS

_MAX_BYTES = 16_384
_MOST_KNOWN = 1_024
_REF = rb'"sha256:[0-9a-f]{64}"'
_FLAG = rb"(?:true|false)"
_MODES = {mode.encode(): mode for mode in MODES}

Modes = tuple[str, str, str]
"""Recorded mode, demanded mode, and why it was demanded."""


def quick_action_reader(run: str, attempt: int) -> Callable[[bytes], tuple[Fields, Modes] | None]:
    """Return what reads a plain action of this run, or says nothing: then the strict reader must decide."""
    match = re.compile(
        rb'\{"action_id":' + STRING + rb',"at":"i64:(' + LONG + rb')","attempt":%d' % attempt
        + _may(causal_chain_id=STRING, delta_ref=_REF, evidence_refs=_listed(_REF))
        + rb',"kind":"action","n":(' + COUNT + rb")"
        + _may(parent_action_id=STRING, post_state_digest=STRING, pre_state_digest=STRING)
        + rb',"rank":(' + COUNT + rb'),"recording_mode":"(' + _words(MODES) + rb')","run":'
        + re.escape(canonical.encode(run)) + rb',"schema":1,"side_effect_class":"(?:' + _words(CLASSES)
        + rb')","state_changing":' + _FLAG + _may(state_digest_kind=STRING)
        + rb',"timestamp_ms":' + COUNT + rb',"tool_name":' + STRING + rb',"training":\{' + _training()
        + rb"\}\}"
    ).fullmatch  # fmt: skip
    reasons: dict[bytes, str] = {}

    def read(line: bytes) -> tuple[Fields, Modes] | None:
        if len(line) > _MAX_BYTES or (found := match(line)) is None:
            return None
        at, n, rank, recorded, demanded, reason = found.groups()
        said = reasons.get(reason)
        if said is None:
            said = reason.decode()
            if len(reasons) < _MOST_KNOWN:
                reasons[reason] = said
        return (int(rank), int(n), int(at)), (_MODES[recorded], _MODES[demanded], said)

    return read


def _words(known: tuple[str, ...]) -> bytes:
    return "|".join(known).encode()


def _listed(one: bytes) -> bytes:
    return rb"\[(?:" + one + rb"(?:," + one + rb")*+)?\]"


def _may(**members: bytes) -> bytes:
    """Return the form of members that follow others and may be absent."""
    return b"".join(rb'(?:,"' + name.encode() + rb'":' + form + rb")?" for name, form in members.items())


def _may_first(members: Mapping[str, bytes]) -> bytes:
    """Return the form of members that stand before others and may be absent."""
    return b"".join(rb'(?:"' + name.encode() + rb'":' + form + rb",)?" for name, form in members.items())


def _training() -> bytes:
    """Return the form of what stands in ``training``; notes are left to the strict reader."""
    texts, shapes = _listed(STRING), _listed(_listed(COUNT))
    before = {
        "carried_by": texts,
        "dtypes_in": texts,
        "dtypes_out": texts,
        "epoch": COUNT,
        "escalations": texts,
        "finite_in": _FLAG,
        "finite_out": _FLAG,
        "group": STRING,
        "name": STRING,
        "op_id": COUNT,
        "out_as_in": rb"true",
        "peer": COUNT,
    }
    return (
        _may_first(before)
        + rb'"policy_mode":"(' + _words(MODES) + rb')","policy_reason":"([ !#-\[\]-~]*+)"'
        + _may(reduce_op=STRING, root=COUNT, seq=COUNT, shapes_in=shapes, shapes_out=shapes)
        + rb',"shortfall":' + _listed(rb'"(?:' + _words(SHORTFALLS) + rb')"')
        + _may(side=rb'"(?:in|out|call)"', step=COUNT, step_basis=rb'"recorded"')
    )  # fmt: skip
