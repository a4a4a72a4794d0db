"""Records: their numbers, their text, what they are about, and the two readers that must agree."""

import json
import random

import pytest

from provstore.errors import TrustError
from provstore.evidence import records
from provstore.evidence.verify.records import fields, quick_digest_reader, quick_reader
from provstore.model.evidence import AgreedDigest, Observation
from provstore.model.verification import OK
from tests.mutations import edited
from tests.sealing import RUN, Sealing, line, loss, losses, sealed, trusting
from tests.unit.evidence.verifying import asked, checked, codes, faults, of, only


def test_a_changed_record_is_named_by_epoch_and_the_later_roots_name_their_cause():
    made = sealed([4, 4, 4])
    log = made.log()
    log.lines[5] = edited(log.lines[5], step=1000)
    answer = checked(log, trusting(made.key))

    assert only(answer, "subject-mismatch").epoch == 1
    first, second = of(answer, "root-mismatch")
    assert (first.epoch, first.seq, first.cause) == (1, 4, None)
    assert (second.epoch, second.seq, second.cause) == (2, 8, "root-mismatch")
    assert "a record from 4 on differs, is missing or was added" in first.text
    assert "because earlier records differ" in second.text
    assert "Run run-1, attempt 0, epoch 1, record 4: " in first.text


def test_two_changed_epochs_are_both_causes():
    made = sealed([4, 4, 4])
    log = made.log()
    for at in (1, 9):
        log.lines[at] = edited(log.lines[at], step=1000)
    answer = checked(log, trusting(made.key))

    assert [one.epoch for one in of(answer, "subject-mismatch")] == [0, 2]
    assert [one.cause for one in of(answer, "root-mismatch")] == [None, "root-mismatch", None]


def test_a_root_that_was_signed_wrongly_is_told_although_the_epoch_file_fits():
    made = sealed([4])
    made.add(losses(8)[4:], root="0" * 64)
    answer = checked(made)

    assert faults(answer) == ["root-mismatch"]
    assert answer.head_note is None


def test_an_epoch_file_that_was_signed_wrongly_is_told_although_the_root_fits():
    made = sealed([4])
    made.add(losses(8)[4:], subject_sha256="0" * 64)

    assert faults(checked(made)) == ["subject-mismatch"]


def test_missing_records_are_counted():
    made = sealed([4, 4])
    log = made.log()
    del log.lines[6:]
    answer = checked(log, trusting(made.key))
    missing = only(answer, "rows-missing")

    assert (missing.epoch, missing.seq) == (1, 6)
    assert "8 records are signed, and 6 are here" in missing.text


def test_unsigned_records_are_a_limit():
    made = sealed([4])
    log = made.log()
    log.lines += losses(6)[4:]
    answer = checked(log, trusting(made.key))

    assert codes(answer) == ["not-closed", "unanchored", "unsigned-tail"]
    assert only(answer, "unsigned-tail").seq == 4
    assert answer.counts["unsigned"] == 2
    assert asked(answer) == ("limited", 3)
    assert asked(answer, "tail", "open", "unanchored") == ("limited", 0)


@pytest.mark.parametrize(
    ("numbers", "named"),
    [([0, 1, 3, 4], [2]), ([0, 1, 1, 2], [2]), ([0, 2, 1, 3], [1, 2, 3]), ([1, 2, 3, 4], [0])],
)
def test_stated_numbers_with_a_gap_or_a_repetition_are_named(numbers, named):
    made = sealed([4])
    log = made.log()
    log.numbers = numbers
    answer = checked(log, trusting(made.key))

    assert faults(answer) == ["seq-gap-or-dup"]
    assert [one.seq for one in of(answer, "seq-gap-or-dup")] == named
    assert {one.epoch for one in of(answer, "seq-gap-or-dup")} == {0}


def test_a_place_that_states_no_numbers_is_judged_by_its_order():
    made = sealed([4])
    log = made.log()
    log.numbers = [None] * 4

    assert faults(checked(log, trusting(made.key))) == []


