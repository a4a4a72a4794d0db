"""Tells the same evidence in another way: other names, other files, less of it. Works on any folder of dumps."""

from __future__ import annotations

import ast
import copy
import io
import json
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .files import as_json, pickled

_RANK = re.compile(r"(\d+)$")
_SIDECAR = re.compile(r"^(pgs_|fr_meta_rank_)(\d+)\.json$")


class _NoGlobals(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}: a dump needs no global")


@dataclass(frozen=True, slots=True)
class Told:
    """A set of dumps as Python values."""

    dumps: Mapping[str, Any]
    """File name → the document that it pickles."""
    sidecars: Mapping[str, Any] = field(default_factory=dict)
    """Path below the folder → JSON value."""

    def write(self, folder: Path) -> list[Path]:
        """Write everything; return the dump files."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, document in self.dumps.items():
            (folder / name).write_bytes(pickled(document))
        for name, value in self.sidecars.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(value))
        return [folder / name for name in self.dumps]

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a dump."""
        return sorted({rank_of(name) for name in self.dumps})


def tell(folder: Path) -> Told:
    """Read a folder of pickled dumps and the sidecars beside or below them; nothing else in it is looked at."""
    dumps, sidecars = {}, {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and _RANK.search(path.name):
            dumps[path.name] = _NoGlobals(io.BytesIO(path.read_bytes())).load()
    for path in sorted([*folder.glob("*.json"), *folder.glob("json/*.json")]):
        if _SIDECAR.match(path.name):
            sidecars[str(path.relative_to(folder))] = json.loads(path.read_text())
    return Told(dumps, sidecars)


def rank_of(name: str) -> int:
    """Return the rank that a file name ends with."""
    found = _RANK.search(name)
    assert found is not None
    return int(found.group())


def with_ranks(told: Told, new: Mapping[int, int]) -> Told:
    """Give every rank another number, in file names, groups and sidecars; members keep their place in a group."""

    def members(text: str) -> str:
        return str([new[rank] for rank in ast.literal_eval(text)])

    dumps = {}
    for name, document in told.dumps.items():
        made = copy.deepcopy(document)
        for group in made["pg_config"].values():
            group["ranks"] = members(group["ranks"])
        dumps[_RANK.sub(str(new[rank_of(name)]), name)] = made
    sidecars = {}
    for name, value in told.sidecars.items():
        made = copy.deepcopy(value)
        for group in made if isinstance(made, list) else made["process_groups"]:
            group["ranks"] = [new[rank] for rank in group["ranks"]]
        path = Path(name)
        found = _SIDECAR.match(path.name)
        assert found is not None
        rank = new[int(found.group(2))]
        if isinstance(made, dict):
            made["rank"] = rank
        sidecars[str(path.with_name(f"{found.group(1)}{rank}.json"))] = made
    return Told(dumps, sidecars)


def with_groups(told: Told, name_of: Callable[[str], str], desc_of: Callable[[str], str]) -> Told:
    """Give every group another name and another desc; an empty one (gloo's table) stays empty."""
    dumps = {}
    for file, document in told.dumps.items():
        made = copy.deepcopy(document)
        made["pg_config"] = {
            name and name_of(name): {
                **row,
                "name": name and name_of(name),
                "desc": row["desc"] and desc_of(row["desc"]),
            }
            for name, row in made["pg_config"].items()
        }
        for entry in made["entries"]:
            name, desc = entry["process_group"]
            entry["process_group"] = (name_of(name), desc_of(desc))
        dumps[file] = made
    sidecars = {}
    for file, value in told.sidecars.items():
        made = copy.deepcopy(value)
        for group in made if isinstance(made, list) else made["process_groups"]:
            group.update(pg_name=name_of(group["pg_name"]), pg_desc=desc_of(group["pg_desc"]))
        sidecars[file] = made
    return Told(dumps, sidecars)


def with_files(told: Told, name_of: Callable[[int], str]) -> Told:
    """Give every dump another file name, made from its rank."""
    return Told({name_of(rank_of(name)): document for name, document in told.dumps.items()}, told.sidecars)


def _each_entry(told: Told, change: Callable[[int, dict[str, Any]], None]) -> Told:
    dumps = {}
    for name, document in told.dumps.items():
        made = copy.deepcopy(document)
        for entry in made["entries"]:
            change(rank_of(name), entry)
        dumps[name] = made
    return Told(dumps, told.sidecars)


def with_lines(told: Told, shift: int) -> Told:
    """Move all source lines."""
    moved: set[int] = set()

    def change(_rank: int, entry: dict[str, Any]) -> None:
        for frame in entry.get("frames", ()):
            # frames are shared between entries
            if id(frame) not in moved:
                moved.add(id(frame))
                frame["line"] += shift

    # the copies must outlive the loop, or a freed frame's id could come back
    return _each_entry(told, change)


def with_clock(told: Told, rank: int, offset_ns: int) -> Told:
    """Set one rank's clock wrong."""

    def change(of: int, entry: dict[str, Any]) -> None:
        if of == rank:
            for key in ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns"):
                if entry[key]:
                    entry[key] += offset_ns

    shifted = _each_entry(told, change)
    sidecars = {}
    for name, value in told.sidecars.items():
        made = copy.deepcopy(value)
        if isinstance(made, dict) and made.get("rank") == rank and made.get("dumped_at_ns"):
            made["dumped_at_ns"] += offset_ns
        sidecars[name] = made
    return Told(shifted.dumps, sidecars)


def without(told: Told, rank: int) -> Told:
    """Lose one rank's dump and sidecar."""
    dumps = {name: document for name, document in told.dumps.items() if rank_of(name) != rank}
    sidecars = {}
    for name, value in told.sidecars.items():
        found = _SIDECAR.match(Path(name).name)
        if found is not None and int(found.group(2)) != rank:
            sidecars[name] = value
    return Told(dumps, sidecars)


def halved(told: Told, rank: int) -> Told:
    """Tell one rank's dump as two that overlap."""
    dumps = {}
    for name, document in told.dumps.items():
        if rank_of(name) != rank:
            dumps[name] = document
            continue
        entries = document["entries"]
        third = len(entries) // 3
        dumps[name] = {**document, "entries": entries[third:]}
        dumps[f"early_{name}"] = {**document, "entries": entries[: 2 * third]}
    return Told(dumps, told.sidecars)


def wrapped(told: Told, keep: float) -> Told:
    """Lose the oldest entries of every dump."""
    dumps = {}
    for name, document in told.dumps.items():
        entries = document["entries"]
        dumps[name] = {**document, "entries": entries[len(entries) - max(1, int(len(entries) * keep)) :]}
    return Told(dumps, told.sidecars)


def write_as_json(told: Told, folder: Path) -> None:
    """Write every dump as torch's JSON, and the sidecars."""
    Told({}, told.sidecars).write(folder)
    for name, document in told.dumps.items():
        (folder / f"{name}.json").write_text(json.dumps(as_json(document)))
