"""Recorded agent evidence of the family, each cell as it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provstore.evidence.aep import gather, judge
from provstore.sources import aep

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "aep"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of agent evidence")
NAMES = ("gateway.jsonl", "agent.jsonl", "chain_legacy_v03.jsonl", "chain_dsse_v04_b64pae.jsonl")


def keys() -> dict[str, bytes]:
    return {name: bytes.fromhex(key) for name, key in json.loads((CORPUS / "public_keys.json").read_text()).items()}


@pytest.mark.parametrize(
    ("name", "count", "authenticity", "scheme", "chain", "actions", "occurrences"),
    [
        ("gateway.jsonl", 1, "valid", "aep-dsse-ed25519-decoded-body-v1", "not-present", 1, 1),
        ("agent.jsonl", 3, "valid", "aep-dsse-ed25519-decoded-body-v1", "intact", 3, 6),
        ("chain_legacy_v03.jsonl", 3, "unsupported-legacy", "js-canonical-ed25519", "intact", 3, 6),
        ("chain_dsse_v04_b64pae.jsonl", 3, "unsupported-legacy", "js-dsse-b64-pae", "intact", 3, 6),
    ],
)
def test_each_file_has_the_axes_that_are_known_of_it(
    name: str, count: int, authenticity: str, scheme: str, chain: str, actions: int, occurrences: int
) -> None:
    verdict = judge(aep.read(CORPUS / name), keys(), check_legacy=True)
    assert len(verdict.records) == count
    for one in verdict.records:
        assert (one.axes["structural"].status, one.axes["semantic"].status) == ("pass", "pass")
        axis = one.axes["authenticity"]
        assert (axis.status, axis.details["scheme"]) == (authenticity, scheme)
        if authenticity != "valid":
            assert axis.details["legacy"] == {"scheme": scheme, "verified": True}
        if scheme == "js-dsse-b64-pae":
            versions = (axis.details["predicate_schema_version"], axis.details["record_schema_version"])
            assert versions == ("aep/v0.3", "aep/v0.4")
    assert verdict.chain.status == chain
    found = gather([aep.read(CORPUS / name)])
    assert (len(found.actions), found.occurrences) == (actions, occurrences)


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], NAMES * 2])
def test_all_files_together_are_ten_records_whatever_their_order(order: tuple[str, ...]) -> None:
    found = gather(aep.read(CORPUS / name) for name in order)
    assert (len(found.records), found.occurrences, len(found.actions), found.bodies) == (10, 19, 10, 6)
    conflicts = [(one.code, one.run_id, one.action_id) for one in found.contradictions]
    assert conflicts == [("action-conflict", "agent-run-7", "action-0"), ("action-conflict", "agent-run-7", "action-2")]


def test_all_files_in_one_are_partial_at_the_two_links_that_are_absent() -> None:
    data = b"".join((CORPUS / name).read_bytes() for name in NAMES)
    verdict = judge(aep.read(data), keys())
    chain = verdict.chains["agent-run-7"]
    assert (chain.status, chain.details["absent"]) == ("partial", [3, 6])
    assert {one.axes["chain"].status for one in verdict.records if one.run_id == "agent-run-7"} == {"partial"}


def test_without_the_keys_no_signature_is_evaluated() -> None:
    for name in NAMES:
        for one in judge(aep.read(CORPUS / name), {}).records:
            axis = one.axes["authenticity"]
            assert axis.status in {None, "unsupported-legacy"}
            assert axis.evaluated or axis.reason == "unknown-key"
