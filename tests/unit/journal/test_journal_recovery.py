"""What is found at open, and what is done about it: trust.md section 8, row by row."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from journal_fakes import large, number, small

from provstore.errors import StoreError
from provstore.journal import Journal, Problem, disk, writer


def _journal(directory: Path, count: int = 4, first: int = 0) -> list[int]:
    with Journal.open(directory, writable=True) as journal:
        return [journal.append(small(at)) for at in range(first, first + count)]


def _numbers(directory: Path, after: int = 0) -> tuple[list[int], list[Problem]]:
    lost: list[Problem] = []
    with Journal.open(directory, writable=False) as journal:
        return [number(block) for _, block in journal.blocks(after, lost.append)], lost


def _codes(directory: Path) -> list[str]:
    with Journal.open(directory, writable=False) as journal:
        return [problem.code for problem in journal.check()]


def _segment(directory: Path, at: int = 1) -> Path:
    (path,) = directory.glob(f"seg-{at:08d}*.pvj")
    return path


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def _offset(path: Path, at: int) -> int:
    """Return an offset inside the frame of ``small(at)``."""
    return path.read_bytes().index(f"/{at}/0/in".encode())


_TAILS = {
    "cut head": lambda frame: frame[:9],
    "cut payload": lambda frame: frame[:-40],
    "cut checksum": lambda frame: frame[:-1],
    "zeros": lambda frame: bytes(5000),
    "zeros after a head": lambda frame: frame[:20] + bytes(200),
    "bad checksum": lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]),
    "noise": lambda frame: b"\xff" * 300,
}


@pytest.mark.parametrize("tail", _TAILS)
def test_a_torn_tail_is_set_aside_and_cut_off_and_the_journal_says_so(tmp_path: Path, tail: str) -> None:
    numbers = _journal(tmp_path)
    path = _segment(tmp_path)
    whole = path.read_bytes()
    _journal(tmp_path, 1, first=9)
    bad = _TAILS[tail](path.read_bytes()[len(whole) :])
    path.write_bytes(whole + bad)

    assert _numbers(tmp_path)[0] == [0, 1, 2, 3]
    with Journal.open(tmp_path, writable=False) as journal:
        (problem,) = journal.check()
        assert (problem.code, problem.offset, problem.is_loss) == ("journal-torn-tail", len(whole), False)
        assert str(len(bad)) in str(problem)
    assert path.read_bytes() == whole + bad

    with Journal.open(tmp_path, writable=True) as journal:
        assert [problem.code for problem in journal.problems] == ["journal-torn-tail"]
        assert journal.append(small(4)) == numbers[-1] + 2
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert kept.read_bytes() == bad
    assert path.read_bytes().startswith(whole)
    event = path.read_bytes()[len(whole) :]
    assert b'"cause":"unfinished frame"' in event
    assert f'"bytes":{len(bad)}'.encode() in event
    assert _numbers(tmp_path)[0] == [0, 1, 2, 3, 4]
    assert _codes(tmp_path) == []


def test_damage_in_the_middle_is_named_and_never_cut_and_writing_goes_on_in_a_new_segment(tmp_path: Path) -> None:
    numbers = _journal(tmp_path)
    path = _segment(tmp_path)
    start = path.read_bytes().rindex(b'{"attempt"', 0, _offset(path, 1)) - 13
    _flip(path, _offset(path, 1))
    damaged = path.read_bytes()

    with Journal.open(tmp_path, writable=True) as journal:
        (problem,) = journal.problems
        assert (problem.code, problem.is_loss) == ("journal-damaged", True)
        assert (problem.first_jseq, problem.last_jseq) == (numbers[1], numbers[1])
        assert problem.place.startswith("seg-00000001")
        assert problem.offset == start
        journal.append(small(4))
    assert _segment(tmp_path, 1).read_bytes() == damaged
    assert b'"cause":"damage"' in _segment(tmp_path, 2).read_bytes()
    found, lost = _numbers(tmp_path)
    assert found == [0, 2, 3, 4]
    assert [(problem.code, problem.first_jseq) for problem in lost] == [("journal-damaged", numbers[1])]
    for _ in range(2):
        with Journal.open(tmp_path, writable=True) as journal:
            assert [problem.code for problem in journal.problems] == ["journal-damaged"]
    assert len(list(tmp_path.glob("seg-*"))) == 2
    assert _codes(tmp_path) == ["journal-damaged"]


def test_reading_over_a_gap_is_an_error_unless_the_reader_asks_to_be_told(tmp_path: Path) -> None:
    numbers = _journal(tmp_path)
    _flip(_segment(tmp_path), _offset(_segment(tmp_path), 1))
    with Journal.open(tmp_path, writable=False) as journal:
        with pytest.raises(StoreError, match=rf"seg-00000001\.pvj: .*numbers {numbers[1]} to {numbers[1]} are missing"):
            list(journal.blocks())
        assert [number(block) for _, block in journal.blocks(after=numbers[1])] == [2, 3]


def test_several_damaged_places_are_each_named(tmp_path: Path) -> None:
    numbers = _journal(tmp_path, 9)
    path = _segment(tmp_path)
    for at in (1, 4, 5):
        _flip(path, _offset(path, at))
    found, lost = _numbers(tmp_path)
    assert found == [0, 2, 3, 6, 7, 8]
    assert [(problem.first_jseq, problem.last_jseq) for problem in lost] == [
        (numbers[1], numbers[1]),
        (numbers[4], numbers[5]),
    ]


def test_a_length_that_lies_is_damage_and_not_an_allocation(tmp_path: Path) -> None:
    _journal(tmp_path)
    path = _segment(tmp_path)
    data = bytearray(path.read_bytes())
    start = data.rindex(b'{"attempt"', 0, _offset(path, 1)) - 13
    data[start : start + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert _numbers(tmp_path)[0] == [0, 2, 3]


@pytest.mark.parametrize("offset", [3, 30])
def test_a_damaged_head_of_a_segment_hides_no_batch(tmp_path: Path, offset: int) -> None:
    """The magic, or the header frame; the journal's id is also in journal.json."""
    _journal(tmp_path)
    _flip(_segment(tmp_path), offset)
    assert _numbers(tmp_path)[0] == [0, 1, 2, 3]
    with Journal.open(tmp_path, writable=True) as journal:
        assert [problem.code for problem in journal.problems] == ["journal-damaged"]
        journal.append(small(4))
    assert _numbers(tmp_path)[0] == [0, 1, 2, 3, 4]


