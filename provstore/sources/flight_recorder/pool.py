"""Worker processes: a few fresh interpreters that read many files; one that dies fails only its file."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import orjson

_WORKER = Path(__file__).with_name("worker.py")
_KEPT_VARIABLES = ("SYSTEMROOT", "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "TEMP")
_BYTES_A_WORKER = 1 << 20
_PIPE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """One file to read."""

    fields: Mapping[str, object]
    size_bytes: int
    cpu_seconds: float

    @property
    def wall_seconds(self) -> float:
        """Time after which the worker is killed; CPU time is bounded by the worker itself."""
        return 10 + 6 * self.cpu_seconds


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker answers; a dead worker's reply is made here."""

    header: Mapping[str, object]
    body: bytes = b""


def ask_all(requests: Sequence[Request]) -> Generator[tuple[int, Reply], None, None]:
    """Yield (index, reply) in the order in which the workers finish."""
    if not requests:
        return
    total = sum(request.size_bytes for request in requests)
    size = min(_processors(), len(requests), 1 + total // _BYTES_A_WORKER)
    pool = _Pool(requests)
    threads = [threading.Thread(target=pool.serve, daemon=True, name=f"dump reader {at}") for at in range(size)]
    try:
        for thread in threads:
            thread.start()
        for _ in requests:
            yield pool.replies.get()
    finally:
        pool.stop()
        for thread in threads:
            thread.join()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Pool:
    """The requests that are left, and the workers that are alive."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.replies: queue.SimpleQueue[tuple[int, Reply]] = queue.SimpleQueue()
        self._left = iter(enumerate(requests))
        self._lock = threading.Lock()
        self._alive: set[_Worker] = set()
        self._is_stopped = False

    def serve(self) -> None:
        """Answer requests with one worker after another until none are left."""
        worker: _Worker | None = None
        while (task := self._next()) is not None:
            at, request = task
            try:
                worker, reply = self._answer(worker, request)
            except OSError as error:
                reply = Reply({"status": "refused", "reason": f"no reader process could be started: {error}"})
            self.replies.put((at, reply))
        if worker is not None:
            self._end(worker)

    def stop(self) -> None:
        """Give out no more requests and kill the workers."""
        with self._lock:
            self._is_stopped = True
            for worker in self._alive:
                worker.kill()

    def _next(self) -> tuple[int, Request] | None:
        with self._lock:
            return None if self._is_stopped else next(self._left, None)

    def _answer(self, worker: _Worker | None, request: Request) -> tuple[_Worker | None, Reply]:
        """Ask the worker at hand; one that was used before may have died of it, so then a fresh one is asked too."""
        if worker is not None:
            reply = worker.ask(request)
            if reply is not None:
                return self._kept(worker, reply), reply
            self._end(worker)
        worker = self._started()
        reply = worker.ask(request)
        if reply is not None:
            return self._kept(worker, reply), reply
        reason = worker.death_reason(request)
        self._end(worker)
        return None, Reply({"status": "refused", "reason": reason})

    def _kept(self, worker: _Worker, reply: Reply) -> _Worker | None:
        if not reply.header.get("retire"):
            return worker
        self._end(worker)
        return None

    def _started(self) -> _Worker:
        worker = _Worker()
        with self._lock:
            self._alive.add(worker)
            if self._is_stopped:
                worker.kill()
        return worker

    def _end(self, worker: _Worker) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.close()


class _Worker:
    """One process; it inherits no environment worth stealing and no open file."""

    def __init__(self) -> None:
        spec = find_spec("orjson")
        packages = str(Path(spec.origin).parent.parent) if spec and spec.origin else ""
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WORKER), packages],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pipesize=_PIPE_BYTES,
            env=environment | {"LC_ALL": "C"},
        )
        self._is_late = False

    def ask(self, request: Request) -> Reply | None:
        """Return the reply, or ``None`` when the process ends without one."""
        timer = threading.Timer(request.wall_seconds, self._late)
        timer.daemon = True
        timer.start()
        try:
            return self._exchange(request)
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()

    def _exchange(self, request: Request) -> Reply | None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 (both are pipes)
        stdin.write(orjson.dumps(request.fields) + b"\n")
        stdin.flush()
        lengths = stdout.read(16)
        if len(lengths) < 16:
            return None
        header = stdout.read(int.from_bytes(lengths[:8], "little"))
        size = int.from_bytes(lengths[8:], "little")
        body = stdout.read(size)
        return Reply(orjson.loads(header), body) if len(body) == size else None

    def death_reason(self, request: Request) -> str:
        """Return why the process ended without a reply."""
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        if self._is_late:
            return f"reading took more than {request.wall_seconds:.0f} s"
        if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
            return f"reading took more than {request.cpu_seconds:.0f} s of CPU time, far more than its size explains"
        return f"its reader process died (status {code}): the file is not a sane dump"

    def _late(self) -> None:
        self._is_late = True
        self.kill()

    def kill(self) -> None:
        """End the process now."""
        if self._process.poll() is None:
            self._process.kill()

    def close(self) -> None:
        """Let the process end, and wait for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
