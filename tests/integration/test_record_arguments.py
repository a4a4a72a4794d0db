"""A mistake in what is recorded is told with run, item and value; numbers of other libraries are kept exactly."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import provstore
from provstore.errors import ConfigError, InputError, ProvstoreError
from provstore.evidence.keys import PrivateKey
from provstore.model.evidence import AgreedDigest, Observation

KEPT = "kept are text, integers of 64 bits, floats, booleans and None"
GOOD = Observation("loss", {"value": 1.0})
A = "a" * 64


@pytest.fixture(scope="module")
def store() -> Iterator[provstore.Store]:
    with provstore.open("memory:") as opened:
        yield opened


def refused(store: provstore.Store, item: Any, **scope: Any) -> str:
    with pytest.raises(ProvstoreError) as caught:
        store.record([GOOD, item], **{"run": "live", **scope})
    assert isinstance(caught.value, InputError | ConfigError)
    return str(caught.value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            Observation("loss", {"a": 1, "x": 2**64}),
            f"live: item 1, 'loss': value 'x': an integer of 65 bits does not fit; {KEPT}",
        ),
        (
            Observation("loss", {"x": -(2**63) - 1}),
            f"live: item 1, 'loss': value 'x': an integer of 64 bits does not fit; {KEPT}",
        ),
        (
            Observation("loss", {"x": 10**6000}),
            f"live: item 1, 'loss': value 'x': an integer of 19932 bits does not fit; {KEPT}",
        ),
        (Observation("loss", {"x": [1]}), f"live: item 1, 'loss': value 'x': a list cannot be kept; {KEPT}"),  # type: ignore[dict-item]
        (Observation("loss", {"x": 1j}), f"live: item 1, 'loss': value 'x': a complex cannot be kept; {KEPT}"),  # type: ignore[dict-item]
        (
            Observation("loss", {"x": Fraction(1, 3)}),  # type: ignore[dict-item]
            f"live: item 1, 'loss': value 'x': a Fraction that no double equals cannot be kept; {KEPT}",
        ),
        (
            Observation("loss", {"x": np.zeros(2)}),  # type: ignore[dict-item]
            f"live: item 1, 'loss': value 'x': a ndarray cannot be kept; {KEPT}",
        ),
        (Observation("loss", {"x": "\ud800"}), "live: item 1, 'loss': value 'x': holds a lone surrogate"),
        (Observation("loss", {"\ud800": 1}), "live: item 1, 'loss': value '\\ud800': holds a lone surrogate"),
        (Observation("loss", {1: 2}), "live: item 1, 'loss': values: the name 1 is no text"),  # type: ignore[dict-item]
        (Observation("loss", {1: 2, "a": 3}), "live: item 1, 'loss': values: the name 1 is no text"),  # type: ignore[dict-item]
        (Observation("loss", 2.5), "live: item 1, 'loss': values: a float is no mapping of names to values"),  # type: ignore[arg-type]
        (Observation("loss", [("a", 1)]), "live: item 1, 'loss': values: a list is no mapping of names to values"),  # type: ignore[arg-type]
        (Observation("loss", None), "live: item 1, 'loss': values: a NoneType is no mapping of names to values"),  # type: ignore[arg-type]
        (Observation(""), "live: item 1: name: is empty"),
        (Observation(3), "live: item 1: name: an int is no text"),  # type: ignore[arg-type]
        (Observation("\ud800"), "live: item 1, '\\ud800': name: holds a lone surrogate"),
        (Observation("loss", step=-1), "live: item 1, 'loss': step: -1 is no integer from 0 to 2**53 - 1"),
        (Observation("loss", step=2**53), "live: item 1, 'loss': step: 9007199254740992 is no integer from 0"),
        (Observation("loss", step=10**6000), "live: item 1, 'loss': step: an integer of 19932 bits is no integer"),
        (Observation("loss", step=1.0), "live: item 1, 'loss': step: 1.0 is no integer from 0 to 2**53 - 1"),  # type: ignore[arg-type]
        (Observation("loss", step=True), "live: item 1, 'loss': step: True is no integer from 0 to 2**53 - 1"),
        (Observation("loss", rank=-1), "live: item 1, 'loss': rank: -1 is no integer from 0 to 2**53 - 1"),
        (Observation("loss", rank=[]), "live: item 1, 'loss': rank: a list is no integer from 0 to 2**53 - 1"),  # type: ignore[arg-type]
        (Observation("loss", rank="0"), "live: item 1, 'loss': rank: '0' is no integer from 0 to 2**53 - 1"),  # type: ignore[arg-type]
        (Observation("loss", at_ns=1.5), "live: item 1, 'loss': at_ns: 1.5 is no integer of 64 bits"),  # type: ignore[arg-type]
        (Observation("loss", at_ns=2**63), "live: item 1, 'loss': at_ns: 9223372036854775808 is no integer of 64 bits"),
        (
            Observation("big", {"x": "y" * 70_000}),
            "live: item 1, 'big': observation: 70147 bytes are more than 65535",
        ),
        (AgreedDigest("p", "A" * 64, 0, [0, 1]), "live: item 1, 'p': sha256: needs 64 hex digits in lower case"),
        (AgreedDigest("p", b"a" * 64, 0, [0, 1]), "live: item 1, 'p': sha256: needs 64 hex digits in lower case"),  # type: ignore[arg-type]
        (AgreedDigest("p", A, 0, 2), "live: item 1, 'p': ranks: an int is no list of ranks"),  # type: ignore[arg-type]
        (AgreedDigest("p", A, 0, [0, -1]), "live: item 1, 'p': ranks: -1 is no integer from 0 to 2**53 - 1"),
        (AgreedDigest("p", A, 0, [0, None]), "live: item 1, 'p': ranks: None is no integer from 0 to 2**53 - 1"),  # type: ignore[list-item]
        (AgreedDigest("p", A, 0, [0, 0]), "live: item 1, 'p': ranks: 0 stands there twice"),
        (
            AgreedDigest("p", A, None, [0, 1]),  # type: ignore[arg-type]
            "live: item 1, 'p': rank: None is no integer from 0 to 2**53 - 1",
        ),
        ({"loss": 1.0}, "live: item 1: a dict is neither an Observation nor an AgreedDigest"),
        (Observation, "live: item 1: a type is neither an Observation nor an AgreedDigest"),
    ],
)
def test_a_wrong_item_is_named_with_run_index_and_value(store: provstore.Store, item: Any, message: str) -> None:
    assert refused(store, item).startswith(message)


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        ({"run": ""}, "record: run: is empty; that is where imported documents stand"),
        ({"run": 7}, "record: run: an int is no text"),
        ({"run": "\ud800"}, "record: run: holds a lone surrogate"),
        ({"attempt": -1}, "live: attempt: -1 is no integer from 0 to 2**53 - 1"),
        ({"attempt": "0"}, "live: attempt: '0' is no integer from 0 to 2**53 - 1"),
        ({"attempt": None}, "live: attempt: None is no integer from 0 to 2**53 - 1"),
        ({"rank_signer": "alice"}, "live: rank_signer: a str is no signer"),
    ],
)
def test_a_wrong_run_attempt_or_signer_is_named(store: provstore.Store, scope: dict[str, Any], message: str) -> None:
    assert refused(store, GOOD, **scope).startswith(message)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (GOOD, "live: records: a single Observation is no list: put it into brackets"),
        (AgreedDigest("p", A, 0, [0]), "live: records: a single AgreedDigest is no list: put it into brackets"),
        (5, "live: records: an int is no list of Observation and AgreedDigest"),
        ("ab", "live: item 0: a str is neither an Observation nor an AgreedDigest"),
        ([], "live: records: there are none to keep"),
    ],
)
def test_what_is_no_list_of_records_is_named(store: provstore.Store, items: Any, message: str) -> None:
    with pytest.raises(ProvstoreError) as caught:
        store.record(items, run="live")
    assert str(caught.value).startswith(message)


def test_nothing_of_a_refused_call_is_kept_and_the_next_one_goes_on(store: provstore.Store) -> None:
    before = store.record([GOOD], run="next")
    refused(store, Observation("loss", {"x": 2**64}), run="next")
    assert store.record([GOOD], run="next") == before + 1


class Spelled:
    """A signer whose public key is text."""

    public_key = "a" * 64

    def sign(self, message: bytes) -> bytes:
        """Return what is never asked for."""
        return message


@pytest.mark.parametrize("signer", ["alice", b"x" * 32, 5, PrivateKey, Spelled()])
def test_a_signer_that_is_none_is_refused_wherever_it_is_given(
    store: provstore.Store, tmp_path: Path, signer: Any
) -> None:
    store.record([GOOD], run="signed")
    with pytest.raises(ConfigError, match="no signer") as sealing:
        store.seal(signer=signer, run="signed")
    with pytest.raises(ConfigError, match="no signer"):
        provstore.open(f"embedded:{tmp_path / 'facts'}", signer=signer)
    assert "alice" not in str(sealing.value)


class Colour(str, enum.Enum):  # noqa: UP042 - its text is not what str() gives
    """Text that also has a name."""

    RED = "red"


class Size(int, enum.Enum):
    """A number that also has a name."""

    LARGE = 3


@pytest.mark.parametrize(
    ("value", "kind", "spelled"),
    [
        (np.float32(0.1), "f", "f64:0x1.99999a0000000p-4"),
        (np.float16(1.5), "f", "f64:0x1.8000000000000p+0"),
        (np.float64(-0.0), "f", "f64:-0x0.0p+0"),
        (np.float32("nan"), "f", "f64:nan:7ff8000000000000"),
        (np.float32("-inf"), "f", "f64:-inf"),
        (np.longdouble(2.5), "f", "f64:0x1.4000000000000p+1"),
        (np.int64(-(2**63)), "i", "i64:-9223372036854775808"),
        (np.uint8(255), "i", "i64:255"),
        (np.bool_(True), "b", True),
        (np.bool_(False), "b", False),
        (np.str_("text"), "s", "text"),
        (Fraction(1, 2), "f", "f64:0x1.0000000000000p-1"),
        (Colour.RED, "s", "red"),
        (Size.LARGE, "i", "i64:3"),
    ],
)
def test_a_number_of_another_library_is_kept_where_a_plain_one_equals_it(
    store: provstore.Store, value: Any, kind: str, spelled: object
) -> None:
    index = store.record([Observation("loss", {"x": value})], run="numbers")
    (row,) = store.query("evidence/record_at", run="numbers", attempt=0, index=index).rows
    assert json.loads(str(row["record"]))["values"] == [{"n": "x", "t": kind, "v": spelled}]


@pytest.mark.parametrize(
    "value", [np.uint64(2**63), np.longdouble(1) / np.longdouble(3), np.timedelta64(1), np.complex64(1)]
)
def test_a_number_that_no_plain_one_equals_is_refused(store: provstore.Store, value: Any) -> None:
    assert refused(store, Observation("loss", {"x": value})).startswith("live: item 1, 'loss': value 'x': ")


def test_ranks_steps_attempts_and_times_of_another_library_are_plain_in_the_record(store: provstore.Store) -> None:
    seven, both, second = np.int64(7), np.arange(2), np.int64(2)
    plainly: Any = {"rank": np.uint8(1), "step": np.int16(3)}
    items: list[Any] = [
        Observation("loss", {}, at_ns=cast(int, seven), **plainly),
        AgreedDigest("p", A, ranks=cast(list[int], both), **plainly),
    ]
    index = store.record(items, run="numpy", attempt=cast(int, second))
    said = [
        json.loads(str(store.query("evidence/record_at", run="numpy", attempt=2, index=at).rows[0]["record"]))
        for at in (index, index + 1)
    ]
    assert [(row["attempt"], row["n"], row["rank"], row["step"], row["at"]) for row in said] == [
        (2, 0, 1, 3, "i64:7"),
        (2, 1, 1, 3, None),
    ]
    assert said[1]["ranks"] == [0, 1]
