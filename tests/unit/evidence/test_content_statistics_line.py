"""The line of statistics: one spelling, no NaN, and read back as it was."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.errors import InputError
from provstore.evidence.content import statistics_line
from provstore.evidence.content.statistics_line import Statistics

COUNTS = st.integers(0, 2**53 - 1)
FLOATS = st.floats(allow_nan=False)
NUMBERS = FLOATS | st.integers(-(2**63), 2**64 - 1)
FILLED = st.builds(
    Statistics,
    count=st.integers(1, 2**53 - 1),
    nan=COUNTS,
    pos_inf=COUNTS,
    neg_inf=COUNTS,
    zero=COUNTS,
    mean=FLOATS | st.none(),
    variance=FLOATS | st.none(),
    min=NUMBERS | st.none(),
    max=NUMBERS | st.none(),
    abs_max=NUMBERS | st.none(),
    l2=FLOATS | st.none(),
    percentiles=st.just(()) | st.tuples(*[NUMBERS] * 7),
    sample_n=COUNTS,
    of=st.sampled_from([None, "abs"]),
    delta_abs_max=NUMBERS | st.none(),
    delta_l2=FLOATS | st.none(),
)


def test_a_line_is_spelled_as_documented() -> None:
    filled = Statistics(
        4, nan=1, zero=1, mean=1.5, variance=0.25, min=-1, max=2**64 - 1, abs_max=2.0, l2=0.1, sample_n=3,
        percentiles=(1.0, 1.0, 1.0, 2.0, 2.0, 2.0, math.inf),
    )  # fmt: skip

    assert statistics_line.line(filled) == (
        b'{"abs_max":"f64:0x1.0000000000000p+1","count":4,"l2":"f64:0x1.999999999999ap-4","max":"u64:18446744073709551615",'
        b'"mean":"f64:0x1.8000000000000p+0","method":"provstore-statistics-v1","min":"i64:-1","nan":1,"neg_inf":0,'
        b'"p01":"f64:0x1.0000000000000p+0","p05":"f64:0x1.0000000000000p+0","p25":"f64:0x1.0000000000000p+0",'
        b'"p50":"f64:0x1.0000000000000p+1","p75":"f64:0x1.0000000000000p+1","p95":"f64:0x1.0000000000000p+1",'
        b'"p99":"f64:inf","pos_inf":0,"sample_n":3,"variance":"f64:0x1.0000000000000p-2","zero":1}'
    )


def test_a_side_without_elements_gives_its_count_and_nothing_else() -> None:
    assert statistics_line.line(Statistics(0)) == b'{"count":0}'
    assert statistics_line.read(b'{"count":0}') == Statistics(0)


@given(FILLED)
def test_a_line_reads_back_to_the_bit(filled: Statistics) -> None:
    line = statistics_line.line(filled)
    found = statistics_line.read(line)

    assert found == filled
    assert statistics_line.line(found) == line
    assert b"nan:" not in line


@pytest.mark.parametrize("name", ["mean", "variance", "min", "max", "abs_max", "l2", "delta_l2", "delta_abs_max"])
def test_no_figure_can_be_nan(name: str) -> None:
    figures: dict[str, Any] = {name: math.nan}
    with pytest.raises(InputError):
        Statistics(1, **figures)
    with pytest.raises(InputError):
        Statistics(1, percentiles=(1.0, math.nan))


def test_a_line_is_named_by_its_sha_256() -> None:
    line = statistics_line.line(Statistics(0))

    assert statistics_line.ref(line) == "sha256:" + hashlib.sha256(b'{"count":0}').hexdigest()


def test_a_nan_that_was_written_by_someone_else_is_refused() -> None:
    line = statistics_line.line(Statistics(1, l2=1.0))

    with pytest.raises(InputError, match="NaN"):
        statistics_line.read(line.replace(b"f64:0x1.0000000000000p+0", b"f64:nan:7ff8000000000000"))


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"{}",
        b'{"count":-1}',
        b'{"count":"1"}',
        b'{"count":0,"zero":0}',
        b'{"count":1}',
        b'{"count":1,"method":"another","nan":0,"neg_inf":0,"pos_inf":0,"sample_n":0,"zero":0}',
        b'{"count":1,"method":"provstore-statistics-v1","nan":0,"neg_inf":0,"pos_inf":0,"sample_n":0}',
        b'{"count":1,"extra":1,"method":"provstore-statistics-v1","nan":0,"neg_inf":0,"pos_inf":0,"sample_n":0,"zero":0}',
        b'{"count":1,"mean":"i64:1","method":"provstore-statistics-v1","nan":0,"neg_inf":0,"pos_inf":0,"sample_n":0,"zero":0}',
        b'{"count":1,"max":1,"method":"provstore-statistics-v1","nan":0,"neg_inf":0,"pos_inf":0,"sample_n":0,"zero":0}',
        b'{"count":1,"l2":"f64:nan:7ff8000000000000","method":"provstore-statistics-v1","nan":0,"neg_inf":0,"pos_inf":0}',
        b'{"count":1,"method":"provstore-statistics-v1","nan":0,"neg_inf":0,"of":"real","pos_inf":0,"sample_n":0,"zero":0}',
        b'{"count": 0}',
        b"\xff",
    ],
)
def test_what_is_no_line_of_statistics_is_refused(line: bytes) -> None:
    with pytest.raises(InputError):
        statistics_line.read(line)


def test_sizes_are_read_without_the_other_figures() -> None:
    data = b'{"abs_max":"i64:7","l2":"f64:0x1.4000000000000p+3","method":"provstore-statistics-v1"}'
    assert statistics_line.sizes(data) == (10.0, 7.0)


def test_a_line_without_a_norm_tells_no_sizes() -> None:
    assert statistics_line.sizes(b'{"count":2,"method":"provstore-statistics-v1","nan":2}') is None


@pytest.mark.parametrize(
    "data",
    [
        b"no json",
        b"[]",
        b'{"count":0}',
        b'{"abs_max":"i64:7","l2":"f64:0x1.4000000000000p+3","method":"another"}',
        b'{"abs_max":7,"l2":"f64:0x1.4000000000000p+3","method":"provstore-statistics-v1"}',
        b'{"abs_max":"i64:7","l2":"f64:nan:7ff8000000000000","method":"provstore-statistics-v1"}',
    ],
)
def test_sizes_of_what_is_no_line_of_statistics_are_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        statistics_line.sizes(data)
