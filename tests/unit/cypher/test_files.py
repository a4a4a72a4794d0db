"""Every shipped query keeps the rules of ``cypher/README.md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provstore import cypher
from provstore.cypher.guard import tokens
from provstore.errors import ConfigError
from provstore.model.block import UNIQUE_KEY

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "cypher").rglob("*.cypher"))
SHARED = [path for path in FILES if path.parent.name != "neo4j" and path.stem.count(".") == 0]
READS = [path for path in FILES if (ROOT / "cypher" / "read") in path.parents]


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.relative_to(ROOT).as_posix())


def load(path: Path) -> cypher.Query:
    name, _, engine = path.relative_to(ROOT / "cypher").with_suffix("").as_posix().partition(".")
    return cypher.query(name, engine or None)


@named(FILES)
def test_a_file_says_what_it_answers_takes_and_returns(path):
    query = load(path)
    assert query.summary
    assert query.text
    assert query.params == tuple(dict.fromkeys(query.params))


@named(FILES)
def test_every_path_of_variable_length_has_an_upper_bound(path):
    found = [token.text for token in tokens(load(path).text)]
    for at, sign in enumerate(found):
        if sign == "*" and _is_in_relationship(found, at):
            assert found[at + 2 : at + 3] == [".."], f"*{found[at + 1]} has no range"
            assert found[at + 1] in ("0", "1")
            assert found[at + 3].isdigit()


def _is_in_relationship(found: list[str], at: int) -> bool:
    depth = 0
    for back in range(at - 1, -1, -1):
        depth += (found[back] in "])}") - (found[back] in "[({")
        if depth < 0:
            return found[back] == "[" and found[back - 1] == "-"
    return False


@named(READS)
def test_a_question_has_a_total_order_or_says_why_not(path):
    text = load(path).text
    header = path.read_text().split("\n\n")[0]
    if re.search(r"^// order: none, \w+", header, re.MULTILINE):
        return
    tail = text[text.rindex("RETURN") :]
    assert "ORDER BY" in tail
    ordered = {word.strip().split()[0] for word in tail.split("ORDER BY")[1].split("LIMIT")[0].split(",")}
    keys = {word for word in ordered if word.partition(".")[2] in UNIQUE_KEY.values()}
    assert ordered - keys <= set(load(path).returns), "rows are ordered by what they return, or by a unique key"


@named(READS)
def test_the_columns_a_question_returns_are_those_it_declares(path):
    tail = load(path).text
    tail = tail[tail.rindex("RETURN") :].split("ORDER BY")[0]
    aliases = [found[1] for found in re.finditer(r"\bAS (\w+)|(?<=[\s,])(\w+)(?=\s*(?:,|$))", tail) if found[1]]
    assert set(aliases) <= set(load(path).returns)
    assert load(path).returns


@named(SHARED)
def test_a_shared_text_uses_nothing_that_one_engine_lacks(path):
    text = load(path).text
    words = {token.text for token in tokens(text) if token.kind == "word"}
    assert not words & {"CALL", "SHOW", "LOAD", "FOREACH", "elementId", "timestamp", "apoc"}
    assert not re.search(r"\bid\(", text)
    assert "/*" not in text
    properties = set(re.findall(r"\w\.(\w+)", text))
    assert not properties & {"id", "title", "type", "label", "node_type"}


@named(SHARED)
def test_a_closure_is_distinct_and_binds_no_path(path):
    text = load(path).text
    if "*0..1000000" in text or ("*1..1000000" in text and "shortestPath" not in text):
        assert "RETURN DISTINCT" in text or "count(DISTINCT" in text
        assert "WITH DISTINCT" not in text
        assert not re.search(r"=\s*\(", text.split("RETURN")[0])


def test_fewer_than_five_files_exist_for_one_engine_only():
    assert len([path for path in FILES if "." in path.stem]) < 5


def test_query_text_lives_nowhere_else():
    looks_like_cypher = re.compile(r"\b(?:MATCH|MERGE|UNWIND|DETACH DELETE)\b\s*[(\[$]|\bRETURN (?:DISTINCT )?\w+\.")
    # The command line may show an example of what a user can type.
    files = [path for path in (ROOT / "provstore").rglob("*.py") if path.parent.name != "cli"]
    held = {path: looks_like_cypher.search(path.read_text()) for path in files}
    assert {path.name: found.group() for path, found in held.items() if found} == {}


def test_names_lists_a_topic_and_everything_below_it():
    assert "read/lineage/ancestors" in cypher.names("read/lineage")
    assert set(cypher.names("read/store")) < set(cypher.names("read"))


@pytest.mark.parametrize(
    "name", ["read/lineage/nonsense", "../secrets", "ancestors", "/etc/passwd", "read/../write/nodes", ""]
)
def test_an_unknown_name_is_one_clear_error(name):
    with pytest.raises(ConfigError, match=r"no such query; known are|not the name of a query"):
        cypher.query(name)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("// What?\n// params: a\n// returns: b\nRETURN 1 AS b", "declared are .'a'., used are .."),
        ("// What?\n// params:\n// returns: b\nRETURN $a AS b", "declared are .., used are .'a'."),
        ("// params:\n// returns: b\nRETURN 1 AS b", "needs a line of what it answers"),
        ("// What?\n// params:\nRETURN 1 AS b", "needs a line of what it answers"),
        ("RETURN 1 AS b", "needs a line of what it answers"),
    ],
)
def test_a_file_with_a_wrong_header_is_refused(tmp_path, monkeypatch, source, fault):
    (tmp_path / "read").mkdir()
    (tmp_path / "read" / "one.cypher").write_text(source)
    monkeypatch.setattr(cypher, "_root", lambda: tmp_path)
    with pytest.raises(ConfigError, match=rf"read/one.cypher|one.cypher: .*{fault}"):
        cypher._load.__wrapped__("read/one", None)


def test_a_dialect_file_stands_in_for_its_engine_and_must_give_its_reason(tmp_path, monkeypatch):
    (tmp_path / "read").mkdir()
    header = "// What?\n// params:\n// returns: b\n"
    (tmp_path / "read" / "one.cypher").write_text(header + "RETURN 1 AS b")
    own = tmp_path / "read" / "one.neo4j.cypher"
    own.write_text(header + "// dialect: needs a hint\nRETURN 2 AS b")
    monkeypatch.setattr(cypher, "_root", lambda: tmp_path)
    load_one = cypher._load.__wrapped__
    assert [load_one("read/one", engine).text for engine in (None, "embedded", "neo4j")] == ["RETURN 1 AS b"] * 2 + [
        "RETURN 2 AS b"
    ]
    own.write_text(header + "RETURN 2 AS b")
    with pytest.raises(ConfigError, match="dialect: the reason"):
        load_one("read/one", "neo4j")


def test_names_for_labels_and_types_come_from_the_allow_list_only():
    nodes, relations = cypher.query("write/nodes"), cypher.query("write/relations")
    text = cypher.named(nodes, {"BASE_LABEL": "Element", "LABELS": ("Entity", "Call")}).text
    assert "MERGE (n:Element {iri: row.key})" in text
    assert "SET n:Entity:Call" in text
    for query, stand_ins in (
        (nodes, {"BASE_LABEL": "Person"}),
        (nodes, {"LABELS": ("A`) DETACH DELETE (n",)}),
        (nodes, {"LABELS": ("a" * 65,)}),
        (nodes, {"LABELS": ()}),
        (relations, {"RELATION_TYPE": "OWNS"}),
        (relations, {"anything": "USED"}),
    ):
        with pytest.raises(ConfigError, match="is not a name that may stand in a query"):
            cypher.named(query, stand_ins)