def test_a_lost_marker_is_made_again_from_the_segments(tmp_path: Path) -> None:
    _journal(tmp_path)
    with Journal.open(tmp_path, writable=False) as journal:
        name = journal.journal_id
    for content in (None, b"", b"{}\n", b'{"store":"other"}\n'):
        (tmp_path / "journal.json").unlink()
        if content is not None:
            (tmp_path / "journal.json").write_bytes(content)
        assert _codes(tmp_path) == ["journal-marker-wrong"]
        with Journal.open(tmp_path, writable=True) as journal:
            assert journal.journal_id == name
        assert _codes(tmp_path) == []


def _rolled(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(writer, "ROLL_BYTES", 4_000)
    _journal(directory, 24)
    found = sorted(directory.glob("seg-*"))
    assert len(found) > 3
    return found


def test_a_missing_segment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _rolled(tmp_path, monkeypatch)
    files[1].unlink()
    with Journal.open(tmp_path, writable=True) as journal:
        assert {problem.code for problem in journal.problems} == {"journal-chain-broken"}
        assert any("segment 2 is missing" in problem.text for problem in journal.problems)
        journal.append(small(99))
    found, lost = _numbers(tmp_path)
    assert found[-1] == 99
    assert len(found) < 25
    assert len(lost) == 1


def test_a_segment_exchanged_for_another_one_with_sound_checksums_breaks_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checksums find accidents; the chain finds an exchange."""
    monkeypatch.setattr(writer, "ROLL_BYTES", 2_000)
    _journal(tmp_path / "a", 2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    _journal(tmp_path / "a", 6, first=10)
    _journal(tmp_path / "b", 6, first=20)
    old, new = _segment(tmp_path / "a", 2), _segment(tmp_path / "b", 2)
    assert old.name != new.name
    old.unlink()
    shutil.copy(new, tmp_path / "a" / new.name)
    assert "journal-chain-broken" in _codes(tmp_path / "a")


def test_a_cut_sealed_segment_is_damage_with_the_missing_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _rolled(tmp_path, monkeypatch)
    half = files[0].read_bytes()[: _offset(files[0], 1)]
    files[0].write_bytes(half)
    found, lost = _numbers(tmp_path)
    assert found[0] == 0
    assert 1 not in found
    assert lost[0].first_jseq == 3
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(99))
    assert files[0].read_bytes() == half
    assert not list((tmp_path / "quarantine").iterdir())


def test_a_crash_between_sealing_and_renaming_is_finished_at_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _rolled(tmp_path, monkeypatch)
    files[-1].unlink()
    for path in files[:-1]:
        path.rename(tmp_path / f"{path.name[:12]}.pvj")
    assert _codes(tmp_path) == []
    with Journal.open(tmp_path, writable=True) as journal:
        assert journal.problems == ()
        journal.append(small(99))
    assert sorted(path.name for path in tmp_path.glob("seg-*"))[:-1] == [path.name for path in files[:-1]]
    assert _codes(tmp_path) == []


def test_stray_temporary_files_are_removed_by_the_next_writer(tmp_path: Path) -> None:
    _journal(tmp_path)
    stray = tmp_path / "tmp" / "x.parquet"
    stray.write_bytes(b"half")
    assert _numbers(tmp_path)[0] == [0, 1, 2, 3]
    assert stray.exists()
    _journal(tmp_path, 1, first=4)
    assert not stray.exists()


def test_a_missing_or_altered_payload_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        numbers = [journal.append(large(at)) for at in range(4)]
    paths = list(tmp_path.glob("blobs/*/*"))
    by_number = {}
    with Journal.open(tmp_path, writable=False) as journal:
        for path in paths:
            whole = path.read_bytes()
            path.unlink()
            lost: list[Problem] = []
            kept = [number(block) for _, block in journal.blocks(on_problem=lost.append)]
            (gone,) = set(range(4)) - set(kept)
            by_number[gone] = path
            assert [(problem.code, problem.first_jseq) for problem in lost] == [("payload-missing", numbers[gone])]
            path.write_bytes(whole)
    by_number[1].unlink()
    _flip(by_number[2], 100)
    found, lost = _numbers(tmp_path)
    assert found == [0, 3]
    assert [problem.code for problem in lost] == ["payload-missing", "payload-wrong"]
    with Journal.open(tmp_path, writable=False) as journal, pytest.raises(StoreError, match="payload missing"):
        list(journal.blocks())
    assert sorted(_codes(tmp_path)) == ["payload-missing", "payload-wrong"]


def test_an_unknown_frame_is_kept_and_reported(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
        assert journal._output is not None
        journal._output.append(42, b'{"from":"a later version"}')
        journal.append(small(1))
    assert _numbers(tmp_path)[0] == [0, 1]
    assert _codes(tmp_path) == ["journal-unknown-frame"]


def test_a_batch_of_a_later_version_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
        assert journal._output is not None
        later = journal._output.append(2, b'{"kind":"batch","schema":2}')
        journal.append(small(1))
    with Journal.open(tmp_path, writable=True) as journal:
        lost: list[Problem] = []
        assert [number(block) for _, block in journal.blocks(on_problem=lost.append)] == [0, 1]
        assert [problem.first_jseq for problem in lost] == [later.jseq]
        with pytest.raises(StoreError, match=f"batch {later.jseq} is not understood"):
            list(journal.blocks())
    assert _codes(tmp_path) == ["journal-damaged"]


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    _journal(tmp_path)
    path = _segment(tmp_path)
    path.write_bytes(path.read_bytes() + b"torn")
    (tmp_path / "tmp" / "x").write_bytes(b"")

    def state() -> dict[str, tuple[bytes, int]]:
        return {
            str(found): (found.read_bytes(), found.stat().st_mtime_ns)
            for found in tmp_path.rglob("*")
            if found.is_file()
        }

    before = state()
    with Journal.open(tmp_path, writable=False) as journal:
        journal.check()
        list(journal.blocks())
    assert state() == before


class _FullDisk(disk.Disk):
    """A disk on which nothing fits while ``is_full``."""

    is_full = False

    def write_once(self, descriptor: int, data: memoryview, offset: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write_once(descriptor, data, offset)


@pytest.mark.parametrize("block", [small(1), large(1)], ids=["small", "large"])
def test_a_full_disk_is_named_loses_nothing_and_writing_goes_on_when_there_is_room(
    tmp_path: Path, block: object
) -> None:
    full = _FullDisk()
    with Journal.open(tmp_path, writable=True, disk=full) as journal:
        journal.append(small(0))
        full.is_full = True
        for _ in range(2):
            with pytest.raises(StoreError, match="disk full") as caught:
                journal.append(block)  # type: ignore[arg-type]
            assert caught.value.exit_code == 7
        assert [number(found) for _, found in journal.blocks()] == [0]
        full.is_full = False
        journal.append(block)  # type: ignore[arg-type]
    assert _numbers(tmp_path)[0] == [0, 1]
    assert _codes(tmp_path) == []


def test_the_reserve_lets_a_full_disk_note_what_it_refused(tmp_path: Path) -> None:
    class Reserved(disk.Disk):
        """Full as long as the reserve is held."""

        is_full = False

        def write_once(self, descriptor: int, data: memoryview, offset: int) -> int:
            if self.is_full and (tmp_path / "reserve").exists():
                raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
            return super().write_once(descriptor, data, offset)

    full = Reserved()
    with Journal.open(tmp_path, writable=True, disk=full) as journal:
        assert (tmp_path / "reserve").stat().st_size == 1 << 20
        journal.append(small(0))
        full.is_full = True
        with pytest.raises(StoreError, match="disk full"):
            journal.append(small(1))
    assert b'"cause":"disk full"' in _segment(tmp_path).read_bytes()
    with Journal.open(tmp_path, writable=True) as journal:
        assert (tmp_path / "reserve").exists()
        assert journal.check() == []


class _BadSync(disk.Disk):
    """A disk whose next ``left`` syncs fail; remembers the file whose sync failed."""

    left = 0
    failed: int | None = None

    def sync(self, descriptor: int) -> None:
        assert os.fstat(descriptor).st_ino != self.failed, "a failed sync was repeated on the same file"
        if self.left:
            self.left -= 1
            self.failed = os.fstat(descriptor).st_ino
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)


def test_after_a_failed_sync_the_segment_is_left_and_the_batch_is_not_acknowledged(tmp_path: Path) -> None:
    bad = _BadSync()
    with Journal.open(tmp_path, writable=True, disk=bad) as journal:
        numbers = [journal.append(small(0))]
        bad.left = 1
        with pytest.raises(StoreError, match="cannot be written: Input/output error"):
            journal.append(small(1))
        assert journal.position == numbers[0]
        numbers.append(journal.append(small(2)))
        numbers.append(journal.append(small(3)))
        assert [number(block) for _, block in journal.blocks()] == [0, 2, 3]
    assert numbers == sorted(set(numbers))
    assert b'"cause":"sync failed' in _segment(tmp_path, 2).read_bytes()
    assert _numbers(tmp_path)[0] == [0, 2, 3]
    assert _codes(tmp_path) == []


def test_bytes_behind_the_last_acknowledged_frame_of_a_left_segment_do_not_count(tmp_path: Path) -> None:
    """The cut after a failed sync may itself be lost; the next header says how far the segment counts."""

    class Stuck(_BadSync):
        def truncate(self, descriptor: int, size_bytes: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    bad = Stuck()
    with Journal.open(tmp_path, writable=True, disk=bad) as journal:
        journal.append(small(0))
        bad.left = 1
        with pytest.raises(StoreError):
            journal.append(small(1))
        journal.append(small(2))
    assert _numbers(tmp_path)[0] == [0, 2]
    assert _codes(tmp_path) == ["journal-unacknowledged-tail"]


def test_an_interrupted_write_closes_the_writer_and_the_next_open_puts_it_right(tmp_path: Path) -> None:
    class Interrupted(disk.Disk):
        is_on = False

        def sync(self, descriptor: int) -> None:
            if self.is_on:
                raise KeyboardInterrupt
            super().sync(descriptor)

    off = Interrupted()
    with Journal.open(tmp_path, writable=True, disk=off) as journal:
        journal.append(small(0))
        off.is_on = True
        with pytest.raises(KeyboardInterrupt):
            journal.append(small(1))
        off.is_on = False
        with pytest.raises(StoreError, match="was interrupted"):
            journal.append(small(2))
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(3))
    assert _numbers(tmp_path)[0] in ([0, 3], [0, 1, 3])
    assert _codes(tmp_path) == []
