"""Agent records of a run, as other verifiers of agent evidence read them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from captures import RankCapture, healthy

from provstore.api.evidence_export import opened
from provstore.api.recording import record
from provstore.errors import ConfigError, InputError
from provstore.evidence.aep import judge
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.exports.evidence.agent_records import AgentExportOptions
from provstore.model.aep import ContainerVerdict
from provstore.sources import aep

KEY = PrivateKey.generate()
KNOWN = {fingerprint(KEY.public_key): KEY.public_key}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three epochs of two ranks, recorded and signed; lines with all actions, and a bundle."""
    place = tmp_path_factory.mktemp("exported")
    record([healthy(place / "c", calls=90)], store=f"embedded:{place / 's'}", signer=KEY)
    with opened(f"embedded:{place / 's'}") as evidence:
        evidence.exported_agents(place / "lines", options=AgentExportOptions(per_action=True), signer=KEY)
        evidence.exported_agents(place / "bundle", options=AgentExportOptions("aep-bundle"))
    return place


def judged(data: bytes) -> ContainerVerdict:
    return judge(aep.read(data), KNOWN)


def statuses(verdict: ContainerVerdict) -> list[str | None]:
    return [one.axes["authenticity"].status for one in verdict.records]


def lines_of(place: Path) -> list[bytes]:
    return (place / "lines" / "records.aep.jsonl").read_bytes().splitlines()


def test_three_epochs_are_an_intact_chain_of_valid_records(exported: Path) -> None:
    verdict = judged((exported / "lines" / "records.aep.jsonl").read_bytes())

    assert verdict.chain.status == "intact"
    assert statuses(verdict) == ["valid"] * 3
    assert [one.axes["structural"].status for one in verdict.records] == ["pass"] * 3
    assert [one.axes["semantic"].status for one in verdict.records] == ["pass"] * 3


def altered(line: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    said = json.loads(line)
    change(said)
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("change", "broken_at"),
    [
        (lambda said: said.update(run_id="other"), 2),
        (lambda said: said["actions"][0].update(tool_name="other"), 2),
        (lambda said: said.update(prev_record_hash="0" * 64), 1),
    ],
    ids=["run", "action", "link"],
)
def test_a_changed_second_record_is_no_longer_what_was_signed_and_breaks_the_chain(
    exported: Path, change: Callable[[dict[str, Any]], object], broken_at: int
) -> None:
    lines = lines_of(exported)
    lines[1] = altered(lines[1], change)
    verdict = judged(b"\n".join(lines))

    assert statuses(verdict) == ["valid", "binding-mismatch", "valid"]
    assert verdict.chain.status == "broken"
    assert verdict.chain.details["index"] == broken_at


def test_swapped_records_are_valid_and_the_chain_is_broken(exported: Path) -> None:
    first, second, third = lines_of(exported)
    verdict = judged(b"\n".join((first, third, second)))

    assert statuses(verdict) == ["valid"] * 3
    assert verdict.chain.status == "broken"


def test_every_file_of_single_actions_verifies_and_together_they_hold_all_actions(exported: Path) -> None:
    count = 0
    for rank in range(2):
        data = (exported / "lines" / f"attempt-0-rank-{rank}.aep.jsonl").read_bytes()
        verdict = judged(data)
        assert set(statuses(verdict)) == {"valid"}
        assert verdict.chain.status == "intact"
        assert max(map(len, data.splitlines())) <= 65_536
        count += sum(len(json.loads(line)["actions"]) for line in data.splitlines())

    assert count == 3 * 2 * 90


def test_a_bundle_passes_with_its_digests_and_holds_the_records_byte_for_byte(exported: Path) -> None:
    data = (exported / "bundle" / "records.aep-bundle.json").read_bytes()
    verdict = judged(data)

    assert verdict.kind == "aep-bundle"
    assert verdict.container.status == "pass"
    assert all(line in data for line in lines_of(exported))
    assert judged(data.replace(b'"record_count":3', b'"record_count":4')).container.status == "fail"


