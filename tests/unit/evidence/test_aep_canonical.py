"""The canonical form of agent records, and JSON text that is not taken."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import InputError
from provstore.evidence.aep import canonical, forms
from provstore.evidence.aep.text import JsonText
from tests.agent_records import canon

NODE = shutil.which("node")
SORTED_AS_JS_WRITES_IT = """
const kept = (one) => Array.isArray(one) ? one.map(kept)
  : one && typeof one === "object" ? Object.fromEntries(Object.keys(one).sort().map((name) => [name, kept(one[name])]))
  : one;
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter((line) => line);
for (const line of lines) console.log(JSON.stringify(kept(JSON.parse(line))));
"""

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
OF_JS = PLAIN.map(lambda value: {"value": value})


@given(value=st.dictionaries(NAMES, PLAIN, max_size=5), indent=st.sampled_from([None, 0, 3]), ascii_only=st.booleans())
@settings(max_examples=300)
def test_names_are_sorted_blanks_dropped_and_escapes_undone_whatever_the_text_looked_like(
    value: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert canonical(raw, drop=()) == canon(value)


@pytest.mark.parametrize(
    "token", ["1.0", "-0", "1e21", "1E400", "0.10", "1e-7", "123456789012345678901234567890", "-0.0", "1.50e+03"]
)
def test_a_number_keeps_its_spelling(token: str) -> None:
    assert canonical(f'{{"b": {token},"a":[{token}]}}'.encode()) == f'{{"a":[{token}],"b":{token}}}'.encode()


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("1.0", "1"),
        ("-0", "0"),
        ("1e-7", "1e-7"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("0.000001", "0.000001"),
        ("1E400", "null"),
        ("9007199254740993", "9007199254740992"),
    ],
)
def test_the_traps_of_numbers_are_those_of_ecmascript(token: str, said: str) -> None:
    assert canonical(f'{{"n":{token}}}'.encode(), variant="es-numbers") == f'{{"n":{said}}}'.encode()


@pytest.mark.parametrize(
    ("variant", "order"),
    [
        ("verbatim", ["10", "9", "a", "\uffff", "\U0001f600"]),
        ("utf16-key-order", ["10", "9", "a", "\U0001f600", "\uffff"]),
        ("es-integer-keys", ["9", "10", "a", "\U0001f600", "\uffff"]),
    ],
)
def test_the_order_of_names_is_that_of_the_variant(variant: str, order: list[str]) -> None:
    raw = json.dumps(dict.fromkeys(["a", "\uffff", "9", "\U0001f600", "10"], 1)).encode()
    assert list(json.loads(canonical(raw, variant=variant))) == order


def test_only_the_outermost_signature_is_left_out() -> None:
    raw = b'{"signature":1,"dsse_envelope":2,"a":{"signature":3},"__proto__":{"x":1}}'
    assert canonical(raw) == b'{"__proto__":{"x":1},"a":{"signature":3}}'


@pytest.mark.skipif(NODE is None, reason="needs Node")
@given(values=st.lists(OF_JS, min_size=1, max_size=30), numbers=st.lists(st.floats(allow_nan=False), max_size=60))
@settings(max_examples=25)
def test_the_last_variant_writes_what_node_writes(values: list[dict[str, Any]], numbers: list[float]) -> None:
    tokens = [repr(one).replace("inf", "1e999") for one in numbers]
    raws = [json.dumps(one).encode() for one in values]
    raws += [f'{{"n":[{",".join(tokens)}],"4294967295":1,"4294967294":2,"01":3,"1":4,"-1":5}}'.encode()]
    raws += [f'{{"n":{token}}}'.encode() for token in ("123456789012345678901234567890", "1e21", "5e-324", "-0.0")]
    node = subprocess.run(
        [NODE or "node", "-e", SORTED_AS_JS_WRITES_IT], input=b"\n".join(raws), capture_output=True, check=True
    )
    # An object of JavaScript takes "__proto__" for something else; the form keeps it.
    said = [line for line in node.stdout.split(b"\n") if line]
    for raw, line in zip(raws, said, strict=True):
        if b"__proto__" not in raw:
            assert canonical(raw, drop=(), variant="es-integer-keys") == line


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        (b'{"a":"\xff"}', "byte 6: not UTF-8"),
        (b'{"a":1,"a":1}', "'a' comes twice"),
        (b'{"a":{"b":1,"c":2,"b":3}}', "'b' comes twice"),
        (b'{"a":NaN}', "NaN is no JSON number"),
        (b'{"a":-Infinity}', "-Infinity is no JSON number"),
        (rb'{"a":"\ud800"}', "half of a surrogate pair"),
        (rb'{"\udc00x":1}', "half of a surrogate pair"),
        (b'{"a":01}', "byte 6"),
        (b'{"a":1}x', "byte 7"),
        (b'{"a":"\n"}', "byte 6"),
        (b"", "byte 0"),
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b"[" * 1_000_000, "deeper than 64"),
        (b'{"a":' * 1_000_000, "deeper than 64"),
        (b'["[",' * 65 + b"1" + b"]" * 65, "deeper than 64"),
        (b'"' + b"x" * (16 * 1024 * 1024) + b'"', "more than 16777216"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_text_that_readers_understand_differently_is_not_read(raw: bytes, reason: str) -> None:
    text = JsonText(raw)
    assert reason in str(text.fault)
    assert text.value is None
    with pytest.raises(InputError, match="record: JSON"):
        canonical(raw)


@pytest.mark.parametrize("raw", [b"[" * 64 + b"]" * 64, b'["]",' * 63 + b'["\\"["]' + b"]" * 63])
def test_sixty_four_levels_are_read(raw: bytes) -> None:
    assert JsonText(raw).fault is None


@given(st.recursive(st.just(1), lambda inner: st.lists(inner | st.sampled_from(["[", "]", '"{', "\\"]), max_size=3)))
@settings(max_examples=200)
def test_text_with_and_without_blanks_has_the_same_faults_and_values(value: object) -> None:
    for deep in (0, 61, 64, 70):
        nested = value
        for _ in range(deep):
            nested = [nested]
        tight, wide = (JsonText(json.dumps(nested, separators=one).encode()) for one in ((",", ":"), (", ", ": ")))
        assert (tight.fault, tight.value) == (wide.fault, wide.value)


def test_numbers_of_one_value_have_one_exact_spelling_and_no_others() -> None:
    def said(token: str) -> bytes:
        return JsonText(f"[{token} ]".encode()).canon(forms.SAME_VALUE)

    assert len({said(one) for one in ("1", "1.0", "1e0", "10e-1", "0.1E1")}) == 1
    assert len({said(one) for one in ("0", "-0", "0.00", "0e9")}) == 1
    assert len({said(one) for one in ("9007199254740992", "9007199254740993", "1e999", "1e998", "-1")}) == 5
