"""Statistics of the values on one side of a call, as one canonical line, and back.

Floats travel as ``f64:`` strings, counts as integers; smallest, largest and percentiles of integers are exact, as
``i64:`` or ``u64:`` strings. What has no value, such as the mean of a tensor of NaNs, is left out; no field is NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from provstore.errors import InputError
from provstore.model.canonical import (
    INT64_MAX,
    Json,
    encode,
    parse,
    tag_double,
    tag_integer,
    tag_unsigned,
    tagged_double,
    tagged_integer,
    tagged_unsigned,
)

METHOD = "provstore-statistics-v1"
"""How the figures are found: float64 accumulation, percentiles by nearest rank on a co-prime sample."""
SAMPLE_ELEMENTS = 65_536
PERCENTS = (1, 5, 25, 50, 75, 95, 99)
ABS = "abs"

Number = float | int

_COUNTS = ("nan", "neg_inf", "pos_inf", "zero")
_VALUES = ("abs_max", "l2", "max", "mean", "min", "variance", "delta_abs_max", "delta_l2")
_FLOATS = frozenset({"mean", "variance", "l2", "delta_l2"})
_USUAL_DOUBLE = re.compile(r"f64:-?0x(?:1\.[0-9a-f]{13}p(?:\+0|[+-][1-9][0-9]?)|0\.0p\+0)")
_PERCENTILES = tuple(f"p{percent:02d}" for percent in PERCENTS)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the values of one side of a call look like; figures are over its finite elements.

    Raises:
        InputError: A figure is NaN.
    """

    count: int
    """Elements, all of them."""
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    mean: float | None = None
    variance: float | None = None
    """Of the population."""
    min: Number | None = None
    max: Number | None = None
    abs_max: Number | None = None
    l2: float | None = None
    percentiles: tuple[Number, ...] = ()
    """At ``PERCENTS``; empty where the sample holds no finite element."""
    sample_n: int = 0
    """Finite elements of the sample that the percentiles come from."""
    of: str | None = None
    """``abs`` where the figures are of absolute values, as they are for complex numbers."""
    delta_abs_max: Number | None = None
    """Largest absolute difference between output and input of equal shape."""
    delta_l2: float | None = None

    def __post_init__(self) -> None:
        """Refuse a figure that compares with nothing."""
        figures = (*(getattr(self, name) for name in _VALUES), *self.percentiles)
        if any(type(figure) is float and math.isnan(figure) for figure in figures):
            raise InputError("statistics: figure: is NaN")

    @property
    def is_finite(self) -> bool:
        """Whether every element is finite."""
        return self.nan == self.pos_inf == self.neg_inf == 0


def line(statistics: Statistics) -> bytes:
    """Return the canonical line; a side without elements gives its count and nothing else."""
    said: dict[str, Json] = {"count": statistics.count}
    if not statistics.count:
        return encode(said)
    said["method"] = METHOD
    said["sample_n"] = statistics.sample_n
    for name in _COUNTS:
        said[name] = getattr(statistics, name)
    for name in _VALUES:
        value = getattr(statistics, name)
        if value is not None:
            said[name] = tag_double(float(value)) if name in _FLOATS else _tagged(value)
    said.update(zip(_PERCENTILES, map(_tagged, statistics.percentiles)))
    if statistics.of is not None:
        said["of"] = statistics.of
    return encode(said)


def ref(data: bytes) -> str:
    """Return what an action refers to a line by: ``sha256:`` and 64 hex digits."""
    return f"sha256:{sha256(data).hexdigest()}"


def read(data: bytes) -> Statistics:
    """Return the statistics whose line is exactly ``data``.

    Raises:
        InputError: Not such a line; another method or a member that nobody knows included.
    """
    value = parse(data, thing="statistics")
    if not isinstance(value, dict):
        raise InputError("statistics: line: is no object")
    try:
        found = _read(value)
    except (KeyError, TypeError) as error:
        raise InputError(f"statistics: line: {error} is missing or of another type") from error
    if line(found) != data:
        raise InputError("statistics: line: a member is unknown, missing or of another type")
    return found


def sizes(data: bytes) -> tuple[float, float] | None:
    """Return L2 norm and largest absolute value that a line tells, if any; its other figures are not looked at.

    Raises:
        InputError: It is no line of this method, or one of the two is no number.
    """
    try:
        value = orjson.loads(data)
    except ValueError as error:
        raise InputError(f"statistics: line: {error}") from error
    if not isinstance(value, dict) or value.get("method") != METHOD:
        raise InputError(f"statistics: method: is not {METHOD}")
    if "l2" not in value or "abs_max" not in value:
        return None
    return _size(value["l2"]), _size(value["abs_max"])


def _size(text: Json) -> float:
    """Return a figure that is compared with others; most are doubles whose spelling can be no second one."""
    if type(text) is str and _USUAL_DOUBLE.fullmatch(text):
        return float.fromhex(text[4:])
    found = float(_untagged(text))
    if math.isnan(found):
        raise InputError("statistics: figure: is NaN")
    return found


def _read(value: Mapping[str, Json]) -> Statistics:
    count = _count(value, "count")
    if not count:
        return Statistics(0)
    if value["method"] != METHOD:
        raise InputError(f"statistics: method: {str(value['method'])[:40]!r} is not {METHOD}")
    # An integer where a float belongs gives another line, which is refused.
    figures: dict[str, Any] = {name: _untagged(value[name]) for name in _VALUES if name in value}
    figures |= {name: _count(value, name) for name in (*_COUNTS, "sample_n")}
    if value.get("of") == ABS:
        figures["of"] = ABS
    return Statistics(
        count, percentiles=tuple(_untagged(value[name]) for name in _PERCENTILES if name in value), **figures
    )


def _count(value: Mapping[str, Json], name: str) -> int:
    count = value[name]
    if type(count) is not int or count < 0:
        raise InputError(f"statistics: {name}: is not a count")
    return count


def _tagged(value: Number) -> str:
    if isinstance(value, float):
        return tag_double(value)
    return tag_integer(value) if value <= INT64_MAX else tag_unsigned(value)


def _untagged(text: Json) -> Number:
    if not isinstance(text, str):
        raise InputError("statistics: figure: is no tagged number")
    if text.startswith("f64:"):
        return tagged_double(text)
    return tagged_integer(text) if text.startswith("i64:") else tagged_unsigned(text)