def test_the_manifest_names_every_file_with_its_digest_and_that_it_fits_the_schema(exported: Path) -> None:
    manifest = json.loads((exported / "lines" / "manifest.json").read_text())

    listed = {one["path"]: one for one in manifest["files"]}
    assert set(listed) | {"manifest.json"} == {path.name for path in (exported / "lines").iterdir()}
    for name, one in listed.items():
        data = (exported / "lines" / name).read_bytes()
        assert (one["bytes"], one["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        axes = one["validation"]
        assert set(axes) == {"structural", "semantic", "authenticity", "chain", "container", "capture"}
        assert axes["structural"] == {"evaluated": True, "status": "pass"}
        assert not any(axes[name]["evaluated"] for name in ("semantic", "chain", "container", "capture"))
        assert all(("status" in axis) == axis["evaluated"] for axis in axes.values())
    assert len(manifest["bundles"]) == 3
    assert manifest["source"]["run"] == "job"


def test_a_manifest_calls_unsigned_records_unsigned_and_sums_nothing_up(tmp_path: Path) -> None:
    record([healthy(tmp_path / "c", epochs=1)], store=f"embedded:{tmp_path / 's'}", signer=KEY)
    with opened(f"embedded:{tmp_path / 's'}") as evidence:
        evidence.exported_agents(tmp_path / "lines", options=AgentExportOptions(per_action=True))
    text = (tmp_path / "lines" / "manifest.json").read_text()
    found = {one["path"]: one["validation"]["authenticity"] for one in json.loads(text)["files"]}

    assert found.pop("records.aep.jsonl")["evaluated"] is False
    assert len(found) == 2
    assert all(one == {"evaluated": True, "status": "unsigned"} for one in found.values())
    assert '"valid"' not in text


def test_a_directory_in_use_is_refused_and_an_export_is_replaced_only_when_asked(
    exported: Path, tmp_path: Path
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").touch()
    with opened(f"embedded:{exported / 's'}") as evidence:
        with pytest.raises(ConfigError, match="other things than an export"):
            evidence.exported_agents(tmp_path / "used", options=AgentExportOptions(overwrite=True))
        evidence.exported_agents(tmp_path / "new", options=AgentExportOptions())
        with pytest.raises(ConfigError, match="there is an export already"):
            evidence.exported_agents(tmp_path / "new", options=AgentExportOptions())
        evidence.exported_agents(tmp_path / "new", options=AgentExportOptions(overwrite=True))


def test_a_run_of_which_nothing_was_recorded_is_named(exported: Path, tmp_path: Path) -> None:
    with opened(f"embedded:{exported / 's'}") as evidence, pytest.raises(InputError, match="none was recorded"):
        evidence.exported_agents(tmp_path / "e", "other", options=AgentExportOptions())


def test_a_form_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="--format"):
        AgentExportOptions("xml")


def test_the_axes_of_an_epoch_are_shown_with_its_bundle(exported: Path) -> None:
    with opened(f"embedded:{exported / 's'}") as evidence:
        shown = evidence.shown("recorded:job:1")

    assert shown.axes is not None
    assert set(shown.axes) == {"structural", "semantic", "authenticity", "chain", "container", "capture"}
    found = json.loads(json.dumps(shown.axes))
    assert (found["chain"]["evaluated"], found["chain"]["status"]) == (True, "intact")
    assert found["capture"]["evaluated"] is False
    assert "complete" not in json.dumps(shown.to_dict())


def test_a_lost_agent_record_takes_no_epoch_from_what_is_shown(exported: Path, tmp_path: Path) -> None:
    store = shutil.copytree(exported / "s", tmp_path / "s")
    with opened(f"embedded:{store}") as evidence:
        agent_record = evidence.listed(epoch=1).runs[0].recorded[0].agent_record
        assert agent_record is not None
        (store / "journal" / "blobs" / agent_record[:2] / f"{agent_record}.zst").unlink()
        own, other = (evidence.shown(f"recorded:job:{epoch}").axes for epoch in (1, 2))

    assert own is not None
    assert not any(axis["evaluated"] for axis in own.values())
    assert all(f"bytes missing: blob {agent_record[:12]}" in axis["reason"] for axis in own.values())
    assert other is not None
    assert other["structural"]["status"] == "pass"
    assert other["chain"]["evaluated"] is False, "a chain with a gap is neither intact nor broken"


def test_an_epoch_that_no_run_recorded_is_an_error_and_no_empty_list(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(3)
    record([capture.write()], store=f"embedded:{tmp_path / 's'}")
    with opened(f"embedded:{tmp_path / 's'}") as evidence:
        with pytest.raises(InputError, match=r"training epoch 99: is not recorded; recorded are 3$"):
            evidence.listed(epoch=99)
        # A mode that an epoch does not have is a question, and its answer is none.
        assert not any(one.recorded for one in evidence.listed(epoch=3, mode="full").runs)


def test_what_is_recorded_is_found_by_epoch_action_and_digest_and_listed_by_mode(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0)
    capture.call(1, **{"in": None})
    (first, second) = record([capture.write()], store=f"embedded:{tmp_path / 's'}").epochs
    with opened(f"embedded:{tmp_path / 's'}") as evidence:
        by_epoch, by_digest = evidence.shown("recorded:job:0"), evidence.shown(first.digest[:12])
        action = evidence.shown("gloo/0@0-0/1/0")
        (delta,) = evidence.listed(mode="delta").runs
        (weak,) = evidence.listed(epoch=1).runs

    assert by_epoch.raw == by_digest.raw
    assert action.said is not None
    assert action.said["recording_mode"] == "validation"
    assert [one.digest for one in delta.recorded] == [first.digest]
    assert [(one.digest, one.policy_mode, dict(one.shortfall)) for one in weak.recorded] == [
        (second.digest, "delta", {"capture-fault": 1})
    ]
