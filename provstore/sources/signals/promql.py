"""Queries to Prometheus as text: whether it is healthy that one has no series."""

from __future__ import annotations

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`')
_ASIDE = re.compile(r"#[^\n]*|\{[^{}]*\}|\[[^\[\]]*\]")
"""Comments, label matchers and ranges."""
_ALERTS_IN_BRACES = re.compile(r'(?:__name__\s*=~?|\{)\s*["\'`]\^?ALERTS')
_ALERTS = re.compile(r"(?<![\w:])ALERTS(?:_FOR_STATE)?(?![\w:])")
_CHOOSES = re.compile(r"(?<![\w:])(?:absent|absent_over_time|and|unless)(?![\w:])", re.IGNORECASE)
_COMPARES = re.compile(r"(?:[=!<>]=|[<>])(?!\s*bool\b)", re.IGNORECASE)


def may_be_empty(query: str) -> bool:
    """Return whether a query that has no series is healthy.

    So it is of alerts, of which there are series only while they fire, and of what leaves series out: comparisons
    without ``bool``, ``and``, ``unless``, ``absent``. Any other query should always have one.
    """
    if _ALERTS_IN_BRACES.search(query):
        return True
    text = _ASIDE.sub(" ", _STRING.sub(" ", query))
    return any(pattern.search(text) for pattern in (_ALERTS, _CHOOSES, _COMPARES))
