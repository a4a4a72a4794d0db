"""Records, signed bundles and signing keys as nodes: what stands in the graph follows from the stored bytes alone.

Nothing here is verified: the bytes are shown as they are, and :mod:`provstore.evidence` judges them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from provstore.errors import InputError
from provstore.graph.action_facts import KINDS, action_block
from provstore.graph.columns import without_empty
from provstore.graph.dump_facts import run_nodes
from provstore.graph.recorded_ids import bundle_iri, key_iri, record_iri
from provstore.graph.said import integer, string, tagged_integer
from provstore.graph.signal_facts import signal_block
from provstore.model import canonical, ids
from provstore.model.block import Block, Column, Nodes, Relations, Value
from provstore.model.canonical import Json

RECORD_LABELS = ("Element", "Entity", "Record")
BUNDLE_LABELS = ("Element", "Entity", "EvidenceBundle")
KEY_LABELS = ("Element", "Agent", "SigningKey")
MAX_MEMBERS = 2_000_000
"""Records that one bundle is linked to; an epoch file of 120 MiB holds fewer."""

_COMMON = frozenset(("at", "attempt", "kind", "n", "rank", "run", "schema"))
_TEXTS = {"mode": "policy_mode", "reason": "policy_reason"}
_NO_RECORD: dict[str, Any] = {}


def record_block(
    run: str,
    attempt: int,
    first: int,
    lines: Sequence[bytes],
    *,
    journal_ref: str = "",
    embed: bool = True,
    said: Sequence[dict[str, Any]] | None = None,
) -> Block:
    """Return records as nodes, each linked to the element of the file that it covers.

    Args:
        run: Where they were put.
        attempt: Its incarnation.
        first: Index in the run tree of the first.
        lines: Their canonical text.
        journal_ref: Journal and frame that hold them.
        embed: Keep their text on the nodes, so that the graph alone can be verified.
        said: What :func:`members` gives for the lines, where that is known.
    """
    said = members(lines) if said is None else said
    rows = [_record_row(one) for one in said]
    keys = [record_iri(run, attempt, first + at) for at in range(len(lines))]
    columns: dict[str, Column] = {
        "run": [run] * len(lines),
        "attempt": [attempt] * len(lines),
        "leaf": [hashlib.sha256(b"\0" + line).hexdigest() for line in lines],
        "leaf_index": list(range(first, first + len(lines))),
        "record": [_text(line) if embed else None for line in lines],
        "journal_ref": [journal_ref or None] * len(lines),
    }
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = [row.get(name) for row in rows]
    nodes = [run_nodes(run, attempt), Nodes(RECORD_LABELS, keys, without_empty(columns))]
    links = [(key, element) for key, one in zip(keys, said) if (element := _element(one)) is not None]
    if not links:
        return Block(run, attempt, tuple(nodes))
    nodes.append(Nodes(("Element", "Entity"), [target for _, target in links]))
    derived = Relations("WAS_DERIVED_FROM", [source for source, _ in links], [target for _, target in links])
    return Block(run, attempt, tuple(nodes), (derived,))


def members(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the members of each record; a text that is no record has none."""
    return [_object(line) for line in lines]


def record_blocks(run: str, attempt: int, first: int, lines: Sequence[bytes], *, journal_ref: str = "") -> list[Block]:
    """Return all that records are in the graph: themselves, and the actions and epochs that they tell of."""
    said = members(lines)
    blocks = [record_block(run, attempt, first, lines, journal_ref=journal_ref, said=said)]
    return [*blocks, *told_blocks(run, attempt, first, said)]


def told_blocks(run: str, attempt: int, first: int, said: Sequence[dict[str, Any]]) -> list[Block]:
    """Return what records tell of beside themselves: actions and epochs, and what was seen beside the job."""
    told = (action_block(run, attempt, first, said), signal_block(run, attempt, first, said))
    return [one for one in told if one is not None]


def bundle_block(
    run: str,
    attempt: int,
    envelope: bytes,
    checkpoint: bytes | None,
    *,
    journal_ref: str = "",
    max_members: int = MAX_MEMBERS,
) -> Block:
    """Return a signed bundle as a node, linked to its records, its predecessor and the key that it names.

    Args:
        run: Where it was put.
        attempt: Its incarnation.
        envelope: The DSSE envelope; where it is none, the node says what can be said.
        checkpoint: The signed note that belongs to it.
        journal_ref: Journal and frame that hold it.
        max_members: A bundle that claims more records is linked to none of them.
    """
    facts = _bundle_facts(envelope)
    facts |= {"run": run, "attempt": attempt, "journal_ref": journal_ref or None}
    facts["checkpoint"] = _text(checkpoint) if checkpoint is not None else None
    number, first, size, keyid = (facts[name] for name in ("epoch", "first", "size", "keyid"))
    unread = f"{ids.attempt_iri(run, attempt)}/epoch/unread-{facts['payload_sha256']}"
    iri = bundle_iri(run, attempt, number) if isinstance(number, int) else unread
    nodes = [run_nodes(run, attempt), Nodes(BUNDLE_LABELS, [iri], without_empty({n: [v] for n, v in facts.items()}))]
    relations = []
    if isinstance(keyid, str) and keyid:
        nodes.append(Nodes(KEY_LABELS, [key_iri(keyid)], {"keyid": [keyid]}))
        relations.append(Relations("WAS_ATTRIBUTED_TO", [iri], [key_iri(keyid)]))
    if isinstance(number, int) and number:
        nodes.append(Nodes(BUNDLE_LABELS, [bundle_iri(run, attempt, number - 1)]))
        relations.append(Relations("WAS_DERIVED_FROM", [iri], [bundle_iri(run, attempt, number - 1)]))
    if isinstance(first, int) and isinstance(size, int) and first < size <= first + max_members:
        members = [record_iri(run, attempt, index) for index in range(first, size)]
        nodes.append(Nodes(RECORD_LABELS, members))
        relations.append(Relations("HAD_MEMBER", [iri] * len(members), members))
    return Block(run, attempt, tuple(nodes), tuple(relations))


