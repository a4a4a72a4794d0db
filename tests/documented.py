"""JSON answers of commands, held against their documented shape."""

import json
from pathlib import Path

import jsonschema

SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"


def told(answer, name):
    """Return the JSON of a command that succeeded; nothing in it is missing, nothing undocumented."""
    assert answer.code == 0, answer.err
    value = json.loads(answer.out)
    jsonschema.validate(value, strict(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))))
    return value


def strict(schema):
    """Return a copy of ``schema`` in which no object may have a key that is not documented."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: strict(value) for key, value in schema.items()}
    return {**copy, "additionalProperties": False} if "properties" in copy and "required" in copy else copy
