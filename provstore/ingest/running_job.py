"""What a capture directory says of a job: whether it has ended, and whether it has a rank, group or host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from provstore.errors import InputError
from provstore.model.ids import rank_set
from provstore.sources import capture_directory

_TAIL_BYTES = 1 << 16
_GROUP = b'"t":"group"'
_SHOWN = 10


def why_without_effect(directory: Path, scope: str) -> str | None:
    """Return why an order for a scope can take no effect; ``None`` when it can, or when the files do not tell.

    A job is known to have ended when every rank of its world wrote ``end``, and a rank, group or host to be unknown
    when every rank wrote its header and none names it.
    """
    newest = _newest(directory)
    headers = {rank: header for rank, path in newest.items() if (header := _header(path)) is not None}
    world = max((size for one in headers.values() if type(size := one.get("world_size")) is int), default=0)
    kind, _, name = scope.partition(":")
    if kind == "rank" and world and int(name) >= world:
        return f"there is no rank {int(name)}: the job has ranks {rank_set(range(world))}"
    if not world or set(headers) != set(range(world)):
        return None
    if all(_has_ended(newest[rank]) for rank in headers):
        return "the job has ended: every rank wrote its end, so none will read an order"
    if kind == "host":
        hosts = {host for one in headers.values() if isinstance(host := one.get("host"), str)}
        return None if name in hosts else f"there is no host {name}: the ranks are on {_listed(hosts)}"
    if kind == "group":
        known = {alias for path in newest.values() for said in _groups(path) for alias in _aliases(said)}
        return None if name in known else f"no rank has told of a group {name} so far: known are {_listed(known)}"
    return None


def _newest(directory: Path) -> dict[int, Path]:
    """Return the file of each rank's latest process."""
    found: dict[int, tuple[int, Path]] = {}
    for path in directory.glob("capture-rank*.jsonl"):
        place = capture_directory.rank_and_restart(path.name)
        if place is not None:
            rank, restart = place
            found[rank] = max(found.get(rank, (-1, path)), (restart, path))
    return {rank: path for rank, (_, path) in found.items()}


def _header(path: Path) -> Mapping[str, Any] | None:
    with contextlib.suppress(OSError, InputError), path.open("rb") as file:
        said = capture_directory.parse(file.readline(capture_directory.MAX_LINE_BYTES).rstrip(b"\n"))
        return said if said.get("t") == "header" else None
    return None


def _has_ended(path: Path) -> bool:
    with contextlib.suppress(OSError, InputError), path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        *_, last = file.read().rstrip(b"\n").split(b"\n")
        return capture_directory.parse(last).get("t") == "end"
    return False


def _groups(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield what the header and the later lines of a file say of process groups."""
    stated = (_header(path) or {}).get("groups")
    yield from (one for one in (stated if isinstance(stated, list) else ()) if isinstance(one, dict))
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line, _ in capture_directory.whole_lines(file, path.name):
            if _GROUP in line:
                with contextlib.suppress(InputError):
                    yield capture_directory.parse(line)


def _aliases(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that an order may call a group by."""
    for member in ("name", "desc", "group"):
        if isinstance(name := said.get(member), str) and name:
            yield name


def _listed(names: set[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{', '.join(shown[:_SHOWN])}{more}" or "none"
