"""Where there is something to record: capture directories, and files or folders of dumps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from provstore.sources.capture_directory import is_capture


@dataclass(slots=True)
class Places:
    """What was given, sorted."""

    captures: list[Path] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is not looked at, and why."""

    @property
    def are_several(self) -> bool:
        """Whether there is more than one."""
        return len(self.captures) + len(self.dumps) > 1


def places(paths: Sequence[Path], *, recursive: bool) -> Places:
    """Return what is there to record.

    Args:
        paths: Files and folders that exist.
        recursive: Look for capture directories in the folders below too; a folder without any is one of dumps.
    """
    found = Places()
    for path in paths:
        below = _captures_below(path) if recursive and path.is_dir() and not is_capture(path) else []
        if is_capture(path):
            found.captures.append(path)
        elif below:
            found.captures += below
            found.notes.append(f"{path}: its capture directories are recorded; dumps there are not: give their folder")
        else:
            found.dumps.append(path)
    return found


def _captures_below(folder: Path) -> list[Path]:
    found = []
    for place, names, _ in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        if is_capture(Path(place)):
            found.append(Path(place))
            names.clear()
    return found
