"""Samples of metrics: the text that an exporter serves, one sample a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_SAMPLES = 200_000

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(,|(?=\}))')
_VALUE = re.compile(r"\s+(\S+)(?:\s+(-?[0-9]{1,18}))?\s*")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    name: str
    labels: Mapping[str, str]
    value: float
    at_ns: int | None = None


def samples(text: str) -> tuple[list[Sample], int]:
    """Return the samples of a text in the exposition format, and how many lines could not be read."""
    found: list[Sample] = []
    odd = 0
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        sample = _sample(stripped)
        if sample is None or len(found) >= MAX_SAMPLES:
            odd += 1
        else:
            found.append(sample)
    return found, odd


def _sample(line: str) -> Sample | None:
    name = _NAME.match(line)
    if name is None:
        return None
    labels, at = {}, name.end()
    if line[at : at + 1] == "{":
        at += 1
        while (label := _LABEL.match(line, at)) is not None:
            labels[label[1]] = _ESCAPE.sub(_unescaped, label[2])
            at = label.end()
        if line[at : at + 1] != "}":
            return None
        at += 1
        line = f"{line[:at]} {line[at:]}"
    value = _VALUE.fullmatch(line, at)
    number = None if value is None else number_of(value[1])
    if value is None or number is None:
        return None
    return Sample(name[0], labels, number, None if value[2] is None else int(value[2]) * 10**6)


def number_of(text: str) -> float | None:
    """Return a number as metrics spell it, ``NaN`` and ``+Inf`` included; None for anything else."""
    if "_" in text or len(text) > 64:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _unescaped(match: re.Match[str]) -> str:
    return {"n": "\n", "\\": "\\", '"': '"'}.get(match[1], match[0])