def _bundle_facts(envelope: bytes) -> dict[str, Value | None]:
    """Return what a bundle's node shows of its envelope; what the bytes do not say is ``None``."""
    outer = _object(envelope)
    payload = _decoded(outer.get("payload"))
    statement = _object(payload)
    signature, predicate = _only(outer, "signatures"), _member(statement, "predicate")
    policy = _member(predicate, "policy")
    return {
        "payload": string(outer.get("payload")),
        "payload_type": string(outer.get("payloadType")),
        "payload_sha256": hashlib.sha256(payload).hexdigest(),
        "sig": string(signature.get("sig")),
        "keyid": string(signature.get("keyid")),
        "store": string(predicate.get("store")),
        "epoch": integer(predicate.get("epoch")),
        "first": integer(predicate.get("first")),
        "size": integer(predicate.get("size")),
        "root": string(predicate.get("root")),
        "prev_sha256": string(predicate.get("prev")),
        "subject_sha256": _subject(statement),
        "closed": predicate.get("closed") is True,
        "policy_digest": string(policy.get("digest")),
        "policy_mode": string(policy.get("mode")),
        "policy_reason": string(policy.get("reason")),
        "wall": string(_member(predicate, "clock").get("wall")),
    }


def _record_row(said: dict[str, Any]) -> dict[str, Value]:
    """Return what a record's node shows of its text; a text that is no record shows nothing."""
    row: dict[str, Value | None] = {
        "kind": string(said.get("kind")),
        "rank": integer(said.get("rank")),
        "rank_count": integer(said.get("n")),
        "at_ns": tagged_integer(said.get("at")),
    }
    if row["kind"] in KINDS:
        # Their own nodes show the rest.
        return {name: value for name, value in row.items() if value is not None}
    rest = {name: value for name, value in said.items() if name not in _COMMON}
    if said.get("kind") == "ingest":
        row |= _ingest_row(rest)
    for name, to in _TEXTS.items():
        if said.get("kind") in ("policy", "run-close") and isinstance(rest.get(name), str):
            row[to if said.get("kind") == "policy" else name] = rest.pop(name)
    for name in ("name", "sha256", "keyid"):
        if isinstance(rest.get(name), str):
            row[name] = rest.pop(name)
    if integer(rest.get("step")) is not None:
        row["step"] = rest.pop("step")
    left = {name: value for name, value in rest.items() if value is not None}
    row["extra"] = orjson.dumps(left, option=orjson.OPT_SORT_KEYS).decode() if left else None
    return {name: value for name, value in row.items() if value is not None}


def _ingest_row(rest: dict[str, Any]) -> dict[str, Value | None]:
    source, facts, policy = (_member(rest, name) for name in ("source", "facts", "policy"))
    row: dict[str, Value | None] = {
        "journal_batch": integer(rest.pop("batch", None)),
        "sha256": string(source.get("sha256")),
        "size_bytes": integer(source.get("size")),
        "reader": " ".join(str(source[name]) for name in ("reader", "version") if name in source) or None,
        "facts_sha256": string(facts.get("sha256")),
        "facts_rows": integer(facts.get("rows")),
        "policy_mode": string(policy.get("mode")),
        "policy_reason": string(policy.get("reason")),
    }
    for name in ("source", "facts", "policy"):
        rest.pop(name, None)
    return row


def _element(said: dict[str, Any]) -> str | None:
    """Return the id of the element that a record's file is in the graph; only ids of this scheme count."""
    element = _member(said, "source").get("element") if said.get("kind") == "ingest" else None
    return element if isinstance(element, str) and element.startswith(ids.BASE) else None


def _object(data: bytes) -> dict[str, Any]:
    """Return the object in JSON text, or an empty one: bytes of evidence may be anything."""
    if len(data) > 4 * 1024 * 1024:
        return _NO_RECORD
    try:
        said = canonical.parse(data, max_bytes=len(data))
    except InputError:
        return _NO_RECORD
    return said if isinstance(said, dict) else _NO_RECORD


def _member(said: dict[str, Any], name: str) -> dict[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def _only(said: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the one object in a list; an empty one where there are none or several."""
    found = said.get(name)
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict) else {}


def _subject(statement: dict[str, Any]) -> str | None:
    subjects = statement.get("subject")
    first = subjects[0] if isinstance(subjects, list) and subjects and isinstance(subjects[0], dict) else {}
    return string(_member(first, "digest").get("sha256"))


def _decoded(text: Json) -> bytes:
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _text(data: bytes) -> str:
    """Return bytes as text; what is not UTF-8 is escaped, so that nothing is lost and nothing fails."""
    return data.decode("utf-8", errors="backslashreplace")
