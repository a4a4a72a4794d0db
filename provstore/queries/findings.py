"""Findings that a graph holds, and the recorded actions that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from provstore.cypher import query
from provstore.model import ids
from provstore.queries.rows import Row, optional_integer, optional_text, text
from provstore.stores import GraphStore


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding of a saved diagnosis, or one among what was seen beside a job."""

    key: str
    """By which it is known: of a diagnosis the finding's id, of a signal the SHA-256 of its line."""
    code: str
    confidence: str | None
    summary: str
    ranks: tuple[int, ...]
    """Whom it names."""
    group: str | None
    """Name of a process group, with or without its ranks."""
    seq: int | None


@dataclass(frozen=True, slots=True)
class NamedAction:
    """A recorded action, as far as a list shows it."""

    action_id: str
    rank: int | None
    op: str | None
    group: str | None
    seq: int | None
    step: int | None
    epoch: int | None


def stored_findings(store: GraphStore, run: str, attempt: int) -> Iterator[StoredFinding]:
    """Yield the findings of an attempt, by code and id."""
    for row in store.run(query("read/evidence/stored_findings"), {"run": run, "attempt": attempt}):
        said = _extra(row)
        group = said.get("group")
        named = group.get("name") if isinstance(group, dict) else None
        seq = said.get("seq")
        ranks = row["ranks"]
        yield StoredFinding(
            str(said.get("id") or ids.component_text(text(row, "iri").rpartition("/")[2])),
            text(row, "code"),
            optional_text(row, "confidence"),
            optional_text(row, "summary") or "",
            tuple(ranks) if isinstance(ranks, list) else (),
            optional_text(row, "group") or (named if isinstance(named, str) else None),
            seq if type(seq) is int else optional_integer(row, "seq"),
        )


def named_actions(store: GraphStore, run: str, attempt: int, finding: StoredFinding) -> Iterator[NamedAction]:
    """Yield the recorded actions that a finding names: those of its ranks in its call; none where it names no call."""
    if finding.seq is None or finding.group is None or not finding.ranks:
        return
    given = {"run": run, "attempt": attempt, "seq": finding.seq, "ranks": list(finding.ranks)}
    for row in store.run(query("read/targets/actions_of_call"), given):
        group = optional_text(row, "group")
        if group is None or finding.group not in {group, group.rpartition("@")[0]}:
            continue
        yield NamedAction(
            text(row, "action_id"),
            optional_integer(row, "rank"),
            optional_text(row, "op"),
            group,
            optional_integer(row, "seq"),
            optional_integer(row, "step"),
            optional_integer(row, "train_epoch"),
        )


def _extra(row: Row) -> dict[str, object]:
    found = row["extra"]
    try:
        said = orjson.loads(found) if isinstance(found, str) else {}
    except orjson.JSONDecodeError:
        return {}
    return said if isinstance(said, dict) else {}
