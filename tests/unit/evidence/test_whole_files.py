"""A file that is written whole has its mode from the start, and leaves the old content when it cannot be written."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from provstore.evidence import whole_files


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_gets_its_content_and_mode_and_nothing_stays_beside_it(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    whole_files.write(path, b"new", mode)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_content_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("provstore.evidence.whole_files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        whole_files.write(path, b"new", 0o600)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "file"
    target.write_bytes(b"old")
    path.symlink_to(target)
    whole_files.write(path, b"new", 0o600)
    assert (target.read_bytes(), path.read_bytes(), path.is_symlink()) == (b"old", b"new", False)


def test_a_directory_that_cannot_be_flushed_is_no_error(tmp_path: Path) -> None:
    whole_files.flush_directory(tmp_path / "absent")


def test_a_file_that_cannot_take_the_name_leaves_what_is_there_and_nothing_beside_it(tmp_path: Path) -> None:
    whole_files.write(tmp_path / "dump", b"first", None)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        whole_files.write(tmp_path / "folder", b"second", None)
    assert (tmp_path / "dump").read_bytes() == b"first"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dump", "folder"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_without_a_mode_of_its_own_has_what_the_mask_leaves(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        whole_files.write(tmp_path / "file", b"new", None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_new_file_never_takes_the_place_of_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole_files.create(path, b"first", 0o600)
    with pytest.raises(FileExistsError):
        whole_files.create(path, b"second", 0o600)
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_that_cannot_be_written_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("provstore.evidence.whole_files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        whole_files.create(tmp_path / "file", b"new", 0o600)
    assert list(tmp_path.iterdir()) == []
