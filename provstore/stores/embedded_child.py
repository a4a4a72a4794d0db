"""Child process for one user query: loads the graph, takes its limits, prints a JSON line a row and a verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kglite


def main() -> None:
    """Read the order from standard input, answer on standard output."""
    order = json.load(sys.stdin)
    verdict: dict[str, object] = {"error": None, "is_query": False, "reason": None}
    try:
        graph = kglite.load(order["path"], verify="eager")
        graph.read_only(True)
        _limit(order["memory_bytes"], order["seconds"])
        verdict["reason"] = _answer(graph, order)
    except kglite.CypherTimeoutError:
        verdict["reason"] = "timeout"
    except kglite.KgError as error:
        verdict |= {"error": str(error), "is_query": isinstance(error, (kglite.CypherError, kglite.SchemaError))}
    except OverflowError as error:  # a parameter beyond 64 bits
        verdict |= {"error": str(error), "is_query": True}
    except MemoryError:
        sys.exit("MemoryError")
    sys.stdout.write(json.dumps(verdict) + "\n")


def _answer(graph: kglite.KnowledgeGraph, order: dict[str, Any]) -> str | None:
    """Print the rows and return why some are missing."""
    kglite.set_query_warning_policy("silent")
    limit = order["max_rows"]
    rows = graph.cypher(
        order["text"],
        params=order["parameters"],
        timeout_ms=int(order["seconds"] * 1000),
        row_limit=None if limit is None else limit + 1,
        hide_structural_keys=True,
    )
    size = 0
    for at, row in enumerate(rows):
        if limit is not None and at >= limit:
            return "max_rows"
        line = json.dumps(row, default=str)
        size += len(line)
        if size > order["max_bytes"]:
            return "max_bytes"
        sys.stdout.write(line + "\n")
    return None


def _limit(memory_bytes: int, seconds: float) -> None:
    """Cap memory, processor time and open files; the graph is loaded and nothing else may be opened."""
    try:
        import resource
    except ImportError:  # Windows: the time limit and the parent's kill remain
        return
    held = Path("/proc/self/statm")
    if held.exists():  # elsewhere, as on macOS, the limit would not bind
        now = int(held.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory_bytes, now + memory_bytes))
    processor_seconds = int(seconds * 4) + 10
    resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


if __name__ == "__main__":
    main()
