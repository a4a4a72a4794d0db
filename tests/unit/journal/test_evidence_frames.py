"""Records and bundles in the journal: in order, under their own heads, and nothing behind the end of a run."""

from __future__ import annotations

import json
import struct
import zlib

import pytest
from journal_fakes import small

from provstore.errors import InputError, StoreError
from provstore.journal import BundleFrame, Journal, RecordFrame, evidence, frames
from provstore.journal.evidence import JournalEvidence, ScopeIndex
from provstore.journal.segments import Entry
from provstore.model.block import Block
from provstore.model.evidence import BundleAt, RankHead, RecordAt
from provstore.model.lost import Lost

ENVELOPE, NOTE = b'{"payload":"e30="}', b"origin\n3\nAAAA\n\n\xe2\x80\x94 origin sig\n"


def _lines(first, count):
    return [b'{"n":%d}' % at for at in range(first, first + count)]


def test_records_get_the_numbers_that_follow_in_their_run(tmp_path):
    with Journal.open(tmp_path, writable=True) as journal:
        assert journal.append_records("a", 0, _lines(0, 3)) == 0
        assert journal.append_records("b", 0, _lines(0, 2)) == 0
        assert journal.append_records("a", 1, _lines(0, 1)) == 0
        assert journal.append_records("a", 0, _lines(3, 2)) == 3
    with Journal.open(tmp_path, writable=True) as journal:
        assert journal.append_records("a", 0, _lines(5, 1)) == 5
        found = list(journal.evidence("a", 0).records())
        assert [record.index for record in found] == [0, 1, 2, 3, 4, 5]
        assert [record.line for record in found] == _lines(0, 6)
        assert journal.scopes() == [("a", 0), ("a", 1), ("b", 0)]


def test_more_records_than_a_frame_holds_lie_in_several(tmp_path):
    big = [b'{"n":%d,"x":"%b"}' % (at, b"x" * 60_000) for at in range(150)]
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append_records("a", 0, big, [RankHead(0, 150, "0" * 64)])
        log = journal.evidence("a", 0)
        assert [record.line for record in log.records()] == big
        assert list(log.heads()) == [RankHead(0, 150, "0" * 64)]
        assert len({record.where.split(" line")[0] for record in log.records()}) == 3
        assert journal.check() == []


def test_a_bundle_comes_back_with_its_checkpoint_byte_for_byte(tmp_path):
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append_records("a", 0, _lines(0, 3))
        journal.append_bundle("a", 0, ENVELOPE, NOTE)
        (bundle,) = journal.evidence("a", 0).bundles()
    assert (bundle.envelope, bundle.checkpoint) == (ENVELOPE, NOTE)


def test_the_last_bundle_is_that_of_its_own_run(tmp_path):
    with Journal.open(tmp_path, writable=True) as journal:
        assert journal.evidence("a", 0).last_bundle() is None
        journal.append_records("a", 0, _lines(0, 3))
        journal.append_bundle("a", 0, ENVELOPE, NOTE)
        journal.append_bundle("a", 0, b"{}", NOTE)
        journal.append_bundle("b", 0, b"[]", NOTE)
        journal.append_records("a", 0, _lines(3, 1))
        last = journal.evidence("a", 0).last_bundle()
        assert last == list(journal.evidence("a", 0).bundles())[-1]
    assert last.envelope == b"{}"


def test_everything_accepted_comes_in_the_order_of_its_numbers(tmp_path):
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(0))
        journal.append_records("a", 0, _lines(0, 1))
        journal.append_bundle("a", 0, ENVELOPE, NOTE)
        journal.append(small(1))
        found = list(journal.accepted())
        assert [type(content) for _, content in found] == [Block, RecordFrame, BundleFrame, Block]
        assert [number for number, _ in found] == sorted(number for number, _ in found)
        assert journal.position == found[-1][0]
        assert [type(content) for _, content in journal.accepted(after=found[1][0])] == [BundleFrame, Block]


