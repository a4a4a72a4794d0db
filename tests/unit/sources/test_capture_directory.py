"""A capture directory is read as far as it can be, and what cannot is named by file and offset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provstore.errors import InputError
from provstore.sources import capture_directory
from provstore.sources.capture_directory import is_capture, parse, read_capture


def header(rank: int = 0, **more: object) -> dict[str, Any]:
    return {"t": "header", "schema": "provstore-capture/1", "run": "job", "attempt": 0, "rank": rank, **more}


def line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def call(ordinal: int, epoch: int, **more: object) -> dict[str, Any]:
    return {"t": "call", "ordinal": ordinal, "epoch": epoch, **more}


def write(directory: Path, name: str, *lines: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"".join(lines))
    return directory


def ordinals(directory: Path, epoch: int, rank: int = 0) -> list[int]:
    found = read_capture(directory)
    spans = found.attempts[0][rank].spans[epoch]
    return [said["ordinal"] for span in spans for said, _ in found.lines(span)]


def test_lines_are_found_by_their_epoch_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [line(header()), *(line(call(at, at // 2)) for at in range(6))]
    write(tmp_path, "capture-rank0.jsonl", *lines)

    assert [ordinals(tmp_path, epoch) for epoch in range(3)] == [[0, 1], [2, 3], [4, 5]]


def test_a_restart_continues_an_epoch_in_the_next_file(tmp_path: Path) -> None:
    write(tmp_path, "capture-rank0.jsonl", line(header()), line(call(0, 1)))
    write(tmp_path, "capture-rank0.1.jsonl", line(header()), line(call(1, 1)))
    write(tmp_path, "capture-rank0.10.jsonl", line(header()), line(call(3, 1)))
    write(tmp_path, "capture-rank0.2.jsonl", line(header()), line(call(2, 1)))

    assert ordinals(tmp_path, 1) == [0, 1, 2, 3]


def test_an_attempt_is_what_the_header_says(tmp_path: Path) -> None:
    write(tmp_path, "capture-rank0.jsonl", line(header()), line(call(0, 1)))
    write(tmp_path, "capture-rank0.1.jsonl", line(header(attempt=1)), line(call(1, 1)))

    assert sorted(read_capture(tmp_path).attempts) == [0, 1]


def test_a_torn_last_line_is_left_out_and_named_by_its_offset(tmp_path: Path) -> None:
    whole = line(header()) + line(call(0, 1))
    write(tmp_path, "capture-rank0.jsonl", whole, b'{"t":"call","ordi')
    found = read_capture(tmp_path)

    assert ordinals(tmp_path, 1) == [0]
    assert found.problems.torn == [
        f"capture-rank0.jsonl: offset {len(whole)}: a torn last line of 17 bytes is left out"
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"not json", "no JSON"),
        (b"[1]", "no object"),
        (b'{"t":"call","t":"step","epoch":1}', "repeated"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "no JSON"),
    ],
    ids=["text", "list", "repeated name", "bytes", "deep", "deep and whole"],
)
def test_a_line_that_is_no_object_is_named_and_the_others_are_read(tmp_path: Path, bad: bytes, reason: str) -> None:
    first = line(header()) + line(call(0, 1))
    write(tmp_path, "capture-rank0.jsonl", first, bad + b"\n", line(call(1, 1)))
    found = read_capture(tmp_path)
    read = [said["ordinal"] for span in found.attempts[0][0].spans[1] for said, _ in found.lines(span)]

    assert read == [0, 1]
    assert found.problems.texts[0].startswith(f"capture-rank0.jsonl: offset {len(first)}: ")
    assert reason in found.problems.texts[0]


def test_a_line_without_end_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_directory, "MAX_LINE_BYTES", 1_000)
    write(tmp_path, "capture-rank0.jsonl", line(header()), line(call(0, 1)), b"x" * 3_500 + b"\n", line(call(1, 1)))
    found = read_capture(tmp_path)

    assert found.problems.texts == [
        f"capture-rank0.jsonl: offset {len(line(header()) + line(call(0, 1)))}: a line of 3501 bytes is left out"
    ]
    assert ordinals(tmp_path, 1) == [0, 1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b'{"t":"header"}\n', "does not begin with a header"),
        (
            line(header(schema="provstore-capture/9")),
            "schema: 'provstore-capture/9' is not known; known is provstore-capture/1",
        ),
        (line(header(1)), "names another rank"),
        (line({**header(), "attempt": -1}), "attempt"),
        (b"\x80\x02}q\x00.\n", "no JSON"),
    ],
)
def test_a_file_that_is_no_capture_is_refused_by_name_and_the_others_are_read(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    write(tmp_path, "capture-rank0.jsonl", content)
    write(tmp_path, "capture-rank1.jsonl", line(header(1)), line(call(0, 1)))
    found = read_capture(tmp_path)

    assert list(found.attempts[0]) == [1]
    assert len(found.problems.refused) == 1
    assert found.problems.refused[0].startswith("capture-rank0.jsonl: ")
    assert reason in found.problems.refused[0]


def test_where_no_file_can_be_used_the_reasons_are_told(tmp_path: Path) -> None:
    write(tmp_path, "capture-rank0.jsonl", b"")

    with pytest.raises(InputError, match=r"no file can be used: capture-rank0\.jsonl: is empty"):
        read_capture(tmp_path)


def test_a_directory_is_known_by_the_names_in_it(tmp_path: Path) -> None:
    capture = write(tmp_path / "capture", "capture-rank3.jsonl", line(header(3)))
    other = write(tmp_path / "other", "capture-rank03.jsonl", line(header(3)))

    assert is_capture(capture)
    assert is_capture(capture / "capture-rank3.jsonl")
    assert not is_capture(other)
    assert not is_capture(tmp_path / "absent")


def test_a_number_that_is_spelled_in_another_way_is_no_fault() -> None:
    assert parse(b'{"t": "step", "loss": 1e0}') == {"t": "step", "loss": 1.0}
