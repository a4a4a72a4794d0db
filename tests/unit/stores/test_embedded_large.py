"""A graph so large that the engine reads it in place: damage is told at opening, whichever part it is in."""

from __future__ import annotations

import struct
from pathlib import Path

import kglite
import pytest

from provstore.cypher import adhoc
from provstore.errors import StoreError
from provstore.stores import open_store

NODES = 70_000
"""From 65,536 on, numbers and relationships stay in the file and are read from there."""
KNOWN = 0x1122_3344_5566_7788


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A chain of nodes with numbers that follow no order, as digests have; one of them is known."""
    numbers = [(at * 2_654_435_761) % 2**61 for at in range(NODES)]
    numbers[777] = KNOWN
    nodes = [{"iri": f"urn:{at}", "name": "n", "at_ns": number} for at, number in enumerate(numbers)]
    ends = [{"a": f"urn:{at}", "b": f"urn:{(at * 48_271) % NODES}"} for at in range(NODES)]
    graph = kglite.from_records(
        {
            "nodes": [{"type": "Element", "id_field": "iri", "title_field": "name", "records": nodes}],
            "connections": [
                {"type": "USED", "source_type": "Element", "source_id_field": "a", "target_type": "Element",
                 "target_id_field": "b", "records": ends}
            ],
        },
        storage="mapped",
    )  # fmt: skip
    path = tmp_path_factory.mktemp("graph") / "graph.kgl"
    graph.save(str(path))
    return path.read_bytes()


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "store" / "graph.kgl"
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def sections(path: Path) -> dict[str, int]:
    """What the engine reads in place: name and bytes."""
    return {part["name"]: part["bytes"] for part in kglite.load(str(path)).verify_integrity()["sections"]}


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_sound_file_is_opened_for_reading_and_for_writing(file: Path) -> None:
    assert {"col:Element:at_ns:data", "topo:out_edges"} <= sections(file).keys()
    for writable in (False, True):
        store = open_store(f"embedded:{file.parent}", writable=writable)
        [row] = store.run(adhoc("MATCH (n:Element {iri: 'urn:777'}) RETURN n.at_ns AS at"))
        assert row == {"at": KNOWN}
        store.close()


@pytest.mark.parametrize("writable", [False, True])
def test_a_flipped_bit_of_a_number_is_told_at_opening_with_a_way_out(file: Path, writable: bool) -> None:
    flip(file, file.read_bytes().index(struct.pack("<q", KNOWN)))
    before = file.read_bytes()

    with pytest.raises(StoreError, match=r"graph\.kgl: graph file: not readable here: .*at_ns") as refusal:
        open_store(f"embedded:{file.parent}", writable=writable)
    assert "provstore store rebuild" in (refusal.value.hint or "")
    assert file.read_bytes() == before


@pytest.mark.parametrize("writable", [False, True])
def test_a_flipped_bit_anywhere_in_what_is_read_in_place_is_told_at_opening(file: Path, writable: bool) -> None:
    sound = file.read_bytes()
    for place in range(64, len(sound), len(sound) // 24):
        flip(file, place)
        with pytest.raises(StoreError, match="graph file") as refusal:
            open_store(f"embedded:{file.parent}", writable=writable)
        assert "provstore store rebuild" in (refusal.value.hint or "")
        file.write_bytes(sound)


def test_who_was_refused_for_damage_does_not_keep_others_from_writing(file: Path) -> None:
    sound = file.read_bytes()
    flip(file, sound.index(struct.pack("<q", KNOWN)))
    with pytest.raises(StoreError):
        open_store(f"embedded:{file.parent}", writable=True)
    file.write_bytes(sound)

    open_store(f"embedded:{file.parent}", writable=True).close()
