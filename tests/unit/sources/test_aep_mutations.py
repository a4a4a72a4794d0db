"""No change of a signed file goes unseen, and no input makes anything but a verdict or a plain refusal."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import InputError
from provstore.evidence.aep import contract, gather, judge
from provstore.model.aep import AXES, ContainerVerdict
from provstore.sources import aep
from tests.agent_records import Emitter, Record, bundle, compacted, ledger, lines, linked, record

AGENT = Emitter()
RICH = {"trace_id": "ab" * 16, "input_refs": [{"uri": "dataset://x", "digest": "sha256:" + "0" * 64}]}
CHAIN = [AGENT.signed(one) for one in linked([{**record(number=number), **RICH} for number in range(3)])]
SOUND = lines(CHAIN)
FILES: list[Any] = [CHAIN[0], CHAIN, bundle(CHAIN), ledger(CHAIN), [compacted(ledger(CHAIN)[:1]), *ledger(CHAIN)[1:]]]


def is_all_good(verdict: ContainerVerdict) -> bool:
    each = [
        (one.axes["structural"].status, one.axes["semantic"].status, one.axes["authenticity"].status, one.findings)
        for one in verdict.records
    ]
    return verdict.chain.status == "intact" and each == [("pass", "pass", "valid", ())] * 3 and not verdict.problems


def test_the_file_before_any_change_is_all_good() -> None:
    assert is_all_good(judge(aep.read(SOUND), AGENT.keys))


@given(at=st.integers(0, len(SOUND) - 2), bit=st.integers(0, 7))
@settings(max_examples=400)
def test_no_flipped_bit_of_a_signed_chain_goes_unseen(at: int, bit: int) -> None:
    changed = bytearray(SOUND)
    changed[at] ^= 1 << bit
    try:
        verdict = judge(aep.read(bytes(changed)), AGENT.keys)
    except InputError:
        return
    assert not is_all_good(verdict)


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, member in inner for place in _places(member, (*path, name)))]


ODD = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**70, "", "x", "0" * 64, [], [[]], [None], {}, {"a": {}}, float("1e300")]
)


@given(file=st.sampled_from(range(len(FILES))), data=st.data())
@settings(max_examples=300)
def test_whatever_stands_in_a_place_a_verdict_or_a_refusal_comes_back(file: int, data: st.DataObject) -> None:
    value = copy.deepcopy(FILES[file])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(_places(value)[1:] or [()]))
        if not place:
            break
        holder: Any = value
        for name in place[:-1]:
            holder = holder[name]
        if data.draw(st.booleans()):
            del holder[place[-1]]
        else:
            holder[place[-1]] = copy.deepcopy(data.draw(ODD))
    as_lines = isinstance(value, list) and data.draw(st.booleans())
    _require_an_answer(lines(value) if as_lines else json.dumps(value).encode())


@given(
    base=st.sampled_from([SOUND, *(json.dumps(one).encode() for one in FILES)]),
    at=st.integers(0, 20_000),
    length=st.integers(0, 300),
    put=st.binary(max_size=20)
    | st.sampled_from([b'"', b"{", b"}", b"[", b"]", b"\\", b"\n", b",", b'\\u0022"', b"\xff"]),
)
@settings(max_examples=300)
def test_whatever_is_cut_out_or_put_in_a_verdict_or_a_refusal_comes_back(
    base: bytes, at: int, length: int, put: bytes
) -> None:
    at %= len(base)
    _require_an_answer(base[:at] + put + base[at + length :])


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_noise_is_refused_or_judged(data: bytes) -> None:
    _require_an_answer(b'{"schema_version":"aep/v0.5","run_id":"r"' + data)
    _require_an_answer(data)


def _require_an_answer(data: bytes) -> None:
    try:
        container = aep.read(data)
    except InputError as error:
        assert str(error).startswith("record: ")  # noqa: PT017 - the refusal is one of two answers
        return
    for keys in ({}, AGENT.keys):
        verdict = judge(container, keys, check_legacy=True)
        json.dumps([one.axes[name].to_dict() for one in verdict.records for name in AXES])
        json.dumps([contract.envelope(one) for one in verdict.records])
        json.dumps([verdict.chain.to_dict(), verdict.container.to_dict(), list(verdict.problems)])
    found = gather([container, container])
    assert len(found.records) <= len(verdict.records)


@pytest.mark.parametrize("number", range(3))
def test_a_record_taken_out_or_doubled_is_seen(number: int) -> None:
    rest: list[Record] = [one for place, one in enumerate(CHAIN) if place != number]
    assert not is_all_good(judge(aep.read(lines(rest)), AGENT.keys))
    assert judge(aep.read(lines([*CHAIN, CHAIN[number]])), AGENT.keys).chain.status != "intact"
