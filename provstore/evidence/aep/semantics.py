"""Rules of agent records that no schema can say: how the grades of an attribution hang together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FLOOR: Final = "run_attribution_backing_floor"
OBSERVED: Final = "run_attribution_backing_observed"
BACKING: Final = "attribution_backing"
COUNT: Final = "authorization_evidence_count"
GRADES: Final = ("unknown", "operator_asserted", "principal_key_signed", "qualified_signature")
"""From the weakest to the strongest."""


def violations(record: Mapping[str, Any]) -> list[str]:
    """Return which rules a record breaks, in words; none when it keeps them all."""
    found = [f"{FLOOR} stands without {OBSERVED}"] if FLOOR in record and OBSERVED not in record else []
    found += [f"{OBSERVED} stands without {FLOOR}"] if OBSERVED in record and FLOOR not in record else []
    if OBSERVED in record:
        found += _observed(record[OBSERVED])
    if FLOOR in record:
        found += _floor(record[FLOOR], record.get(OBSERVED))
    if BACKING in record and not _is_grade(record[BACKING]):
        found.append(f"{BACKING} is no known grade")
    if COUNT in record and not _is_count(record[COUNT]):
        found.append(f"{COUNT} is no whole number from 0")
    return found


def _observed(grades: object) -> list[str]:
    if not isinstance(grades, list):
        return [f"{OBSERVED} is no list"]
    if not grades:
        return [f"{OBSERVED} is empty"]
    if not all(_is_grade(one) for one in grades):
        return [f"{OBSERVED} holds an unknown grade"]
    return [] if len(set(grades)) == len(grades) else [f"{OBSERVED} holds a grade twice"]


def _floor(floor: object, observed: object) -> list[str]:
    if not _is_grade(floor):
        return [f"{FLOOR} is no known grade"]
    if not isinstance(observed, list) or not observed:
        return []
    if floor not in observed:
        return [f"{FLOOR} is none of the grades observed"]
    known = [GRADES.index(one) for one in observed if _is_grade(one)]
    return [] if GRADES[min(known)] == floor else [f"{FLOOR} is not the weakest grade observed"]


def _is_grade(value: object) -> bool:
    return isinstance(value, str) and value in GRADES


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value >= 0 and float(value).is_integer()
