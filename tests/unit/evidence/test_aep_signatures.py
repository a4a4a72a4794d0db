"""Signatures of agent records: the one profile to the letter, retired schemes by name, keys nobody knows."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from provstore.errors import ConfigError
from provstore.evidence.aep import emit, judge
from provstore.evidence.keys import PrivateKey
from provstore.model.aep import Axis, ContainerVerdict
from provstore.sources import aep
from tests.agent_records import INTOTO, Emitter, Record, canon, lines, linked, pae, record, unsigned

AGENT = Emitter()
STATEMENT = dict[str, Any]


def judged(*records: Record, keys: dict[str, bytes] | None = None, check: bool = False) -> ContainerVerdict:
    return judge(aep.read(lines(list(records))), AGENT.keys if keys is None else keys, check_legacy=check)


def authenticity(one: Record, keys: dict[str, bytes] | None = None, *, check: bool = False) -> Axis:
    return judged(one, keys=keys, check=check).records[0].axes["authenticity"]


def test_a_record_signed_by_another_implementation_is_valid() -> None:
    axis = authenticity(AGENT.signed(record()))
    assert axis.status == "valid"
    assert axis.details["keyid"] == "agent-key"
    assert axis.details["scheme"] == "aep-dsse-ed25519-decoded-body-v1"
    assert axis.details["canonical_variant"] == "verbatim"


def test_a_record_without_signature_is_unsigned_which_is_an_answer() -> None:
    assert authenticity(record()) == Axis(True, "unsigned")


@pytest.mark.parametrize("keys", [{}, {"other": AGENT.public}])
@pytest.mark.parametrize(
    "change",
    [
        lambda one: one,
        lambda one: one.update(run_id="x"),
        lambda one: one["dsse_envelope"]["signatures"].append(one["dsse_envelope"]["signatures"][0]),
        lambda one: one["dsse_envelope"].update(payload="!"),
    ],
)
def test_a_key_that_nobody_knows_makes_a_record_neither_valid_nor_invalid(
    keys: dict[str, bytes], change: Callable[[Record], object]
) -> None:
    one = AGENT.signed(record())
    change(one)
    axis = authenticity(one, keys)
    assert (axis.evaluated, axis.status, axis.reason) == (False, None, "unknown-key")
    assert "status" not in axis.to_dict()


def _envelope(**members: object) -> Callable[[Record], object]:
    return lambda one: one["dsse_envelope"].update(members)


def _signature(**members: object) -> Callable[[Record], object]:
    return lambda one: one["dsse_envelope"]["signatures"][0].update(members)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda one: one.update(run_id="agent-run-8"), "binding-mismatch"),
        (lambda one: one["actions"][0].update(tool_name="rm"), "binding-mismatch"),
        (lambda one: one.update(added=1), "binding-mismatch"),
        (lambda one: one.pop("created_at_ms"), "binding-mismatch"),
        (lambda one: one.update(created_at_ms=1796031810000.5), "binding-mismatch"),
        (_envelope(payloadType="application/json"), "invalid"),
        (_envelope(payload=base64.b64encode(b"{}").decode()), "invalid"),
        (_envelope(payload="e30"), "invalid"),
        (_envelope(signatures=[]), "invalid"),
        (lambda one: one["dsse_envelope"]["signatures"].append(one["dsse_envelope"]["signatures"][0]), "invalid"),
        (_signature(sig=base64.b64encode(bytes(64)).decode()), "invalid"),
        (_signature(sig="AA=="), "invalid"),
        (_signature(keyid=None), "invalid"),
        (lambda one: one.update(dsse_envelope=[]), "invalid"),
    ],
)
def test_what_was_changed_after_signing_is_told_apart(change: Callable[[Record], object], status: str) -> None:
    one = AGENT.signed(record())
    change(one)
    assert authenticity(one).status == status


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda said: said.update(_type="https://in-toto.io/Statement/v0.1"), "invalid"),
        (lambda said: said.update(predicateType="https://wasmagent.dev/attestations/aep/v0.5"), "invalid"),
        (lambda said: said.update(subject=said["subject"] * 2), "invalid"),
        (lambda said: said.update(subject=[]), "invalid"),
        (lambda said: said["subject"][0].pop("name"), "invalid"),
        (lambda said: said["subject"][0].update(digest={"sha512": "0"}), "invalid"),
        (lambda said: said.update(predicate=[]), "invalid"),
        (lambda said: said["subject"][0].update(name="urn:wasmagent:run:other"), "binding-mismatch"),
        (lambda said: said["subject"][0]["digest"].update(sha256="0" * 64), "binding-mismatch"),
        (lambda said: said.update(predicate={**said["predicate"], "run_id": "other"}), "binding-mismatch"),
    ],
)
def test_a_well_signed_statement_outside_the_profile_is_not_valid(
    change: Callable[[STATEMENT], object], status: str
) -> None:
    assert authenticity(AGENT.signed(record(), change=change)).status == status


def test_a_well_signed_envelope_of_another_type_is_invalid() -> None:
    assert authenticity(AGENT.signed(record(), payload_type="application/json")).status == "invalid"


def test_url_safe_base64_is_not_the_profile() -> None:
    one = AGENT.signed({**record(), "note": "\u00fe\u00ff" * 60 + "???>>>"})
    text = one["dsse_envelope"]["payload"].replace("+", "-").replace("/", "_")
    assert text != one["dsse_envelope"]["payload"]
    one["dsse_envelope"]["payload"] = text
    assert authenticity(one).status == "invalid"


def test_the_same_value_in_other_spelling_is_still_bound_and_another_value_is_not() -> None:
    one = AGENT.signed({**record(), "budget_ledger": {"token_budget": {"spent": 1.0, "limit": 9007199254740993}}})
    moved = json.dumps(one).replace('"spent": 1.0', '"spent": 1').encode()
    lost = json.dumps(one).replace("9007199254740993", "9007199254740992").encode()
    statuses = [judge(aep.read(raw), AGENT.keys).records[0].axes["authenticity"].status for raw in (moved, lost)]
    assert statuses == ["valid", "binding-mismatch"]


@pytest.mark.parametrize(
    ("member", "digested", "variant"),
    [
        ('"n":1.0', '"n":1', "es-numbers"),
        ('"\U0001f600":1,"\uffff":2', '"\U0001f600":1,"\uffff":2', "utf16-key-order"),
        ('"9":1,"10":2', '"9":1,"10":2', "es-integer-keys"),
    ],
)
def test_a_digest_made_in_another_spelling_is_valid_under_a_named_variant(
    member: str, digested: str, variant: str
) -> None:
    raw = '{"created_at_ms":1,{},"run_id":"r","schema_version":"aep/v0.5"}'.replace("{}", f'"extra":{{{member}}}')
    canonical = raw.replace(member, digested).encode()
    subject = {"name": "urn:wasmagent:run:r", "digest": {"sha256": hashlib.sha256(canonical).hexdigest()}}
    head = json.dumps({"_type": "https://in-toto.io/Statement/v1", "subject": [subject]})[:-1]
    kind = '"predicateType":"https://wasmagent.dev/attestations/aep/v0.4"'
    body = f'{head},{kind},"predicate":{raw}}}'.encode()
    text = base64.b64encode(body).decode()
    envelope = {"payloadType": INTOTO, "payload": text}
    envelope["signatures"] = [{"keyid": AGENT.keyid, "sig": AGENT.sign(pae(INTOTO, body))}]  # type: ignore[assignment]
    signed = f'{raw[:-1]},"dsse_envelope":{json.dumps(envelope)}}}'.encode()
    axis = judge(aep.read(signed), AGENT.keys).records[0].axes["authenticity"]
    assert (axis.status, axis.details["canonical_variant"]) == ("valid", variant)


@pytest.mark.parametrize(("levels", "status"), [(62, "valid"), (63, "valid"), (64, None)])
def test_a_record_as_deep_as_is_read_is_still_judged(levels: int, status: str | None) -> None:
    deep: object = 1
    for _ in range(levels):
        deep = [deep]
    axes = judged(AGENT.signed({**record(), "x": deep})).records[0].axes
    assert axes["authenticity"].status == status
    assert axes["structural"].status == ("pass" if status else "fail")


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda copied: None, False),
        (lambda copied: copied.update(key_id="other"), True),
        (lambda copied: copied.update(sig=base64.b64encode(bytes(64)).decode()), True),
        (lambda copied: copied.update(alg="rsa"), True),
        (lambda copied: copied.clear(), True),
    ],
)
def test_a_copy_of_the_signature_that_differs_is_named_and_changes_no_status(
    change: Callable[[Record], object], differs: bool
) -> None:
    one = AGENT.signed(record())
    one["signature"] = dict(one["signature"])
    change(one["signature"])
    verdict = judged(one).records[0]
    assert verdict.axes["authenticity"].status == "valid"
    assert verdict.findings == (("signature-copy-differs",) if differs else ())


@pytest.mark.parametrize("check", [False, True])
def test_a_signature_without_envelope_is_a_retired_scheme_and_never_more(check: bool) -> None:
    one = AGENT.retired(record())
    axis = authenticity(one, check=check)
    assert axis.status == "unsupported-legacy"
    assert axis.details["scheme"] == "js-canonical-ed25519"
    assert axis.details.get("legacy") == ({"scheme": "js-canonical-ed25519", "verified": True} if check else None)


def test_a_retired_signature_that_does_not_hold_keeps_its_status() -> None:
    axis = authenticity({**AGENT.retired(record()), "run_id": "x"}, check=True)
    assert (axis.status, axis.details["legacy"]["verified"]) == ("unsupported-legacy", False)  # type: ignore[index]
    axis = authenticity(AGENT.retired(record()), {}, check=True)
    assert (axis.status, axis.details["legacy"]["verified"]) == ("unsupported-legacy", "not-possible")  # type: ignore[index]


def test_the_struct_order_scheme_is_checked_in_the_order_of_the_text() -> None:
    one = {"schema_version": "aep/v0.2", "run_id": "r", "actions": [], "created_at_ms": 1}
    struct = json.dumps(one, separators=(",", ":")).encode()
    signature = {"alg": "ed25519", "key_id": AGENT.keyid, "sig": AGENT.key.sign(hashlib.sha256(struct).digest()).hex()}
    axis = authenticity({**one, "signature": signature}, check=True)
    assert axis.details["legacy"] == {"scheme": "rust-struct-sha256-ed25519", "verified": True}
    moved = {"run_id": "r", **one}
    axis = authenticity({**moved, "signature": signature}, check=True)
    assert axis.details["legacy"] == {"scheme": "rust-struct-sha256-ed25519", "verified": "not-possible"}


def test_a_signature_over_the_base64_text_is_recognised_and_not_accepted() -> None:
    said = {**record(), "schema_version": "aep/v0.4"}
    one = AGENT.signed(
        said, change=lambda statement: statement["predicate"].update(schema_version="aep/v0.3"), over_base64=True
    )
    one["schema_version"] = "aep/v0.4"
    axis = authenticity(one)
    assert (axis.status, axis.details["scheme"]) == ("unsupported-legacy", "js-dsse-b64-pae")
    assert axis.details["today"] == ["invalid", "binding-mismatch"]
    assert (axis.details["predicate_schema_version"], axis.details["record_schema_version"]) == ("aep/v0.3", "aep/v0.4")
    assert authenticity(one, check=True).details["legacy"] == {"scheme": "js-dsse-b64-pae", "verified": True}
    unknown = authenticity(one, {})
    assert (unknown.evaluated, unknown.details["looks-like"]) == (False, "js-dsse-b64-pae")
    assert authenticity(one, {}, check=True).details["legacy"] == {
        "scheme": "js-dsse-b64-pae", "verified": "not-possible",
    }  # fmt: skip


# What this program signs.


def own_chain(key: PrivateKey, count: int = 3) -> list[Record]:
    before, made = None, []
    for number in range(count):
        one = {**record("train-run", number), "prev_record_hash": before}
        made.append(json.loads(emit.sign_record(one, key, keyid="own")))
        before = emit.link(emit.canonical_record(one))
    return made


def test_what_is_signed_here_is_valid_for_openssl_and_for_another_library(tmp_path: Path) -> None:
    key = PrivateKey.generate()
    one = own_chain(key, 1)[0]
    body = base64.b64decode(one["dsse_envelope"]["payload"])
    sig = base64.b64decode(one["dsse_envelope"]["signatures"][0]["sig"])
    Ed25519PublicKey.from_public_bytes(key.public_key).verify(sig, pae(INTOTO, body))
    said = json.loads(body)
    assert said["predicate"] == unsigned(one)
    assert said["subject"][0]["digest"]["sha256"] == hashlib.sha256(canon(unsigned(one))).hexdigest()
    if shutil.which("openssl") is None:
        return
    der = bytes.fromhex("302a300506032b6570032100") + key.public_key
    for name, data in (("key.der", der), ("body", pae(INTOTO, body)), ("sig", sig)):
        (tmp_path / name).write_bytes(data)
    command = "openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in body -sigfile sig"
    done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_three_records_of_ours_are_valid_and_intact_and_pass_the_schema() -> None:
    key = PrivateKey.generate()
    verdict = judged(*own_chain(key), keys={"own": key.public_key})
    assert verdict.chain.status == "intact"
    assert [one.axes["authenticity"].status for one in verdict.records] == ["valid"] * 3
    assert [one.axes["structural"].status for one in verdict.records] == ["pass"] * 3


@pytest.mark.parametrize(
    ("change", "statuses", "chain", "index"),
    [
        (lambda all_: all_[1].update(run_id="x"), ["valid", "binding-mismatch", "valid"], "broken", 2),
        (lambda all_: all_[1]["actions"].pop(), ["valid", "binding-mismatch", "valid"], "broken", 2),
        (lambda all_: all_[1].update(prev_record_hash="0" * 64), ["valid", "binding-mismatch", "valid"], "broken", 1),
        (lambda all_: all_.insert(1, all_.pop()), ["valid"] * 3, "broken", 1),
    ],
)
def test_a_change_in_a_chain_of_ours_is_seen_where_it_is(
    change: Callable[[list[Record]], object], statuses: list[str], chain: str, index: int
) -> None:
    key = PrivateKey.generate()
    records = copy.deepcopy(own_chain(key))
    change(records)
    verdict = judged(*records, keys={"own": key.public_key})
    assert [one.axes["authenticity"].status for one in verdict.records] == statuses
    assert (verdict.chain.status, verdict.chain.details["index"]) == (chain, index)


@pytest.mark.parametrize(
    "more",
    [
        {"x": 1.5},
        {"x": 2**53},
        {"x": {"10": 1}},
        {"x": {"__proto__": 1}},
        {"x": {"\U0001f600": 1}},
        {"signature": {}},
        {"x": b"1"},
    ],
)
def test_what_verifiers_would_spell_differently_is_not_signed(more: Record) -> None:
    with pytest.raises(ConfigError, match="agent record"):
        emit.sign_record({**record(), **more}, PrivateKey.generate())


def test_a_chain_of_another_implementation_is_valid_and_intact() -> None:
    verdict = judged(*[AGENT.signed(one) for one in linked([record(number=number) for number in range(3)])])
    assert verdict.chain.status == "intact"
    assert [one.axes["authenticity"].status for one in verdict.records] == ["valid"] * 3