def test_the_numbers_on_each_rank_have_no_gap():
    made = Sealing(trusting_key := sealed([1]).key)
    made.add([loss(0, 0, 0), loss(0, 1, 1), loss(2, 0, 2), loss(1, 1, 3)])
    answer = checked(made, trusting(trusting_key))

    assert faults(answer) == ["seq-gap-or-dup"]
    assert (only(answer, "seq-gap-or-dup").rank, only(answer, "seq-gap-or-dup").seq) == (0, 2)


def test_the_collector_counts_its_records_apart():
    made = sealed([4])
    made.add(
        [
            line("gap", 0, None, **{"cause": "x", "from": None, "lost": 1}),
            line("gap", 2, cause="x", lost=1, **{"from": None}),
        ]
    )
    answer = checked(made)

    assert only(answer, "seq-gap-or-dup").rank is None
    assert "number 2 of the collector, and 1 should come" in only(answer, "seq-gap-or-dup").text


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"extra": 1}, "payload-noncanonical"),
        ({"schema": 2}, "unknown-schema"),
        ({"kind": "telegram"}, "unknown-schema"),
        ({"run": "run-2"}, "wrong-run"),
        ({"attempt": 1}, "wrong-run"),
    ],
)
def test_a_signed_record_that_is_not_one_of_this_run_is_named(change, code):
    made = sealed([4])
    made.add([edited(losses(5)[4], **change)])
    answer = checked(made)

    assert faults(answer) == [code]
    assert (only(answer, code).epoch, only(answer, code).seq) == (1, 4)


def test_a_signed_record_of_an_unknown_kind_is_unknown_and_breaks_nothing_else():
    made = sealed([4])
    made.add([edited(losses(5)[4], kind="telegram"), losses(6)[5], loss(2, 0, 6)])
    answer = checked(made)

    assert codes(answer) == ["not-closed", "unanchored", "unknown-schema"]
    assert asked(answer) == ("unknown", 4)


def test_a_record_beyond_the_cap_is_unknown():
    made = sealed([4])
    long = line("observation", 1, 0, name="x" * 65_535, step=None, values=[])
    log = made.log()
    log.lines.append(long)
    answer = checked(log, trusting(made.key))

    assert faults(answer) == ["cap-exceeded"]
    assert answer.axes["tree"] == "unknown"


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"[" * 50, b'{"rank":1.5}', b"null", b"\n\n"])
def test_bytes_that_are_no_record_are_named_and_stop_nothing(text):
    made = sealed([4, 4])
    log = made.log()
    log.lines[2] = text
    answer = checked(log, trusting(made.key))

    assert {"root-mismatch", "subject-mismatch"} <= set(codes(answer))
    assert {one.seq for one in answer.findings if one.where == "line 2"} == {2}
    assert answer.leaves_seen == 8


def test_hostile_records_cannot_fill_the_report():
    made = sealed([4])
    log = made.log()
    log.lines += [b"x"] * 5_000
    answer = checked(log, trusting(made.key))

    told = of(answer, "payload-noncanonical")
    assert len(told) == 2_001
    assert told[0].text == "Run run-1, attempt 0: 3000 more findings of this code are not listed."
    assert answer.axes["tree"] == "fault"


def test_the_quick_reader_reads_plain_observations_as_the_strict_one_does():
    said = Observation("loss", {"a": 0.1, "b": -3, "c": "text", "d": True, "e": None}, rank=7, step=3, at_ns=-5)
    text = records.observation(RUN, 0, 12, said)

    assert quick_reader(RUN, 0)(text) == (7, 12, -5) == fields(records.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        records.observation("run-2", 0, 1, Observation("loss", rank=1)),
        records.observation(RUN, 1, 1, Observation("loss", rank=1)),
        line("gap", 0, 1, cause="x", lost=1, **{"from": None}),
        edited(loss(0, 1, 1), name="ü"),
        edited(loss(0, 1, 1), name='say "x"'),
        edited(loss(0, 1, 1), values=[{"n": "b", "t": "z", "v": None}, {"n": "a", "t": "z", "v": None}]),
        edited(loss(0, 1, 1), values=[{"n": "a", "t": "z", "v": None}, {"n": "a", "t": "z", "v": None}]),
    ],
)
def test_the_quick_reader_leaves_the_rest_to_the_strict_one(text):
    assert quick_reader(RUN, 0)(text) is None


