"""One spelling for one value, and a parser that takes nothing else."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import InputError
from provstore.model import canonical

_names = st.from_regex(r"\A[a-z][a-zA-Z0-9_]{0,5}\Z") | st.just("_type")
_texts = st.text(st.characters(exclude_categories=["Cs"]))
_leaves = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | _texts
_documents = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4)
)


@settings(max_examples=150)
@given(_documents)
def test_the_form_is_that_of_rfc_8785(value: Any) -> None:
    """In this profile RFC 8785 equals sorted names, no blanks, short escapes and unescaped non-ASCII."""
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert canonical.encode(value) == expected
    assert canonical.parse(expected, max_bytes=1 << 20) == value


@given(st.floats())
def test_a_double_survives_bit_for_bit(value: float) -> None:
    found = canonical.tagged_double(canonical.tag_double(value))
    assert struct.pack(">d", found) == struct.pack(">d", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "f64:0x1.999999999999ap-4"),
        (-0.0, "f64:-0x0.0p+0"),
        (math.inf, "f64:inf"),
        (-math.inf, "f64:-inf"),
        (math.nan, "f64:nan:7ff8000000000000"),
    ],
)
def test_doubles_are_spelt_as_the_profile_says(value: float, text: str) -> None:
    assert canonical.tag_double(value) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_64_bit_integer_survives(value: int) -> None:
    assert canonical.tagged_integer(canonical.tag_integer(value)) == value


@pytest.mark.parametrize(
    "text",
    ["", "1", "i64:", "i64:01", "i64:-0", "i64:+1", "i64: 1", "i64:9223372036854775808", "i64:1_0", "u64:1", "i64:٣"],
)
def test_a_second_spelling_of_an_integer_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="i64"):
        canonical.tagged_integer(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "f64:", "f64:1.0", "f64:0x1p0", "f64:nan", "f64:nan:7FF8000000000000", "f64:nan:3ff0000000000000",
        "f64:infinity", "f64:0x1.0p+99999", "0x1.0p+0", "f32:nan:7ff8000000000000", "nan:f64:7ff8000000000000",
    ],
)  # fmt: skip
def test_a_second_spelling_of_a_double_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="f64"):
        canonical.tagged_double(text)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":1,"a":2}', "name: 'a' is repeated"),
        (b'{"b":1,"a":2}', "spelling"),
        (b'{"a": 1}', "spelling"),
        (b'["\\u0041"]', "spelling"),
        (b"[1.0]", "number: 1.0 is a float"),
        (b"[1e3]", "number: 1e3 is a float"),
        (b"[1e999]", "number: 1e999 is a float"),
        (b"[9007199254740992]", "number: 9007199254740992 is beyond"),
        (b"[123456789012345678901234567890]", "number: .* is beyond"),
        (b"9" * 5_000, "number: .* is beyond"),
        (b"[NaN]", "number: NaN is no JSON"),
        (b"[Infinity]", "number: Infinity is no JSON"),
        (b'["\\ud800"]', "text: holds a lone surrogate"),
        (b'["\xed\xa0\x80"]', "text: holds a lone surrogate"),
        (b'["\xff"]', "encoding: byte 2"),
        (b"\xef\xbb\xbf{}", "encoding: begins with a byte order mark"),
        (b"", "JSON"),
        (b'{"A":1}', "name"),
        (b'{"a-b":1}', "name"),
        (b'{"a\\u0000":1}', "name"),
        ("[]".encode("utf-16"), "encoding: begins with a byte order mark"),
        ("[]".encode("utf-16-le"), "encoding: UTF-16"),
        ("[]".encode("utf-16-be"), "encoding: UTF-16"),
        (b"[" * 33 + b"]" * 33, "depth"),
        (b"[" * 60_000, "depth"),
        (b'"' + b"x" * 65_534 + b'"', "size"),
    ],
)
def test_what_is_outside_the_profile_is_refused_with_its_own_message(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=f"record: {reason}"):
        canonical.parse(data)


@pytest.mark.parametrize(
    "data", [b"[" * 32 + b"]" * 32, b'"' + b"x" * 65_533 + b'"', b'["[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["]', b'["\\"["]']
)
def test_what_just_fits_is_taken(data: bytes) -> None:
    assert canonical.encode(canonical.parse(data)) == data


def test_what_has_no_json_form_is_refused() -> None:
    lone: Any = ["\ud800"]
    with pytest.raises(InputError, match="canonical form"):
        canonical.encode(lone)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc, which Linux has")
def test_lines_that_are_kept_hold_their_own_bytes_and_not_the_buffer_of_the_encoder() -> None:
    code = (
        "from pathlib import Path\nfrom provstore.model import canonical\n"
        "pages = lambda: int(Path('/proc/self/statm').read_text().split()[1])\n"
        "before = pages()\n"
        "lines = [canonical.encode({'a': 'x' * 300, 'n': n}) for n in range(20_000)]\n"
        "print((pages() - before) * 4096)\n"
    )
    held = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    print(f"{held} bytes for 20,000 lines of about 317")

    assert held < 20_000 * 1_000
