"""Folders of exported evidence: which of their files agents' readers take, told by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def evidence_files(folder: Path, reader_of: Callable[[Path], str | None], *, recursive: bool) -> dict[Path, str]:
    """Return the files of a folder that hold evidence, each with its reader, in the order of their paths.

    Args:
        folder: Where to look.
        reader_of: Gives the reader that a file is meant for, or ``None``.
        recursive: Look into subfolders too.
    """
    found = {path: reader for path in _files(folder, recursive=recursive) if (reader := reader_of(path)) is not None}
    return dict(sorted(found.items()))


def _files(folder: Path, *, recursive: bool) -> Iterator[Path]:
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if recursive and not name.startswith(".")]
        # What is no file, such as a pipe, would be waited for.
        yield from (path for name in files if (path := Path(place, name)).is_file() and not path.is_symlink())