def test_nothing_follows_the_end_of_a_run(tmp_path):
    block = small(0)
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(block)
        journal.append_records(block.run, block.attempt, _lines(0, 1), closes=True)
    with Journal.open(tmp_path, writable=True) as journal:
        assert journal.evidence_size(block.run, block.attempt).is_closed
        with pytest.raises(InputError, match="closed"):
            journal.append(block)
        with pytest.raises(InputError, match="closed"):
            journal.append_records(block.run, block.attempt, _lines(1, 1))
        assert journal.append_records(block.run, block.attempt + 1, _lines(0, 1)) == 0


def test_a_frame_whose_head_says_something_else_is_damage_and_told(tmp_path):
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append_records("a", 0, _lines(0, 2))
        head = evidence.records_payload(("a", 0), 2, _lines(2, 2), (), closes=False)
        journal._output.append(frames.RECORDS, head + b'\n{"n":4}')
    with Journal.open(tmp_path, writable=False) as journal:
        assert [problem.code for problem in journal.check()] == ["journal-damaged"]
        told = []
        assert len(list(journal.accepted(on_problem=told.append))) == 1
        assert "3 records, its head says 2" in told[0].text
        with pytest.raises(StoreError, match="not understood"):
            list(journal.accepted())


def test_an_envelope_of_two_lines_is_refused(tmp_path):
    with Journal.open(tmp_path, writable=True) as journal, pytest.raises(InputError, match="more than one line"):
        journal.append_bundle("a", 0, b"{\n}", NOTE)


HEAD = {"attempt": 0, "closes": False, "first": 4, "heads": [], "kind": "records", "rows": 2, "run": "a", "schema": 1}
ENTRY = Entry(7, frames.RECORDS, 2, 100, 0)
PLACE = "seg-00000002.pvj frame 7"
UNSIGNED = {"rank": 3, "count": 2, "head": "0" * 64, "keyid": None, "sig": None}


def _spelled(said):
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def _parsed(head, *rest, kind=frames.RECORDS):
    payload = b"\n".join((head if isinstance(head, bytes) else _spelled(head), *rest))
    return evidence.parse(Entry(7, kind, 2, 100, len(payload)), payload)


def test_a_frame_of_records_is_written_and_read_as_the_format_says():
    heads = (RankHead(3, 2, "0" * 64), RankHead(4, 1, "1" * 64, "a key", "a signature"))
    signed = UNSIGNED | {"rank": 4, "count": 1, "head": "1" * 64, "keyid": "a key", "sig": "a signature"}
    for closes in (True, False):
        said = HEAD | {"closes": closes, "heads": [UNSIGNED, signed], "attempt": 5}
        written = evidence.records_payload(("a", 5), 4, [b"{}", b"[]"], heads, closes=closes)

        assert written == _spelled(said) + b"\n{}\n[]"
        assert evidence.parse(ENTRY, written) == RecordFrame("a", 5, 4, (b"{}", b"[]"), heads, closes, 7, PLACE)


def test_a_frame_with_a_bundle_is_written_and_read_as_the_format_says():
    written = evidence.bundle_payload(("a", 5), ENVELOPE, NOTE)
    said = {"attempt": 5, "kind": "bundle", "run": "a", "schema": 1}

    assert written == _spelled(said) + b"\n" + ENVELOPE + b"\n" + NOTE
    assert _parsed(written, kind=frames.BUNDLE) == BundleFrame("a", 5, ENVELOPE, NOTE, 7, PLACE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": 3}, "2 records, its head says 3 from 4"),
        ({"first": -1}, "its head says 2 from -1"),
        ({"first": "4"}, "its head says 2 from 4"),
        ({"kind": "bundle"}, "kind 'bundle', schema 1"),
        ({"schema": 2}, "kind 'records', schema 2"),
        ({"run": 1}, "not a name and a number"),
        ({"attempt": True}, "not a name and a number"),
        ({"attempt": "0"}, "not a name and a number"),
        ({"heads": [UNSIGNED | {"rank": -1}]}, "another type"),
        ({"heads": [UNSIGNED | {"count": -1}]}, "another type"),
        ({"heads": [UNSIGNED | {"count": True}]}, "another type"),
        ({"heads": [UNSIGNED | {"rank": "0"}]}, "another type"),
        ({"heads": [UNSIGNED | {"head": None}]}, "another type"),
        ({"heads": [UNSIGNED | {"keyid": "a key"}]}, "without a key"),
        ({"heads": [UNSIGNED | {"sig": "a signature"}]}, "without a key"),
        ({"heads": [UNSIGNED | {"sig": 1, "keyid": "a key"}]}, "without a key"),
        ({"heads": [UNSIGNED | {"more": 1}]}, "not understood"),
        ({"heads": None}, "not understood"),
    ],
)
def test_a_head_of_another_shape_is_not_understood_and_names_its_place(changes, words):
    with pytest.raises(StoreError, match=words) as refused:
        _parsed(HEAD | changes, b"{}", b"[]")
    assert f"journal: {PLACE}: evidence is not understood" in str(refused.value)


