"""DOT and Mermaid pictures."""

from __future__ import annotations

import io
import json
import re

import pytest
from captured_run import FIRST, RUN, SECOND, node, relation

from provstore import rooms
from provstore.exports import ExportInput, ExportOptions, ExportReport
from provstore.model.block import Statement

EVIL = 'a"]`<b>&\n\u202e\x00\\N#quot;|{}'


def drawn(name: str, document: ExportInput = RUN, **options: object) -> tuple[str, ExportReport]:
    out = io.StringIO()
    report = rooms.load("exports.graphs", name).export(document, out, ExportOptions(**options))
    return out.getvalue(), report


def ladder(ranks: int, steps: int) -> ExportInput:
    """Every rank puts something into each of a chain of instances."""
    rows: list[Statement] = []
    for step in range(steps):
        instance = f"https://w3id.org/provstore/id/big/0/nccl/0@x/{step}"
        rows.append(node("Element:Activity:Collective", instance, seq=step))
        for rank in range(ranks):
            rows.append(node("Element:Entity:Call", f"{instance}/{rank}/in", rank=rank, seq=step, side="in"))
            rows.append(relation(instance, "USED", f"{instance}/{rank}/in"))
        if step:
            rows.append(relation(instance, "WAS_INFORMED_BY", instance[: -len(str(step))] + str(step - 1)))
    return ExportInput(lambda: rows, "big")


def test_nodes_have_the_short_labels_people_say() -> None:
    text, report = drawn("dot")
    assert '"rank 0 all_reduce #0 in"' in text
    assert '"rank 1 all_reduce #0 out"' in text
    assert '"all_reduce #1"' in text
    assert 'label="rank 1"' in text
    assert report.hidden == 0
    assert report.verified is None


def test_a_picture_shows_derived_edges_dashed_and_no_structure() -> None:
    text, _ = drawn("dot")
    assert text.count("style=dashed") == 3
    assert "call of" not in text


@pytest.mark.parametrize("name", ["dot", "mermaid"])
def test_what_is_highlighted_is_brought_out(name: str) -> None:
    plain, _ = drawn(name)
    bright, _ = drawn(name, highlight=[f"{SECOND}/0/in"])
    assert "penwidth" not in plain
    assert ("penwidth=3" in bright) if name == "dot" else re.search(r"class n\d+ culprit", bright)


@pytest.mark.parametrize("name", ["dot", "mermaid"])
def test_no_label_can_break_out_of_its_quotes(name: str) -> None:
    rows = [
        node("Element:Entity:Dump", "urn:x", file=EVIL),
        node("Element:Entity:ProcessGroup", "urn:y", desc=EVIL),
    ]
    text, _ = drawn(name, ExportInput(lambda: rows, EVIL))
    labels = re.findall(r'label="((?:[^"\\]|\\.)*)"' if name == "dot" else r'"([^"]*)"', text)
    assert len(labels) == 3
    for label in labels:
        assert not set(label) & set("`<>\u202e\x00\n")
        if name == "mermaid":
            assert not set(label.replace("<br/>", "")) & set("[]{}|&'\\")
            assert re.fullmatch(r"(?:[\w ]|#\d+;|<br/>)*", label)
    assert "\u202e" not in text
    assert "\x00" not in text


@pytest.mark.parametrize("name", ["dot", "mermaid"])
def test_a_large_picture_is_folded_by_instance_and_says_what_it_hides(name: str) -> None:
    text, report = drawn(name, ladder(64, 20))
    assert report.records == 20
    assert "64 ranks" in text.replace("#44;", ",")
    assert "1,280 nodes hidden" in text.replace("#44;", ",")
    # Every edge is drawn or counted: 1,280 into the instances, 19 between them.
    assert report.hidden == 1280 + 1280


@pytest.mark.parametrize("name", ["dot", "mermaid"])
def test_a_picture_too_large_even_when_folded_keeps_the_culprit(name: str) -> None:
    culprit = "https://w3id.org/provstore/id/big/0/nccl/0@x/2999/1/in"
    text, report = drawn(name, ladder(2, 3000), highlight=[culprit])
    assert report.records <= 1000
    assert "#2999" in text.replace("#35;", "#")
    hidden_nodes = re.search(r"([\d,]+) nodes hidden", text.replace("#44;", ","))
    assert hidden_nodes is not None
    assert int(hidden_nodes[1].replace(",", "")) + report.records == 9000


def test_a_mermaid_picture_stays_within_what_renderers_take() -> None:
    text, _ = drawn("mermaid", ladder(1, 400), max_nodes=5000)
    assert len(re.findall(r"--+>|-\.->", text)) <= 500
    assert len(text) <= 50_000


def test_json_holds_every_fact_as_it_is() -> None:
    text, report = drawn("json")
    document = json.loads(text)
    assert document["schema"] == "provstore-graph/1"
    assert report.records == len(document["nodes"]) + len(document["relations"]) == 29
    assert {"type": "CALL_OF", "source": f"{FIRST}/0/out", "target": FIRST, "properties": {}} in document["relations"]
