"""The two forms of an exported bundle: the one that was damaged is blamed, and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from provstore.evidence.files import ExportedEvidence
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.folder import verify_folder
from provstore.evidence.verify.signatures import is_signed
from provstore.evidence.verify.walk import Checked, verify
from provstore.exports.evidence import EvidenceExportOptions
from provstore.exports.evidence.writer import export
from tests.signed_logs import signed_run

KEY, STRANGER = PrivateKey.generate(), PrivateKey.generate()
DSSE, SIGSTORE = "epoch-1.dsse.json", "epoch-1.sigstore.json"
CLEAN = {"unanchored"}
Change = Callable[[bytes], bytes]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    log = signed_run(sizes=[3, 2], closed=True, keys=[KEY])
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions(records="all"))
    return tmp_path / "out"


def judged(out: Path, key: PrivateKey = KEY) -> Checked:
    known = Trust.of_keys([key.public_key], "test")
    log = ExportedEvidence(out, lambda envelope: is_signed(envelope, known))
    found = verify(log, known, org="provstore", source="files", within=out)
    return verify_folder(log, found, known, "provstore")[0]


def told(checked: Checked) -> set[tuple[str, str]]:
    return {(one.code, one.where) for one in checked.findings if one.code not in CLEAN}


def other_signature(data: bytes) -> bytes:
    """Another signature of the right length in its place."""
    said = json.loads(data)
    envelope = said.get("dsseEnvelope", said)
    raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw[0] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(raw).decode()
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def other_payload(data: bytes) -> bytes:
    """Another number of attempt in what is signed."""
    said = json.loads(data)
    envelope = said.get("dsseEnvelope", said)
    payload = base64.b64decode(envelope["payload"])
    assert b'"attempt":0' in payload
    envelope["payload"] = base64.b64encode(payload.replace(b'"attempt":0', b'"attempt":7')).decode()
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def cut(data: bytes) -> bytes:
    return data[:100]


def changed(out: Path, name: str, change: Change) -> None:
    (out / name).write_bytes(change((out / name).read_bytes()))


@pytest.mark.parametrize("name", [DSSE, SIGSTORE])
@pytest.mark.parametrize("change", [other_signature, other_payload])
def test_a_form_that_is_not_signed_is_blamed_alone(out: Path, name: str, change: Change) -> None:
    changed(out, name, change)
    checked = judged(out)

    assert told(checked) == {("bad-signature", name)}
    assert checked.axes["signature"] == "fault"
    other = SIGSTORE if name == DSSE else DSSE
    assert any(one.text.endswith(f"{name}: it does not hold the envelope in {other}.") for one in checked.findings)


@pytest.mark.parametrize("name", [DSSE, SIGSTORE])
@pytest.mark.parametrize("change", [cut, lambda _: b"", lambda _: b"\xff"])
def test_a_form_that_is_no_envelope_is_blamed_alone(out: Path, name: str, change: Change) -> None:
    changed(out, name, change)

    assert told(judged(out)) == {("envelope-malformed", name), ("bad-signature", name)}


def test_a_form_of_a_later_version_is_not_understood_and_not_called_altered(out: Path) -> None:
    changed(out, SIGSTORE, lambda data: data.replace(b"bundle.v0.3+json", b"bundle.v9.9+json"))

    assert told(judged(out)) == {("unknown-schema", SIGSTORE)}


def test_of_two_damaged_forms_nobody_knows_which_was_meant_and_both_are_blamed(out: Path) -> None:
    changed(out, DSSE, other_signature)
    changed(out, SIGSTORE, other_payload)

    assert ("bad-signature", f"{DSSE} and {SIGSTORE}") in told(judged(out))


def test_who_trusts_no_key_of_it_gets_no_word_for_either_form(out: Path) -> None:
    changed(out, SIGSTORE, other_signature)

    assert ("bad-signature", f"{DSSE} and {SIGSTORE}") in told(judged(out, STRANGER))


def test_an_envelope_of_a_stranger_in_one_form_is_blamed_alone(out: Path, tmp_path: Path) -> None:
    forged = signed_run(sizes=[3, 2], closed=True, keys=[STRANGER])
    export(forged, tmp_path / "forged", forged.publics, EvidenceExportOptions())
    changed(out, SIGSTORE, lambda _: (tmp_path / "forged" / SIGSTORE).read_bytes())

    assert told(judged(out)) == {("bad-signature", SIGSTORE)}


def test_forms_that_agree_are_both_sound(out: Path) -> None:
    assert told(judged(out)) == set()
