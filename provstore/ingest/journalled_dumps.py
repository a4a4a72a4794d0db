"""The dumps that a journal holds, as far as it takes to see whether another one belongs to the same attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from provstore.graph.dump_facts import dump_from_facts
from provstore.graph.merge import contradict
from provstore.ingest.given import Scope, contradicted
from provstore.journal import Journal
from provstore.model import ids
from provstore.model.block import Block, Value
from provstore.model.dump import ABSENT, Calls, Dump, Refusal

Row = dict[str, Value | None]


def contradicting(journal: Journal, scope: Scope, dumps: Sequence[Dump], reader: str) -> list[tuple[Refusal, Dump]]:
    """Return the dumps that contradict one that was taken in before, with the reason.

    Raises:
        StoreError: A batch is missing or altered.
    """
    refused: dict[int, tuple[Refusal, Dump]] = {}
    ranks = {dump.rank for dump in dumps}
    for held in _held(journal, scope, ranks, reader):
        for dump in dumps:
            if (dump.rank, dump.backend) != (held.rank, held.backend) or id(dump) in refused:
                continue
            found = contradict(held, dump)
            if found is not None:
                refused[id(dump)] = (contradicted(dump, found), dump)
    return list(refused.values())


def _held(journal: Journal, scope: Scope, ranks: set[int], reader: str) -> Iterator[Dump]:
    numbers = [
        number
        for number, batch in journal.batches()
        if (batch.run, batch.attempt) == scope
        and batch.source is not None
        and batch.source.reader == reader
        and batch.source.rank in ranks
    ]
    for number in numbers:
        for _, block in journal.blocks(number - 1, until=number):
            yield from _dumps(block)


def _dumps(block: Block) -> Iterator[Dump]:
    """Yield the dump that a block states; of its calls, what tells one from another."""
    members = {str(row["group"]): _ranks(row.get("ranks")) for _, row in _rows(block, "ProcessGroup")}
    for _, header in _rows(block, "Dump"):
        bare = dump_from_facts(header, members)
        yield replace(bare, calls=_calls(block, bare))


def _calls(block: Block, header: Dump) -> Calls:
    group_of = {key: row["group"] for key, row in _rows(block, "Signature")}
    groups = {ids.group_key(group.name, group.ranks): at for at, group in enumerate(header.groups)}
    calls = Calls()
    for _, row in _rows(block, "Call"):
        calls.group.append(groups[str(group_of[str(row["signature"])])])
        calls.seq.append(_number(row, "seq" if row.get("seq") is not None else "after_seq"))
        for name, column in (("record_id", calls.record_id), ("op_id", calls.op_id), ("created_ns", calls.created_ns)):
            column.append(_number(row, name))
    return calls


def _ranks(found: object) -> tuple[int, ...] | None:
    return tuple(one for one in found if type(one) is int) if isinstance(found, list) else None


def _number(row: Row, name: str) -> int:
    found = row.get(name)
    return found if type(found) is int else ABSENT


def _rows(block: Block, label: str) -> Iterator[tuple[str, Row]]:
    """Yield key and properties of the nodes with a label."""
    for nodes in block.nodes:
        if label in nodes.labels:
            names = list(nodes.columns)
            columns = [nodes.columns[name] for name in names]
            for at, key in enumerate(nodes.keys):
                yield key, {name: column[at] for name, column in zip(names, columns)}
