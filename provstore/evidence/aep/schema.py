"""The JSON Schemas of agent evidence, and what a value has against the one of its kind.

The schemas stay in the package that owns them. A quick test of our own says "valid" for the plain keywords that they
mostly use; whatever it cannot confirm, ``jsonschema`` judges, and only its answer is ever "wrong".
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

MOST_ERRORS = 100
RECORD = "aep-record"
KINDS = (
    RECORD,
    "replay-evidence",
    "checkpoint-evidence",
    "checkpoint",
    "fork",
    "artifact-attestation",
    "evidence-envelope",
    "canonical-event",
    "memory-evidence",
)
"""Kinds of agent evidence, by the names of their schemas."""

_PACKAGES = ("wasmagent_protocol", "jsonschema")
_NOTES = frozenset({"$schema", "$id", "title", "description", "format", "contentEncoding"})
_Test = Callable[[Any], bool]


def errors(kind: str, value: object) -> list[str] | None:
    """Return what is wrong with ``value``, each as ``place: reason``; ``None`` when the schemas are not installed.

    Args:
        kind: One of :data:`KINDS`.
        value: The JSON value as Python holds it.
    """
    if not is_available():
        return None
    test = _quick(kind)
    if test is not None and test(value):
        return []
    found = []
    for one in _validator(kind).iter_errors(value):
        found.append(f"{_place(one.absolute_path)}: {_reason(one)}")
        if len(found) == MOST_ERRORS:
            break
    return found


@functools.cache
def is_available() -> bool:
    """Return whether the schemas and their validator are installed."""
    return all(importlib.util.find_spec(name) is not None for name in _PACKAGES)


@functools.cache
def package_version() -> str | None:
    """Return the version of the package that holds the schemas."""
    import importlib.metadata

    return importlib.metadata.version("wasmagent-protocol") if is_available() else None


@functools.cache
def _document(kind: str) -> Mapping[str, Any]:
    import wasmagent_protocol  # type: ignore[import-untyped]

    document: Mapping[str, Any] = wasmagent_protocol.get_schema(kind)
    return document


@functools.cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    return Draft202012Validator(_document(kind))


def _place(path: Any) -> str:
    return "/".join(str(part) for part in path)[:200] or "record"


def _reason(error: Any) -> str:
    """Return why, without the value: it may be long, and is data of somebody else."""
    wanted = error.validator_value
    match error.validator:
        case "required":
            missing = [name for name in wanted if name not in error.instance]
            return f"needs {', '.join(missing)}"
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"is no {kinds}"
        case "enum":
            return f"is none of {', '.join(map(str, wanted))}"
        case "additionalProperties":
            known = error.schema.get("properties", {})
            extra = sorted(name for name in error.instance if name not in known)
            return f"has members that the schema does not know: {', '.join(extra)[:100]!a}"
        case rule:
            return f"{rule} {str(wanted)[:60]} does not hold"


# The quick test.


@functools.cache
def _quick(kind: str) -> _Test | None:
    return _compiled(_document(kind))


def _compiled(schema: Mapping[str, Any]) -> _Test | None:
    """Return a test that is true only for valid values, or ``None`` for a schema with keywords it does not know."""
    rules = {name: rule for name, rule in schema.items() if name not in _NOTES}
    kinds = rules.pop("type", None)
    if kinds == "object":
        return _object(rules)
    if kinds == "array":
        return _array(rules)
    if kinds == "string":
        return _string(rules)
    if kinds in ("number", "integer"):
        return _number(kinds, rules)
    if kinds == "boolean" and not rules:
        return lambda value: value is True or value is False
    if kinds == ["string", "null"] and not rules:
        return lambda value: type(value) is str or value is None
    return None


def _object(rules: dict[str, Any]) -> _Test | None:
    required = frozenset(rules.pop("required", ()))
    tests = {name: _compiled(rule) for name, rule in rules.pop("properties", {}).items()}
    is_open = rules.pop("additionalProperties", True)
    if rules or not isinstance(is_open, bool) or None in tests.values():
        return None
    test_of = tests.get

    def test(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return False
        for name, member in value.items():
            rule = test_of(name)
            if rule is None:
                if not is_open:
                    return False
            elif not rule(member):
                return False
        return True

    return test


def _array(rules: dict[str, Any]) -> _Test | None:
    items = _compiled(rules.pop("items", {"type": "unknown"}))
    least, unique = rules.pop("minItems", 0), rules.pop("uniqueItems", False)
    if rules or items is None:
        return None

    def test(value: Any) -> bool:
        if type(value) is not list or len(value) < least or not all(map(items, value)):
            return False
        return not unique or (all(type(one) is str for one in value) and len(set(value)) == len(value))

    return test


def _string(rules: dict[str, Any]) -> _Test | None:
    allowed, least = rules.pop("enum", None), rules.pop("minLength", 0)
    if rules:
        return None
    if allowed is not None:
        words = frozenset(word for word in allowed if isinstance(word, str))
        return lambda value: type(value) is str and value in words and len(value) >= least
    if least:
        return lambda value: type(value) is str and len(value) >= least
    return lambda value: type(value) is str


def _number(kind: str, rules: dict[str, Any]) -> _Test | None:
    least = rules.pop("minimum", None)
    if rules:
        return None
    kinds = (int,) if kind == "integer" else (int, float)
    return lambda value: type(value) in kinds and (least is None or value >= least)