def test_the_least_numbers_are_numbers():
    head = UNSIGNED | {"rank": 0, "count": 0}
    found = _parsed(HEAD | {"first": 0, "heads": [head]}, b"{}", b"[]")

    assert (found.first, found.heads) == (0, (RankHead(0, 0, "0" * 64),))
    assert _parsed(HEAD | {"closes": 1}, b"{}", b"[]").closes is False


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"{}", frames.RECORDS),
        (b"[]", frames.RECORDS),
        (b"", frames.BUNDLE),
        ({"attempt": 0, "kind": "bundle", "run": "a", "schema": 1}, frames.BUNDLE),
        ({"attempt": 0, "kind": "bundle", "run": None, "schema": 1}, frames.BUNDLE),
    ],
)
def test_a_frame_that_lacks_a_part_is_not_understood(head, kind):
    with pytest.raises(StoreError, match="not understood"):
        _parsed(head, b"{}", kind=kind)


def test_a_head_of_records_may_fill_its_frame_and_that_of_a_bundle_may_not():
    long = "x" * 400_000
    assert _parsed(HEAD | {"run": long}, b"{}", b"[]").run == long
    with pytest.raises(StoreError, match="not understood"):
        _parsed({"attempt": 0, "kind": "bundle", "run": long, "schema": 1}, ENVELOPE, NOTE, kind=frames.BUNDLE)


