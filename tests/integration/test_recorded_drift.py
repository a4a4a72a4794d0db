"""Recorded runs that differ by hand, in one rank's parameters, one batch or one generator: what is answered."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from captures import RankCapture

import provstore
from provstore.api import assistant
from provstore.api.recording import record
from provstore.model import canonical

WORLD, EPOCHS, STEPS = 3, 2, 3


def digest(word: str) -> str:
    return f"sha256:{hashlib.sha256(word.encode()).hexdigest()}"


def captured(
    directory: Path,
    run: str,
    *,
    drifts: tuple[int, int] | None = None,
    batch: tuple[int, int] | None = None,
    seed: int = 1,
    finite: bool = True,
) -> Path:
    """A job with anchors: ``drifts`` and ``batch`` are rank and step, ``seed`` is numpy's."""
    (directory / "blobs").mkdir(parents=True)
    states = canonical.encode({"schema": "provstore-rng-state/1", "states": {"numpy": str(seed), "torch": "7"}})
    rng = f"sha256:{hashlib.sha256(states).hexdigest()}"
    (directory / "blobs" / rng.removeprefix("sha256:")).write_bytes(states)
    for rank in range(WORLD):
        capture = RankCapture(directory, rank, WORLD, run)
        for epoch in range(EPOCHS):
            first = epoch * STEPS
            capture.begin(epoch, first)
            capture.lines.append(
                {"t": "rng", "epoch": epoch, "step": first, "at_ns": capture.now(), "where": "epoch", "digest": rng,
                 "blob": rng, "states": ["numpy", "torch"]}
            )  # fmt: skip
            for step in range(first, first + STEPS):
                ids = digest(f"{rank} {step} {batch == (rank, step)}")
                capture.lines.append(
                    {"t": "data", "epoch": epoch, "step": step, "at_ns": capture.now(), "batch": step - first,
                     "count": 1, "ids_digest": ids}
                )  # fmt: skip
                spoilt = not finite and step >= 1
                capture.call(
                    epoch, step=step, finite_in=not (spoilt and (rank == 1 or step > 1)), finite_out=not spoilt
                )
                changed = [batch is not None and step >= batch[1]]
                changed.append(drifts is not None and rank == drifts[0] and step >= drifts[1])
                capture.lines.append(
                    {"t": "anchor", "epoch": epoch, "step": step, "rng": rng, "order": digest(f"order {step}"),
                     "cursor": step - first + 1, "params": digest(f"{step} {changed}")}
                )  # fmt: skip
            capture.end(epoch)
        capture.write()
    return directory


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("drift")
    uri = f"embedded:{folder / 'store'}"
    captures = (
        captured(folder / "a", "a"),
        captured(folder / "drifted", "drifted", drifts=(1, 4)),
        captured(folder / "batch", "batch", batch=(2, 4)),
        captured(folder / "seed", "seed", seed=2),
        captured(folder / "nan", "nan", finite=False),
    )
    record(list(captures), store=uri)
    return uri


def test_the_rank_whose_parameters_drift_is_named_once_with_its_step_and_the_stored_table(store: str) -> None:
    said = assistant.ask("list_suspicious_actions", {"run": "drifted"}, store)
    (one,) = said["actions"]
    assert (one["code"], one["rank"], one["step"], one["confidence"]) == ("replica-drift", 1, 4, "certain")
    assert one["evidence_refs"][-1].startswith("sha256:")
    assert assistant.ask("list_suspicious_actions", {"run": "a"}, store)["actions"] == []


def test_an_epoch_in_short_counts_what_began_in_it_and_says_what_began_before(store: str) -> None:
    second = assistant.ask("summarize_epoch", {"run": "drifted", "epoch": 1}, store)
    assert second["findings"] == {"replica-drift": 1}
    assert assistant.ask("summarize_epoch", {"run": "drifted", "epoch": 0}, store)["findings"] == {}


def test_what_was_recorded_of_values_is_part_of_a_diagnosis(store: str) -> None:
    with provstore.open(store, read_only=True) as opened:
        drifted, spoilt = opened.diagnose(run="drifted"), opened.diagnose(run="nan", about="nan")
    assert [(one.code, one.culprits[0].rank) for one in drifted.findings] == [("replica-drift", 1)]
    assert (spoilt.status, [(one.code, one.culprits[0].rank) for one in spoilt.findings]) == (
        "findings",
        [("nan-origin", 1)],
    )


def test_a_batch_of_one_rank_is_the_first_difference_and_the_parameters_of_all_follow(store: str) -> None:
    with provstore.open(store, read_only=True) as opened:
        found, compared = opened.diff("a", "batch"), opened.replay("a", 1, against="batch")
    for anchors in (found.anchors, compared.anchors):
        assert [(one.kind, one.step, one.ranks) for one in anchors.kinds if one.different] == [
            ("data", 4, (2,)),
            ("params", 4, (0, 1, 2)),
        ]
    assert (found.cause.kind, found.exit_code, compared.exit_code) == ("data", 1, 1)


def test_the_generator_that_was_seeded_otherwise_is_named_and_all_else_is_equal(store: str) -> None:
    with provstore.open(store, read_only=True) as opened:
        anchors = opened.replay("a", 0, against="seed").anchors
    assert anchors.generators == ("numpy",)
    assert [(one.kind, one.step) for one in anchors.kinds if one.different] == [("rng", 0)]
    assert {one.kind for one in anchors.kinds if not one.different} >= {"data", "order", "cursor", "params"}


def test_a_comparison_says_which_run_has_a_rank_that_drifted(store: str) -> None:
    with provstore.open(store, read_only=True) as opened:
        notes = opened.replay("a", 1, against="drifted").notes
    assert any(note.startswith("drifted: rank 1: holds other parameters") for note in notes)
