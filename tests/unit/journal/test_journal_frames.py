"""Frames are found among any bytes, in one pass, and nothing else is taken for one."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.journal import frames
from tests.cost import how_many_times

_START = frames.seed("a journal", 3)
_payloads = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"x"))


def _read(data: bytes, last_jseq: int = 0) -> list[frames.Frame | frames.Gap]:
    return list(frames.read(io.BytesIO(data), 0, len(data), _START, last_jseq))


@settings(max_examples=200)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_to_their_end_without_a_gap_or_an_overlap(data: bytes) -> None:
    found = _read(data)
    ends = [0, *(item.end for item in found)]
    assert [item.offset for item in found] == ends[:-1]
    assert ends[-1] == len(data)
    assert not any(isinstance(item, frames.Frame) for item in found)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.just(b"") | st.binary(min_size=1, max_size=40), _payloads), max_size=6),
    st.binary(max_size=40),
)
def test_every_frame_between_any_junk_is_found(parts: list[tuple[bytes, bytes]], tail: bytes) -> None:
    data, expected = b"", []
    for at, (junk, payload) in enumerate(parts, 1):
        data += junk
        expected.append((len(data), at * 7, payload))
        data += frames.encode(frames.LINES, at * 7, payload, _START)
    found = [item for item in _read(data + tail) if isinstance(item, frames.Frame)]
    assert [(item.offset, item.jseq, item.payload) for item in found] == expected


def test_a_frame_of_another_segment_or_journal_is_no_frame() -> None:
    for other in (frames.seed("a journal", 4), frames.seed("another", 3)):
        assert _read(frames.encode(frames.LINES, 1, b"{}", other)) == [frames.Gap(0, 19, is_tail=True)]


def test_a_whole_frame_inside_a_payload_cannot_be_written() -> None:
    inner = frames.encode(frames.LINES, 2, b"{}", _START)
    with pytest.raises(ValueError, match="NUL"):
        frames.encode(frames.LINES, 1, b"x" + inner, _START)


@pytest.mark.parametrize("size", [frames.MAX_PAYLOAD_BYTES, frames.MAX_PAYLOAD_BYTES + 1])
def test_a_payload_has_4_mib_at_most(size: int) -> None:
    if size > frames.MAX_PAYLOAD_BYTES:
        with pytest.raises(ValueError, match="too long"):
            frames.encode(frames.LINES, 1, b"x" * size, _START)
    else:
        (found,) = _read(frames.encode(frames.LINES, 1, b"x" * size, _START))
        assert isinstance(found, frames.Frame)


@pytest.mark.parametrize(
    "pattern",
    [b"\0", b"\xff", b"\0\0\0\0\1", b"\xff\xff\x0f\0\x02\x05\0\0\0\0\0\0\0", b"\xff\x0f\0\0\x02\x05\0\0\0\0\0\0\0"],
)
def test_bytes_made_to_look_like_heads_do_not_hold_the_search_up(pattern: bytes) -> None:
    def search(size: int) -> None:
        assert _read((pattern * size)[:size]) == [frames.Gap(0, size, is_tail=True)]

    assert how_many_times(lambda: search(1 << 20), lambda: search(1 << 18), rounds=3) < 8
