"""A graph in memory that keeps what was written first: enough to prove a mapping, and none of an engine's habits."""

from __future__ import annotations

from collections.abc import Iterable

from provstore.model.block import UNIQUE_KEY, Block, Statement, Value


class FakeStore:
    """Nodes by base label and key with the union of their labels; relations by type and ends, or by record key."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[str, str], tuple[set[str], dict[str, Value]]] = {}
        self.relations: dict[tuple[str, ...], Statement] = {}

    def write(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            for row in block.statements():
                if row.type is None:
                    self._write_node(row)
                else:
                    self._write_relation(row)

    def _write_node(self, row: Statement) -> None:
        base = next(label for label in row.labels if label in UNIQUE_KEY)
        labels, properties = self.nodes.setdefault((base, row.key), (set(), {}))
        labels.update(row.labels)
        for name, value in row.properties.items():
            assert name not in ("id", "title", "type")
            properties.setdefault(name, value)

    def _write_relation(self, row: Statement) -> None:
        assert row.type is not None
        assert row.target is not None
        assert (row.labels[0], row.key) in self.nodes, f"no end point {row.key}"
        assert (row.labels[1], row.target) in self.nodes, f"no end point {row.target}"
        key = row.properties.get("recordKey")
        identity = (row.type, str(key)) if key is not None else (row.type, row.key, row.target)
        self.relations.setdefault(identity, row)

    def statements(self) -> Iterable[Statement]:
        for (_, key), (labels, properties) in self.nodes.items():
            yield Statement(tuple(sorted(labels)), key, properties=properties)
        yield from self.relations.values()

    def dump(self) -> list[str]:
        """Every fact as text, sorted: two stores with equal dumps hold the same graph."""
        nodes = [f"{sorted(labels)} {key} {sorted(facts.items())}" for key, (labels, facts) in self.nodes.items()]
        edges = [
            f"{row.type} {row.key} {row.target} {sorted(row.properties.items())}" for row in self.relations.values()
        ]
        return sorted(nodes + edges)
