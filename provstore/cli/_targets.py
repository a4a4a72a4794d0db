"""What a target on the command line names: a run of the store, or files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from provstore import config
from provstore.cli._options import Globals
from provstore.errors import ConfigError, InputError, StoreError

RUN = "run:"
"""What stands before it is always the name of a run."""


def run_of(text: str | None) -> str | None:
    """Return the run that ``RUN`` or ``run:RUN`` names."""
    return None if text is None else text.removeprefix(RUN)


def runs_and_files(settings: Globals, targets: Sequence[str]) -> tuple[list[str], list[Path]]:
    """Return the runs of the store and the folders and files that the targets name.

    Raises:
        ConfigError: A name fits a run as well as exported files.
        InputError: A path does not exist.
        StoreError: The store cannot tell whether a name is one of its runs.
    """
    runs: list[str] = []
    files: list[Path] = []
    for text in targets:
        if text.startswith(RUN):
            runs.append(text.removeprefix(RUN))
        elif is_spelled_as_path(text):
            files.append(_existing(text))
        elif os.path.lexists(text) and not _is_run(settings, text):
            files.append(Path(text))
        else:
            runs.append(_stored(settings, text))
    return runs, files


def is_spelled_as_path(text: str) -> bool:
    """Return whether a text can only mean a path: it holds a separator, or begins with a dot or tilde."""
    separators = {"/", os.sep, os.altsep or os.sep}
    return text.startswith((".", "~")) or any(one in text for one in separators)


def _stored(settings: Globals, name: str) -> str:
    """Return a name that can only be a run; a mistyped path is not answered with a missing store."""
    from provstore.api.verifying_files import has_no_store

    if has_no_store(name, settings.store, settings.journal):
        place = config.journal_directory(config.store_uri(settings.store), settings.journal)
        raise InputError(f"{name}: no such folder or file, and no store whose run it could be (no journal in {place})")
    return name


def _existing(text: str) -> Path:
    path = Path(text) if os.path.lexists(text) else Path(text).expanduser()
    if not path.exists():
        raise InputError(f"{text}: no such folder or file", hint=f"a run of the store is spelled {RUN}NAME")
    return path


def _is_run(settings: Globals, name: str) -> bool:
    """Return whether a name that is also a file or folder here means a run of the store.

    Whoever can put something beside the one who verifies must not divert what a name means.
    """
    from provstore.api.verifying_files import holds_evidence, names_a_run

    try:
        is_run = names_a_run(name, settings.store, settings.journal)
    except StoreError as error:
        hint = f"./{name} is the path, {RUN}{name} the run"
        raise StoreError(f"{name}: whether it is a run cannot be told: {error}", hint=hint) from error
    if is_run and holds_evidence(Path(name)):
        text = f"{name}: a run of the store has this name, and exported evidence here as well"
        raise ConfigError(text, hint=f"{RUN}{name} is the run, ./{name} the path")
    return is_run
