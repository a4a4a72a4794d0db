"""What an ingest of several folders did not read is named with its folder."""

from __future__ import annotations

from pathlib import Path

import provstore
from tests.simulator import Scenario, Shape3D, simulate


def dumps(folder: Path) -> Path:
    simulate(Scenario("ddp", Shape3D(world=2, steps=1), ())).write(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "log").mkdir()
    (folder / "log" / "out.txt").write_text("mine")
    return folder


def skipped(*given: Path) -> list[str]:
    with provstore.open("memory:") as store:
        return sorted(file.file for file in store.ingest(*given).files if file.status == "skipped")


def test_of_several_folders_each_skipped_file_names_its_folder(tmp_path: Path) -> None:
    one, two = dumps(tmp_path / "one"), dumps(tmp_path / "deep" / "one")
    assert skipped(one, two) == sorted(f"{folder}/{name}" for folder in (one, two) for name in ("log/", "notes.txt"))


def test_of_one_folder_a_skipped_file_has_its_own_name(tmp_path: Path) -> None:
    assert skipped(dumps(tmp_path / "one")) == ["log/", "notes.txt"]


def test_a_folder_beside_a_file_is_named(tmp_path: Path) -> None:
    one, two = dumps(tmp_path / "one"), dumps(tmp_path / "two")
    first = min(path for path in two.iterdir() if path.is_file() and path.name != "notes.txt")
    assert skipped(one, first) == [f"{one}/log/", f"{one}/notes.txt"]