def test_records_are_cut_into_frames_as_late_as_the_limit_allows():
    # 4 MiB of a frame, less 512 KiB for its head; each record takes a line end.
    most = 4 * 1024 * 1024 - 512 * 1024
    half = b"x" * (most // 2 - 1)
    assert [list(map(len, one)) for one in evidence.pieces([half, half, b"", b"y"])] == [[len(half)] * 2, [0, 1]]
    assert [len(one) for one in evidence.pieces([half, half + b"x", b""])] == [1, 2]
    assert [len(one) for one in evidence.pieces([b"x" * most, b"y"])] == [1, 1]
    assert [len(one) for one in evidence.pieces([b"x" * (most - 1), half, half])] == [1, 2]
    assert list(evidence.pieces([])) == []


def _segment(directory, *parts, number=1):
    """Frames of (type, number, payload) in a file of their own, and where each lies."""
    data, entries = b"PVJRNL1\n", []
    for kind, jseq, payload in parts:
        entries.append(Entry(jseq, kind, number, len(data), len(payload)))
        body = struct.pack("<IBQ", len(payload), kind, jseq) + payload
        data += body + struct.pack("<I", zlib.crc32(body))
    (directory / f"seg-{number:08d}.pvj").write_bytes(data)
    return entries


def _records(jseq, first, count, run="a", *, closes=False, heads=()):
    return frames.RECORDS, jseq, evidence.records_payload((run, 0), first, _lines(first, count), heads, closes=closes)


def _bundle(jseq, run="a", note=NOTE):
    return frames.BUNDLE, jseq, evidence.bundle_payload((run, 0), b'{"n":%d}' % jseq, note)


def test_the_index_tells_how_much_of_each_run_is_there(tmp_path):
    entries = _segment(
        tmp_path, _records(2, 0, 3), _bundle(3), _records(4, 0, 1, "b"), (frames.RECORDS, 5, b"odd"),
        _records(6, 3, 2, closes=True), _bundle(7), _records(8, 0, 2), _records(9, 1, 1, "b"),
    )  # fmt: skip
    own = [entries[at] for at in (0, 1, 4, 5, 6)]

    assert evidence.index(tmp_path, entries) == {
        ("a", 0): ScopeIndex(own, 5, 2, True), ("b", 0): ScopeIndex([entries[2], entries[7]], 2, 0, False),
    }  # fmt: skip


def test_evidence_is_read_in_the_order_of_its_frames_with_the_place_of_each_line(tmp_path):
    one, two = RankHead(0, 1, "0" * 64), RankHead(1, 1, "1" * 64)
    first = _segment(tmp_path, _records(2, 0, 2, heads=(one,)), _bundle(3, note=b""))
    rest = _segment(tmp_path, _records(5, 2, 1, heads=(two,)), _bundle(6), number=2)
    log = JournalEvidence(tmp_path, "a store", ("a", 0), [*first, *rest])

    assert (log.run, log.attempt, log.store) == ("a", 0, "a store")
    assert list(log.records()) == [
        RecordAt(0, b'{"n":0}', "seg-00000001.pvj frame 2 line 2"),
        RecordAt(1, b'{"n":1}', "seg-00000001.pvj frame 2 line 3"),
        RecordAt(2, b'{"n":2}', "seg-00000002.pvj frame 5 line 2"),
    ]
    last = BundleAt(b'{"n":6}', NOTE, "seg-00000002.pvj frame 6")
    assert list(log.bundles()) == [BundleAt(b'{"n":3}', None, "seg-00000001.pvj frame 3"), last]
    assert log.last_bundle() == last
    assert JournalEvidence(tmp_path, "", ("a", 0), [first[0], rest[0]]).last_bundle() is None
    assert list(log.heads()) == [one, two]
    assert [(frame.jseq, frame.first) for frame in log.frames()] == [(2, 0), (5, 2)]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], Lost()),
        # A bundle may be gone wherever a number between it and the next one that is here is.
        ([(1, 1)], Lost((), None, frozenset((0,)))),
        # Numbers 4 and 5 are gone: records 3 to 5 with them, and perhaps a bundle.
        ([(4, 5)], Lost(((3, 6),), None, frozenset((1,)))),
        ([(8, 8)], Lost((), None, frozenset((2,)))),
        ([(11, 12)], Lost((), (8, 2), frozenset((2,)))),
        ([(4, 5), (11, 12)], Lost(((3, 6),), (8, 2), frozenset((1, 2)))),
    ],
)
def test_what_the_loss_of_numbers_can_have_taken_follows_from_what_stands_around_them(tmp_path, numbers, expected):
    kept = _segment(tmp_path, _records(2, 0, 3), _bundle(3), _records(6, 6, 1), _bundle(7), _records(9, 7, 1))
    assert JournalEvidence(tmp_path, "", ("a", 0), kept).lost(numbers) == expected


def test_a_loss_behind_the_last_record_counts_the_bundles_before_it(tmp_path):
    kept = _segment(tmp_path, _bundle(2), _records(3, 0, 2), _bundle(5), _bundle(8))
    log = JournalEvidence(tmp_path, "", ("a", 0), kept)

    assert log.lost([(4, 4)]) == Lost((), (2, 1), frozenset((1,)))
    assert log.lost([(6, 7)]) == Lost((), (2, 2), frozenset((2,)))
    assert log.lost([(6, 6), (9, 9)]) == Lost((), (2, 2), frozenset((2, 3)))
    assert log.lost([(1, 1)]) == Lost((), None, frozenset((0,)))


def test_the_first_records_can_be_gone_too(tmp_path):
    kept = _segment(tmp_path, _records(2, 3, 1), _records(3, 4, 1))

    assert JournalEvidence(tmp_path, "", ("a", 0), kept).lost([(1, 1)]) == Lost(((0, 3),), None, frozenset((0,)))
