"""Small jobs of ranks that make calls in a row: as they are recorded, and as they are dumped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from provstore.api.recording import record
from provstore.ingest.flow import ingest
from provstore.ingest.given import Request
from provstore.ingest.upkeep import catch_up
from provstore.journal import Journal
from provstore.model.recording_report import RecordReport
from provstore.stores import GraphStore
from tests import fr_files
from tests.captures import RankCapture
from tests.conftest import Place

BASE = "https://w3id.org/provstore/id/job/0/"
WORLD, CALLS = 4, 4
GROUPS = {"0": ("default_pg", range(WORLD))}

Program = Callable[[RankCapture], None]


def captured(folder: Path, program: Program, world: int = WORLD, ranks: range | None = None, **more: Any) -> Path:
    """Each rank's file, its calls numbered from 1 as gloo counts them."""
    for rank in ranks or range(world):
        groups = [group("0", "default_pg", range(world))]
        capture = RankCapture(folder, rank, world, header={"groups": groups, **more}, _seq=1)
        capture.begin(0)
        program(capture)
        capture.end(0)
        capture.write()
    return folder


def group(name: str, desc: str, ranks: range) -> dict[str, Any]:
    key = f"{name}@{ranks[0]}-{ranks[-1]}"
    return {"name": name, "desc": desc, "ranks": list(ranks), "backend": "gloo", "group": key}


def in_a_row(capture: RankCapture) -> None:
    for at in range(CALLS):
        capture.call(0, op_id=at + 1)


def dumped(folder: Path, calls: int = CALLS, start: int = 0) -> Path:
    entries = fr_files.ring(calls, name="gloo:all_reduce", inputs=((2,),), outputs=((2,),))
    for entry in entries:
        object.__setattr__(entry, "created_ns", entry.created_ns + start)
    for rank in range(WORLD):
        fr_files.write_pickle(folder / f"fr_gloo_rank_{rank}", fr_files.table("2.10", entries, GROUPS))
        fr_files.write_sidecar(folder / f"fr_meta_rank_{rank}.json", rank, GROUPS, host="h")
    return folder


def recorded(place: Path, *paths: Path, **more: Any) -> RecordReport:
    return record(paths, journal=place / "journal", store="memory:", **more)


def shown(place: Path, store: GraphStore) -> GraphStore:
    """Bring a graph up to date with its journal, as whoever opens it does."""
    with Journal.open(place / "journal", writable=False) as journal:
        catch_up(store, journal)
    return store


def graph_of(stores: Place, place: Path, *paths: Path, **more: Any) -> GraphStore:
    recorded(place, *paths, **more)
    return shown(place, stores.open())


def taken_in(place: Path, store: GraphStore, folder: Path) -> list[str]:
    """Ingest dumps; return what became of each."""
    with Journal.open(place / "journal", writable=True) as journal:
        return [one.status for one in ingest(Request([folder], "job"), journal, store).files]
