"""The mutations of signed evidence as statements of Cypher, run where evidence is shown as a graph.

Whoever changes a record's text here changes everything the graph shows of it alike, leaf included, so that only the
signature can tell; what changes a property alone leaves the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from provstore.graph.evidence_facts import bundle_block, record_block
from provstore.model.block import Block
from provstore.model.evidence import BundleAt
from tests import mutations as m
from tests.sealing import ATTEMPT, RUN

Statement: TypeAlias = tuple[str, dict[str, object]]

_RECORD = "MATCH (r:Record {run: $run, attempt: $attempt, leaf_index: $index}) "
_BUNDLE = "MATCH (b:EvidenceBundle {run: $run, attempt: $attempt, epoch: $epoch}) "
_SHOWN_OF_RECORD = (
    "leaf", "record", "kind", "rank", "rank_count", "at_ns", "step", "name", "sha256", "keyid", "extra",
    "policy_mode", "policy_reason", "reason",
)  # fmt: skip
_SHOWN_OF_BUNDLE = (
    "payload", "payload_type", "payload_sha256", "sig", "keyid", "store", "first", "size", "root", "prev_sha256",
    "subject_sha256", "closed", "policy_digest", "policy_mode", "policy_reason", "wall", "checkpoint",
)  # fmt: skip


def statements(edits: Iterable[m.Edit]) -> Iterator[Statement]:
    """Yield what does the edits, one statement of Cypher after the other."""
    for edit in edits:
        for text, given in _of(edit):
            yield text, {"run": RUN, "attempt": ATTEMPT, **given}


def _of(edit: m.Edit) -> list[Statement]:
    found: list[Statement] = []
    match edit:
        case m.SetRecord(index, line):
            found = [(_RECORD + "SET r += $shown", {"index": index, "shown": _record(line)})]
        case m.SetProperty(index, name, value):
            found = [(_RECORD + f"SET r.{name} = $value", {"index": index, "value": value})]
        case m.DeleteRecord(index):
            found = [(_RECORD + "DETACH DELETE r", {"index": index})]
        case m.Renumber(start, by):
            every = "MATCH (r:Record {run: $run, attempt: $attempt}) WHERE r.leaf_index >= $start "
            found = [(every + "SET r.leaf_index = r.leaf_index + $by", {"start": start, "by": by})]
        case m.InsertRecord(index, line):
            found = [_created("Record", f"record/{index}-again", _record(line) | {"leaf_index": index})]
        case m.SwapNumbers(one, other):
            found = _swapped("Record", "leaf_index", one, other)
        case m.AppendRecord(line):
            found = [_created("Record", "record/200", _record(line) | {"leaf_index": 200})]
        case m.SetBundle(position, bundle):
            found = [(_BUNDLE + "SET b += $shown", {"epoch": position, "shown": _bundle(bundle)})]
        case m.DeleteBundle(position):
            found = [(_BUNDLE + "DETACH DELETE b", {"epoch": position})]
        case m.SwapBundles(one, other):
            found = _swapped("EvidenceBundle", "epoch", one, other)
        case m.AppendBundle(bundle):
            found = [_created("EvidenceBundle", "epoch/5", _bundle(bundle) | {"epoch": 5})]
    return found


def _created(label: str, name: str, shown: Mapping[str, object]) -> Statement:
    labels = f":Element:Entity:{label}"
    own = {name: value for name, value in shown.items() if value is not None}
    iri = f"https://w3id.org/provstore/id/{RUN}/{ATTEMPT}/{name}"
    text = f"CREATE (n{labels} {{iri: $iri, run: $run, attempt: $attempt}}) SET n += $shown"
    return text, {"iri": iri, "shown": own}


def _swapped(label: str, name: str, one: int, other: int) -> list[Statement]:
    found = f"MATCH (n:{label} {{run: $run, attempt: $attempt, {name}: $was}}) SET n.{name} = $now"
    turns = ((one, -1), (other, one), (-1, other))
    return [(found, {"was": was, "now": now}) for was, now in turns]


def _record(line: bytes) -> dict[str, object]:
    return _shown(record_block(RUN, ATTEMPT, 0, [line]), 1, _SHOWN_OF_RECORD)


def _bundle(bundle: BundleAt) -> dict[str, object]:
    return _shown(bundle_block(RUN, ATTEMPT, bundle.envelope, bundle.checkpoint), 1, _SHOWN_OF_BUNDLE)


def _shown(block: Block, at: int, names: Iterable[str]) -> dict[str, object]:
    """Return the properties that bytes give, with nothing where they give none."""
    columns = block.nodes[at].columns
    return {name: columns[name][0] if name in columns else None for name in names}
