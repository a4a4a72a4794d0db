"""Any single bit of any file of a journal may change: it is found, or it changes nothing."""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path

import pytest
from journal_fakes import exact, large, small

from provstore.errors import ProvstoreError
from provstore.journal import Journal, Origin, block_lines, writer

_SEED = 20_260_101
_FLIPS = 400


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with sealed segments, an active one, and both kinds of blobs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "ROLL_BYTES", 2_000)
        patch.setattr(block_lines, "MAX_FACTS", 12)
        directory = tmp_path_factory.mktemp("flips")
        source = directory / "rank0.pkl"
        source.write_bytes(random.Random(1).randbytes(500))
        origin = Origin(hashlib.sha256(source.read_bytes()).hexdigest(), 500, "flight_recorder", "1", source)
        with Journal.open(directory / "journal", writable=True) as journal:
            for at in range(7):
                journal.append(large(at, 12) if at == 3 else small(at), origin if at == 2 else None)
    (directory / "journal" / "reserve").unlink()
    return directory / "journal"


def _read(directory: Path) -> dict[int, object]:
    with Journal.open(directory, writable=False) as journal:
        return {jseq: exact(block) for jseq, block in journal.blocks(on_problem=lambda problem: None)}


def _is_found(directory: Path) -> bool:
    try:
        with Journal.open(directory, writable=False) as journal:
            return bool(journal.check())
    except ProvstoreError:
        return True


def test_every_sampled_bit_flip_is_found_or_harmless_and_never_yields_a_changed_fact(
    sound: Path, tmp_path: Path
) -> None:
    expected = _read(sound)
    assert len(expected) == 7
    chance = random.Random(_SEED)
    paths = [path for path in sorted(sound.rglob("*")) if path.is_file() and path.stat().st_size]
    copy = tmp_path / "journal"
    shutil.copytree(sound, copy)
    for _ in range(_FLIPS):
        path = copy / chance.choice(paths).relative_to(sound)
        whole = path.read_bytes()
        bit = chance.randrange(len(whole) * 8)
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        place = (path.name, bit, _SEED)
        found = _is_found(copy)
        try:
            read = _read(copy)
        except ProvstoreError:
            read = {}
        assert read.items() <= expected.items(), place
        assert found or (read == expected and path.name == "lock"), place
        path.write_bytes(whole)
    assert _read(copy) == expected


def test_one_flipped_bit_costs_at_most_one_batch(sound: Path, tmp_path: Path) -> None:
    expected = _read(sound)
    chance = random.Random(_SEED + 1)
    segments = sorted(sound.glob("seg-*"))
    copy = tmp_path / "journal"
    shutil.copytree(sound, copy)
    for _ in range(60):
        path = copy / chance.choice(segments).name
        whole = path.read_bytes()
        at = chance.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        assert len(_read(copy)) >= len(expected) - 1, (path.name, at)
        path.write_bytes(whole)


def test_a_writer_opens_every_flipped_journal_and_takes_new_batches(sound: Path, tmp_path: Path) -> None:
    expected = _read(sound)
    chance = random.Random(_SEED + 2)
    names = [path.relative_to(sound) for path in sorted(sound.rglob("*")) if path.is_file() and path.stat().st_size]
    for turn in range(60):
        copy = tmp_path / str(turn)
        shutil.copytree(sound, copy)
        path = copy / chance.choice(names)
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        with Journal.open(copy, writable=True) as journal:
            number = journal.append(small(50))
        after = _read(copy)
        assert after.pop(number) == exact(small(50)), (path.name, at)
        assert after.items() <= expected.items(), (path.name, at)
        assert len(after) >= len(expected) - 1, (path.name, at)
