"""The fast readers take every plain form and nothing at the edge of it, and a guess takes what is there."""

from __future__ import annotations

import pytest

from provstore.evidence import records
from provstore.evidence.verify.records import fields, guess, quick_digest_reader, quick_reader
from provstore.model.evidence import AgreedDigest, Observation
from tests.mutations import edited
from tests.sealing import RUN, line

PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\')
SMALL, LARGE = 999_999_999_999_999, 1_000_000_000_000_000
"""The largest count of 15 digits, and the least of 16."""
NINETEEN = 8_999_999_999_999_999_999
"""The largest number of 19 digits that is inside 64 bits whatever its other digits are."""


def observed(values=None, *, name="loss", rank=1, step=2, at_ns=3, n=4):
    return records.observation(RUN, 0, n, Observation(name, values or {}, rank=rank, step=step, at_ns=at_ns))


@pytest.mark.parametrize(
    "text",
    [
        observed(rank=None), observed(step=None), observed(at_ns=None), observed(rank=0, step=0, at_ns=0, n=0),
        observed(rank=SMALL, step=SMALL, n=SMALL), observed(at_ns=NINETEEN), observed(at_ns=-NINETEEN),
        observed(at_ns=10**17), observed(at_ns=-1), observed(name=""), observed(name=PLAIN),
        *(observed({"a": value}) for value in (
            0, 1, -1, 10**17, NINETEEN, -NINETEEN, True, False, None, "", PLAIN, 1.0, -1.5, 2.0**999, 2.0**-999, 1e-9,
        )),
        observed({"": 1}), observed({PLAIN: 1, "~": 2}), observed({"a": 1, "b": "x", "c": 0.5, "d": None, "e": True}),
        observed(name="x" * (16_384 - len(observed(name="")))),
    ],
)  # fmt: skip
def test_a_plain_observation_is_read_at_once_as_the_strict_reader_reads_it(text):
    assert quick_reader(RUN, 0)(text) == fields(records.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        observed(rank=LARGE), observed(step=LARGE), observed(n=LARGE), observed(at_ns=NINETEEN + 1),
        observed({"a": NINETEEN + 1}), observed({"a": 0.0}), observed({"a": 5e-324}),
        observed({"a": 2.0**1000}), observed({"a": 2.0**-1000}), observed(name="é"),
        observed(name="\n"), observed({"a": "\x7f"}), observed({"a": '"'}), observed({"é": 1}),
        observed(name="x" * (16_385 - len(observed(name="")))),
        observed() + b"\n", b" " + observed(), b"",
        edited(observed({"a": 1, "b": 2}), values=[{"n": n, "t": "z", "v": None} for n in "ba"]),
        edited(observed({"a": 1, "b": 2}), values=[{"n": n, "t": "z", "v": None} for n in "aa"]),
    ],
)  # fmt: skip
def test_an_observation_at_the_edge_of_the_plain_form_is_left_to_the_strict_reader(text):
    read = quick_reader(RUN, 0)
    assert read(text) is None
    assert read(observed({"a": 1, "b": 2})) == (1, 4, 3)
    assert read(text) is None


def test_a_record_of_another_run_or_attempt_is_left_to_the_strict_reader():
    assert quick_reader("run.1", 0)(observed()) is None
    assert quick_reader(RUN, 1)(observed()) is None
    assert quick_reader("a+(b)", 12)(records.observation("a+(b)", 12, 4, Observation("x", {}, rank=0))) == (0, 4, None)


def test_names_are_in_order_in_each_list_whatever_lists_came_before():
    read = quick_reader(RUN, 0)
    for first in range(1_100):
        assert read(observed({f"{first:05}": 1, f"{first + 1:05}": 2})) == (1, 4, 3)
    wrong = edited(observed({"a": 1, "b": 2}), values=[{"n": n, "t": "z", "v": None} for n in "ba"])
    assert read(wrong) is None


def agreed(ranks=(0, 1), *, name="x", rank=1, step=2, at_ns=3):
    return records.digest(RUN, 0, 4, AgreedDigest(name, "a" * 64, rank, ranks, step=step, at_ns=at_ns))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {}),
        ({"step": None}, {"step": None}),
        ({"at_ns": None}, {"at": None}),
        ({"at_ns": -NINETEEN}, {"at": f"i64:{-NINETEEN}"}),
        ({"rank": 0, "step": 0}, {"rank": 0, "step": 0}),
        ({"ranks": (0, 1, 2, SMALL)}, {"ranks": (0, 1, 2, SMALL)}),
        ({"ranks": (1,)}, {"ranks": (1,)}),
        ({"ranks": ()}, {"ranks": ()}),
        ({"name": PLAIN}, {"name": PLAIN}),
        ({"name": ""}, {"name": ""}),
    ],
)
def test_a_plain_digest_is_read_at_once(own, expected):
    plain = {"at": "i64:3", "n": 4, "name": "x", "rank": 1, "ranks": (0, 1), "sha256": "a" * 64, "step": 2}
    read = quick_digest_reader(RUN, 0)

    for _ in range(2):
        assert read(agreed(**own)) == plain | expected


def test_a_digest_of_the_collector_is_read_at_once():
    text = line("digest", 4, None, name="x", step=2, ranks=[0, 1], sha256="a" * 64)

    assert quick_digest_reader(RUN, 0)(text)["rank"] is None


@pytest.mark.parametrize(
    "text",
    [
        agreed(step=LARGE), agreed(rank=LARGE), agreed(ranks=(LARGE,)), agreed(name="é"), agreed(at_ns=NINETEEN + 1),
        agreed(name="x" * (16_385 - len(agreed(name="")))), agreed() + b"\n", b"",
        edited(agreed(), ranks=[1, 0]), edited(agreed(), ranks=[1, 1]), edited(agreed(), sha256="g" * 64),
    ],
)  # fmt: skip
def test_a_digest_at_the_edge_of_the_plain_form_is_left_to_the_strict_reader(text):
    read = quick_digest_reader(RUN, 0)
    assert read(text) is None
    assert read(text) is None
    assert read(agreed(name="x" * (16_384 - len(agreed(name=""))))) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"n":3,"rank":1}', (1, 3, None)),
        (b'{"n":3,"rank":null}', (None, 3, None)),
        (b'{"rank":1}', (1, None, None)),
        (b'{"n":true,"rank":"1"}', (None, None, None)),
        (b'{"n":1.0,"rank":false}', (None, None, None)),
        (b"[]", (None, None, None)),
        (b"{", (None, None, None)),
        (b"\xff", (None, None, None)),
        (b"[" * 40 + b"]" * 40, (None, None, None)),
        (b'{"n":3,"rank":1,"x":"' + b"x" * 70_000 + b'"}', (None, None, None)),
    ],
)
def test_of_a_line_that_is_no_record_rank_and_number_are_taken_where_it_has_them(text, said):
    assert guess(text) == said
