"""Canonical JSON against rfc8785, which implements RFC 8785, on documents of the profile; and doubles as strings."""

from __future__ import annotations

import json
import math
import os
import random
import struct

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import InputError
from provstore.model import canonical

LONG = os.environ.get("PROVSTORE_LONG") == "1"

_names = st.from_regex(r"\A[a-z][a-zA-Z0-9_]{0,8}\Z") | st.just("_type")
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_integers = st.integers(-(2**53) + 1, 2**53 - 1) | st.sampled_from([0, -1, 2**53 - 1, -(2**53) + 1])
_leaves = st.none() | st.booleans() | _integers | _texts
_documents = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_names, inner, max_size=5), max_leaves=15
)


@settings(max_examples=5_000 if LONG else 1_000)
@given(_documents)
def test_the_canonical_form_is_that_of_rfc_8785_and_reads_back_as_the_same_value(value):
    expected = rfc8785.dumps(value)

    assert canonical.encode(value) == expected
    assert canonical.parse(expected, max_bytes=1 << 20) == value


@pytest.mark.parametrize(
    "value",
    [
        {"c": 1, "b": {"z": [], "y": {}}, "a": [[[]], {"a": {"a": None}}]},
        {"aB": 1, "aa": 2, "a_": 3, "a": 4, "a9": 5, "aZ": 6, "_type": 7},
        ["é", "e\u0301", "ß", "Å", "\u212b", "ﬁ", "\u0130"],
        ["\U0001f600", "\ud7ff\ue000", "\uffff", "\U00010000", "\U0010ffff", "\ufeff", "\u2028\u2029"],
        ["".join(map(chr, range(0x20))), '"\\/\b\f\n\r\t', "\x7f\x80\x9f"],
        [[[], [{}], [[]]], [None, True, False, 0, -1, ""]],
    ],
)
def test_odd_structures_accents_and_control_characters_are_written_as_rfc_8785_says(value):
    assert canonical.encode(value) == rfc8785.dumps(value)
    assert canonical.parse(rfc8785.dumps(value)) == value


def bit_patterns(count):
    """Return doubles of every kind: all exponents alike, and the special ones."""
    luck = random.Random(8785)
    special = [0.0, -0.0, math.inf, -math.inf, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308]
    special += [1.0, 1e21, 1e-7, 0.1, 2.0**53, 2.0**63, 333333333.33333329]
    drawn = [struct.unpack("<d", luck.randbytes(8))[0] for _ in range(count - len(special))]
    return special + drawn


def test_ten_thousand_doubles_are_refused_as_numbers_and_survive_as_strings():
    doubles = bit_patterns(10_000)
    assert len(doubles) == 10_000
    for value in doubles:
        finite = math.isfinite(value)
        for number in {repr(value), json.dumps(value), rfc8785.dumps(value).decode() if finite else repr(value)}:
            if number.lstrip("-").isdigit() and int(number) <= canonical.MAX_INTEGER:
                continue  # RFC 8785 writes 1.0 as 1, which is the integer
            with pytest.raises(InputError):
                canonical.parse(f'{{"a":{number}}}'.encode())

        text = canonical.tag_double(value)
        line = canonical.encode({"a": text})
        back = canonical.tagged_double(canonical.parse(line)["a"])
        assert struct.pack("<d", back) == struct.pack("<d", value)


def test_every_half_and_bfloat16_has_one_spelling_that_gives_its_bits_back():
    for kind in ("f16", "bf16"):
        spellings = {canonical.tag_bits(kind, bits) for bits in range(1 << 16)}
        assert len(spellings) == 1 << 16
        assert {canonical.tagged_bits(text) for text in spellings} == {(kind, bits) for bits in range(1 << 16)}


