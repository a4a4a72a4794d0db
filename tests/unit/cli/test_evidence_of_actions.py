"""evidence show: a recorded action by its id, by that of its node, and by the short forms that traces take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provstore.api.recording import record

SAMPLES = Path(__file__).parents[3] / "provstore" / "samples"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded hang; its rank 2 has a call of number 3 in two groups, and one of number 2 in each."""
    folder = tmp_path_factory.mktemp("store") / "s"
    record([SAMPLES / "hang"], run="hang", epoch=0, store=f"embedded:{folder}")
    record([SAMPLES / "healthy"], run="healthy", epoch=0, store=f"embedded:{folder}")
    return folder


def shown(command: Any, store: Path, target: str, *more: str) -> Any:
    return command("--store", f"embedded:{store}", "evidence", "show", target, *more)


@pytest.mark.parametrize(
    "target",
    [
        "r3:seq8",
        "tensor:3:8:in",
        "tensor:3:8:out",
        "act:3:all_reduce:8",
        "hang/0/action/gloo/0@0-3/8/3",
        "https://w3id.org/provstore/id/hang/0/action/gloo/0@0-3/8/3",
    ],
)
def test_an_action_is_shown_by_each_of_its_names(command: Any, store: Path, target: str) -> None:
    by_id = shown(command, store, "gloo/0@0-3/8/3", "--run", "hang", "--raw")
    assert json.loads(by_id.out)["action_id"] == "gloo/0@0-3/8/3"

    answer = shown(command, store, target, "--run", "hang", "--raw")

    assert (answer.code, answer.out) == (0, by_id.out)


def test_a_short_form_that_names_several_actions_lists_their_ids(command: Any, store: Path) -> None:
    answer = shown(command, store, "r2:seq3", "--run", "hang")

    assert answer.code == 2
    assert "2 fit: gloo/0@0-3/3/2 (record:hang:" in answer.err
    assert "gloo/2@2-3/3/2 (record:hang:" in answer.err


@pytest.mark.parametrize(
    "target", ["r2:seq8", "r0:seq99", "act:3:broadcast:8", "hang/1/action/gloo/0@0-3/8/3", "p2p:0:7"]
)
def test_a_name_of_no_recorded_action_says_so(command: Any, store: Path, target: str) -> None:
    answer = shown(command, store, target, "--run", "hang")

    assert (answer.code, answer.out) == (2, "")
    assert f"{target}: evidence: neither a bundle nor a record" in answer.err


def test_a_record_of_a_run_whose_name_has_a_slash_is_none_of_an_action(command: Any, tmp_path: Path) -> None:
    record([SAMPLES / "healthy"], run="team/healthy", epoch=0, store=f"embedded:{tmp_path / 's'}")

    answer = shown(command, tmp_path / "s", "record:team/healthy:0", "--raw")

    assert answer.code == 0
    assert json.loads(answer.out)["run"] == "team/healthy"
