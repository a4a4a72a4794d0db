"""Rows of queries as answers, and the parameters they take."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from provstore import cypher
from provstore.errors import ConfigError
from provstore.model.report import Answer
from provstore.stores import GraphStore


def answer(store: GraphStore, query: cypher.Query, parameters: Mapping[str, object]) -> Answer:
    """Return the rows of a query, and whether they are all."""
    rows = store.run(query, parameters)
    found = tuple({**row, "frames": _frames(row["frames"])} if "frames" in query.returns else row for row in rows)
    columns = query.returns or tuple(found[0] if found else ())
    return Answer(columns, found, rows.complete, rows.reason)


def _frames(text: object) -> list[str]:
    """Return a stored stack as ``file:line function`` texts, innermost first."""
    return [f"{file}:{line} {name}" for name, file, line in orjson.loads(str(text))]


def with_targets(graph: GraphStore, query: cypher.Query, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of a query with targets turned into ids."""
    from provstore.queries.targets import Scope, call_record, resolve

    given = dict(parameters)
    for name in sorted({"iri", "call"} & set(query.params) & set(given)):
        scope = Scope(
            text_of(given.pop("run", None)),
            number_of(query.name, given.pop("attempt", None)),
            text_of(given.pop("group", None)),
        )
        iri = resolve(graph, str(given[name]), scope)
        given[name] = call_record(graph, iri) if name == "call" else iri
    return given


def text_of(value: object) -> str | None:
    """Return a parameter as text; None stays None."""
    return None if value is None else str(value)


def number_of(name: str, value: object) -> int | None:
    """Return the parameter ``attempt`` of the query ``name`` as a number; None stays None.

    Raises:
        ConfigError: It is no number.
    """
    if value is None:
        return None
    try:
        return int(str(value))
    except ValueError as error:
        raise ConfigError(f"{name}: attempt: {value!r} is not a number") from error
