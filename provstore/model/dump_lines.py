"""Lines of a canonical dump in words: which node or relationship one is about, and what it says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from provstore.model.block import UNIQUE_KEY

NO_ID = "a node without an id"


@dataclass(frozen=True, slots=True)
class DumpLine:
    """One node or relationship of a canonical dump."""

    subject: str
    """Id of a node; a relationship with both ends."""
    is_node: bool
    labels: tuple[str, ...]
    properties: Mapping[str, object]


def read(line: str) -> DumpLine:
    """Return what a line of a canonical dump says."""
    said: dict[str, Any] = orjson.loads(line)
    properties = said["properties"]
    if "labels" not in said:
        (_, source), (_, target) = said["from"], said["to"]
        return DumpLine(f"({source})-[:{said['type']}]->({target})", False, (), properties)
    labels = tuple(said["labels"])
    keys = (properties.get(UNIQUE_KEY[label]) for label in labels if label in UNIQUE_KEY)
    return DumpLine(next((key for key in keys if isinstance(key, str)), NO_ID), True, labels, properties)
