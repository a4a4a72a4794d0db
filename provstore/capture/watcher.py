"""``watch``: a thread that dumps when the job stops moving, when it fails, when it ends and when somebody asks."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from provstore.capture.fail_open import say_once, tried
from provstore.capture.job_facts import look
from provstore.capture.recorder_hooks import attach_recorders
from provstore.capture.recorders import prepare_stacks, setting_faults
from provstore.capture.snapshot import DumpReport, Stillness, dump
from provstore.capture.torch_library import last_collective, live_groups, load_torch

_log = logging.getLogger("provstore")
_LONGEST_NAP_SECONDS = 1.0
_SHORTEST_NAP_SECONDS = 0.05


def watch(
    directory: str | os.PathLike[str],
    seconds: float = 300.0,
    trigger_file: str | os.PathLike[str] | None = None,
    *,
    on_exit: bool = True,
    on_exception: bool = True,
    run: str | None = None,
    attempt: int | None = None,
) -> Watcher:
    """Start watching this process and return the watcher; call it after ``init_process_group``.

    It takes about a second: what torch needs to write stacks is loaded now, not in the middle of a hang.

    Args:
        directory: Where the dumps go; made now if missing.
        seconds: Dump when nothing moved for so long. A step is what ``Watcher.beat`` reports; as long as it was never
            called, a new collective counts. Keep it below the timeout of the groups: after that, torch ends the job.
            A line in the log ``provstore`` says what was seen, and where the dump is.
        trigger_file: Dump when this file appears, and again whenever it is touched. It is left in place for the
            other ranks. Its folder is made now if missing.
        on_exit: Dump at the end of the process, unless a hang or an exception was dumped since the last step.
        on_exception: Dump when an exception leaves the program, or the ``with`` block.
        run: Name of the run; default is torchrun's run id.
        attempt: Number of the restart; default is torchrun's restart count.

    Raises:
        ConfigError: torch is not installed.
    """
    torch = load_torch()
    trigger = Path(trigger_file).absolute() if trigger_file else None
    watcher = Watcher(torch, Path(directory).absolute(), seconds, trigger, run, attempt)
    watcher.start(on_exit, on_exception)
    return watcher


class Watcher:
    """A running watch. Also a context manager; leaving the block ends it. Nothing in it raises into training."""

    def __init__(
        self,
        torch: Any,
        directory: Path,
        seconds: float,
        trigger_file: Path | None,
        run: str | None,
        attempt: int | None,
    ) -> None:
        self._torch = torch
        self._directory = directory
        self._seconds = seconds
        self._trigger_file = trigger_file
        self._run = run
        self._attempt = attempt
        self._moved_at = time.monotonic()
        self._has_beat = False
        self._groups: tuple[str, ...] = ()
        self._progress: tuple[int, ...] = ()
        self._trouble_dumped = False
        """A hang or an exception was dumped, and nothing moved since: later dumps by the watcher would blur it."""
        self._trigger_seen: int | None = None
        self._stopped = threading.Event()
        self._on_exit = False
        self._on_exception = False
        self._thread = threading.Thread(target=self._watch, name="provstore-watch", daemon=True)

    def beat(self) -> None:
        """Say that the job moved: once a step is enough."""
        if not self._has_beat:
            self._has_beat = True
            self._guarded(lambda: look(self._torch))
        self._note_progress()

    def dump(self, reason: str = "asked") -> DumpReport:
        """Dump now."""
        return dump(self._directory, reason, run=self._run, attempt=self._attempt)

    def attach(self) -> None:
        """Record groups made since watching began, if their backend keeps no record; call it before they are used."""
        self._guarded(lambda: attach_recorders(self._torch))

    def close(self) -> None:
        """End watching; with ``on_exit`` leave a last dump. A second call does nothing."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        atexit.unregister(self.close)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=_LONGEST_NAP_SECONDS)
        if self._on_exit and not self._trouble_dumped:
            self.dump("exit")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._on_exception and not isinstance(error, SystemExit):
            self._dump_exception(error)
        self.close()

    def start(self, on_exit: bool, on_exception: bool) -> None:
        """Begin; ``watch`` has done it."""
        self._on_exit, self._on_exception = on_exit, on_exception
        self._guarded(self._make_folders)
        self._guarded(self._prepare)
        self._guarded(self._thread.start)
        self._guarded(lambda: atexit.register(self.close))
        if on_exception:
            self._guarded(self._hook_exceptions)

    def _make_folders(self) -> None:
        """Make the folders now: in a hung job, the trigger file must have a place to appear."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._trigger_file is not None:
            self._trigger_file.parent.mkdir(parents=True, exist_ok=True)

    def _prepare(self) -> None:
        faults = setting_faults(self._torch)
        for fault in faults:
            say_once(fault)
        if not faults:
            prepare_stacks()
        self._trigger_seen = self._trigger_time()
        look(self._torch)
        attach_recorders(self._torch)

    def _hook_exceptions(self) -> None:
        previous = sys.excepthook

        def dump_then(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            if not self._stopped.is_set():
                self._dump_exception(error)
            previous(kind, error, trace)

        sys.excepthook = dump_then

    def _dump_exception(self, error: BaseException) -> None:
        """Dump unless the hang itself was dumped: after a time-out the recorder shows the failed call as finished."""
        if self._trouble_dumped:
            return
        self._trouble_dumped = True
        self.dump(f"exception: {type(error).__name__}: {error}"[:500])

    def _watch(self) -> None:
        nap = max(_SHORTEST_NAP_SECONDS, min(_LONGEST_NAP_SECONDS, self._seconds / 8))
        while not self._stopped.wait(nap):
            self._guarded(self._look_once)

    def _look_once(self) -> None:
        trigger = self._trigger_time()
        if trigger is not None and trigger != self._trigger_seen:
            self._trigger_seen = trigger
            self.dump("trigger file")
        self._look_for_new_groups()
        if not self._has_beat:
            self._look_for_new_calls()
        still = time.monotonic() - self._moved_at
        if still >= self._seconds and not self._trouble_dumped:
            self._trouble_dumped = True
            self._dump_hang(Stillness(still, self._seconds))

    def _dump_hang(self, still: Stillness) -> None:
        reason = f"nothing moved for {still.seconds:.1f} s"
        report = dump(self._directory, reason, run=self._run, attempt=self._attempt, still=still)
        named = ", ".join(path.name for path in report.files) or "no file"
        _log.warning("rank %s: %s: dumped into %s: %s", report.rank, reason, self._directory, named)

    def _look_for_new_groups(self) -> None:
        """Remember groups while they exist: a dump at exit comes after their end."""
        groups = _group_names(self._torch)
        if groups and groups != self._groups:
            self._groups = groups
            look(self._torch)

    def _look_for_new_calls(self) -> None:
        progress = _calls_so_far(self._torch)
        if progress != self._progress:
            self._progress = progress
            self._note_progress()

    def _note_progress(self) -> None:
        self._moved_at = time.monotonic()
        self._trouble_dumped = False

    def _trigger_time(self) -> int | None:
        try:
            return self._trigger_file.stat().st_mtime_ns if self._trigger_file else None
        except OSError:
            return None

    def _guarded(self, action: Any) -> None:
        """Run something whose failure must not reach training."""
        _, fault = tried(action)
        if fault is not None:
            say_once(f"watch: {fault}")


def _group_names(torch: Any) -> tuple[str, ...]:
    return tuple(name for _, name in live_groups(torch))


def _calls_so_far(torch: Any) -> tuple[int, ...]:
    """Return the number of the last collective of each group, as far as its backend counts."""
    numbers = (tried(last_collective, group)[0] for group, _ in live_groups(torch))
    return tuple(-1 if number is None else number for number in numbers)
