"""Exported evidence as a place to verify: what is read, and that nothing in it can hurt the reader."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence import files
from provstore.evidence.files import ExportedEvidence
from provstore.exports.evidence import EvidenceExportOptions
from provstore.exports.evidence.writer import export
from tests.signed_logs import MemoryLog, signed_run


@pytest.fixture
def log() -> MemoryLog:
    return signed_run(sizes=[3] * 12, attempt=2)


@pytest.fixture
def out(log: MemoryLog, tmp_path: Path) -> Path:
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions())
    return tmp_path / "out"


def read_all(out: Path) -> None:
    found = ExportedEvidence(out)
    list(found.bundles())
    list(found.records())


def test_an_export_gives_back_every_byte_in_order(log: MemoryLog, out: Path) -> None:
    """Twelve epochs, so that epoch 10 must not come before epoch 2."""
    found = ExportedEvidence(out)

    assert (found.run, found.attempt, found.store, found.is_stated) == (log.run, 2, log.store, True)
    assert [bundle.envelope for bundle in found.bundles()] == [bundle.envelope for bundle in log.signed]
    assert [bundle.checkpoint for bundle in found.bundles()] == [bundle.checkpoint for bundle in log.signed]
    assert [record.line for record in found.records()] == log.lines
    assert {record.index for record in found.records()} == {None}
    assert [record.where for record in found.records()][3:5] == ["epoch-1.jsonl line 1", "epoch-1.jsonl line 2"]


@pytest.mark.parametrize("form", ["dsse.json", "sigstore.json"])
def test_one_of_the_two_forms_of_an_envelope_is_enough(log: MemoryLog, out: Path, form: str) -> None:
    for path in out.glob(f"*.{form}"):
        path.unlink()

    assert [bundle.envelope for bundle in ExportedEvidence(out).bundles()] == [one.envelope for one in log.signed]


def test_two_envelopes_of_one_epoch_that_differ_are_none(log: MemoryLog, out: Path) -> None:
    path = out / "epoch-1.sigstore.json"
    told = json.loads(path.read_bytes())
    told["dsseEnvelope"]["signatures"][0]["sig"] = json.loads((out / "epoch-2.dsse.json").read_bytes())["signatures"][
        0
    ]["sig"]
    path.write_bytes(json.dumps(told, sort_keys=True, separators=(",", ":")).encode())

    bundle = list(ExportedEvidence(out).bundles())[1]

    assert (bundle.envelope, bundle.where) == (b"", "epoch-1.dsse.json and epoch-1.sigstore.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff" * 99, b"[" * 5000, b"null", b'{"payload":1}', b"\x00" * 4096])
@pytest.mark.parametrize("form", ["dsse.json", "sigstore.json"])
def test_what_is_no_envelope_is_passed_on_for_the_verifier_to_refuse(
    log: MemoryLog, out: Path, form: str, content: bytes
) -> None:
    for path in out.glob("epoch-1.*.json"):
        path.unlink()
    (out / f"epoch-1.{form}").write_bytes(content)

    bundles = list(ExportedEvidence(out).bundles())

    assert bundles[1].envelope == content
    assert [one.envelope for one in bundles[:1] + bundles[2:]] == [
        one.envelope for one in log.signed[:1] + log.signed[2:]
    ]


def test_an_export_in_which_no_envelope_can_be_read_states_no_run(out: Path) -> None:
    for path in out.glob("epoch-*.json"):
        path.write_bytes(b"{}")

    found = ExportedEvidence(out)

    assert (found.run, found.attempt, found.store, found.is_stated) == ("", 0, "", False)


@pytest.mark.parametrize(
    ("media_type", "code"),
    [
        ("application/vnd.dev.sigstore.bundle.v0.3+json", None),
        ("application/vnd.dev.sigstore.bundle+json;version=0.2", None),
        ("application/vnd.dev.sigstore.bundle.v0.4+json", "unknown-schema"),
        ("application/json", "unknown-schema"),
        (None, "envelope-malformed"),
    ],
)
def test_only_known_versions_of_a_sigstore_bundle_are_read(out: Path, media_type: str | None, code: str | None) -> None:
    told = json.loads((out / "epoch-0.sigstore.json").read_bytes())
    told["mediaType"] = media_type
    data = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()

    if code is None:
        assert files.envelope_in(data) == (out / "epoch-0.dsse.json").read_bytes()
        return
    with pytest.raises(TrustError) as caught:
        files.envelope_in(data)
    assert caught.value.code == code


def test_a_cut_epoch_file_is_an_error_that_names_the_line(out: Path) -> None:
    path = out / "epoch-1.jsonl"
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(InputError, match=r"epoch-1\.jsonl: line 3: has no line end"):
        list(ExportedEvidence(out).records())


@pytest.mark.parametrize(("length", "is_read"), [(65_534, True), (65_535, True), (65_536, False)])
def test_a_line_is_read_up_to_the_cap_of_a_record_and_no_further(out: Path, length: int, is_read: bool) -> None:
    (out / "epoch-0.jsonl").write_bytes(b"x" * length + b"\n")

    if is_read:
        assert len(next(ExportedEvidence(out).records()).line) == length
        return
    with pytest.raises(NotUnderstoodError, match="line 1: more than 65535 bytes"):
        next(ExportedEvidence(out).records())


@pytest.mark.parametrize(
    ("name", "most"),
    [("epoch-0.jsonl", 120 * 2**20), ("epoch-0.dsse.json", 2 * 2**20), ("epoch-0.checkpoint", 64 * 2**10)],
)
def test_a_file_above_its_cap_is_not_read(out: Path, name: str, most: int) -> None:
    os.truncate(out / name, most + 1)

    with pytest.raises(NotUnderstoodError, match=f"{most + 1} bytes are more than {most}"):
        read_all(out)


@pytest.mark.parametrize("name", ["epoch-0.jsonl", "epoch-0.dsse.json", "epoch-0.checkpoint"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_regular_file_is_neither_followed_nor_waited_for(
    out: Path, tmp_path: Path, name: str, kind: str
) -> None:
    kept = (out / name).rename(tmp_path / "kept")
    if kind == "link":
        (out / name).symlink_to(kept)
    elif kind == "pipe":
        os.mkfifo(out / name)
    else:
        (out / name).mkdir()

    with pytest.raises(InputError, match=name):
        read_all(out)


def test_other_names_are_not_looked_at(log: MemoryLog, out: Path) -> None:
    for name in (
        "epoch-01.jsonl",
        "epoch--1.jsonl",
        "epoch-99999999999.jsonl",
        "epoch-12.json",
        "epoch-\u0661.jsonl",
        "x",
    ):
        (out / name).write_bytes(b"\x00")

    assert [record.line for record in ExportedEvidence(out).records()] == log.lines


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: None], ids=["empty", "file", "absent"])
def test_a_place_without_evidence_is_an_input_error(tmp_path: Path, make) -> None:
    make(tmp_path / "place")

    with pytest.raises(InputError, match="evidence: "):
        ExportedEvidence(tmp_path / "place")
