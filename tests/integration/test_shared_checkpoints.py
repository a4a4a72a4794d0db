"""Two runs that save to one address: what a run that loads it comes from, as far as the digest of the state tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from captures import RankCapture, floats

import provstore
from provstore.api.recording import record
from provstore.model.trace import Trace

ADDRESS = "s3://bucket/latest"
OF_A, OF_B, OF_NOBODY = (f"sha256:{letter * 64}" for letter in "abf")
POLICY = {"mode": "full", "reason": "external mutation", "rule": "5"}
BOTH = "run a, attempt 0 and run b, attempt 0 saved to this one address, each in place of the one before"


def kept(place: Path, name: str, *, save: dict[str, str | None], load: dict[str, str | None]) -> Path:
    """A run of two ranks that loads, makes a call, and saves; an address with the digest of the state, or none."""
    for rank in range(2):
        capture = RankCapture(place / name, rank, 2, name)
        capture.begin(0)
        for action, given in (("load", load), ("save", save)):
            for uri, digest in given.items():
                line = {"t": "checkpoint", "epoch": 0, "step": 0, "at_ns": capture.now(), "action": action, "uri": uri,
                        "policy": POLICY, **({} if digest is None else {"state_digest": digest})}  # fmt: skip
                capture.lines.append(line)
            if action == "load":
                capture.call(0, floats(1.0), step=0)
        capture.end(0)
        capture.write()
    return place / name


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[provstore.Store]:
    place = tmp_path_factory.mktemp("checkpoints")
    uri = f"embedded:{place / 'store'}"
    record(
        [
            kept(place, "a", save={ADDRESS: OF_A}, load={}),
            kept(place, "b", save={ADDRESS: OF_B}, load={}),
            kept(place, "with", save={"s3://bucket/with": OF_NOBODY}, load={ADDRESS: OF_B}),
            kept(place, "without", save={"s3://bucket/without": OF_NOBODY}, load={ADDRESS: None}),
            kept(place, "other", save={"s3://bucket/other": OF_NOBODY}, load={ADDRESS: OF_NOBODY}),
            kept(place, "alone", save={"s3://bucket/alone": OF_A}, load={}),
            kept(place, "next", save={}, load={"s3://bucket/alone": OF_B}),
        ],
        store=uri,
    )
    with provstore.open(uri, read_only=True) as opened:
        yield opened


def runs(found: Trace) -> set[str]:
    return {one.label.split(",")[0].removeprefix("run ") for one in found.nodes if one.label.startswith("run ")}


def test_what_a_run_made_comes_from_the_run_whose_state_it_loaded(store: provstore.Store) -> None:
    found = store.trace("s3://bucket/with")
    assert runs(found) == {"with", "b"}
    said = f"{BOTH}; run with, attempt 0 loaded what run b, attempt 0 saved, as the digest of the state tells"
    assert found.notes == (f"checkpoint {ADDRESS}: {said}",)
    assert found.counts["nodes"] == len(found.nodes) == 3, "run, address, run"


@pytest.mark.parametrize("depth", [3, 9])
def test_a_depth_changes_nothing_of_it(store: provstore.Store, depth: int) -> None:
    assert runs(store.trace("s3://bucket/with", depth=depth)) == {"with", "b"}


@pytest.mark.parametrize("name", ["without", "other"])
def test_without_a_digest_or_with_one_that_nobody_saved_both_may_be_meant_and_that_is_said(
    store: provstore.Store, name: str
) -> None:
    found = store.trace(f"s3://bucket/{name}")
    assert runs(found) == {name, "a", "b"}
    said = f"{BOTH}; whose state run {name}, attempt 0 loaded is not told by a digest"
    assert found.notes == (f"checkpoint {ADDRESS}: {said}",)


def test_the_address_itself_comes_from_both_and_whose_state_is_there_is_not_known(store: provstore.Store) -> None:
    found = store.trace(ADDRESS)
    assert runs(found) == {"a", "b"}
    assert found.notes == (f"checkpoint {ADDRESS}: {BOTH}; whose state is there now is not recorded",)


def test_from_a_run_whose_state_another_one_loaded_leads_nothing_to_that_one(store: provstore.Store) -> None:
    ends = {name: runs(store.trace(_run(name), down=True)) for name in ("a", "b")}
    assert ends == {"a": {"without", "other"}, "b": {"with", "without", "other"}}
    assert runs(store.trace(ADDRESS, down=True)) == {"with", "without", "other"}


def test_an_address_of_one_run_joins_it_with_who_loaded_it_whatever_the_digests(store: provstore.Store) -> None:
    found = store.trace("s3://bucket/alone", down=True)
    assert (runs(found), found.notes) == ({"next"}, ())


def test_a_path_through_an_address_to_a_run_of_another_state_is_said_to_be_none(store: provstore.Store) -> None:
    right, wrong = (store.trace("s3://bucket/with", to=_run(name)) for name in "ba")
    assert right.nodes
    assert "as the digest of the state tells" in " ".join(wrong.notes)
    assert wrong.nodes == ()


def _run(name: str) -> str:
    return f"https://w3id.org/provstore/id/{name}/0/run"
