"""Parameters of shipped queries are numbers where they are numbers, and an empty answer says what it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import provstore
from provstore import cypher
from provstore.errors import ConfigError, InputError
from provstore.model.evidence import Observation


@pytest.fixture(scope="module")
def store() -> Iterator[provstore.Store]:
    with provstore.open("memory:") as opened:
        opened.record([Observation("loss", {"value": 1.0}), Observation("loss", {"value": 0.5})], run="live")
        yield opened


@pytest.mark.parametrize("value", ["two", "", 1.5, True, None, "1.0", [0], 2**63, "9" * 30, "9" * 6000])
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("evidence/record_at", "index"),
        ("targets/by_number", "rank"),
        ("targets/by_number", "seq"),
        ("targets/by_operation", "op_id"),
        ("targets/by_message", "p2p_seq"),
    ],
)
def test_a_number_that_is_none_is_refused(store: provstore.Store, name: str, number: str, value: Any) -> None:
    others = dict.fromkeys(set(cypher.query(f"read/{name}").params) - {number, "run", "attempt"}, 0)
    with pytest.raises(ConfigError, match=f"^{name}: {number}: .* is not a number of 64 bits$"):
        store.query(name, run="live", attempt=0, **others, **{number: value})


@pytest.mark.parametrize("value", ["two", 1.5, True, [0]])
def test_an_attempt_that_is_no_number_is_refused(store: provstore.Store, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^evidence/unsigned: attempt: .* is not a number of 64 bits$"):
        store.query("evidence/unsigned", run="live", attempt=value)


@pytest.mark.parametrize("value", [1, "1", np.int64(1)])
def test_a_number_may_come_as_text_or_from_another_library(store: provstore.Store, value: Any) -> None:
    (row,) = store.query("evidence/record_at", run="live", attempt=0, index=value).rows
    assert (row["name"], row["rank_count"]) == ("loss", 1)


@pytest.mark.parametrize("index", [2, -1, 77])
def test_an_index_that_no_record_has_is_said(store: provstore.Store, index: int) -> None:
    answer = store.query("evidence/record_at", run="live", index=index)
    assert answer.rows == ()
    assert answer.notes == (
        "no record of this attempt has this index: evidence/recorded_modes gives the first and the last",
    )
    assert answer.to_dict()["notes"] == list(answer.notes)


def test_an_answer_with_rows_has_no_remark(store: provstore.Store) -> None:
    assert store.query("evidence/record_at", run="live", index=0).notes == ()


def test_every_question_about_evidence_says_what_an_empty_answer_means() -> None:
    assert all(cypher.query(name).none for name in cypher.names("read/evidence"))


def test_no_parameter_is_a_number_in_one_query_and_text_in_another() -> None:
    taken = {name for one in cypher.names("read") for name in cypher.query(one).params}
    assert taken > cypher.NUMBERS
    texts_and_lists = {"run", "iri", "target", "call", "sha256", "document", "bundles", "keys", "iris"}
    texts_and_lists |= {"agent_run", "ranks", "trace_id"}
    assert taken - cypher.NUMBERS == texts_and_lists


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("evidence/unsinged", "; did you mean evidence/unsigned?"),
        ("lagging_rank", "; did you mean collectives/lagging_ranks"),
        ("evidence/listing", ""),
        ("lineage/ancestor", ""),
    ],
)
def test_only_questions_that_are_listed_are_offered(store: provstore.Store, typed: str, offered: str) -> None:
    with pytest.raises(ConfigError) as caught:
        store.query(typed)
    said = str(caught.value)
    assert said.startswith(f"{typed}: query: no such query{offered}")
    assert "evidence_bytes" not in said
    for name in said.partition("did you mean ")[2].rstrip("?").split(" or "):
        assert not name or f"read/{name}".startswith(cypher.OFFERED)


def test_a_building_block_is_still_answered_by_its_name(store: provstore.Store) -> None:
    assert store.query("by_number", run="live", rank=0, seq=0).rows == ()


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"run": "life"}, "did you mean live?"),
        ({"run": "something"}, "there are live"),
        ({"run": 5}, "there are live"),
        ({"run": "live", "attempt": 3}, "of run live there are the attempts 0"),
    ],
)
def test_a_run_that_is_not_there_is_answered_with_those_that_are(
    store: provstore.Store, asked: dict[str, Any], hint: str
) -> None:
    with pytest.raises(InputError, match="the store holds none") as caught:
        store.query("evidence/unsigned", **asked)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("finite_out", "finite_out: no captured property has this name; near to it: is_finite_out"),
        ("zzz", "zzz: no captured property has this name; docs/reference/protocol.md lists them"),
    ],
)
def test_a_name_that_no_property_has_is_told_beside_what_cypher_counts(
    store: provstore.Store, name: str, said: str
) -> None:
    found = store.cypher(f"MATCH (n) WHERE n.{name} = false AND n.run = 'live' RETURN count(*) AS n")

    assert found.rows == ({"n": 0},)
    assert [note.startswith(said) for note in found.notes] == [True]
