"""What a run states survives recording, journal, graph and verification to the last bit, and is data everywhere."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import provstore
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.walk import verify
from provstore.model.canonical import tagged_double, tagged_integer
from provstore.model.evidence import Observation
from provstore.queries.evidence import scopes, stored_evidence
from provstore.queries.info import node_counts
from tests.evidence_graphs import against_journal, against_own_bytes

ENGINES = ("embedded", "neo4j")


def from_bits(bits: int) -> float:
    return struct.unpack(">d", bits.to_bytes(8, "big"))[0]


DOUBLES = {
    "nan-with-payload": (from_bits(0x7FF8_0000_DEAD_BEEF), "f64:nan:7ff80000deadbeef"),
    "negative-nan": (from_bits(0xFFF8_0000_0000_0001), "f64:nan:fff8000000000001"),
    "inf": (from_bits(0x7FF0 << 48), "f64:inf"),
    "-inf": (from_bits(0xFFF0 << 48), "f64:-inf"),
    "-0.0": (from_bits(1 << 63), "f64:-0x0.0p+0"),
    "0.0": (0.0, "f64:0x0.0p+0"),
    "smallest-subnormal": (from_bits(1), "f64:0x0.0000000000001p-1022"),
    "largest-subnormal": (from_bits((1 << 52) - 1), "f64:0x0.fffffffffffffp-1022"),
    "smallest-normal": (from_bits(1 << 52), "f64:0x1.0000000000000p-1022"),
    "largest": (from_bits(0x7FEF_FFFF_FFFF_FFFF), "f64:0x1.fffffffffffffp+1023"),
    "one-tenth": (0.1, "f64:0x1.999999999999ap-4"),
}
INTEGERS = {
    "largest": (2**63 - 1, "i64:9223372036854775807"),
    "smallest": (-(2**63), "i64:-9223372036854775808"),
    "beyond-doubles": (2**53 + 1, "i64:9007199254740993"),
    "zero": (0, "i64:0"),
}
TEXTS = [
    "",
    "\0",
    "a\0b",
    "\U0001f600\U0001f3f4\u200d\u2620\ufe0f",
    "e\u0301 is not \u00e9",
    "\ufeff\u2028\x85\r\n\t",
    "\u202eevil",
    "NaN",
    "f64:0x1.8p+0",
    "\x7f\x1b]0;x\a",
]
HOSTILE = [
    "`Person`) DETACH DELETE (n",
    "x'}) CREATE (:Secret {name:'pwn",
    'x"}) MATCH (n) DETACH DELETE n //',
    "\\u0060) DETACH DELETE (n",
    "\\",
    "$iri",
    "{}",
    "RECORD_TYPE",
    "\0",
    "__proto__",
    "MATCH",
    "RETURN 1; MATCH (n) DETACH DELETE n",
    "/* */ // --",
    "\U0001f600",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "=HYPERLINK(1)",
    "[/red]",
    "{{7*7}}",
    "../../evil",
    "%2e%2e/%00",
]
LONG = "L" * 10_000


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[provstore.Store]:
    uri = f"embedded:{tmp_path / 'store'}"
    if request.param == "neo4j":
        uri = request.getfixturevalue("empty_neo4j")
    with provstore.open(uri, journal=tmp_path / "journal") as opened:
        yield opened


def sealed(store: provstore.Store, run: str, items: list[Observation]) -> Trust:
    """Record, sign, and return whom to trust."""
    key = PrivateKey.generate()
    store.record(items, run=run)
    store.seal(signer=key, run=run)
    return Trust.of_keys([key.public_key], "test")


def require_clean(store: provstore.Store, run: str, trust: Trust, *notes: str) -> None:
    """Both places verify, and the graph is what the journal and its own bytes give."""
    for log in (store.opened.journal.evidence(run, 0), stored_evidence(store._graph, run, 0)):
        codes = {finding.code for finding in verify(log, trust).findings}
        assert codes == {"unanchored", "not-closed", *notes}
    assert against_own_bytes(store._graph, run) == []
    assert against_journal(store._graph, store.opened.journal) == []


def stated(store: provstore.Store, run: str) -> list[dict[str, object]]:
    return [json.loads(record.line) for record in stored_evidence(store._graph, run, 0).records()]


def test_numbers_come_back_from_the_graph_to_the_last_bit(store: provstore.Store) -> None:
    items = [Observation("doubles", {name: value for name, (value, _) in DOUBLES.items()})]
    items += [Observation("integers", {name: value for name, (value, _) in INTEGERS.items()})]
    trust = sealed(store, "run-1", items)
    doubles, integers = stated(store, "run-1")

    for row in doubles["values"]:
        value, tag = DOUBLES[row["n"]]
        assert (row["t"], row["v"]) == ("f", tag)
        assert struct.pack(">d", tagged_double(row["v"])) == struct.pack(">d", value)
    for row in integers["values"]:
        value, tag = INTEGERS[row["n"]]
        assert (row["t"], row["v"]) == ("i", tag)
        assert tagged_integer(row["v"]) == value
    assert len(doubles["values"]) == len(DOUBLES)
    assert len(integers["values"]) == len(INTEGERS)
    require_clean(store, "run-1", trust)


def test_wall_times_to_the_limits_of_64_bits_stand_in_text_and_property(store: provstore.Store) -> None:
    limits = [2**63 - 1, -(2**63), -1, 0]
    trust = sealed(store, "run-1", [Observation("t", {}, at_ns=at) for at in limits])
    shown = [store.query("evidence/record_at", run="run-1", attempt=0, index=at).rows[0] for at in range(len(limits))]

    assert [row["at_ns"] for row in shown] == limits
    assert [row["at"] for row in stated(store, "run-1")] == [f"i64:{at}" for at in limits]
    require_clean(store, "run-1", trust, "clock-odd")


def test_texts_of_every_kind_come_back_unchanged_as_names_and_as_values(store: provstore.Store) -> None:
    # A record needs a name; its values may be called nothing.
    names = [text or "nothing" for text in TEXTS]
    items = [Observation(name, {text: text, f"{text}!": True, f"{text}?": None}) for name, text in zip(names, TEXTS)]
    trust = sealed(store, "run-1", items)
    said = stated(store, "run-1")

    assert [row["name"] for row in said] == names
    for row, text in zip(said, TEXTS):
        assert {(one["n"], one["t"], one["v"]) for one in row["values"]} == {
            (text, "s", text),
            (f"{text}!", "b", True),
            (f"{text}?", "z", None),
        }
    shown = [store.query("evidence/record_at", run="run-1", attempt=0, index=at).rows[0] for at in range(len(TEXTS))]
    assert [row["name"] for row in shown] == names
    require_clean(store, "run-1", trust)


def test_hostile_names_and_values_are_stored_as_data_and_add_nothing_else(store: provstore.Store) -> None:
    texts = [*HOSTILE, LONG]
    trust = sealed(store, "run-1", [Observation(text, {text: text}) for text in texts])

    assert node_counts(store._graph) == {
        "Agent:Element:SigningKey": 1,
        "Applied": 1,
        "Element:Entity:EvidenceBundle": 1,
        "Element:Entity:Record": len(texts),
        "Run": 1,
    }
    assert [row["name"] for row in stated(store, "run-1")] == texts
    require_clean(store, "run-1", trust)


def test_hostile_names_of_runs_are_stored_as_data_each_apart(store: provstore.Store) -> None:
    key = PrivateKey.generate()
    for run in HOSTILE:
        store.record([Observation("x", {"run": run})], run=run)
    store.seal(signer=key)
    trust = Trust.of_keys([key.public_key], "test")

    assert scopes(store._graph) == sorted((run, 0) for run in HOSTILE)
    assert node_counts(store._graph) == {
        "Agent:Element:SigningKey": 1,
        "Applied": 1,
        "Element:Entity:EvidenceBundle": len(HOSTILE),
        "Element:Entity:Record": len(HOSTILE),
        "Run": len(HOSTILE),
    }
    for run in HOSTILE:
        (bundle,) = store.query("evidence/bundles", run=run, attempt=0).rows
        assert (bundle["first"], bundle["size"], bundle["records"]) == (0, 1, 1)
        codes = {finding.code for finding in verify(stored_evidence(store._graph, run, 0), trust).findings}
        assert codes == {"unanchored", "not-closed"}
    assert against_journal(store._graph, store.opened.journal) == []
