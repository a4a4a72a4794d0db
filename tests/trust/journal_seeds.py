"""A journal that holds a frame of every kind, for mutation."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from provstore.errors import StoreError
from provstore.journal import Journal
from provstore.model.block import Block, Nodes, Relations
from provstore.model.evidence import RankHead


def fill(journal: Journal) -> Sequence[Path]:
    """Append some of everything; return the segment files."""
    keys = ["urn:a", "urn:b"]
    nodes = Nodes(("Element", "Entity"), keys, {"seq": [1, 2], "name": ["x", None]})
    journal.append(Block("run", 0, (nodes,), (Relations("USED", keys[1:], keys[:-1]),)))
    head = RankHead(3, 2, "0" * 64, "SHA256:key", "c2ln")
    journal.append_records("run", 0, [b'{"n":1}', b'{"n":2}'], [head])
    journal.append_bundle("run", 0, b'{"payload":"e30="}', b"origin\n2\nroot\n\n\xe2\x80\x94 name sig\n")
    return sorted(journal.directory.glob("seg-*.pvj"))


def read(journal: Journal) -> None:
    """Read all evidence of a journal, as a rebuild and a verification do."""
    for _ in journal.accepted(on_problem=lambda problem: None):
        pass
    list(journal.events())
    with contextlib.suppress(StoreError):
        for scope in journal.scopes():
            log = journal.evidence(*scope)
            for _ in log.bundles():
                pass
            for record in log.records():
                assert isinstance(record.line, bytes)
            list(log.heads())
            journal.evidence_size(*scope)
