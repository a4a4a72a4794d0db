"""Bulk writing into the embedded engine through data frames; the only importer of pandas."""

from __future__ import annotations

import warnings
from array import array
from collections.abc import Mapping, Sequence

import kglite
import numpy as np
import pandas as pd

from provstore.errors import StoreError
from provstore.model.block import UNIQUE_KEY, Column, Nodes, Relations
from provstore.stores.facts import MIXED, folded, is_record, kind_of


def fits_nodes(nodes: Nodes) -> bool:
    """Tell whether the bulk writer keeps these nodes unchanged: every column has one type."""
    return all(kind_of(column) != MIXED for column in nodes.columns.values())


def fits_relations(relations: Relations) -> bool:
    """Tell whether the bulk writer keeps these relationships apart: it folds by end points, so records do not fit."""
    return not is_record(relations) and all(kind_of(column) != MIXED for column in relations.columns.values())


def write_nodes(graph: kglite.KnowledgeGraph, nodes: Nodes) -> None:
    """Add nodes; values that are there stay, only ``declared`` may become true."""
    # Of rows with one new key the engine would make several nodes.
    nodes = folded(nodes)
    base, *labels = nodes.labels
    key = UNIQUE_KEY[base]
    columns: dict[str, object] = {key: _objects(nodes.keys), **_arrays(nodes.columns)}
    columns.setdefault("name", _objects([None] * len(nodes)))
    _add_nodes(graph, columns, base, labels, "preserve")
    declared = nodes.columns.get("declared", ())
    keys = [name for name, value in zip(nodes.keys, declared) if value]
    if keys:
        truth = {key: _objects(keys), "name": _objects([None] * len(keys)), "declared": [True] * len(keys)}
        _add_nodes(graph, truth, base, [], "update")


def write_relations(graph: kglite.KnowledgeGraph, relations: Relations) -> None:
    """Add relationships whose identity is (type, from, to)."""
    columns = {"source\x1f": _objects(relations.sources), "target\x1f": _objects(relations.targets)}
    frame = pd.DataFrame({**columns, **_arrays(relations.columns)}, copy=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = graph.add_relationships(
            frame,
            relations.type,
            relations.source_label,
            "source\x1f",
            relations.target_label,
            "target\x1f",
            conflict_handling="preserve",
            distinct=True,
        )
    if report["has_errors"] or report["connections_skipped"] or report.get("stubs_vivified"):
        raise StoreError(f"block: {relations.type}: the embedded engine left relationships out: {report}")


def _add_nodes(
    graph: kglite.KnowledgeGraph, columns: Mapping[str, object], base: str, labels: list[str], conflict: str
) -> None:
    frame = pd.DataFrame(columns, copy=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        key = UNIQUE_KEY[base]
        report = graph.add_nodes(frame, base, key, "name", conflict_handling=conflict, labels=labels or None)
    if report["nodes_skipped"]:
        raise StoreError(f"block: {base}: the embedded engine left nodes out: {report}")


def _arrays(columns: Mapping[str, Column]) -> dict[str, object]:
    kinds = {name: kind_of(column) for name, column in columns.items()}
    return {name: _array(column, kinds[name]) for name, column in columns.items() if kinds[name] != "none"}


def _array(column: Column, kind: str) -> object:
    if isinstance(column, array):
        return np.frombuffer(column, dtype=column.typecode) if len(column) else np.empty(0, dtype=column.typecode)
    if kind == "int64":
        if None not in column:
            return np.array(column, dtype=np.int64)
        gaps = np.array([value is None for value in column], dtype=bool)
        numbers = np.array([0 if value is None else value for value in column], dtype=np.int64)
        return pd.arrays.IntegerArray(numbers, gaps)
    if kind == "double":
        return np.array(column, dtype=np.float64)
    return _objects(column)


def _objects(values: Sequence[object]) -> object:
    # An explicit object series: pandas would turn plain text into its own string type and back.
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return pd.Series(held, dtype=object, copy=False)
