"""What the files of a journal say, byte by byte: files made here by hand, from the description of the format."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from pathlib import Path

import pytest

from provstore.errors import NotUnderstoodError, StoreError
from provstore.journal import frames, segments
from provstore.journal.frames import Frame, Gap
from provstore.journal.problems import Problem
from provstore.journal.scan import marker_id, scan
from provstore.journal.segments import Entry, Header

STORE, MAGIC, ZEROS = "a journal", b"PVJRNL1\n", "0" * 64
HEADER, LINES, BLOB, BUNDLE, EVENT, RECORDS, SEAL = 1, 2, 3, 4, 7, 8, 15
ONE = "seg-00000001.pvj"


def framed(kind: int, jseq: int, payload: bytes, segment: int = 1, store: str = STORE) -> bytes:
    """A frame: length, type, number, payload, and the checksum that begins with journal and segment."""
    body = struct.pack("<IBQ", len(payload), kind, jseq) + payload
    return body + struct.pack("<I", zlib.crc32(body, zlib.crc32(f"{store}/{segment}".encode())))


def spelled(**said: object) -> bytes:
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def head(jseq: int = 1, number: int = 1, before: bytes | None = None, **changes: object) -> bytes:
    """The magic bytes and the header of a segment that follows these bytes."""
    said = {
        "createdMs": 5, "format": 1, "idScheme": 1, "prev": ZEROS if before is None else sha256(before),
        "prevSize": len(before or b""), "segment": number, "store": STORE,
    }  # fmt: skip
    return MAGIC + framed(HEADER, jseq, spelled(**(said | changes)), number)


def sealed(data: bytes, jseq: int, count: int, first: int, segment: int = 1, **changes: object) -> bytes:
    said = {"firstJseq": first, "frames": count, "lastJseq": jseq - 1, "sha256": sha256(data)} | changes
    return data + framed(SEAL, jseq, spelled(**said), segment)


def made(directory: Path, *files: bytes, names: tuple[str, ...] = (), marker: str = STORE) -> Path:
    for number, data in enumerate(files, 1):
        name = names[number - 1] if names else f"seg-{number:08d}.pvj"
        (directory / name).write_bytes(data)
    (directory / "journal.json").write_bytes(spelled(format=1, idScheme=1, store=marker) + b"\n")
    return directory


def told(directory: Path) -> list[tuple[object, ...]]:
    """Each problem but its words."""
    return [(one.code, one.place, one.is_loss, one.offset, one.first_jseq, one.last_jseq) for one in _all(directory)]


def words(directory: Path) -> list[str]:
    return [one.text for one in _all(directory)]


def _all(directory: Path) -> list[Problem]:
    return scan(directory).problems


def test_a_sound_journal_gives_every_frame_at_its_place(tmp_path: Path) -> None:
    payloads = [(LINES, b"{}\n{}"), (BLOB, b"{}"), (EVENT, b"{ }"), (RECORDS, b"[]"), (BUNDLE, b"")]
    begun = head()
    first, entries = begun, [Entry(1, HEADER, 1, 8, len(begun) - 8 - 17)]
    for jseq, (kind, payload) in enumerate(payloads, 2):
        entries.append(Entry(jseq, kind, 1, len(first), len(payload)))
        first += framed(kind, jseq, payload)
    closed = sealed(first, 7, 6, 1)
    name = f"seg-00000001-{sha256(closed)[:16]}.pvj"
    second = head(8, 2, closed) + framed(LINES, 9, b"x", 2)
    found = scan(made(tmp_path, closed, second, names=(name, "seg-00000002.pvj")))

    assert (found.problems, found.journal_id, found.last_jseq, found.marker_id) == ([], STORE, 9, STORE)
    one, two = found.segments
    assert one.entries[:-1] == entries
    assert one.entries[-1] == Entry(7, SEAL, 1, len(first), len(closed) - len(first) - 17)
    assert (one.number, one.path, one.file_size, one.size) == (1, tmp_path / name, len(closed), len(closed))
    assert one.header == Header(STORE, 1, ZEROS, 0, 5, 1)
    assert two.header == Header(STORE, 2, sha256(closed), len(closed), 5, 8)
    assert (one.digest, two.digest) == (sha256(closed), sha256(second))
    assert (one.valid_end, two.valid_end, one.is_whole, two.is_whole) == (len(closed), len(second), True, True)
    assert one.seal is not None
    assert (one.seal.size, one.seal.digest, two.seal) == (len(first), sha256(first), None)
    assert one.seal.said == {"firstJseq": 1, "frames": 6, "lastJseq": 6, "sha256": sha256(first)}
    assert [entry.jseq for entry in found.facts()] == [2, 3, 9]
    assert [entry.jseq for entry in found.events()] == [4]
    assert [entry.jseq for entry in found.evidence()] == [5, 6]
    assert [payload for _, payload in segments.payloads(tmp_path, found.facts())] == [b"{}\n{}", b"{}", b"x"]


def test_each_fault_between_frames_is_told_with_its_place_and_the_numbers_that_it_took(tmp_path: Path) -> None:
    begun, junk = head() + framed(LINES, 2, b"a"), b"\xff" * 9
    for rest, expected, words_of in (
        (junk + framed(LINES, 3, b"b"), ("journal-damaged", len(begun), None, None), "no number is missing"),
        (junk + framed(LINES, 4, b"b"), ("journal-damaged", len(begun), 3, 3), "numbers 3 to 3 are missing"),
        (framed(LINES, 6, b"b"), ("journal-chain-broken", len(begun), 3, 5), "numbers 3 to 5 are missing before byte"),
        (framed(LINES, 4, b"b"), ("journal-chain-broken", len(begun), 3, 3), "numbers 3 to 3 are missing before byte"),
        (framed(LINES, 2, b"b"), ("journal-chain-broken", len(begun), 2, 2), "repeats number 2"),
        (framed(LINES, 1, b"b"), ("journal-chain-broken", len(begun), 1, 1), "repeats number 1"),
    ):
        made(tmp_path, begun + rest)
        code, offset, first, last = expected
        assert told(tmp_path) == [(code, ONE, True, offset, first, last)]
        assert words_of in words(tmp_path)[0]
        assert str(offset) in words(tmp_path)[0]
    made(tmp_path, begun + junk + framed(LINES, 3, b"b"))
    assert words(tmp_path) == [f"bytes {len(begun)} to {len(begun) + 9} are damaged; no number is missing"]
    made(tmp_path, begun + framed(99, 3, b"b"))
    assert told(tmp_path) == [("journal-unknown-frame", ONE, False, len(begun), 3, 3)]
    assert "unknown type 99" in words(tmp_path)[0]


def test_after_a_repeated_number_the_highest_one_counts(tmp_path: Path) -> None:
    begun = head() + framed(LINES, 2, b"a") + framed(LINES, 3, b"b")
    made(tmp_path, begun + framed(LINES, 1, b"c") + framed(LINES, 4, b"d"))

    assert [(one[0], one[4]) for one in told(tmp_path)] == [("journal-chain-broken", 1)]
    assert scan(tmp_path).last_jseq == 4


def test_two_damaged_places_are_told_one_by_one(tmp_path: Path) -> None:
    one = head() + framed(LINES, 2, b"a")
    two = one + b"\xff" * 5 + framed(LINES, 4, b"b")
    three = two + b"\xff" * 7 + framed(LINES, 6, b"c")
    made(tmp_path, three)
    assert scan(tmp_path).segments[0].digest == sha256(three)

    assert told(tmp_path) == [
        ("journal-damaged", ONE, True, len(one), 3, 3), ("journal-damaged", ONE, True, len(two), 5, 5),
    ]  # fmt: skip
    assert words(tmp_path)[0] == f"bytes {len(one)} to {len(one) + 5} are damaged; numbers 3 to 3 are missing"


def test_an_unfinished_frame_is_a_torn_tail_only_at_the_very_end(tmp_path: Path) -> None:
    first = head() + framed(LINES, 2, b"a")
    tail = framed(LINES, 3, b"b")[:-1]
    made(tmp_path, first + tail)
    assert told(tmp_path) == [("journal-torn-tail", ONE, False, len(first), None, None)]
    assert words(tmp_path) == [f"the last {len(tail)} bytes, from byte {len(first)}, are an unfinished frame"]
    assert scan(tmp_path).segments[0].valid_end == len(first)

    made(tmp_path, first + tail, head(3, 2, first + tail))
    assert told(tmp_path) == [("journal-damaged", ONE, True, len(first), None, None)]
    assert words(tmp_path)[0].startswith(f"bytes {len(first)} to {len(first + tail)} are damaged;")

    (tmp_path / "seg-00000002.pvj").unlink()
    closed = sealed(first, 3, 2, 1)
    made(tmp_path, closed + tail)
    assert ("journal-damaged", ONE, True, len(closed), None, None) in told(tmp_path)


def test_a_segment_without_its_magic_bytes_is_damaged_from_its_first_byte_on(tmp_path: Path) -> None:
    data = head() + framed(LINES, 2, b"a")
    made(tmp_path, b"x" + data[1:])

    assert told(tmp_path) == [("journal-damaged", ONE, True, 0, None, None)]
    assert words(tmp_path) == ["bytes 0 to 8 are damaged; no number is missing"]
    (found,) = scan(tmp_path).segments
    assert (found.has_magic, found.is_whole) == (False, False)


def test_a_header_that_says_something_else_than_the_segment_before_breaks_the_chain(tmp_path: Path) -> None:
    first = head() + framed(LINES, 2, b"a")
    for changes, text in (
        ({"prevSize": len(first) + 1}, f"{len(first) + 1} bytes precede it, there are {len(first)}"),
        ({"prev": "f" * 64}, f"digest {'f' * 16}, there is {sha256(first)[:16]}"),
        ({"segment": 7}, "its header says that it is segment 7"),
    ):
        made(tmp_path, first, head(3, 2, first, **changes))
        assert told(tmp_path) == [("journal-chain-broken", "seg-00000002.pvj", True, None, None, None)]
        assert words(tmp_path)[0].endswith(text)
    made(tmp_path, first)
    (tmp_path / "seg-00000002.pvj").unlink()
    for changes, text in (
        ({"prevSize": 3}, "3 bytes precede it, there are 0"),
        ({"prev": "f" * 64}, f"is {ZEROS[:16]}"),
    ):
        made(tmp_path, head(**changes))
        assert text in words(tmp_path)[0]


def test_a_segment_that_is_missing_is_told_by_the_one_behind_it(tmp_path: Path) -> None:
    first = head() + framed(LINES, 2, b"a")
    made(tmp_path, first, head(5, 3, first), names=(ONE, "seg-00000003.pvj"))

    assert told(tmp_path) == [
        ("journal-chain-broken", "seg-00000003.pvj", True, None, None, None),
        ("journal-chain-broken", "seg-00000003.pvj", True, 8, 3, 4),
    ]
    assert words(tmp_path)[0] == "segment 3 follows, segment 2 is missing"
    (tmp_path / ONE).unlink()
    assert words(tmp_path)[0] == "segment 3 follows, segment 1 is missing"


def test_a_seal_must_describe_all_that_stands_before_it_and_nothing_may_follow(tmp_path: Path) -> None:
    data = head() + framed(LINES, 2, b"a")
    made(tmp_path, sealed(data, 3, 2, 1))
    assert told(tmp_path) == []

    for wrong in ({"firstJseq": 2}, {"frames": 3}, {"lastJseq": 3}, {"sha256": ZEROS}, {"more": 1}):
        made(tmp_path, sealed(data, 3, 2, 1, **wrong))
        assert told(tmp_path) == [("journal-chain-broken", ONE, True, None, None, None)]
        assert words(tmp_path) == ["its seal does not describe its content"]
    made(tmp_path, data + framed(SEAL, 3, b"no words"))
    assert words(tmp_path) == ["its seal does not describe its content"]
    made(tmp_path, sealed(data, 3, 2, 1) + framed(LINES, 4, b"b"))
    assert told(tmp_path) == [("journal-chain-broken", ONE, True, None, None, None)]
    assert words(tmp_path) == ["frames follow its seal"]
    made(tmp_path, MAGIC + framed(SEAL, 1, spelled(firstJseq=1, frames=0, lastJseq=0, sha256=sha256(MAGIC))))
    assert "its seal does not describe its content" in words(tmp_path)


def test_a_closed_segment_has_the_digest_that_its_name_says(tmp_path: Path) -> None:
    data = sealed(head(), 2, 1, 1)
    name = f"seg-00000001-{'f' * 16}.pvj"
    made(tmp_path, data, names=(name,))

    assert told(tmp_path) == [("journal-chain-broken", name, True, None, None, None)]
    assert words(tmp_path) == [f"its bytes have the digest {sha256(data)[:16]}, its name says {'f' * 16}"]


def test_bytes_that_the_next_header_or_the_name_does_not_cover_were_never_acknowledged(tmp_path: Path) -> None:
    first = head() + framed(LINES, 2, b"a")
    extra = framed(LINES, 3, b"b")
    made(tmp_path, first + extra, head(3, 2, first))
    assert told(tmp_path) == [("journal-unacknowledged-tail", ONE, False, len(first), None, None)]
    assert words(tmp_path) == [f"{len(extra)} bytes at its end were never acknowledged"]
    assert [entry.jseq for entry in scan(tmp_path).segments[0].entries] == [1, 2]

    (tmp_path / "seg-00000002.pvj").unlink()
    (tmp_path / ONE).unlink()
    name = f"seg-00000001-{sha256(first)[:16]}.pvj"
    made(tmp_path, first + extra, names=(name,))
    assert told(tmp_path) == [("journal-unacknowledged-tail", name, False, len(first), None, None)]
    assert scan(tmp_path).segments[0].digest == sha256(first)


def test_what_the_next_header_covers_counts_and_not_what_a_name_covers(tmp_path: Path) -> None:
    first = head() + framed(LINES, 2, b"a")
    whole = first + framed(LINES, 3, b"b")
    name = f"seg-00000001-{sha256(first)[:16]}.pvj"
    made(tmp_path, whole, head(4, 2, whole), names=(name, "seg-00000002.pvj"))

    assert told(tmp_path) == [("journal-chain-broken", name, True, None, None, None)]
    assert scan(tmp_path).segments[0].size == len(whole)


def test_the_marker_states_the_id_that_the_segments_state(tmp_path: Path) -> None:
    made(tmp_path, head(), marker="another")
    assert told(tmp_path) == [("journal-marker-wrong", "journal.json", False, None, None, None)]
    assert (scan(tmp_path).journal_id, scan(tmp_path).marker_id) == (STORE, "another")

    made(tmp_path, MAGIC + b"\xff" * 60)
    assert scan(tmp_path).journal_id == STORE
    for data in (b"", b"[]\n", spelled(format=1, idScheme=1, store=STORE), spelled(format=1, idScheme=1, store=""),
                 spelled(format=1, idScheme=1, store=3) + b"\n", spelled(store=STORE) + b"\n"):  # fmt: skip
        (tmp_path / "journal.json").write_bytes(data)
        assert marker_id(tmp_path) is None
        with pytest.raises(StoreError, match="neither its marker nor the head of a segment can be read"):
            scan(tmp_path)
    (tmp_path / ONE).unlink()
    with pytest.raises(StoreError, match="neither its marker"):
        scan(tmp_path)
    (tmp_path / "journal.json").unlink()
    with pytest.raises(StoreError, match="there is none yet"):
        scan(tmp_path)
    with pytest.raises(StoreError, match="No such file"):
        scan(tmp_path / "none")


def test_the_files_of_a_journal_are_those_with_the_names_of_segments_in_their_order(tmp_path: Path) -> None:
    digits = "0123456789abcdef"
    names = ("seg-00000010.pvj", f"seg-00000002-{digits}.pvj", "seg-00000002.pvj", "seg-1.pvj", "seg-00000003.pvj.tmp")
    for name in names:
        (tmp_path / name).touch()

    assert [(n, path.name) for n, path in segments.listing(tmp_path).items()] == [(2, names[1]), (10, names[0])]
    assert [segments.name_digest(Path(name)) for name in names] == ["", digits, "", "", ""]
    assert segments.file_name(2) == "seg-00000002.pvj"
    assert segments.file_name(2, digits * 4) == names[1]
    with pytest.raises(StoreError, match="segment 7 is gone"):
        list(segments.payloads(tmp_path, [Entry(1, LINES, 7, 8, 1)]))
    os.mkfifo(tmp_path / "seg-00000004.pvj")
    with pytest.raises(StoreError, match="is no regular file"):
        segments.listing(tmp_path)


def test_a_header_is_read_only_where_each_of_its_members_is_what_it_must_be(tmp_path: Path) -> None:
    path = tmp_path / ONE
    path.write_bytes(head(4, createdMs=0))
    assert segments.read_header(path, 1) == Header(STORE, 1, ZEROS, 0, 0, 4)
    assert segments.read_header(path, 2) is None
    for changes in ({"segment": "1"}, {"prev": 1}, {"prevSize": "0"}, {"createdMs": None}):
        path.write_bytes(head(**changes))
        assert segments.read_header(path, 1) is None, changes
    nameless = MAGIC + framed(HEADER, 1, head(store="")[8 + 13 : -4], store="")
    other_type = MAGIC + framed(LINES, 1, head()[8 + 13 : -4])
    for data in (b"", MAGIC, head()[:-1], nameless, other_type, MAGIC + framed(HEADER, 1, b"[]"), head()[:-1] + b"x"):
        path.write_bytes(data)
        assert segments.read_header(path, 1) is None, data
    for changes in ({"format": 2}, {"idScheme": 2}):
        path.write_bytes(head(**changes))
        with pytest.raises(NotUnderstoodError, match="is not known here"):
            segments.read_header(path, 1)


def test_a_header_is_written_as_the_format_says() -> None:
    said = spelled(createdMs=9, format=1, idScheme=1, prev="a" * 64, prevSize=3, segment=2, store=STORE)
    assert Header(STORE, 2, "a" * 64, 3, 9, 1).payload() == said


def test_a_frame_is_written_and_read_as_the_format_says(tmp_path: Path) -> None:
    start = frames.seed(STORE, 1)
    raw = framed(LINES, 500, b"abc")
    assert frames.encode(LINES, 500, b"abc", start) == raw
    path = tmp_path / "file"
    path.write_bytes(b"......" + raw)
    with path.open("rb") as file:
        found = frames.unchecked(file, 6)
        assert found == Frame(6, LINES, 500, raw)
        assert (found.payload, found.end) == (b"abc", 6 + 13 + 3 + 4)
        assert list(frames.read(file, 6, 26, start, 0)) == [found]
        # Bytes at and beyond the end are not looked at, even where they would complete a frame.
        assert list(frames.read(file, 6, 25, start, 0)) == [Gap(6, 25, is_tail=True)]
        assert list(frames.read(file, 0, 26, start, 499)) == [Gap(0, 6, is_tail=False), found]
        assert list(frames.read(file, 0, 25, start, 499)) == [Gap(0, 25, is_tail=True)]
        # Behind damage a number must be higher than those before, and no higher than bytes were there to count it.
        assert list(frames.read(file, 0, 26, start, 500)) == [Gap(0, 26, is_tail=True)]
        assert list(frames.read(file, 0, 26, start, 474)) == [Gap(0, 26, is_tail=True)]
        assert list(frames.read(file, 0, 26, start, 475)) == [Gap(0, 6, is_tail=False), found]


@pytest.mark.parametrize("jseq", [1, 255, 256, 65_536, 1 << 24, (1 << 32) - 1])
@pytest.mark.parametrize("payload", [b"", b"x", b"y" * 300, b"z" * 70_000])
def test_a_frame_behind_damage_is_found_whatever_its_number_and_length(
    tmp_path: Path, jseq: int, payload: bytes
) -> None:
    raw = framed(LINES, jseq, payload)
    for junk in (b"\xff", b"\0" * 3, b"\xff" * 13, b"\xfe" * 40):
        path = tmp_path / "file"
        path.write_bytes(junk + raw)
        with path.open("rb") as file:
            found = list(frames.read(file, 0, len(junk + raw), frames.seed(STORE, 1), jseq - 1))
        assert found == [Gap(0, len(junk), is_tail=False), Frame(len(junk), LINES, jseq, raw)]
