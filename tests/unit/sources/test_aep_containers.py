"""Files of agent evidence: told apart by what they hold, cut without a byte changed, never read as empty."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provstore.errors import InputError, NotUnderstoodError
from provstore.evidence.aep import judge
from provstore.evidence.aep.text import MAX_BYTES
from provstore.model.aep import ContainerVerdict
from provstore.sources import aep
from tests.agent_records import Emitter, bundle, compacted, ledger, lines, linked, record

AGENT = Emitter()
CHAIN = [AGENT.signed(one) for one in linked([record(number=number) for number in range(3)])]
ODD = (
    b'{ "schema_version":"aep/v0.5" , "run_id":"r","created_at_ms":1.0,"__proto__":{"polluted":true},'
    b'"10":1,"9":-0,"big":1e21,"\xf0\x9f\x98\x80":"\\u00e9\\/","\xef\xbf\xbf":[ ]}'
)


def judged(data: bytes) -> ContainerVerdict:
    return judge(aep.read(data, name="given"), AGENT.keys)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (json.dumps(CHAIN[0]).encode(), "record"),
        (json.dumps(CHAIN[0], indent=2).encode() + b"\n", "record"),
        (json.dumps(CHAIN).encode(), "array"),
        (json.dumps(CHAIN, indent=1).encode(), "array"),
        (lines(CHAIN), "jsonl"),
        (lines(CHAIN).replace(b"\n", b"\r\n\r\n"), "jsonl"),
        (b"\n\n" + lines(CHAIN).rstrip(b"\n"), "jsonl"),
        (json.dumps(bundle(CHAIN)).encode(), "aep-bundle"),
        (json.dumps(bundle(CHAIN), indent=2).encode(), "aep-bundle"),
        (lines(ledger(CHAIN)), "ledger"),
        (json.dumps(ledger(CHAIN)).encode(), "ledger"),
    ],
)
def test_each_container_is_told_by_what_it_holds_and_its_records_are_judged(data: bytes, kind: str) -> None:
    verdict = judged(data)
    assert verdict.kind == kind
    assert {one.axes["authenticity"].status for one in verdict.records} == {"valid"}
    assert verdict.problems == ()
    assert verdict.chain.status == ("not-present" if len(verdict.records) == 1 else "intact")
    has_digests = kind in {"aep-bundle", "ledger"}
    assert verdict.container.status == ("pass" if has_digests else None)
    assert aep.recognises(data[:65536])


@pytest.mark.parametrize(
    "data",
    [
        ODD,
        b"  " + ODD + b"\n" + ODD + b"\n",
        b"[ " + ODD + b" ,\n " + ODD + b"]",
        b'{"records":[' + ODD + b'],"manifest":{}}',
        b'{"seq":0,"prevHash":"","record": ' + ODD + b' ,"hash":"0"}\n',
    ],
    ids=["record", "lines", "array", "bundle", "ledger"],
)
def test_the_bytes_of_a_record_are_those_of_the_file(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    for source in (data, path):
        container = aep.read(source)
        for _ in range(2):
            for raw in container.records:
                assert raw.data == ODD
                assert data[raw.offset : raw.offset + len(ODD)] == ODD
        verdict = judge(container, {})
        assert verdict.records[0].sha256 == hashlib.sha256(ODD).hexdigest()
        assert verdict.records[0].axes["structural"].status == "pass"


def test_a_torn_last_line_is_named_with_its_offset_and_the_lines_before_it_are_used(tmp_path: Path) -> None:
    whole = lines(CHAIN[:2])
    torn = whole + lines(CHAIN[2:])[:200]
    path = tmp_path / "torn.jsonl"
    path.write_bytes(torn)
    verdict = judge(aep.read(path), AGENT.keys)
    assert len(verdict.records) == 2
    assert verdict.problems == (f"the last line is torn at byte {len(whole)}: it is not read",)
    assert verdict.chain.status == "intact"


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_last_line_that_is_whole_is_a_record_however_it_ends(end: bytes) -> None:
    verdict = judged(lines(CHAIN).rstrip(b"\n") + end)
    assert len(verdict.records) == 3
    verdict = judged(lines(CHAIN) + b'{"schema_version":"aep/v0.5","run_id":"a","run_id":"b"}' + end)
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "pass", "pass", "fail"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n  \n", "the file is empty"),
        (b"\x00\x01\x02", "byte 0"),
        (b"\xff\xfe{", "not UTF-8"),
        (b"hello", "byte 0: text, such as a command prints, and no JSON"),
        (b"\n \xe2\x9c\x93 epoch 3 recorded\n", "byte 2: text, such as a command prints, and no JSON"),
        (b'\xef\xbb\xbf{"schema_version":"aep/v0.5","run_id":"r","created_at_ms":1}', "byte order mark"),
        (b"{}", "an empty object"),
        (b"[]", "an empty list"),
        (b"[1,2]", "no JSON object"),
        (b'{"a":1}', "without schema_version"),
        (b'{"schema_version":"train-aep/v0.1","run_id":"r"}', "evidence of a training run"),
        (b'{"schema_version":"other/v1"}', "'other/v1' is none"),
        (b'{"a":1}\n{"b":1}\n', "byte 0: an object without schema_version"),
        (b'{"schema_version":"aep/v0.5","run_id":"r"', "ends in the middle"),
        (b'[{"schema_version":"aep/v0.5","run_id":"r"}', "ends in the middle"),
        (b'[{"schema_version":"aep/v0.5","run_id":"r"}] x', "behind the list"),
        (b'{\n"schema_version":"other"}\n{\n"a":1}', "more than one value"),
        (b'{"records":{},"manifest":{}}', "records is no list"),
    ],
)
def test_a_file_that_holds_no_agent_evidence_is_an_error_with_its_first_reason(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match="given: agent evidence: ") as raised:
        aep.read(data, name="given")
    assert reason in str(raised.value)


def test_a_bundle_of_another_version_is_read_by_its_members_and_says_so() -> None:
    known = bundle(CHAIN)
    later = {**known, "schema_version": "aep-bundle/v0.9", "manifest": {**known["manifest"], "schema_version": 7}}

    assert aep.read(json.dumps(known).encode(), name="given").problems == ()
    found = aep.read(json.dumps(later).encode(), name="given")
    assert len(list(found.records)) == len(CHAIN)
    assert found.problems == (
        "manifest: schema_version: '7' is not aep-bundle/v0.1: it is read by its members",
        "bundle: schema_version: 'aep-bundle/v0.9' is not aep-bundle/v0.1: it is read by its members",
    )


@pytest.mark.parametrize(
    "bad",
    [
        b'{"schema_version":"aep/v0.5","run_id":"r","run_id":"r"}',
        b'{"schema_version":"aep/v0.5","run_id":"r","n":NaN}',
        b'{"schema_version":"aep/v0.5","run_id":"\\ud800"}',
        b'{"a":' * 1_000_000,
        b"[" * 1_000_000,
        b"garbage",
        b"{}",
        b"\xff",
        b'{"schema_version":"aep/v0.5","run_id":"r","x":"' + b"x" * MAX_BYTES + b'"}',
    ],
    ids=["name", "nan", "surrogate", "deep object", "deep list", "garbage", "empty", "not text", "long"],
)
def test_a_bad_line_fails_alone_and_the_rest_is_read(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(lines(CHAIN[:1]) + bad + b"\n" + lines(CHAIN[1:]))
    verdict = judge(aep.read(path), AGENT.keys)
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "fail", "pass", "pass"]
    assert [one.axes["authenticity"].status for one in verdict.records][2:] == ["valid", "valid"]
    assert verdict.records[1].sha256 == hashlib.sha256(bad).hexdigest()
    assert f"record 1 at byte {len(lines(CHAIN[:1]))}: " in verdict.problems[0]
    assert not verdict.records[1].axes["semantic"].evaluated or bad == b"{}"


def test_a_file_that_begins_with_a_byte_order_mark_is_meant_as_evidence_and_loses_its_first_line_only() -> None:
    data = b"\xef\xbb\xbf" + lines(CHAIN)
    assert aep.recognises(data)
    assert [one.axes["structural"].status for one in judged(data).records] == ["fail", "pass", "pass"]


def test_a_first_line_that_is_cut_off_does_not_hide_the_rest() -> None:
    verdict = judged(lines(CHAIN)[100:])
    assert [one.axes["structural"].status for one in verdict.records][1:] == ["pass", "pass"]


@pytest.mark.parametrize("head", [b'{"schema_version":"aep/v0.5","run_id":"', b"["])
def test_a_line_of_a_gibibyte_is_refused_without_being_held(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(1 << 30)
    with pytest.raises(NotUnderstoodError, match="more than 268435456 bytes"):
        aep.read(path)


def test_a_line_longer_than_is_read_among_others_is_passed_over_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    length = 1 << 26
    with path.open("wb") as file:
        file.write(lines(CHAIN[:1]) + b'{"x":"')
        file.truncate(file.tell() + length)
        file.seek(0, 2)
        file.write(b'"}\n' + lines(CHAIN[1:]))
    verdict = judge(aep.read(path), AGENT.keys)
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "fail", "pass", "pass"]
    digest = hashlib.sha256(b'{"x":"')
    for _ in range(length >> 20):
        digest.update(bytes(1 << 20))
    digest.update(b'"}')
    assert verdict.records[1].sha256 == digest.hexdigest()


@pytest.mark.parametrize("indent", [None, 1])
def test_a_bundle_may_be_larger_than_a_record(indent: int | None) -> None:
    records = linked([{**record(number=number), "note": "x" * 3_000_000} for number in range(6)])
    verdict = judged(json.dumps(bundle(records), indent=indent).encode())
    assert (verdict.kind, len(verdict.records)) == ("aep-bundle", 6)
    assert (verdict.container.status, verdict.chain.status) == ("pass", "intact")


# Digests of containers.


@pytest.mark.parametrize(
    ("change", "codes", "records"),
    [
        (lambda one: one["records"][1].update(model_id="x"), {"bundle-record-mismatch"}, [1]),
        (lambda one: one["records"].pop(), {"bundle-list-mismatch"}, []),
        (
            lambda one: one["records"].insert(0, one["records"].pop()),
            {"bundle-record-mismatch"},
            [0, 1, 2],
        ),
        (lambda one: one["manifest"].update(producer="x"), {"bundle-digest-mismatch"}, []),
        (lambda one: one["manifest"].update(bundle_digest="0" * 64), {"bundle-digest-mismatch"}, []),
        (
            lambda one: one["manifest"]["records"][2].update(run_id="x"),
            {"bundle-list-mismatch", "bundle-digest-mismatch"},
            [2],
        ),
    ],
)
def test_an_altered_bundle_fails_its_container_and_its_records_stay_usable(
    change: Callable[[Any], object], codes: set[str], records: list[int]
) -> None:
    one = copy.deepcopy(bundle(CHAIN))
    change(one)
    verdict = judged(json.dumps(one).encode())
    assert verdict.container.status == "fail"
    assert set(verdict.container.details["findings"]) == codes  # type: ignore[call-overload]
    assert [place for place, found in enumerate(verdict.records) if found.findings] == records
    assert all(found.axes["structural"].status == "pass" for found in verdict.records)


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        (lambda all_: all_[1].update(hash="0" * 64), {"ledger-hash-mismatch", "ledger-link-mismatch"}),
        (lambda all_: all_[1]["record"].update(model_id="x"), {"ledger-hash-mismatch"}),
        (lambda all_: all_[1]["record"]["signature"].update(key_id="x"), {"ledger-hash-mismatch"}),
        (lambda all_: all_.pop(1), {"ledger-link-mismatch", "ledger-order"}),
        (lambda all_: all_.pop(0), {"ledger-link-mismatch", "ledger-order"}),
        (lambda all_: all_.reverse(), {"ledger-link-mismatch", "ledger-order"}),
    ],
)
def test_an_altered_ledger_fails_its_container(change: Callable[[Any], object], codes: set[str]) -> None:
    entries = copy.deepcopy(ledger(CHAIN))
    change(entries)
    verdict = judged(lines(entries))
    assert set(verdict.container.details["findings"]) == codes  # type: ignore[call-overload]
    assert all(found.axes["structural"].status == "pass" for found in verdict.records)


def nested(levels: int) -> object:
    return [] if levels == 1 else [nested(levels - 1)]


@pytest.mark.parametrize("wrap", [lines, lambda entries: json.dumps(entries).encode()], ids=["lines", "array"])
def test_a_ledger_is_no_level_of_the_records_that_it_wraps(wrap: Callable[[Any], bytes]) -> None:
    # The record itself is one level, so that 63 more make the 64 that are allowed.
    deepest = [AGENT.signed(one) for one in linked([record(number=0, deep=nested(63)), record(number=1)])]
    verdict = judged(wrap(ledger(deepest)))
    assert (verdict.kind, verdict.container.status, verdict.chain.status) == ("ledger", "pass", "intact")
    assert [one.axes["authenticity"].status for one in verdict.records] == ["valid", "valid"]
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "pass"]


def test_a_record_in_a_ledger_that_is_a_level_too_deep_fails_alone() -> None:
    verdict = judged(lines(ledger([record(number=0), record(number=1, deep=nested(64))])))
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "fail"]
    assert "64 levels" in str(verdict.records[1].axes["structural"].reason)


def test_a_compacted_ledger_declares_its_gap_and_its_chain_is_partial() -> None:
    entries = ledger(CHAIN)
    verdict = judged(lines([compacted(entries[:2]), entries[2]]))
    assert verdict.kind == "compacted-ledger"
    assert verdict.container.status == "pass"
    assert verdict.container.details["declared_gaps"] == [
        {"fromSeq": 0, "toSeq": 1, "recordCount": 2, "runIds": ["agent-run"]}
    ]
    assert verdict.chain.status == "partial"
    assert verdict.records[0].axes["authenticity"].status == "valid"


def test_a_gap_that_the_next_record_does_not_follow_is_found() -> None:
    entries = ledger(CHAIN)
    verdict = judged(lines([compacted(entries[:1]), entries[2]]))
    assert set(verdict.container.details["findings"]) == {"ledger-link-mismatch", "ledger-order"}  # type: ignore[call-overload]


def test_a_compaction_alone_holds_no_record_and_says_what_was_left_out() -> None:
    verdict = judged(lines([compacted(ledger(CHAIN))]))
    assert (verdict.kind, verdict.records) == ("compacted-ledger", ())
    assert verdict.container.details["declared_gaps"][0]["recordCount"] == 3  # type: ignore[index]


def test_kinds_in_one_file_are_held_against_their_own_schemas() -> None:
    fork = {"fork_id": "f", "source_checkpoint_id": "c", "fork_reason": "retry", "created_at": "2026-01-01T00:00:00Z"}
    verdict = judged(lines([record(), fork, {**fork, "more": 1}]))
    assert [one.axes["structural"].details.get("schema") for one in verdict.records] == ["aep-record", "fork", "fork"]
    assert [one.axes["structural"].status for one in verdict.records] == ["pass", "pass", "fail"]
    assert not verdict.records[1].axes["chain"].evaluated


@pytest.mark.parametrize("path", ["missing", "."])
def test_what_is_no_file_is_an_error(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        aep.read(tmp_path / path)
