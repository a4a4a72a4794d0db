"""Rows of queries as answers, and the parameters they take."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import orjson

from provstore import cypher
from provstore.cypher.guard import properties_of
from provstore.errors import ConfigError, InputError
from provstore.model.report import Answer
from provstore.model.schema import EVIDENCE_PROPERTIES, PROPERTIES
from provstore.stores import GraphStore


def answer(store: GraphStore, query: cypher.Query, parameters: Mapping[str, object]) -> Answer:
    """Return the rows of a query, whether they are all, and what it means when there are none."""
    rows = store.run(query, parameters)
    found = tuple({**row, "frames": _frames(row["frames"])} if "frames" in query.returns else row for row in rows)
    columns = query.returns or tuple(found[0] if found else ())
    notes = (query.none,) if query.none and rows.complete and not found else ()
    return Answer(columns, found, rows.complete, rows.reason, notes)


def asked_freely(store: GraphStore, text: str, parameters: Mapping[str, object]) -> Answer:
    """Return the rows of a user's own query; a name that no captured property has is told, not answered by nothing.

    Raises:
        InputError: The text could do more than read; the message names the word.
    """
    found = answer(store, cypher.adhoc(text), parameters)
    known = (*PROPERTIES, *EVIDENCE_PROPERTIES)
    unknown = (name for name in properties_of(text) if name not in known)
    return replace(found, notes=(*found.notes, *(_unknown_property(name, known) for name in unknown)))


def _unknown_property(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, _MOST_NEAR)
    said = f"near to it: {', '.join(near)}" if near else "docs/reference/protocol.md lists them"
    return f"{name}: no captured property has this name; {said}"


def _frames(text: object) -> list[str]:
    """Return a stored stack as ``file:line function`` texts, innermost first."""
    return [f"{file}:{line} {name}" for name, file, line in orjson.loads(str(text))]


READ_QUERIES = "read/"
_MOST_NAMED = 8
_MOST_NEAR = 3
_NUMBER = re.compile(r"-?[0-9]{1,20}")


def asked(
    graph: GraphStore,
    name: str,
    parameters: Mapping[str, object],
    scope_of: Callable[[str | None, int | None], tuple[str, int]],
) -> Answer:
    """Return the rows of a shipped query; ``scope_of`` completes a run and attempt that are left out.

    Raises:
        ConfigError: No such query, or a parameter is missing, unknown or no number although it is declared as one.
    """
    found = cypher.query(cypher.full_name(name, READ_QUERIES))
    given = with_targets(graph, found, parameters)
    unknown = sorted(set(given) - set(found.params))
    if unknown:
        takes = ", ".join(found.params) or "none"
        raise ConfigError(f"{name}: parameters: {', '.join(unknown)} not known; it takes {takes}")
    if {"run", "attempt"} & set(found.params):
        run, attempt = scope_of(text_of(given.get("run")), attempt_of(name, given))
        given |= {key: value for key, value in (("run", run), ("attempt", attempt)) if key in found.params}
    missing = sorted(set(found.params) - set(given))
    if missing:
        raise ConfigError(f"{name}: parameters: {', '.join(missing)} missing")
    given |= {key: number_of(name, key, given[key]) for key in cypher.NUMBERS & set(found.params)}
    return answer(graph, found, given)


def with_targets(graph: GraphStore, query: cypher.Query, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of a query with targets turned into ids."""
    from provstore.queries.targets import Scope, call_record, resolve

    given = dict(parameters)
    for name in sorted({"iri", "call"} & set(query.params) & set(given)):
        scope = Scope(
            text_of(given.pop("run", None)),
            attempt_of(query.name, {"attempt": given.pop("attempt", None)}),
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
        raise InputError(f"{place}: {given or 'runs'}: the store holds none", hint=instead_of(runs(graph), run))
    listed = ", ".join(f"{name} attempt {number}" for name, number in fits)
    hint = "choose with --run and --attempt"
    raise InputError(f"{place}: {given or 'runs'}: {len(fits)} fit: {listed}", hint=hint)


def instead_of(known: Sequence[tuple[str, int]], run: str | None) -> str | None:
    """Return what a person may have meant who named a run or an attempt that is not there."""
    if not known:
        return None
    if attempts := [str(number) for name, number in known if name == run]:
        return f"of run {run} there are the attempts {', '.join(attempts[:_MOST_NAMED])}"
    names = list(dict.fromkeys(name for name, _ in known if name))
    close = difflib.get_close_matches(str(run or ""), names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"there are {', '.join(names[:_MOST_NAMED]) or 'only imported documents'}{more}"


def text_of(value: object) -> str | None:
    """Return a parameter as text; None stays None."""
    return None if value is None else str(value)


def attempt_of(name: str, parameters: Mapping[str, object]) -> int | None:
    """Return the parameter ``attempt`` of the query ``name``; None when it is left out."""
    value = parameters.get("attempt")
    return None if value is None else number_of(name, "attempt", value)


def number_of(name: str, key: str, value: Any) -> int:
    """Return the parameter ``key`` of the query ``name`` as a number; text may spell it.

    Raises:
        ConfigError: It is no integer of 64 bits.
    """
    number = None
    spelled = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    if spelled or (type(value) is not bool and isinstance(value, Integral)):
        number = int(value)
    if number is None or not -(2**63) <= number < 2**63:
        said = "an integer" if number is not None else f"{value!r:.40}"
        raise ConfigError(f"{name}: {key}: {said} is not a number of 64 bits")
    return number


def timing(started: float, read: float) -> dict[str, float]:
    """Return how long reading and judging took, from two readings of the performance counter."""
    now = time.perf_counter()
    return {"reading_seconds": round(read - started, 6), "diagnosis_seconds": round(now - read, 6)}
