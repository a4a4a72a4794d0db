"""Traces through what a graph holds."""

from __future__ import annotations

from dataclasses import replace

from provstore.api.writing import TraceWriter
from provstore.errors import ConfigError
from provstore.model.trace import Trace
from provstore.queries import lineage
from provstore.queries.targets import Scope, resolve
from provstore.stores import GraphStore


def traced(
    graph: GraphStore,
    target: str,
    to: str | None,
    scope: Scope,
    limits: lineage.Limits,
    *,
    down: bool,
    data_only: bool,
) -> Trace:
    """Return what a target may come from, or with ``down`` influence; with ``to`` one shortest path.

    Raises:
        ConfigError: A limit is not above 0, or is given for a path.
        InputError: A target names nothing, or several elements.
    """
    given = (("depth", limits.depth), ("max_nodes", limits.max_nodes), ("timeout_seconds", limits.timeout_seconds))
    if to is not None and any(value is not None for _, value in given):
        raise ConfigError("to: a path is one of the shortest; it takes neither depth, max_nodes nor a timeout")
    for name, value in given:
        if value is not None and value <= 0:
            raise ConfigError(f"{name}: {value} is not more than 0")
    iri = resolve(graph, target, scope)
    if to is not None:
        other = resolve(graph, to, scope)
        found = lineage.path(graph, *((other, iri) if down else (iri, other)))
    else:
        found = lineage.trace(graph, iri, down=down, data_only=data_only, limits=limits)
    return replace(found, writer=TraceWriter(graph))
