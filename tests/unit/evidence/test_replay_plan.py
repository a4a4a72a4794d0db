"""Restore plans, skip lists, documents of a replay, and anchors of two runs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from provstore.api.replaying import Replay
from provstore.errors import ConfigError, InputError
from provstore.evidence.aep import schema
from provstore.evidence.replay import EpochFacts, compare_anchors, restore_plan, skips_from
from provstore.evidence.replay.checkpoints import Given
from provstore.evidence.replay.documents import (
    Check,
    checkpoint,
    checkpoint_evidence,
    fork,
    replay_evidence,
    require_valid,
)
from provstore.evidence.replay.script import script_of

NOW = 1_796_000_000_123_456_789
STATE, OTHER = "sha256:" + "5" * 64, "sha256:" + "6" * 64


def rows(name: str, **more: object) -> list[dict[str, object]]:
    return [
        {"epoch": 2, "rank": rank, "step": step, name: f"sha256:{rank}{step}", "batch": step - 8, **more}
        for rank in (0, 1)
        for step in (8, 9)
    ]


def facts(**more: object) -> EpochFacts:
    settings = [{"n": "deterministic_algorithms", "v": True}, {"n": "warn_only", "v": False}]
    header = {"env_digest": OTHER, "python": "3.11.7", "torch": "2.15.0", "determinism": settings}
    fields: dict[str, object] = {
        "run": "r",
        "attempt": 0,
        "epoch": 2,
        "bundles": ("b" * 64,),
        "is_closed": True,
        "steps": (8, 9),
        "world_size": 2,
        "ranks": (0, 1),
        "environment": OTHER,
        "headers": [header, header],
        "data": rows("ids_digest"),
        "samplers": [drawn(0), drawn(1)],
        "rng": [
            {"epoch": 2, "rank": rank, "step": 8, "where": "epoch", "digest": f"sha256:{rank}"}
            | {"blob": str(rank), "bytes": 9}
            for rank in (0, 1)
        ],
        "anchors": rows("params", order="o", rng="g", cursor=1),
        "checkpoints": [saved(3), saved(7)],
    }  # fmt: skip
    return EpochFacts(**{**fields, **more})


def drawn(rank: int, **more: object) -> dict[str, object]:
    said = {"kind": "DistributedSampler", "seed": 7, "shard_epoch": 2, "shard": rank, "shards": 2, "shuffle": True}
    return {"epoch": 2, "rank": rank, "dataset_kind": "Images", "dataset_length": 64, **said, **more}


def saved(step: int, **more: object) -> dict[str, object]:
    return {
        "action": "save",
        "rank": 0,
        "step": step,
        "uri": f"at-{step}.pt",
        "state_digest": STATE,
        "files": [],
        **more,
    }


def present(_sha256: str, _size_bytes: int) -> str:
    return "present"


def test_an_epoch_of_which_everything_is_stored_can_be_exact() -> None:
    plan = restore_plan(facts(), present)
    assert (plan.verdict, plan.reasons, plan.is_fork, plan.catch_up_steps) == ("exact-possible", (), False, 0)
    assert [one.name for one in plan.items] == [
        "checkpoint", "rng", "data-order", "sampler", "skip-list", "environment", "anchors",
    ]  # fmt: skip
    assert plan.item("checkpoint").source == "at-7.pt", "the nearest one before the epoch"


def test_a_checkpoint_saved_before_the_first_step_is_one_to_begin_from_and_one_saved_in_it_is_not() -> None:
    def at(seconds: int) -> str:
        return f"i64:{1_796_000_000_000_000_000 + seconds}"

    states = [{**row, "step": 0, "at": at(2)} for row in facts().rng]
    batches = [{**row, "step": row["step"] - 8, "at": at(3 + row["step"])} for row in facts().data]
    first = facts(epoch=0, steps=(0, 1), is_first=True, rng=states, data=batches)
    for when, state in ((1, "present"), (4, "present"), (11, "missing"), (30, "missing")):
        saving = replace(first, checkpoints=[saved(0, at=at(when))])
        assert restore_plan(saving, present).item("checkpoint").state == state, when
    without = replace(first, data=[], checkpoints=[saved(0, at=at(1))])
    assert restore_plan(without, present).item("checkpoint").detail == "before step 0"
    assert restore_plan(replace(without, checkpoints=[saved(0)]), present).item("checkpoint").state == "missing"


def test_a_missing_or_altered_random_state_makes_a_plan_approximate_and_is_named() -> None:
    for state in ("missing", "mismatch"):
        plan = restore_plan(facts(), lambda blob, _, state=state: state if blob == "1" else "present")
        assert plan.verdict == "approximate"
        assert (plan.item("rng").state, "rank 1" in plan.item("rng").detail) == (state, True)


@pytest.mark.parametrize("name", ["data", "anchors", "rng", "samplers"])
def test_no_plan_with_a_missing_item_is_exact(name: str) -> None:
    everything = facts()
    for rest in ([], [row for row in getattr(everything, name) if row["rank"] == 0]):
        assert restore_plan(replace(everything, **{name: rest}), present).verdict == "approximate"
    assert restore_plan(replace(everything, headers=[], environment=None), present).verdict == "approximate"


def test_a_plan_says_how_each_rank_drew_its_samples() -> None:
    item = restore_plan(facts(samplers=[drawn(0), drawn(1, seed=9)]), present).item("sampler")
    assert item.detail == "Images of length 64, drawn by DistributedSampler"
    assert item.parts == {
        "0": "DistributedSampler: seed 7, epoch 2, shard 0 of 2, shuffle true",
        "1": "DistributedSampler: seed 9, epoch 2, shard 1 of 2, shuffle true",
    }
    assert item.digest != restore_plan(facts(), present).item("sampler").digest
    own = restore_plan(
        facts(samplers=[{"epoch": 2, "rank": rank, "kind": "RandomSampler"} for rank in (0, 1)]), present
    )
    assert own.item("sampler").parts["0"] == "RandomSampler: no seed of its own"
    assert own.verdict == "exact-possible", "it draws from the random states, which are recorded"


def test_digests_of_sample_ids_alone_make_a_plan_approximate_and_the_remedy_is_told() -> None:
    plan = restore_plan(facts(samplers=[]), present)
    assert (plan.item("data-order").state, plan.item("sampler").state, plan.verdict) == (
        "present", "missing", "approximate",
    )  # fmt: skip
    assert plan.reasons == ("sampler: missing: kind and seed were not recorded of rank 0, 1",)
    assert any("recorder.sampler" in note for note in plan.notes)


def test_a_plan_with_a_checkpoint_says_that_nobody_recorded_whether_it_holds_the_optimizer() -> None:
    said = "state of the optimizer"
    assert any(said in note for note in restore_plan(facts(), present).notes)
    assert not any(said in note for note in restore_plan(facts(checkpoints=[]), present).notes)


def test_what_makes_a_rerun_differ_is_a_reason() -> None:
    loose = [{**row, "determinism": [{"n": "deterministic_algorithms", "v": False}]} for row in facts().headers]
    for changed, word in (
        ({"is_closed": False}, "closed"),
        ({"missing_ranks": (2,), "world_size": 3}, "ranks"),
        ({"headers": loose}, "determinism"),
        ({"checkpoints": [saved(5)], "earlier_rng": []}, "steps lie between"),
        ({"headers": [facts().headers[0], {**facts().headers[1], "env_digest": STATE}]}, "environment"),
    ):
        plan = restore_plan(facts(**changed), present)
        assert plan.verdict == "approximate"
        assert any(word in reason for reason in plan.reasons)


def test_without_a_checkpoint_only_the_beginning_of_a_run_can_be_run_again() -> None:
    assert restore_plan(facts(checkpoints=[]), present).verdict == "not-possible"
    assert restore_plan(facts(checkpoints=[], is_first=True), present).verdict == "approximate"
    assert restore_plan(facts(checkpoints=[saved(9)]), present).verdict == "not-possible", "it came later"


def test_a_copy_of_the_checkpoint_is_compared_byte_for_byte(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pt"
    copy.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    stored = facts(checkpoints=[saved(7, files=[{"path": "at-7.pt", "bytes": 7, "sha256": digest}])])
    item = restore_plan(stored, present, given=Given(copy)).item("checkpoint")
    assert (item.state, item.checked) == ("present", True)
    copy.write_bytes(b"weighty")
    plan = restore_plan(stored, present, given=Given(copy))
    assert (plan.item("checkpoint").state, plan.verdict) == ("mismatch", "not-possible")
    assert restore_plan(stored, present).item("checkpoint").checked is False


def test_names_of_files_in_evidence_are_not_followed_out_of_the_folder_that_was_given(tmp_path: Path) -> None:
    files = [{"path": name, "bytes": 1, "sha256": "0" * 64} for name in ("../secret", "/etc/passwd")]
    plan = restore_plan(facts(checkpoints=[saved(7, files=files)]), present, given=Given(tmp_path))
    assert "no name inside a folder" in plan.item("checkpoint").detail


def test_a_plan_that_skips_more_than_the_run_did_is_a_fork() -> None:
    (skip,) = skips_from(b'[{"epoch": 2, "batch": 1, "reason": "poisoned"}]', "skips.json")
    plan = restore_plan(facts(), present, [skip])
    assert (plan.is_fork, plan.added_skips) == (True, (skip,))
    did = [{**row, "skipped": "bad data"} if row["batch"] == 1 else row for row in facts().data]
    assert not restore_plan(facts(data=did), present, [skip]).is_fork, "the run skipped it itself"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "is no list"),
        ("[1]", "[0]: is no object"),
        ('[{"epoch": 2, "batch": 0}]', "[0]: reason"),
        ('[{"epoch": -1, "batch": 0, "reason": "x"}]', "[0]: epoch"),
        ('[{"epoch": 2, "batch": true, "reason": "x"}]', "[0]: batch"),
        ('[{"epoch": 2, "batch": 0, "reason": "x", "why": 1}]', "'why'"),
        (
            '[{"epoch": 2, "batch": 0, "reason": "x"}, {"epoch": 2, "batch": 0, "reason": "y"}]',
            "[1]: epoch 2, batch 0: stands there twice",
        ),
        ("[", "JSON"),
    ],
)
def test_a_skip_list_that_is_none_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError, match=r"skips\.json") as error:
        skips_from(text.encode(), "skips.json")
    assert said in str(error.value)


def test_batches_that_the_epoch_does_not_have_are_refused() -> None:
    for entry in (
        {"epoch": 2, "batch": 7, "reason": "x"},
        {"epoch": 1, "batch": 0, "reason": "x"},
        {"epoch": 2, "batch": 0, "reason": "x", "ids_digest": OTHER},
    ):
        with pytest.raises(InputError):
            restore_plan(facts(), present, skips_from(json.dumps([entry]).encode(), "skips.json"))


def test_documents_fit_their_closed_schemas() -> None:
    if not schema.is_available():
        pytest.skip("needs the evidence extra")
    plan = restore_plan(facts(), present)
    forked = restore_plan(facts(), present, skips_from(b'[{"epoch": 2, "batch": 1, "reason": "x"}]', "s"))
    check = Check("all are exact", [STATE], is_exact=True)
    for kind, document in (
        ("checkpoint-evidence", checkpoint_evidence(plan, NOW)),
        ("checkpoint-evidence", checkpoint_evidence(forked, NOW)),
        ("fork", fork(forked, "experiment", NOW)),
        ("checkpoint", checkpoint(forked, NOW)),
        ("replay-evidence", replay_evidence(plan, check, "provstore/1", NOW)),
    ):
        assert require_valid(kind, document)
        with pytest.raises(ConfigError, match="dsse_envelope"):
            require_valid(kind, {**document, "dsse_envelope": {}})
    assert checkpoint_evidence(plan, NOW)["fork_of"] is None
    assert checkpoint_evidence(forked, NOW)["fork_of"] == "r-" + "5" * 16
    assert isinstance(replay_evidence(plan, check, "provstore/1", NOW)["seed"], str)


def test_a_matching_replay_is_not_claimed_unless_it_was_found() -> None:
    plan = restore_plan(facts(), present)
    for check in (
        Check("2 of 3 collectives are not exact", [STATE], is_exact=False),
        Check("nothing was checked", [], is_exact=True),
    ):
        with pytest.raises(ConfigError, match="refused"):
            replay_evidence(plan, check, "provstore/1", NOW)
    forked = restore_plan(facts(), present, skips_from(b'[{"epoch": 2, "batch": 1, "reason": "x"}]', "s"))
    with pytest.raises(ConfigError, match="fork"):
        replay_evidence(forked, Check("all are exact", [STATE], is_exact=True), "provstore/1", NOW)


def test_a_fork_needs_a_reason_that_exists_and_a_plan_that_is_one() -> None:
    forked = restore_plan(facts(), present, skips_from(b'[{"epoch": 2, "batch": 1, "reason": "x"}]', "s"))
    with pytest.raises(ConfigError, match="fork reason"):
        fork(forked, "whim", NOW)
    with pytest.raises(ConfigError, match="no fork"):
        fork(restore_plan(facts(), present), "retry", NOW)


def test_the_first_anchor_that_differs_is_named_with_step_rank_and_what() -> None:
    stored = rows("params", order="o", rng="g", cursor=1)
    assert compare_anchors(stored, stored, "again").is_equal
    changed = [{**row, "rng": "x"} if (row["step"], row["rank"]) == (9, 1) else row for row in stored]
    found = compare_anchors(stored, changed, "again")
    assert found.first.to_dict() == {"epoch": 2, "step": 9, "rank": 1, "anchors": ["rng"]}
    shorter = compare_anchors(stored, [row for row in stored if row["step"] == 8], "again")
    assert (shorter.first.step, shorter.first.names) == (9, ("missing",))


def test_parameters_that_were_not_probed_say_nothing_and_are_counted() -> None:
    stored = rows("params", order="o", rng="g", cursor=1)
    unprobed = [{**row, "params": None} for row in stored]
    found = compare_anchors(unprobed, stored, "again")
    assert (found.is_equal, found.not_probed) == (True, 4)
    assert not compare_anchors([], [], "again").is_equal


@pytest.mark.parametrize("kind", ["params", "order", "rng", "cursor"])
def test_a_re_run_that_does_not_hold_what_was_stored_has_not_reached_it_again(kind: str) -> None:
    stored = rows("params", order="o", rng="g", cursor=1)
    without = [{**row, kind: None} if row["step"] == 9 else row for row in stored]
    found = compare_anchors(stored, without, "again")

    assert (found.first, found.is_equal, found.lacking) == (None, False, {kind: 2})
    said = Replay(restore_plan(facts(), present), cast("Any", None), anchors=found)
    assert not said.check.is_exact
    assert f"the re-run lacks {kind} at 2" in said.check.text
    assert said.exit_code == 3, "nothing differs, and not all was shown to be equal"


def test_other_samples_of_a_step_are_a_difference_of_its_data() -> None:
    stored, data = rows("params", order="o", rng="g", cursor=1), rows("ids_digest")
    other = [{**row, "ids_digest": OTHER} if row["step"] == 9 else row for row in data]
    assert compare_anchors(stored, stored, "again", (data, other)).first.names == ("data",)


def test_the_script_is_a_program_that_starts_nothing_whatever_the_evidence_says() -> None:
    hostile = saved(7, uri='x"""\nimport os; os.system("true")\n#')
    script = script_of(restore_plan(facts(run='a"\nimport os', checkpoints=[hostile]), present))
    names: dict[str, object] = {}
    exec(compile(script, "restore.py", "exec"), names)
    assert "os" not in names
    assert names["RUN"] == 'a"\nimport os'
    assert script.isascii()
