"""Runs a user's own query on a saved graph in a child process with limits, and reads its rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from provstore.cypher import Query
from provstore.errors import InputError, StoreError
from provstore.stores import Rows
from provstore.stores.plain import plain_row

MAX_ANSWER_BYTES = 64 * 1024 * 1024

_CHILD = Path(__file__).with_name("embedded_child.py")
_SPARE_BYTES = 512 * 1024 * 1024
_START_SECONDS = 20.0
"""For starting the child and loading the graph; the query's own time comes on top."""


def run_in_child(path: Path, query: Query, parameters: Mapping[str, object]) -> Rows:
    """Return the rows of ``query`` on the graph file at ``path``.

    Raises:
        InputError: The engine does not understand the query.
        StoreError: The query needs more memory than it may use, or the graph cannot be read.
    """
    seconds = query.timeout_seconds or 10.0
    order = {
        "path": str(path),
        "text": query.text,
        "parameters": dict(parameters),
        "seconds": seconds,
        "max_rows": query.max_rows,
        "max_bytes": MAX_ANSWER_BYTES,
        "memory_bytes": _SPARE_BYTES + 4 * path.stat().st_size,
    }
    # -I: neither the environment nor the current directory decides which code the child runs.
    child = subprocess.Popen(
        [sys.executable, "-I", "-B", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with child:
        try:
            answer, _ = child.communicate(json.dumps(order).encode(), timeout=seconds + _START_SECONDS)
        except subprocess.TimeoutExpired:
            return Rows((), "timeout")
        finally:
            if child.poll() is None:
                child.kill()
    return _rows(answer, child.returncode)


def _rows(answer: bytes, status: int) -> Rows:
    *lines, last = answer.decode().splitlines() or [""]
    if status != 0 or not last.startswith("{"):
        raise StoreError("query: memory: it needed more than it may use and was stopped")
    verdict = json.loads(last)
    if verdict["error"]:
        kind = InputError if verdict["is_query"] else StoreError
        raise kind(f"query: {verdict['error']}")
    return Rows((plain_row(json.loads(line)) for line in lines), verdict["reason"])