def test_whatever_the_quick_reader_takes_the_strict_one_takes_alike():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    quick, taken = quick_reader(RUN, 0), 0
    values = {"a": 0.25, "b": -17, "c": "~ text", "d": True, "e": None, "f": 2**62, "g": 1e-300}
    seeds = [
        records.observation(RUN, 0, 3, Observation("loss", dict(list(values.items())[:n]), rank=rank, step=n, at_ns=at))
        for n in range(8)
        for rank, at in ((None, None), (0, 0), (12, 1_767_225_600_000_000_000), (1, -(2**63)))
    ]
    pieces = [
        b'"',
        b"0",
        b"9",
        b"-",
        b",",
        b"{",
        b"}",
        b":",
        b"e",
        b"\\",
        b" ",
        b"null",
        b"true",
        b"\xc3\xbc",
        b".",
        b"p",
    ]
    for _ in range(20_000):
        text = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((0, 1, 1, 2))):
            start = chance.randrange(len(text))
            text[start : start + chance.randrange(3)] = chance.choice(pieces)
        read = quick(bytes(text))
        if read is not None:
            taken += 1
            try:
                assert fields(records.parse(bytes(text))) == read, seed
            except TrustError as error:
                pytest.fail(f"seed {seed}: {bytes(text)!r}: {error}")
    assert taken > 3_000


def test_whatever_the_quick_reader_of_digests_takes_the_strict_one_takes_alike():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    quick, taken = quick_digest_reader(RUN, 0), 0
    seeds = [
        records.digest(RUN, 0, 3, AgreedDigest("parameters", "a" * 64, rank, ranks, step=step, at_ns=at))
        for rank, ranks, step, at in (
            (0, [0, 1, 2], 5, None),
            (7, [7], None, -1),
            (12, range(20), 0, 10**18),
            (3, [], 1, 0),
        )
    ]
    assert all(quick(text) is not None for text in seeds)
    pieces = [b'"', b"0", b"9", b"-", b",", b"[", b"]", b"a", b"\\", b" ", b"null", b"true", b"\xc3\xbc", b"F"]
    for _ in range(10_000):
        text = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((0, 1, 1, 2))):
            start = chance.randrange(len(text))
            text[start : start + chance.randrange(3)] = chance.choice(pieces)
        read = quick(bytes(text))
        if read is not None:
            taken += 1
            strict = records.parse(bytes(text))
            assert {name: strict[name] for name in read} == read | {"ranks": list(read["ranks"])}, seed
    assert taken > 2_000


@pytest.mark.parametrize(
    "text",
    [
        line("digest", 0, 1, name="x", step=1, ranks=[1, 0], sha256="a" * 64),
        line("digest", 0, 1, name="x", step=1, ranks=[1, 1], sha256="a" * 64),
        line("digest", 0, 1, name="ü", step=1, ranks=[0, 1], sha256="a" * 64),
        line("digest", 0, 1, name="x", step=1, ranks=[0, 1], sha256="A" * 64),
        line("digest", 0, 1, name="x", step=1, ranks=[0, 1], sha256="a" * 64, run="run-2"),
        line("digest", 0, 1, name="x", step=1, ranks=[0, 1], sha256="a" * 64, attempt=1),
    ],
)
def test_the_quick_reader_of_digests_leaves_the_rest_to_the_strict_one(text):
    assert quick_digest_reader(RUN, 0)(text) is None


def test_records_outside_any_bundle_leave_the_tree_unproven_not_ok():
    made = sealed([4])
    log = made.log()
    log.lines.append(losses(5)[4])

    assert checked(made).axes["tree"] == OK
    assert checked(log, trusting(made.key)).axes["tree"] == "unproven"


def test_the_text_of_a_record_is_what_counts_not_its_meaning():
    made = sealed([4])
    log = made.log()
    log.lines[1] = json.dumps(json.loads(log.lines[1]), sort_keys=True).encode()
    answer = checked(log, trusting(made.key))

    assert {"payload-noncanonical", "root-mismatch", "subject-mismatch"} <= set(codes(answer))
