"""The conformance corpus of the AEP family: every verdict on every layer, by rules of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
import wasmagent_protocol
import wasmagent_protocol.conformance as package_checks

from provstore.evidence.aep import judge, schema
from provstore.model.aep import ContainerVerdict
from provstore.sources import aep

RESULT = Path(__file__).with_name("aep_conformance_result.json")
CORPUS = Path(str(wasmagent_protocol.get_aep_conformance_dir()))
MANIFEST = wasmagent_protocol.get_aep_conformance_manifest()
TARGETS = MANIFEST["conformance_target"]
KEYS = {
    keyid: bytes.fromhex((CORPUS / path).read_text().strip())
    for keyid, path in MANIFEST["verifying_keys"]["by_keyid"].items()
}
LAYERS = ("structural", "semantic", "authenticity", "chain")
NOT_CHECKED = "not-checked"
WORDS = {"pass": "valid", "fail": "invalid", "valid": "dsse-valid", "binding-mismatch": "invalid"}
"""Our words for the corpus's; what is not here is the same word."""


@pytest.fixture(autouse=True)
def _package_checks_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus counts a verifier as independent only when it calls none of the package's own checks."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a check of the package was called")

    names = [name for name in vars(package_checks) if "check" in name and callable(getattr(package_checks, name))]
    assert {"check_semantic"} <= set(names)
    for name in names:
        monkeypatch.setattr(package_checks, name, refuse)
    with pytest.raises(AssertionError):
        package_checks.check_semantic({})


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target["path"]))
def test_each_target_of_the_corpus_has_the_verdict_that_its_manifest_says(target: Mapping[str, str]) -> None:
    verdict = judge(aep.read(CORPUS / target["path"]), KEYS)
    said = {layer: target[layer] for layer in LAYERS if target.get(layer, NOT_CHECKED) != NOT_CHECKED}
    assert {layer: found(verdict, layer) for layer in said} == said


def test_the_corpus_has_thirty_targets() -> None:
    assert len(TARGETS) == 30


def test_the_broken_chain_of_the_corpus_breaks_at_its_second_record() -> None:
    chain = judge(aep.read(CORPUS / "chain/broken-middle.jsonl"), KEYS).chain
    assert (chain.status, chain.details["index"]) == ("broken", 1)


def test_what_the_binding_catches_is_named_apart_from_a_bad_signature() -> None:
    read = {
        name: judge(aep.read(CORPUS / f"dsse/{name}.json"), KEYS)
        for name in ("tampered-run-id", "wrong-payload-type-resigned")
    }
    assert [found(one, "authenticity", ours=True) for one in read.values()] == ["binding-mismatch", "invalid"]


def test_a_retired_signature_is_never_accepted_and_can_still_be_checked() -> None:
    read = aep.read(CORPUS / "historical/js-canonical-ed25519.json")
    axis = judge(read, KEYS, check_legacy=True).records[0].axes["authenticity"]
    assert axis.status == "unsupported-legacy"
    assert axis.details["legacy"] == {"scheme": "js-canonical-ed25519", "verified": True}


def test_the_kept_result_of_the_first_run_is_of_all_targets() -> None:
    kept = json.loads(RESULT.read_text())
    assert kept["package"] == {"name": "wasmagent-protocol", "version": "0.1.11"}
    assert kept["target_id"] == "aep-certified-2026-09-16-01"
    assert [one["path"] for one in kept["targets"]] == [target["path"] for target in TARGETS]


def found(verdict: ContainerVerdict, layer: str, *, ours: bool = False) -> Any:
    """Return the verdict on a layer in the corpus's words: of all records of the file, which agree."""
    if layer == "chain":
        return verdict.chain.status
    (status,) = {one.axes[layer].status for one in verdict.records}
    return status if ours else WORDS.get(str(status), status)


def first_run(commit: str) -> dict[str, object]:
    """Return what the corpus asks to be kept of a first run."""
    targets, mismatches = [], []
    for target in TARGETS:
        verdict = judge(aep.read(CORPUS / target["path"]), KEYS)
        said = {layer: target.get(layer, NOT_CHECKED) for layer in LAYERS}
        ours = {layer: found(verdict, layer) for layer, word in said.items() if word != NOT_CHECKED}
        wrong = [layer for layer, word in ours.items() if word != said[layer]]
        targets.append({"path": target["path"], "said": said, "found": ours, "agrees": not wrong})
        mismatches += [{"path": target["path"], "layer": layer, "found": ours[layer]} for layer in wrong]
    pin = json.loads((CORPUS / "certified-target.json").read_text())
    passed = sum(one["agrees"] is True for one in targets)
    return {
        "package": {"name": "wasmagent-protocol", "version": schema.package_version()},
        "target_id": pin["target_id"],
        "implementation_commit": commit,
        "passed": passed,
        "failed": len(targets) - passed,
        "mismatches": mismatches,
        "targets": targets,
    }
