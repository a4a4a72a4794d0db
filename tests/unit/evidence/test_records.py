"""A record has the members of its kind and no others; what is built is read back, and nothing else is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import InputError, TrustError
from provstore.evidence import actions, keys, merkle, rank_heads, records
from provstore.model import evidence
from provstore.model.action import Action
from provstore.model.evidence import AgreedDigest, Observation
from provstore.model.recording import Escalation
from provstore.model.signals import SeenSignal

A, B = "a" * 64, "b" * 64
GOLDEN = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
GOLDEN_ID = "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"
OTHER = keys.PrivateKey.generate().public_key
SOURCE = {"element": "https://x/y", "kept": True, "reader": "fr", "sha256": A, "size": 10, "version": "1"}
FACTS = {"encoding": "parquet", "rows": 3, "sha256": B}


def common(kind: str, n: int, rank: int | None = None, at: str | None = None) -> dict[str, object]:
    return {"at": at, "attempt": 2, "kind": kind, "n": n, "rank": rank, "run": "job", "schema": 1}


BUNDLE: dict[str, Any] = {
    "actions": {"count": 1, "sha256": A},
    "blobs": [{"bytes": 3, "lines": None, "rank": None, "role": "snapshot", "sha256": A}],
    "checkpoint": None,
    "close_reason": "finished",
    "closed": True,
    "counts": {
        "policy_mode": [{"count": 1, "name": "delta"}],
        "policy_reason": [{"count": 1, "name": "local mutation, low risk"}],
        "recording_mode": [{"count": 1, "name": "validation"}],
        "shortfall": [{"count": 1, "name": "no-tensor-access"}],
        "side_effect_class": [{"count": 1, "name": "mutate-local"}],
    },
    "environment": None,
    "epoch": 5,
    "epoch_basis": "recorded",
    "escalations": [],
    "faults": 0,
    "follows": None,
    "late_ranks": [],
    "missing_ranks": [[1, 2]],
    "part": 0,
    "policy": {"digest": None, "mode_floor": "validation", "table_digest": None},
    "policy_mode": "delta",
    "policy_reason": "local mutation, low risk",
    "ranks": [{"actions": 1, "first": 0, "last": 0, "rank": 0}],
    "recording_mode": "validation",
    "run_side_effect_class_max": "mutate-local",
    "source": "dumps",
    "steps": None,
    "trace": {"conflicts": [], "parent_action": None, "parent_trace_id": None, "trace_id": None},
    "unreadable": 0,
    "world_size": 3,
}
BUILT = {
    "ingest": (
        records.ingest(
            "job", 2, 0, batch=4, source=SOURCE, facts=FACTS, quarantined=1, mode="full", reason="why", at_ns=-7
        ),
        common("ingest", 0, at="i64:-7")
        | {"batch": 4, "source": SOURCE, "facts": FACTS, "quarantined": 1, "policy": {"mode": "full", "reason": "why"}},
    ),
    "ingest of no file": (
        records.ingest("job", 2, 0, batch=0, source=None, facts=FACTS | {"encoding": "lines"}),
        common("ingest", 0)
        | {
            "batch": 0,
            "source": None,
            "facts": FACTS | {"encoding": "lines"},
            "quarantined": 0,
            "policy": {"mode": "validation", "reason": ""},
        },
    ),
    "observation": (
        records.observation(
            "job", 2, 1, Observation("loss", {"é": 0.1, "b": True, "z": None, "i": 2**62, "a": "\0😀"}, 3, 9, 5)
        ),
        common("observation", 1, 3, "i64:5")
        | {
            "name": "loss",
            "step": 9,
            "values": [
                {"n": "a", "t": "s", "v": "\0😀"},
                {"n": "b", "t": "b", "v": True},
                {"n": "i", "t": "i", "v": f"i64:{2**62}"},
                {"n": "z", "t": "z", "v": None},
                {"n": "é", "t": "f", "v": "f64:0x1.999999999999ap-4"},
            ],
        },
    ),
    "digest": (
        records.digest("job", 2, 0, AgreedDigest("params", A, 1, (3, 1, 2))),
        common("digest", 0, 1) | {"name": "params", "step": None, "sha256": A, "ranks": [1, 2, 3]},
    ),
    "policy": (
        records.policy("job", 2, 5, mode="delta", reason="r", document={"every": 10}),
        common("policy", 5) | {"mode": "delta", "reason": "r", "document": [{"n": "every", "t": "i", "v": "i64:10"}]},
    ),
    "rank-certificate": (
        records.rank_certificate("job", 2, 1, certified=7, public=GOLDEN),
        common("rank-certificate", 1) | {"certified": 7, "keyid": GOLDEN_ID, "public": GOLDEN.hex()},
    ),
    "key-rotation": (
        records.key_rotation("job", 2, 1, old=OTHER, new=GOLDEN),
        common("key-rotation", 1) | {"old": keys.fingerprint(OTHER), "new": GOLDEN_ID, "public": GOLDEN.hex()},
    ),
    "recovery": (
        records.recovery("job", 2, 1, cause="torn tail", details={"bytes": 12}),
        common("recovery", 1) | {"cause": "torn tail", "details": [{"n": "bytes", "t": "i", "v": "i64:12"}]},
    ),
    "gap": (
        records.gap("job", 2, 1, cause="disk full", lost=4, since=17, rank=0),
        common("gap", 1, 0) | {"cause": "disk full", "from": 17, "lost": 4},
    ),
    "run-close": (
        records.run_close("job", 2, 1, reason="finished", records=9, batches=3),
        common("run-close", 1) | {"reason": "finished", "records": 9, "batches": 3},
    ),
    "action": (
        actions.record_line(
            Action(
                "gloo/0@0-1/7/1", "all_reduce", 1, 1_796_031_812_000_123_456, "mutate-local", "delta", "delta",
                "local mutation, low risk", epoch=5, step=9, backend="gloo", group="0@0-1", seq=7, side="in",
                chain="gloo/0@0-1/7", parent="gloo/0@0-1/6/1", finite_in=True, finite_out=False,
                digest_in=f"sha256:{A}", digest_out=f"sha256:{A}", digest_kind="provstore-tensor-v1",
                delta_ref=f"sha256:{A}", evidence_refs=(f"sha256:{A}",), shapes_in=((2, 3),), shapes_out=((2, 3),),
                dtypes_in=("float32",), dtypes_out=("float32",), reduce_op="sum",
            ),
            "job", 2, 3,
        ),
        common("action", 3, 1, "i64:1796031812000123456")
        | {
            "action_id": "gloo/0@0-1/7/1",
            "causal_chain_id": "gloo/0@0-1/7",
            "delta_ref": f"sha256:{A}",
            "evidence_refs": [f"sha256:{A}"],
            "parent_action_id": "gloo/0@0-1/6/1",
            "post_state_digest": f"sha256:{A}",
            "pre_state_digest": f"sha256:{A}",
            "recording_mode": "delta",
            "side_effect_class": "mutate-local",
            "state_changing": True,
            "state_digest_kind": "provstore-tensor-v1",
            "timestamp_ms": 1_796_031_812_000,
            "tool_name": "gloo:all_reduce",
            "training": {
                "dtypes_in": ["float32"],
                "epoch": 5,
                "finite_in": True,
                "finite_out": False,
                "group": "0@0-1",
                "out_as_in": True,
                "policy_mode": "delta",
                "policy_reason": "local mutation, low risk",
                "reduce_op": "sum",
                "seq": 7,
                "shapes_in": [[2, 3]],
                "shortfall": [],
                "step": 9,
                "step_basis": "recorded",
            },
        },
    ),
    "epoch-bundle": (
        records.epoch_bundle("job", 2, 4, at_ns=5, own=BUNDLE),
        common("epoch-bundle", 4, None, "i64:5") | BUNDLE,
    ),
    "epoch-link": (
        records.epoch_link("job", 2, 5, bundle=A, prev=None, epochs=[(3, A)], aep=b"abc", aep_prev=A),
        common("epoch-link", 5)
        | {
            # SHA-256 of "abc", FIPS 180-2, appendix B.1.
            "aep": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "aep_bytes": 3,
            "aep_prev": A,
            "bundle": A,
            "evidence_epochs": [{"number": 3, "sha256": A}],
            "prev": None,
        },
    ),
    "escalation": (
        records.escalation(
            "job", 2, 6, Escalation(1, "loss-spike", "rank:0", "run", "P2", 7, 12, 0.5, 6.0), event="opened", rank=0
        ),
        common("escalation", 6, 0)
        | {
            "close_reason": None,
            "closed_ns": None,
            "closed_step": None,
            "event": "opened",
            "evidence": [],
            "latched": False,
            "number": 1,
            "opened_ns": "i64:7",
            "opened_step": 12,
            "reason": None,
            "rule": "P2",
            "scope": "run",
            "source": "rank:0",
            "threshold": "f64:0x1.8000000000000p+2",
            "trigger": "loss-spike",
            "value": "f64:0x1.0000000000000p-1",
        },
    ),
    "capture-fault": (
        records.capture_fault("job", 2, 7, rank=3, place="digest", error="OSError: full", count=2, at_ns=9),
        common("capture-fault", 7, 3, "i64:9") | {"count": 2, "error": "OSError: full", "place": "digest"},
    ),
    "control": (
        records.control("job", 2, 8, what="escalation", state="opened", scope="rank:1", reason="look", who="ann@host"),
        common("control", 8)
        | {"reason": "look", "scope": "rank:1", "state": "opened", "what": "escalation", "who": "ann@host"},
    ),
    "external-signal": (
        records.external_signal(
            "job",
            2,
            9,
            SeenSignal(
                "signal", "kernel-log", "NVRM: Xid", 11, A, 5, 7, "xid", None, "h", "0000:3b:00", (0, 3),
                values={"xid": 79, "is_context": False},
            ),
            file=(A, 400),
        ),
        common("external-signal", 9, None, "i64:7")
        | {
            "because": None,
            "code": None,
            "device": "0000:3b:00",
            "file": {"bytes": 400, "sha256": A},
            "host": "h",
            "line": A,
            "offset": 5,
            "opens": None,
            "ranks": [0, 3],
            "scope": None,
            "seen_ns": "i64:11",
            "source": "kernel-log",
            "step": None,
            "text": "NVRM: Xid",
            "trigger": "xid",
            "values": [{"n": "is_context", "t": "b", "v": False}, {"n": "xid", "t": "i", "v": "i64:79"}],
            "what": "signal",
        },
    ),
}  # fmt: skip
"""What a builder gives, and the same record written by hand from its specification."""


def refusal(line: bytes) -> str:
    with pytest.raises(TrustError) as refused:
        records.parse(line)
    return refused.value.code


@pytest.mark.parametrize("name", BUILT)
def test_a_builder_gives_the_canonical_line_of_its_kind_and_it_is_read_back(name: str) -> None:
    line, written = BUILT[name]

    assert line == rfc8785.dumps(written)
    assert records.parse(line) == written


def test_there_is_a_builder_for_every_kind() -> None:
    assert {json.loads(line)["kind"] for line, _ in BUILT.values()} == set(evidence.KINDS)


def written(name: str, edit: Callable[[dict[str, Any]], object]) -> bytes:
    value = json.loads(json.dumps(BUILT[name][1]))
    edit(value)
    return rfc8785.dumps(value)


_EVERY = [(name, member) for name, (_, value) in BUILT.items() for member in value]


_MAY_BE_ABSENT = {
    "causal_chain_id", "delta_ref", "evidence_refs", "parent_action_id", "post_state_digest", "pre_state_digest",
    "state_digest_kind",
}  # fmt: skip
"""Of an action: what is not known has no member."""


@pytest.mark.parametrize(("name", "member"), [one for one in _EVERY if one[1] not in _MAY_BE_ABSENT])
def test_a_record_without_one_of_its_members_is_refused(name: str, member: str) -> None:
    assert refusal(written(name, lambda value: value.pop(member))) == "payload-noncanonical"


@pytest.mark.parametrize("name", BUILT)
def test_a_record_with_another_member_is_refused(name: str) -> None:
    assert refusal(written(name, lambda value: value.update(extra=None))) == "payload-noncanonical"


_TEXTS = {
    "action": {
        "action_id", "causal_chain_id", "parent_action_id", "post_state_digest", "pre_state_digest",
        "state_digest_kind", "tool_name",
    },
    "epoch-bundle": {"checkpoint", "close_reason", "environment", "policy_reason"},
    "escalation": {"close_reason", "scope", "source", "trigger"},
    "capture-fault": {"error", "place"},
    "control": {"scope", "state", "what", "who"},
    "external-signal": {"code", "device", "host", "opens", "scope", "source", "text", "trigger"},
}  # fmt: skip
"""Members that take any text, beside those that do so in every kind."""


@pytest.mark.parametrize(("name", "member"), _EVERY)
@pytest.mark.parametrize("value", [-1, True, [1], {}, [[]], {"a": 1}, "\n"], ids=repr)
def test_no_member_takes_a_value_of_another_type(name: str, member: str, value: object) -> None:
    texts = {"run", "reason", "name", "cause"} | _TEXTS.get(name, set())
    takes_text = member in texts and (name, member) != ("run-close", "reason")
    takes_flag = value is True and member in {"state_changing", "closed", "latched"}
    if (value == "\n" and takes_text) or takes_flag or (member, value) == ("ranks", [1]):
        return
    unknown = (member == "schema" and value == -1) or (member == "kind" and value == "\n")
    code = refusal(written(name, lambda found: found.update({member: value})))

    assert code == ("unknown-schema" if unknown else "payload-noncanonical")


def values(*rows: dict[str, object]) -> Callable[[dict[str, Any]], object]:
    return lambda value: value.update(values=list(rows))


def row(name: str, kind: str, value: object) -> dict[str, object]:
    return {"n": name, "t": kind, "v": value}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("observation", values(row("b", "s", ""), row("a", "s", ""))),
        ("observation", values(row("a", "s", ""), row("a", "s", ""))),
        ("observation", values(row("a", "s", ""), row("a", "i", "i64:1"))),
        ("observation", values(row("é", "s", ""), row("z", "s", ""))),
        ("observation", values(row("\U00010000", "s", ""), row("\uffff", "s", ""))),
        ("observation", values({"n": "a", "t": "s"})),
        ("observation", values(row("a", "s", "") | {"x": 1})),
        ("observation", values(row("a", "x", ""))),
        ("observation", values({"n": 1, "t": "s", "v": ""})),
        ("observation", values({"n": "a", "t": ["s"], "v": ""})),
        ("observation", values(row("a", "s", 1))),
        ("observation", values(row("a", "i", 1))),
        ("observation", values(row("a", "i", "i64:01"))),
        ("observation", values(row("a", "i", "i64:9223372036854775808"))),
        ("observation", values(row("a", "f", "i64:1"))),
        ("observation", values(row("a", "f", "f64:0x1p+0"))),
        ("observation", values(row("a", "b", 1))),
        ("observation", values(row("a", "b", "true"))),
        ("observation", values(row("a", "z", ""))),
        ("observation", values(row("a", "z", False))),
        ("observation", lambda value: value.update(values=[1])),
        ("digest", lambda value: value.update(ranks=[2, 1])),
        ("digest", lambda value: value.update(ranks=[1, 1])),
        ("digest", lambda value: value.update(sha256="A" * 64)),
        ("digest", lambda value: value.update(sha256=A + "\n")),
        ("policy", lambda value: value.update(mode="Full")),
        ("run-close", lambda value: value.update(reason="done")),
        ("ingest", lambda value: value["facts"].update(encoding="csv")),
        ("ingest", lambda value: value["facts"].pop("rows")),
        ("ingest", lambda value: value["source"].update(x=1)),
        ("ingest", lambda value: value["policy"].update(mode="")),
        ("ingest", lambda value: value["source"].update(kept=1)),
        ("ingest", lambda value: value["source"].update(version=1)),
        ("ingest", lambda value: value.update(at="i64:-0")),
        ("ingest", lambda value: value.update(at="u64:1")),
        ("rank-certificate", lambda value: value.update(keyid="x")),
        ("rank-certificate", lambda value: value.update(public="ab")),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    assert refusal(written(name, edit)) == "payload-noncanonical"


def test_one_name_may_have_several_values_in_their_order() -> None:
    rows = [row("a", "i", "i64:1"), row("a", "s", ""), row("a", "s", "b"), row("b", "z", None)]

    assert records.parse(written("observation", values(*rows)))["values"] == rows


@pytest.mark.parametrize(
    "edit", [{"schema": 2}, {"schema": 0}, {"kind": "later"}, {"kind": ""}, {"schema": 2, "more": 1}]
)
def test_another_version_or_kind_is_unknown(edit: dict[str, object]) -> None:
    assert refusal(written("gap", lambda value: value.update(edit))) == "unknown-schema"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"7",
        b'"x"',
        b"\xff",
        b"{",
        BUILT["gap"][0] + b"\n",
        b" " + BUILT["gap"][0],
        json.dumps(BUILT["gap"][1]).encode(),
        BUILT["gap"][0].replace(b'"lost":4', b'"lost":4.0'),
        BUILT["gap"][0].replace(b'"lost":4', b'"lost":4,"lost":4'),
        BUILT["gap"][0].replace(b'"lost":4', b'"lost":NaN'),
        BUILT["gap"][0].replace(b'"lost":4', b'"lost":9007199254740992'),
        BUILT["gap"][0].replace(b"disk", b"\\u0064isk"),
        BUILT["gap"][0].replace(b"disk", b"\\ud800"),
        b"\xef\xbb\xbf" + BUILT["gap"][0],
        BUILT["gap"][0].decode().encode("utf-16"),
        BUILT["gap"][0].replace(b'"lost":4', b'"lost":' + b"9" * 5_000),
        BUILT["gap"][0].replace(b'"lost"', b'"Lost"'),
    ],
)
def test_a_line_in_another_spelling_is_refused(line: bytes) -> None:
    assert refusal(line) == "payload-noncanonical"


@pytest.mark.parametrize(("size", "fits"), [(65_534, True), (65_535, True), (65_536, False)])
def test_a_record_has_65535_bytes_at_most(size: int, fits: bool) -> None:
    short = len(records.gap("job", 0, 0, cause="", lost=1))
    cause = "x" * (size - short)
    line = rfc8785.dumps(json.loads(records.gap("job", 0, 0, cause="", lost=1)) | {"cause": cause})
    assert len(line) == size
    if fits:
        assert records.gap("job", 0, 0, cause=cause, lost=1) == line
        assert records.parse(line)["cause"] == cause
    else:
        assert refusal(line) == "cap-exceeded"
        with pytest.raises(InputError, match="65535"):
            records.gap("job", 0, 0, cause=cause, lost=1)


@pytest.mark.parametrize("depth", [33, 30_000])
def test_a_deep_record_is_not_looked_at(depth: int) -> None:
    assert refusal(BUILT["gap"][0].replace(b'"lost":4', b'"lost":' + b"[" * depth + b"]" * depth)) == "cap-exceeded"


@pytest.mark.parametrize(
    "build",
    [
        lambda: records.gap("job", 0, -1, cause="", lost=1),
        lambda: records.gap("job", 0, True, cause="", lost=1),
        lambda: records.gap("job", 0, 0, cause="", lost=2**53),
        lambda: records.gap("job", 0, 0, cause="", lost=1.5),
        lambda: records.gap("job", 0, 0, cause="\ud800", lost=1),
        lambda: records.gap("\udfff", 0, 0, cause="", lost=1),
        lambda: records.gap(None, 0, 0, cause="", lost=1),
        lambda: records.gap("job", "0", 0, cause="", lost=1),
        lambda: records.gap("job", 0, 0, cause="", lost=1, at_ns=2**63),
        lambda: records.gap("job", 0, 0, cause="", lost=1, rank=-1),
        lambda: records.run_close("job", 0, 0, reason="done", records=1, batches=1),
        lambda: records.policy("job", 0, 0, mode="all", reason="", document={}),
        lambda: records.ingest("job", 0, 0, batch=1, source={}, facts=FACTS),
        lambda: records.ingest("job", 0, 0, batch=1, source=None, facts=FACTS | {"more": 1}),
        lambda: records.digest("job", 0, 0, AgreedDigest("p", "x", 0, (0,))),
        lambda: records.digest("job", 0, 0, AgreedDigest("p", A, 0, (0, 0))),
        *(
            lambda value=value: records.observation("job", 0, 0, Observation("o", {"a": value}))
            for value in (2**63, [1], {"a": 1}, b"x", object(), 1j, {1}, "\ud800")
        ),
        lambda: records.observation("job", 0, 0, Observation("o", {1: 1})),
        lambda: records.observation("job", 0, 0, Observation("o", {1: 1, "a": 1})),
        lambda: records.observation("job", 0, 0, Observation("o", {"\ud800": 1})),
        lambda: records.observation("job", 0, 0, Observation("o", {}, step=1.0)),
        lambda: records.observation("job", 0, 0, Observation(7, {})),
    ],
)
def test_what_no_record_can_hold_is_not_written(build: Callable[[], bytes]) -> None:
    with pytest.raises(InputError, match="record"):
        build()


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | _texts


@settings(max_examples=300)
@given(
    _texts,
    _texts,
    st.dictionaries(_texts, _scalars, max_size=6),
    st.none() | st.integers(0, 2**53 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)
def test_whatever_a_run_observes_is_written_canonically_and_survives(run, name, said, step, at_ns) -> None:  # type: ignore[no-untyped-def]
    line = records.observation(run, 0, 0, Observation(name, said, step=step, at_ns=at_ns))
    found = records.parse(line)

    assert line == rfc8785.dumps(found)
    assert (found["run"], found["name"], found["step"]) == (run, name, step)
    assert found["values"] == [evidence.tag(one["n"], said[one["n"]]) for one in found["values"]]
    assert [one["n"].encode() for one in found["values"]] == sorted(key.encode() for key in said)


def test_a_rank_chain_is_that_of_the_definition() -> None:
    lines = [records.gap("jöb", 0, n, cause="", lost=n, rank=3) for n in range(5)]
    head = hashlib.sha256(b"provstore-rank-head-v1\x00" + "jöb".encode() + b"\x003").digest()
    assert rank_heads.start("jöb", 3) == head
    for line in lines:
        head = hashlib.sha256(head + hashlib.sha256(b"\x00" + line).digest()).digest()
    found = rank_heads.start("jöb", 3)
    for leaf in merkle.leaf_hashes(lines):
        found = rank_heads.extend(found, leaf)

    assert found == head
    assert rank_heads.body("jöb", 1, 3, 5, head) == rfc8785.dumps(
        {"run": "jöb", "attempt": 1, "rank": 3, "count": 5, "head": head.hex()}
    )


def test_different_ranks_and_runs_begin_differently() -> None:
    places = [("", 0), ("a", 0), ("a", 1), ("a\x001", 0), ("a", 10), ("a\x00", 10), ("b", 0)]

    assert len({rank_heads.start(run, rank) for run, rank in places}) == len(places)


def test_a_signed_head_holds_for_its_own_run_attempt_rank_count_and_key_only() -> None:
    key = keys.PrivateKey.generate()
    head = rank_heads.sign("job", 1, 3, 5, bytes(32), key)

    assert (head.rank, head.count, head.head, head.keyid) == (3, 5, "0" * 64, keys.fingerprint(key.public_key))
    assert rank_heads.is_signed(head, "job", 1, key.public_key)
    assert not rank_heads.is_signed(head, "job2", 1, key.public_key)
    assert not rank_heads.is_signed(head, "job", 0, key.public_key)
    assert not rank_heads.is_signed(head, "job", 1, OTHER)
    for change in (
        {"rank": 4},
        {"count": 4},
        {"head": "1" * 64},
        {"head": "x"},
        {"head": ""},
        {"sig": None},
        {"sig": ""},
        {"sig": "é"},
        {"sig": "AA=="},
        {"sig": head.sig + "\n"},
        {"count": 2**64},
        {"rank": -1},
        {"sig": head.sig.replace("==", "")},
    ):
        assert not rank_heads.is_signed(dataclasses.replace(head, **change), "job", 1, key.public_key)
    assert not rank_heads.is_signed(head, "\ud800", 1, key.public_key)


def test_not_a_number_keeps_its_bits() -> None:
    line = records.observation("job", 0, 0, Observation("o", {"a": math.nan, "b": -0.0, "c": 5e-324, "d": -math.inf}))

    assert [one["v"] for one in records.parse(line)["values"]] == [
        "f64:nan:7ff8000000000000",
        "f64:-0x0.0p+0",
        "f64:0x0.0000000000001p-1022",
        "f64:-inf",
    ]
