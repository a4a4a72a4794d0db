"""What a journal promises while nothing goes wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from journal_fakes import exact, large, number, small

from provstore.errors import InputError, NotUnderstoodError, StoreError
from provstore.journal import Journal, Origin, writer
from provstore.model.block import Block, Nodes, Relations


def _origin(path: Path, *, keep_source: bool = True) -> Origin:
    data = path.read_bytes()
    return Origin(hashlib.sha256(data).hexdigest(), len(data), "flight_recorder", "1", path, keep_source)


def _blob_names(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("blobs/*/*")}


def test_what_is_appended_is_read_back_in_order_by_the_next_process(tmp_path: Path) -> None:
    blocks = [small(0), large(1), small(2)]
    with Journal.open(tmp_path / "a" / "journal", writable=True) as journal:
        numbers = [journal.append(block) for block in blocks]
        assert journal.position == numbers[-1]
    with Journal.open(tmp_path / "a" / "journal", writable=False) as journal:
        assert [(jseq, exact(block)) for jseq, block in journal.blocks()] == list(zip(numbers, map(exact, blocks)))
        assert journal.position == numbers[-1]
        assert journal.check() == []


def test_numbers_rise_and_blocks_after_one_are_those_above_it(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        numbers = [journal.append(small(at)) for at in range(4)]
        assert numbers == sorted(set(numbers))
        assert [number(block) for _, block in journal.blocks(after=numbers[1])] == [2, 3]
        assert list(journal.blocks(after=numbers[3])) == []


def test_a_journal_keeps_its_id_and_an_empty_one_has_position_0(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        name = journal.journal_id
        assert journal.position == 0
    with Journal.open(tmp_path, writable=False) as journal:
        assert (journal.journal_id, journal.position, journal.check()) == (name, 0, [])
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
        assert journal.journal_id == name


def test_reading_where_there_is_no_journal_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is none yet"):
        Journal.open(tmp_path, writable=False)
    with pytest.raises(StoreError, match="cannot be read"):
        Journal.open(tmp_path / "absent", writable=False)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be written"):
        Journal.open(tmp_path / "file", writable=True)


def test_frames_are_laid_out_as_the_format_says(tmp_path: Path) -> None:
    """Trust 8: u32 length | u8 type | u64 jseq | payload | u32 crc32(length..payload), magic PVJRNL1."""
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
        name = journal.journal_id
    data = (tmp_path / "seg-00000001.pvj").read_bytes()
    assert data[:8] == b"PVJRNL1\n"
    offset, seen = 8, []
    while offset < len(data):
        length, kind, jseq = struct.unpack_from("<IBQ", data, offset)
        (crc,) = struct.unpack_from("<I", data, offset + 13 + length)
        assert crc == zlib.crc32(data[offset : offset + 13 + length], zlib.crc32(f"{name}/1".encode()))
        payload = data[offset + 13 : offset + 13 + length]
        assert b"\0" not in payload
        seen.append((kind, jseq, payload))
        offset += length + 17
    assert [(kind, jseq) for kind, jseq, _ in seen] == [(1, 1), (2, 2)]
    header = json.loads(seen[0][2])
    assert (header["format"], header["store"], header["segment"], header["prev"]) == (1, name, 1, "0" * 64)
    assert header["idScheme"] == 1
    lines = [json.loads(line) for line in seen[1][2].split(b"\n")]
    assert (lines[0]["run"], lines[0]["attempt"], lines[0]["rows"], lines[0]["source"]) == ("run", 0, 3, None)
    assert lines[1]["labels"] == ["Element", "Entity", "Call"]


def test_segments_roll_by_size_and_each_names_the_digest_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROLL_BYTES", 2_000)
    with Journal.open(tmp_path, writable=True) as journal:
        for at in range(12):
            journal.append(small(at))
    files = sorted(tmp_path.glob("seg-*.pvj"))
    assert len(files) > 3
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    assert [path.name for path in files[:-1]] == [
        f"seg-{at:08d}-{digest[:16]}.pvj" for at, digest in enumerate(digests[:-1], 1)
    ]
    for path, prev in zip(files, ["0" * 64, *digests]):
        assert f'"prev":"{prev}"'.encode() in path.read_bytes()
        assert path.stat().st_size < 2_300
    with Journal.open(tmp_path, writable=False) as journal:
        assert [number(block) for _, block in journal.blocks()] == list(range(12))
        assert journal.check() == []


def test_a_segment_an_hour_old_is_sealed_before_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
    monkeypatch.setattr(writer, "ROLL_MS", 0)
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(1))
        assert [number(block) for _, block in journal.blocks()] == [0, 1]
    assert len(list(tmp_path.glob("seg-*.pvj"))) == 2


def test_source_bytes_are_kept_under_their_own_digest_and_come_back(tmp_path: Path) -> None:
    source = tmp_path / "rank3.pkl"
    source.write_bytes(b"dump" * 3_000_000 + b"\0end")
    origin = _origin(source)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        journal.append(small(0), origin)
        source.unlink()
        assert hashlib.sha256(journal.source(origin.sha256)).hexdigest() == origin.sha256
        assert journal.check() == []
    assert _blob_names(tmp_path / "journal") == {f"{origin.sha256}.zst"}


def test_an_empty_source_file_is_kept_too(tmp_path: Path) -> None:
    source = tmp_path / "rank0.pkl"
    source.write_bytes(b"")
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        journal.append(small(0), _origin(source))
        assert journal.source(hashlib.sha256(b"").hexdigest()) == b""
        assert journal.check() == []


def test_bytes_that_are_not_to_be_kept_are_not_and_the_journal_says_so(tmp_path: Path) -> None:
    source = tmp_path / "rank3.pkl"
    source.write_bytes(b"secret")
    origin = _origin(source, keep_source=False)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        journal.append(small(0), origin)
        with pytest.raises(StoreError, match="were not kept"):
            journal.source(origin.sha256)
        assert journal.check() == []
    assert b'"kept":false' in (tmp_path / "journal" / "seg-00000001.pvj").read_bytes()


def test_a_source_file_that_changed_since_it_was_read_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    source = tmp_path / "rank3.pkl"
    source.write_bytes(b"before")
    origin = _origin(source)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        source.write_bytes(b"after!")
        with pytest.raises(InputError, match=r"rank3\.pkl: content: it changed"):
            journal.append(small(0), origin)
        source.unlink()
        with pytest.raises(InputError, match=r"rank3\.pkl: content: cannot be read"):
            journal.append(small(0), origin)
        assert journal.position == 0
        assert journal.append(small(1)) > 0
        assert journal.check() == []
    assert not _blob_names(tmp_path / "journal")


def test_a_repeat_is_recognised_by_file_reader_version_run_and_attempt(tmp_path: Path) -> None:
    source = tmp_path / "rank3.pkl"
    source.write_bytes(b"dump")
    origin = _origin(source)
    known = (origin.sha256, "flight_recorder", "1", "run", 0)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        assert not journal.has_batch(*known)
        journal.append(large(0), origin)
        assert journal.has_batch(*known)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        assert journal.has_batch(*known)
        others = ("0" * 64, "prov", "2", "other", 1)
        for at, other in enumerate(others):
            assert not journal.has_batch(*known[:at], other, *known[at + 1 :])  # type: ignore[arg-type]


def test_a_batch_whose_facts_are_gone_does_not_count_as_known_so_that_reading_again_heals(tmp_path: Path) -> None:
    source = tmp_path / "rank3.pkl"
    source.write_bytes(b"dump")
    origin = _origin(source)
    known = (origin.sha256, "flight_recorder", "1", "run", 0)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        journal.append(large(0), origin)
    (facts,) = tmp_path.glob("journal/blobs/*/*.parquet")
    facts.unlink()
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        assert [problem.code for problem in journal.check()] == ["payload-missing"]
        assert not journal.has_batch(*known)
        journal.append(large(0), origin)
        assert journal.has_batch(*known)
        assert journal.check() == []


def test_an_altered_blob_is_never_taken_for_the_one_that_a_new_batch_names(tmp_path: Path) -> None:
    source = tmp_path / "rank3.pkl"
    source.write_bytes(b"dump" * 100)
    origin = _origin(source)
    with Journal.open(tmp_path / "journal", writable=True) as journal:
        journal.append(large(0), origin)
        for path in tmp_path.glob("journal/blobs/*/*"):
            path.write_bytes(path.read_bytes()[:-9] + b"x" * 9)
        assert {problem.code for problem in journal.check()} == {"payload-wrong"}
        journal.append(large(0), origin)
        assert journal.check() == []
        assert journal.source(origin.sha256) == b"dump" * 100


def test_a_digest_that_is_no_digest_never_becomes_a_path(tmp_path: Path) -> None:
    source = tmp_path / "x"
    source.write_bytes(b"")
    origin = dataclasses.replace(_origin(source), sha256="../../../x")
    with Journal.open(tmp_path / "journal", writable=True) as journal, pytest.raises(ValueError, match="SHA-256"):
        journal.append(small(0), origin)


def test_a_derived_block_is_never_journalled(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal, pytest.raises(ValueError, match="derived"):
        journal.append(Block("run", 0, replaces="run/0"))


def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
        code = (
            "import sys, pathlib; from provstore.journal import Journal; from provstore.errors import StoreError\n"
            "try: Journal.open(pathlib.Path(sys.argv[1]), writable=True)\n"
            "except StoreError as error: print(error); sys.exit(error.exit_code)\n"
        )
        ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
        assert ran.returncode == 7
        assert f"is being written by process {journal_pid()}" in ran.stdout
        with pytest.raises(StoreError, match="is being written by process"):
            Journal.open(tmp_path, writable=True)
        journal.append(small(1))
    with Journal.open(tmp_path, writable=True) as journal:
        assert journal.append(small(2)) == 4


def journal_pid() -> int:
    import os

    return os.getpid()


def test_a_reader_beside_a_writer_sees_what_was_finished_when_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROLL_BYTES", 2_000)
    with Journal.open(tmp_path, writable=True) as output:
        output.append(small(0))
        for at in range(1, 12):
            with Journal.open(tmp_path, writable=False) as reader:
                output.append(small(at))
                assert [number(block) for _, block in reader.blocks()] == list(range(at))
                assert reader.problems == ()


def test_a_reader_cannot_append_and_a_closed_journal_neither(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, writable=True)
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="not open for writing"):
        journal.append(small(0))
    with (
        Journal.open(tmp_path, writable=False) as reader,
        pytest.raises(StoreError, match="not open for writing"),
    ):
        reader.append(small(0))


def test_threads_of_one_process_may_append_together(tmp_path: Path) -> None:
    with Journal.open(tmp_path, writable=True) as journal:
        numbers: list[int] = []
        work = [
            threading.Thread(
                target=lambda first: numbers.extend(journal.append(small(first + at)) for at in range(25)),
                args=(first,),
            )
            for first in (0, 100, 200, 300)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert sorted(numbers) == list(range(2, 102))
        found = [number(block) for _, block in journal.blocks()]
    expected = [first + at for first in (0, 100, 200, 300) for at in range(25)]
    assert sorted(found) == expected
    for first in (0, 100, 200, 300):
        own = [at for at in found if first <= at < first + 25]
        assert own == sorted(own)


def test_a_later_format_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from provstore.journal import segments

    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
    before = (tmp_path / "seg-00000001.pvj").read_bytes()
    monkeypatch.setattr(segments, "FORMAT_VERSION", 0)
    for writable in (True, False):
        with pytest.raises(NotUnderstoodError, match="format 1 with id scheme 1 is not known"):
            Journal.open(tmp_path, writable=writable)
    assert (tmp_path / "seg-00000001.pvj").read_bytes() == before


def test_opening_and_reading_small_batches_imports_no_pyarrow(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from provstore.journal import Journal\n"
        "from journal_fakes import small\n"
        "with Journal.open(pathlib.Path(sys.argv[1]), writable=True) as journal:\n"
        "    journal.append(small(0)); list(journal.blocks()); journal.check()\n"
        "print(sorted({'pyarrow', 'pandas', 'numpy'} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "[]\n"


def test_writing_a_large_batch_does_not_import_pandas(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from provstore.journal import Journal\n"
        "from journal_fakes import large\n"
        "with Journal.open(pathlib.Path(sys.argv[1]), writable=True) as journal:\n"
        "    journal.append(large(0)); list(journal.blocks())\n"
        "print(sorted({'pyarrow', 'pandas'} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "['pyarrow']\n"


def test_batches_of_every_size_around_the_limits_come_back(tmp_path: Path) -> None:
    """A line may have 65,535 bytes, a frame 4 MiB, and a batch of 1,000 facts is no small one any more."""
    blocks = [Block("run", 0)]
    blocks += [
        Block("run", 0, (Nodes(("Stack",), [str(at) for at in range(count)]),)) for count in (998, 999, 1000, 1001)
    ]
    blocks += [Block("run", 0, (Nodes(("Stack",), ["k"], {"frames": ["x" * count]}),)) for count in (65_500, 65_600)]
    keys = [str(at) for at in range(900)]
    blocks.append(Block("run", 0, (Nodes(("Stack",), keys, {"frames": ["y" * 6_000] * 900}),)))
    blocks.append(Block("run", 0, (), (Relations("USED", keys, keys[::-1], "Stack", "Stack"),)))
    with Journal.open(tmp_path, writable=True) as journal:
        for block in blocks:
            journal.append(block)
    with Journal.open(tmp_path, writable=False) as journal:
        for (_, found), block in itertools.zip_longest(journal.blocks(), blocks):
            assert exact(found) == exact(block)
    assert len(list(tmp_path.glob("blobs/*/*.parquet"))) == 4
