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
