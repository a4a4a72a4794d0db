"""What was given: files read, sorted by run and attempt, and what contradicts itself among them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from provstore.errors import ConfigError
from provstore.graph.merge import Contradiction, merge
from provstore.model.dump import Dump, Refusal, Sidecar, TensorRecord
from provstore.sources.flight_recorder import ReadOptions, ReadResult, read_dumps

Progress = Callable[[int, int, str], None]
Scope = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Request:
    """What to take in, and under which name."""

    paths: Sequence[Path]
    run: str | None = None
    """Else the sidecar's, else the base name of the folder."""
    attempt: int | None = None
    """Else the sidecar's, else 0."""
    options: ReadOptions = field(default_factory=ReadOptions)
    keep_source: bool = True
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Refuse names that could not be read back, before anything is journalled."""
        if self.run is not None and not (isinstance(self.run, str) and self.run):
            raise ConfigError(f"{self.run!r}: run: not a name; a run is a text that is not empty")
        known = self.attempt
        if known is not None and (isinstance(known, bool) or not isinstance(known, int) or not 0 <= known < 2**31):
            raise ConfigError(f"{known!r}: attempt: not a number from 0 to {2**31 - 1}")


@dataclass(slots=True)
class Given:
    """What one attempt of one run left behind."""

    dumps: list[Dump] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    tensors: list[TensorRecord] = field(default_factory=list)
    tensor_files: list[Path] = field(default_factory=list)

    @property
    def is_readable(self) -> bool:
        """Whether something of it can be read."""
        return bool(self.dumps or self.tensor_files)

    @property
    def is_of_a_run(self) -> bool:
        """Whether something is evidence of a run: also a dump of a known rank that cannot be read."""
        return self.is_readable or any(one.rank is not None for one in self.refusals)


@dataclass(slots=True)
class Gathered:
    """Everything below the given paths."""

    scopes: dict[Scope, Given] = field(default_factory=dict)
    strays: list[Refusal] = field(default_factory=list)
    run_from: str = "--run"
    """What named the run: ``--run``, ``sidecar`` or ``folder``."""


def gather(request: Request) -> Gathered:
    """Return what the dumps below ``request.paths`` hold, by run and attempt.

    Raises:
        InputError: Nothing to read there.
    """
    gathered = Gathered(run_from="--run" if request.run is not None else "sidecar")
    places = _places(request.paths)
    for place in places:
        found = read_dumps(place, request.options, _reading(request.progress))
        if request.run is None and any(dump.sidecar is None or dump.sidecar.run is None for dump in found.dumps):
            gathered.run_from = "folder"
        _sort(found, request, gathered.scopes)
        strays = [refusal for refusal in found.refusals if refusal.skipped]
        gathered.strays += strays if len(places) == 1 else [_with_folder(stray, place[0]) for stray in strays]
    return gathered


def _with_folder(stray: Refusal, given: Path) -> Refusal:
    """Return a file that is not read under the name of its folder, as several folders were given."""
    folder = given if given.is_dir() else given.parent
    return replace(stray, file=f"{os.fsencode(folder).decode('utf-8', 'replace')}/{stray.file}")


def contradicted(dump: Dump, found: Contradiction) -> Refusal:
    """Return the refusal of a dump that contradicts another one."""
    reason = (
        f"rank {dump.rank}: {found.first.file} and {found.second.file} contradict each other: {found.reason}; "
        "if the process was restarted, give them apart with --attempt; if they are of two runs, with --run"
    )
    return Refusal(dump.file, reason, dump.digest, dump.size_bytes, dump.rank, dump.path)


def consistent(dumps: Sequence[Dump]) -> tuple[list[Dump], list[tuple[Refusal, Dump]]]:
    """Return the dumps that belong together, and all those that contradict another one, with the reason."""
    found = {id(side): c for c in merge(dumps).contradictions for side in (c.first, c.second)}
    refused = [(contradicted(dump, found[id(dump)]), dump) for dump in dumps if id(dump) in found]
    return [dump for dump in dumps if id(dump) not in found], refused


def _places(paths: Sequence[Path]) -> list[list[Path]]:
    """Return the folders one by one, and loose files together by their folder."""
    loose: dict[Path, list[Path]] = {}
    places = []
    for path in paths:
        if path.is_dir():
            places.append([path])
        else:
            loose.setdefault(path.parent, []).append(path)
    return [*places, *loose.values()]


def _reading(progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(done, total, "reading")


def _sort(found: ReadResult, request: Request, scopes: dict[Scope, Given]) -> None:
    seen: dict[Scope, None] = {}
    for dump in found.dumps:
        scope = _scope(dump.sidecar, request, found.name)
        seen[scope] = None
        scopes.setdefault(scope, Given()).dumps.append(dump)
    home = next(iter(seen)) if len(seen) == 1 else (request.run or found.name, request.attempt or 0)
    refusals = [refusal for refusal in found.refusals if not refusal.skipped]
    if refusals or found.tensors:
        scopes.setdefault(home, Given()).refusals.extend(refusals)
        scopes[home].tensors.extend(found.tensors)
        scopes[home].tensor_files.extend(found.tensor_files)


def _scope(sidecar: Sidecar | None, request: Request, name: str) -> Scope:
    run = request.run or (sidecar.run if sidecar and sidecar.run else name)
    stated = sidecar.attempt if sidecar and sidecar.attempt is not None else 0
    return run, request.attempt if request.attempt is not None else stated
