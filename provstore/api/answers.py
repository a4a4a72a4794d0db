"""Rows of queries as answers, and the parameters they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import orjson

from provstore import cypher
from provstore.errors import ConfigError, InputError
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


READ_QUERIES = "read/"


def asked(
    graph: GraphStore,
    name: str,
    parameters: Mapping[str, object],
    scope_of: Callable[[str | None, int | None], tuple[str, int]],
) -> Answer:
    """Return the rows of a shipped query; ``scope_of`` completes a run and attempt that are left out.

    Raises:
        ConfigError: No such query, or a parameter is missing or unknown.
    """
    found = cypher.query(cypher.full_name(name, READ_QUERIES))
    given = with_targets(graph, found, parameters)
    unknown = sorted(set(given) - set(found.params))
    if unknown:
        takes = ", ".join(found.params) or "none"
        raise ConfigError(f"{name}: parameters: {', '.join(unknown)} not known; it takes {takes}")
    if {"run", "attempt"} & set(found.params):
        run, attempt = scope_of(text_of(given.get("run")), number_of(name, given.get("attempt")))
        given |= {key: value for key, value in (("run", run), ("attempt", attempt)) if key in found.params}
    missing = sorted(set(found.params) - set(given))
    if missing:
        raise ConfigError(f"{name}: parameters: {', '.join(missing)} missing")
    return answer(graph, found, given)


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


def one_attempt(graph: GraphStore, place: str, run: str | None, attempt: int | None) -> tuple[str, int]:
    """Return the one attempt of a run that fits.

    Raises:
        InputError: None fits, or several do; the message lists them.
    """
    from provstore.queries.targets import runs

    fits = [pair for pair in runs(graph) if run in (None, pair[0]) and attempt in (None, pair[1])]
    if len(fits) == 1:
        return fits[0]
    given = " ".join(f"{name} {value}" for name, value in (("run", run), ("attempt", attempt)) if value is not None)
    if not fits:
        raise InputError(f"{place}: {given or 'runs'}: the store holds none")
    listed = ", ".join(f"{name} attempt {number}" for name, number in fits)
    hint = "choose with --run and --attempt"
    raise InputError(f"{place}: {given or 'runs'}: {len(fits)} fit: {listed}", hint=hint)


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


def timing(started: float, read: float) -> dict[str, float]:
    """Return how long reading and judging took, from two readings of the performance counter."""
    now = time.perf_counter()
    return {"reading_seconds": round(read - started, 6), "diagnosis_seconds": round(now - read, 6)}
