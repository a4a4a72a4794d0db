"""Ad-hoc Cypher may only read, and only within bounds."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from provstore.cypher import adhoc
from provstore.cypher.guard import FIRST_WORDS, MAX_TEXT_BYTES, VERBS, properties_of
from provstore.errors import InputError
from tests.cost import how_many_times

ALLOWED = [
    "MATCH (n) RETURN n LIMIT 5",
    "match (c:Call {run: $run}) where c.rank in [0, 1] return c.seq order by c.seq desc skip 1 limit 3",
    "MATCH (a:Element {iri: $iri})-[:USED|WAS_GENERATED_BY*1..50]->(b) RETURN DISTINCT b.iri",
    "MATCH (a)-[r:USED*..5]-(b), (c)<-[*3]-(d) RETURN count(*)",
    "MATCH p = shortestPath((a:Call)-[:USED*1..20]->(b)) RETURN length(p), [n IN nodes(p) | n.iri] AS iris",
    "OPTIONAL MATCH (n:`Odd Label`) RETURN n.`odd name`, n.set, n.call // comment",
    "MATCH (c:Call) RETURN c.rank, count(*) AS calls, collect(DISTINCT c.seq)[0..3] AS first ORDER BY calls DESC",
    "UNWIND [1, 2.5, 1e3] AS x WITH x * 2 AS y, (x + 1) * 3 AS z WHERE NOT (y = 2) RETURN y, -z, [y * 2]",
    "MATCH (n) WHERE EXISTS { MATCH (n)-[:USED]->(:Call) } AND n.iri STARTS WITH 'MERGE (' RETURN n",
    "MATCH (n) RETURN CASE WHEN n.seq > 3 THEN 'späť; CREATE' ELSE \"it's\" END AS text",
    "MATCH (n) RETURN n.seq UNION ALL MATCH (m) RETURN m.seq",
    "MATCH (n) RETURN size([x IN range(0, 3) WHERE x > 1]) + COUNT { (n)--() } AS n",
    "RETURN all(x IN [1] WHERE x > 0) AND any(x IN [1] WHERE x = 1) AS b",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_a_reading_query_is_allowed(text):
    assert adhoc(text).text == text


REFUSED = {
    "MATCH (n) DETACH DELETE n": "DETACH",
    "MATCH (n) SET n.a = 1": "SET",
    "MATCH (n) REMOVE n.a": "REMOVE",
    "create (n)": "create",
    "MERGE (n) RETURN n": "MERGE",
    "MATCH (n) RETURN n; MATCH (m) RETURN m": ";",
    "MATCH (n) RETURN n;": ";",
    "LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l": "LOAD",
    "MATCH (n) LOAD CSV FROM 'file:///etc/passwd' AS l RETURN l": "LOAD",
    "MATCH (n) CALL db.labels() YIELD label RETURN label": "CALL",
    "CALL { MATCH (n) RETURN n } RETURN n": "CALL",
    "MATCH (n) CALL (n) { CREATE (m) } RETURN n": "CALL",
    "PROFILE MATCH (n) RETURN n": "PROFILE",
    "EXPLAIN MATCH (n) RETURN n": "EXPLAIN",
    "CYPHER 5 MATCH (n) RETURN n": "CYPHER",
    "USE neo4j MATCH (n) RETURN n": "USE",
    "MATCH (n) FOREACH (x IN [1] | CREATE (m)) RETURN n": "FOREACH",
    "SHOW USERS": "SHOW",
    "RETURN apoc.load.json('http://x')": "apoc",
    "RETURN `apoc`.`load`.`json`('http://x')": "`json`",
    "RETURN `date`('2024-01-01')": "`date`",
    "RETURN gds.version()": "gds",
    "RETURN randomUUID()": "randomUUID",
    "RETURN elementId(n)": "elementId",
    "RETURN date.truncate('day', d)": "truncate",
    "MATCH (n) RETURN n /* hidden */": "/*",
    "MATCH (n {a: '\\u0027}) RETURN n": "\\u",
    "MATCH (n) RETURN n.\uff41": "'\\uff41'",
    "MATCH (n) // \u2028 CREATE\nRETURN n": "'// \\u2028 CREATE'",
    "MATCH (n:`ä`) RETURN n": "'`\\xe4`'",
    "MATCH (a)-[*]->(b) RETURN b": "*",
    "MATCH (a)-[*1..]->(b) RETURN b": "*",
    "MATCH (a)-[:USED*1..51]->(b) RETURN b": "*",
    "MATCH (a)-[r:USED * 0 .. 1000000 {a: 1}]-(b) RETURN b": "*",
    "MATCH (a)<-[*51]-(b) RETURN b": "*",
    "MATCH p = shortestPath((a)-[*]-(b)) RETURN p": "*",
    "MATCH (a)-[:USED]->+(b) RETURN b": "+",
    "MATCH (a)-[:USED]->{1,}(b) RETURN b": "{",
    "MATCH (a)-[:USED]-*(b) RETURN b": "*",
    "MATCH ((a)-[:USED]->(b))+ RETURN b": "+",
    "MATCH ((a)-[:USED]->(b)){1,5} RETURN b": "{",
    "MATCH SHORTEST 1 (a)-[:USED]->(b) RETURN b": "SHORTEST",
    "MATCH (n:$($label)) RETURN n": "$",
    "MATCH (n) RETURN n FORMAT CSV": "FORMAT",
    "FOR VALID_TIME ALL MATCH (n) RETURN n": "FOR",
    "MATCH (n) WHERE n.a = 'open RETURN n": "'",
    "n": "n",
    "": "nothing",
}


@pytest.mark.parametrize(("text", "word"), REFUSED.items(), ids=range(len(REFUSED)))
def test_anything_else_is_refused_by_its_first_offending_word(text, word):
    with pytest.raises(InputError) as refusal:
        adhoc(text)
    assert f"{word}:" in str(refusal.value)
    assert str(refusal.value).startswith("query: ")


def test_a_refusal_names_line_and_column():
    with pytest.raises(InputError, match="line 2, column 3: DELETE"):
        adhoc("MATCH (n)\n  DELETE n")


def test_the_longest_text_is_64_kib():
    text = "RETURN '" + "a" * (MAX_TEXT_BYTES - 9) + "'"
    assert adhoc(text).name == "adhoc"
    with pytest.raises(InputError, match="65537 bytes are more than 65536"):
        adhoc(text + " ")


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_no_verb_passes_as_a_clause_in_any_case(verb):
    for spelled in (verb, verb.lower(), verb.capitalize()):
        with pytest.raises(InputError):
            adhoc(f"MATCH (n) {spelled} (m) RETURN n")


@given(st.text(max_size=60))
def test_any_text_is_either_refused_or_begins_with_a_reading_clause(text):
    try:
        accepted = adhoc(text)
    except InputError:
        return
    assert accepted.text.split("//")[0].strip() == "" or any(word in accepted.text.upper() for word in FIRST_WORDS)


def test_an_adhoc_query_carries_its_limits_and_parameters():
    query = adhoc("MATCH (n {a: $a, b: $b, c: $a}) WHERE n.d = '$text' RETURN n // $comment")
    assert (query.params, query.timeout_seconds, query.max_rows) == (("a", "b"), 10.0, 10_000)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            'MATCH (a:Action {run: "x", rank: 1}) WHERE a.finite_out = false RETURN count(*)',
            ("run", "rank", "finite_out"),
        ),
        ("MATCH (a)-[u:USED {scope: $s}]->(b:`Tensor State` {iri: 1}) RETURN u.`basis`", ("scope", "iri", "basis")),
        ("MATCH (a) WITH {own: a.rank, more: [1, {deep: a.seq}]} AS m RETURN m.own, m.more", ("rank", "seq")),
        ("RETURN 1.5 AS a, 'x.y {z: 1}' AS b, $p", ()),
        ("MATCH (a)-[:USED*1..3]->(b) RETURN a.rank, b.rank", ("rank",)),
    ],
)
def test_the_properties_that_a_text_reads_are_named_once(text, names):
    assert properties_of(text) == names


def test_the_properties_of_a_long_text_are_found_in_proportion_to_it():
    def text(keys):
        return f"RETURN {{{', '.join(f'k{at}: 1' for at in range(keys))}}} AS made"

    assert properties_of(text(10)) == ()
    assert how_many_times(lambda: properties_of(text(2_000)), lambda: properties_of(text(500)), rounds=3) < 8
