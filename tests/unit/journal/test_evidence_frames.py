"""Records and bundles in the journal: in order, under their own heads, and nothing behind the end of a run."""

from __future__ import annotations

import pytest
from journal_fakes import small

from provstore.errors import InputError, StoreError
from provstore.journal import BundleFrame, Journal, RecordFrame, evidence, frames
from provstore.model.block import Block
from provstore.model.evidence import RankHead

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
