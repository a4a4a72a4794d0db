"""The main job on real dumps: ingest, trace, diagnose, from the folder and from the store alike."""

from __future__ import annotations

from pathlib import Path

import pytest

import provstore

_CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
_CASES = sorted(path for kind in ("fr-gloo", "fr-nccl") for path in (_CORPUS / kind).glob("*") if path.is_dir())

pytestmark = pytest.mark.skipif(not _CASES, reason="the corpora of real dumps are not beside the checkout")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> provstore.Store:
    place = tmp_path_factory.mktemp("healthy")
    store = provstore.open(f"embedded:{place}")
    store.ingest(_CORPUS / "fr-gloo" / "healthy_ddp")
    return store


def _calls(trace: object, kind: str) -> set[tuple[int | None, int | None]]:
    return {(node.seq, node.rank) for node in trace.nodes if node.kind == kind}  # type: ignore[attr-defined]


def test_an_output_came_from_the_inputs_of_all_ranks_and_everything_before(healthy: provstore.Store) -> None:
    trace = healthy.trace("tensor:2:3:out")
    assert trace.complete
    assert _calls(trace, "input") == {(seq, rank) for seq in (1, 2, 3) for rank in range(4)}
    assert _calls(trace, "output") == {(seq, rank) for seq in (1, 2) for rank in range(4)}
    assert {seq for seq, _ in _calls(trace, "collective")} == {1, 2, 3}


def test_an_input_reaches_the_later_outputs_of_all_ranks(healthy: provstore.Store) -> None:
    trace = healthy.trace("tensor:2:3:in", down=True)
    assert {(3, rank) for rank in range(4)} <= _calls(trace, "output")
    assert {(16, rank) for rank in range(4)} <= _calls(trace, "output")
    assert not [node for node in trace.nodes if node.seq is not None and node.seq < 3]


def test_an_output_that_no_dump_shows_was_not_produced() -> None:
    with provstore.open("memory:") as store:
        store.ingest(_CORPUS / "fr-gloo" / "hang_rank_stuck")
        trace = store.trace("tensor:0:7:out")
    assert trace.notes[0].startswith("not produced: the call is pending")
    assert {seq for seq, _ in _calls(trace, "input")} == set(range(1, 8))


@pytest.mark.parametrize("case", _CASES, ids=lambda path: path.name)
def test_a_stored_run_is_diagnosed_as_its_folder(case: Path, tmp_path: Path) -> None:
    expected = provstore.diagnose(case).to_dict()
    with provstore.open(f"embedded:{tmp_path}") as store:
        store.ingest(case)
        stored = store.diagnose().to_dict()
        assert store.check().clean
    for answer in (expected, stored):
        del answer["timing"]
        # Files that were never meant as dumps are not part of a stored run.
        answer["coverage"] = {k: v for k, v in answer["coverage"].items() if k != "skipped_files"}  # type: ignore[attr-defined]
    assert stored == expected
