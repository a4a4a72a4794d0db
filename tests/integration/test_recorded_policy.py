"""What a live recorder says of its policy reaches the journal: content from the ring, taint, parts, consent."""

from __future__ import annotations

from pathlib import Path

from captures import FULL, RankCapture, floats, statistics

from provstore.api.recording import record
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal
from provstore.model.action import Action

TAINTED = {"mode": "full", "reason": "tainted input reaching state-changing call", "rule": "3"}
NO_CONSENT = {"mode": "full", "reason": "consent anomaly recorded", "rule": "2"}


def stored(folder: Path) -> tuple[list[Action], list[StoredBundle]]:
    """Actions and bundles of what is recorded of the capture in a folder."""
    record([folder / "c"], store=f"embedded:{folder / 'store'}")
    with Journal.open(folder / "store" / "journal", writable=False) as journal:
        return list(recording.actions(journal, "job", 0)), recording.stored_bundles(journal, "job")


def test_what_the_ring_gave_of_the_steps_before_is_in_the_bundle_and_changes_no_label(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.begin(0)
    bare = {"mode": "validation", "shortfall": ["time-budget"]}
    shapes = {f"shapes_{side}": [[2]] for side in ("in", "out")} | {
        f"dtypes_{side}": ["float32"] for side in ("in", "out")
    }
    early = [capture.call(0, None, step=step, **bare, **shapes) for step in (5, 6, 7, 8)]
    capture.lines.append(
        {"t": "escalation", "event": "opened", "epoch": 0, "number": 0, "trigger": "non-finite", "source": "rank:0",
         "scope": "group:0@0-0", "rule": "P2", "opened_ns": 5, "opened_step": 8}
    )  # fmt: skip
    donor = RankCapture(tmp_path / "d", world=1)
    for line in early[1:]:
        content = donor.call(0, floats(float(line["step"]), 1.0))
        kept = {name: content[name] for name in ("in", "out", "kind")}
        kept |= {"stats_in": statistics(2, float(line["step"])), "stats_out": statistics(2, line["step"] + 0.5)}
        capture.lines.append({**line, **kept, "late": True})
    capture.end(0)
    capture.write()

    actions, (bundle,) = stored(tmp_path)

    assert {(one.mode, one.shortfall) for one in actions} == {("validation", ("time-budget",))}
    assert [(one.step, one.digest_in is not None, one.delta_ref is not None) for one in actions] == [
        (5, False, False), (6, True, True), (7, True, True), (8, True, True),
    ]  # fmt: skip
    roles = {blob["role"]: blob["lines"] for blob in bundle.record["blobs"]}
    assert roles["statistics"] == 6, "of both sides of the three"
    assert bundle.record["escalations"] == ["rank:0/esc-0"]
    assert bundle.record["actions"]["count"] == 4


def test_taint_parts_and_what_no_bucket_carries_stand_in_the_notes_of_an_action(tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    capture.call(0, taint=2, policy=TAINTED, mode="delta", shortfall=["byte-budget"])
    capture.call(0, None, part_of=0, parts=2)
    capture.lines.append(
        {"t": "tensor", "ordinal": 2, "epoch": 0, "step": 0, "at_ns": capture.now(), "op": "tensor.grad", "name": "w",
         "class": "read", "policy": {"mode": "validation", "reason": "read-only, no anomaly", "rule": "7"},
         "mode": "validation", "shortfall": [], "finite": True, "shape": [2], "dtype": "float32",
         "uncarried": "no call of the step is of the size and type of its bucket"}
    )  # fmt: skip
    capture.write()

    actions, _ = stored(tmp_path)

    assert [dict(one.extra) for one in actions] == [
        {"taint_chain_length": "2"},
        {"part_of": "gloo/0@0-0/0/0"},
        {"uncarried": "no call of the step is of the size and type of its bucket"},
    ]
    assert actions[0].policy_reason == TAINTED["reason"]


def test_a_checkpoint_is_demanded_as_its_line_says_and_a_line_without_a_policy_as_its_class_says(
    tmp_path: Path,
) -> None:
    capture = RankCapture(tmp_path / "c", world=1)
    plain = {"t": "checkpoint", "epoch": 0, "step": 0, "action": "load", "at_ns": capture.now()}
    capture.lines += [
        {**plain, "uri": "s3://b/one", "class": "mutate-local", "policy": NO_CONSENT},
        {**plain, "uri": "s3://b/two"},
        {**plain, "uri": "s3://b/three", "class": "mutate-local", "policy": FULL, "escalations": ["operator/esc-1"]},
    ]
    capture.write()

    actions, _ = stored(tmp_path)

    assert {one.name: (one.policy_mode, one.policy_reason, one.escalations) for one in actions} == {
        "s3://b/one": ("full", "consent anomaly recorded", ()),
        "s3://b/two": ("delta", "local mutation, low risk", ()),
        "s3://b/three": ("full", "external escalation signal", ("operator/esc-1",)),
    }