def test_narrow_floats_are_spelt_as_the_double_of_equal_value():
    """IEEE 754: f16 0x3c00, f32 0x3f800000 and bf16 0x3f80 are 1; 0x3555 is the half nearest to 1/3."""
    assert canonical.tag_bits("f16", 0x3C00) == "f16:0x1.0000000000000p+0"
    assert canonical.tag_bits("f32", 0x3F800000) == "f32:0x1.0000000000000p+0"
    assert canonical.tag_bits("bf16", 0x3F80) == "bf16:0x1.0000000000000p+0"
    assert canonical.tag_bits("f16", 0x3555) == f"f16:{(1365 / 4096).hex()}"
    assert canonical.tag_bits("f32", 0x80000001) == f"f32:{(-(2.0**-149)).hex()}"
    assert canonical.tag_bits("f32", 0xFF800000) == "f32:-inf"
    # A signalling NaN keeps its bits: they never pass through a double.
    assert canonical.tag_bits("f32", 0x7F800001) == "f32:nan:7f800001"
    assert canonical.tag_bits("f16", 0xFE00) == "f16:nan:fe00"


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_a_single_survives_bit_for_bit(bits):
    assert canonical.tagged_bits(canonical.tag_bits("f32", bits)) == ("f32", bits)


@pytest.mark.parametrize(
    "text",
    [
        "", "f64:0x1.0000000000000p+0", "f32", "f32:", "f32:1.0", "f32:0x1p+0", "f32:0x1.999999999999ap-4",
        "f32:0x1.0000000000000p+128", "f32:nan:7f800000", "f32:nan:7FC00000", "f32:nan:7fc0000", "f32:nan:-7fc0000",
        "f32:nan", "f32:Inf", "f16:0x1.0000000000000p+17", "f16:nan:7c00", "bf16:0x1.0100000000000p+0", "f8:inf",
        "f32:nan:7fc0_000", "f32:nan: 7fc00000", "bf16:0x1.0000000000000p+9999", "f32:0x1.0000000000000p+0 ",
    ],
)  # fmt: skip
def test_a_second_spelling_of_a_narrow_float_is_refused(text):
    with pytest.raises(InputError, match="record: "):
        canonical.tagged_bits(text)


@pytest.mark.parametrize(("kind", "bits"), [("f32", 2**32), ("f16", 2**16), ("f16", -1), ("f64", 0)])
def test_bits_that_a_type_does_not_have_are_refused(kind, bits):
    with pytest.raises(InputError, match=kind):
        canonical.tag_bits(kind, bits)


@given(st.integers(0, 2**64 - 1), st.binary(max_size=50))
def test_unsigned_integers_and_bytes_survive(number, data):
    assert canonical.tag_unsigned(number) == f"u64:{number}"
    assert canonical.tagged_unsigned(f"u64:{number}") == number
    assert canonical.tagged_bytes(canonical.tag_bytes(data)) == data


@pytest.mark.parametrize(
    "text", ["", "u64:", "u64:00", "u64:-1", "u64:+1", "u64:18446744073709551616", "i64:1", "u64:٣"]
)
def test_a_second_spelling_of_an_unsigned_integer_is_refused(text):
    with pytest.raises(InputError, match="u64"):
        canonical.tagged_unsigned(text)


@pytest.mark.parametrize(
    "text", ["", "AQ==", "b64:AQ", "b64:AR==", "b64:AQ=", "b64:_w==", "b64:A Q==", "b64:AQ==\n", "b64:é"]
)
def test_a_second_spelling_of_bytes_is_refused(text):
    with pytest.raises(InputError, match=r"b64|base64"):
        canonical.tagged_bytes(text)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_an_integer_of_more_than_64_bits_has_no_tag(number):
    with pytest.raises(InputError, match="64 bits"):
        canonical.tag_integer(number)
    with pytest.raises(InputError, match="64 bits"):
        canonical.tag_unsigned(-1 if number < 0 else 2**64)


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**64])
def test_an_integer_beyond_2_to_the_53_is_not_written(number):
    with pytest.raises(InputError, match="canonical form"):
        canonical.encode({"a": number})
