"""Runs a user's own query on a saved graph in a child process with limits, and reads its rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from provstore.cypher import Query
from provstore.errors import InputError, NotUnderstoodError, StoreError
from provstore.stores import Rows
from provstore.stores.plain import plain_row

MAX_ANSWER_BYTES = 64 * 1024 * 1024

_CHILD = Path(__file__).with_name("embedded_child.py")
_SPARE_BYTES = 512 * 1024 * 1024
_START_SECONDS = 20.0
"""For starting the child and loading the graph; the query's own time comes on top."""
_MEMORY_SIGNS = (b"MemoryError", b"memory allocation", b"PyObject pointer is null", b"out of memory")
"""What Python and the engine say on standard error when memory ends."""
_CAP_SIGN, _ALLOCATION_SIGN = "safety limit", "cannot allocate"
_ALLOCATOR = {"MIMALLOC_ARENA_RESERVE": "16MiB"}
"""Left to itself, the engine's allocator takes 1 GiB of addresses at its start, and no limit binds within these."""
_SHOWN_ERROR = 200


def run_in_child(path: Path, query: Query, parameters: Mapping[str, object]) -> Rows:
    """Return the rows of ``query`` on the graph file at ``path``.

    Raises:
        InputError: The engine does not understand the query.
        NotUnderstoodError: The query needs more memory than it may use.
        StoreError: The graph cannot be read, or the child ended for another reason.
    """
    seconds = query.timeout_seconds or 10.0
    memory_bytes = _SPARE_BYTES + 4 * path.stat().st_size
    order = {
        "path": str(path),
        "text": query.text,
        "parameters": dict(parameters),
        "seconds": seconds,
        "max_rows": query.max_rows,
        "max_bytes": MAX_ANSWER_BYTES,
        "memory_bytes": memory_bytes,
    }
    # -I: neither the environment nor the current directory decides which code the child runs.
    child = subprocess.Popen(
        [sys.executable, "-I", "-B", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **_ALLOCATOR},
    )
    with child:
        try:
            answer, told = child.communicate(json.dumps(order).encode(), timeout=seconds + _START_SECONDS)
        except subprocess.TimeoutExpired:
            return Rows((), "timeout")
        finally:
            if child.poll() is None:
                child.kill()
    if child.returncode != 0:
        raise _ended(child.returncode, told, memory_bytes)
    return _rows(answer, memory_bytes)


def _ended(status: int, told: bytes, memory_bytes: int) -> StoreError | NotUnderstoodError:
    """Return the error for a child that ended before its answer did."""
    if any(sign in told for sign in _MEMORY_SIGNS):
        return _without_memory(memory_bytes)
    if status == -getattr(signal, "SIGXCPU", 0):
        return NotUnderstoodError("query: processor time: it needed more than it may use and was stopped")
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    last = (told.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    return StoreError(f"query: its process ended with {how}: {last[:_SHOWN_ERROR]}")


def _without_memory(memory_bytes: int) -> NotUnderstoodError:
    return NotUnderstoodError(
        f"query: memory: it needed more than the {memory_bytes >> 20} MiB it may use and was stopped",
        hint="ask for less: count or LIMIT instead of collect, a narrower MATCH",
    )


def cypher_error(message: str) -> InputError:
    """Return the error for a query that the engine refuses: not understood, or beyond one of the engine's caps."""
    kind = NotUnderstoodError if _CAP_SIGN in message else InputError
    return kind(f"query: {message}")


def _rows(answer: bytes, memory_bytes: int) -> Rows:
    *lines, last = answer.decode().splitlines() or [""]
    if not last.startswith("{"):
        raise StoreError("query: its process gave no answer")
    verdict = json.loads(last)
    if verdict["error"] and _ALLOCATION_SIGN in verdict["error"]:
        raise _without_memory(memory_bytes)
    if verdict["error"]:
        raise cypher_error(verdict["error"]) if verdict["is_query"] else StoreError(f"query: {verdict['error']}")
    return Rows((plain_row(json.loads(line)) for line in lines), verdict["reason"])
