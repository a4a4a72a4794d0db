"""Watching beside a job: errors of GPUs, metrics, hangs and disagreeing ranks become orders to record more deeply.

Nothing here runs inside the job or steers it: an order is a line in the control file of its capture directory, which
its ranks read. Everything that was seen is appended to ``watch.jsonl`` there, and ``watch-state.json`` holds where each
source was left, so that a restart tells nothing twice.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from provstore.errors import InputError, ProvstoreError, StoreError
from provstore.evidence import whole_files
from provstore.evidence.recording import orders
from provstore.evidence.recording.orders import Order
from provstore.ingest.replicas import Disagreement, Replicas
from provstore.ingest.watch_spool import SCHEMA, Notes, said_of_closed
from provstore.model import signals as kinds
from provstore.model import versions
from provstore.model.finding import Finding
from provstore.model.recording import ExternalSignal, SignalProblem
from provstore.sources import capture_directory
from provstore.sources.signals import devices as gpu_devices
from provstore.sources.signals import prometheus
from provstore.sources.signals.dcgm import SOURCE as DCGM
from provstore.sources.signals.dcgm import Dcgm
from provstore.sources.signals.gcm import SOURCE as GCM
from provstore.sources.signals.gcm import Gcm
from provstore.sources.signals.http_client import FetchError, fetched
from provstore.sources.signals.kernel_log import SOURCE as KERNEL_LOG
from provstore.sources.signals.kernel_log import KernelLog, boot_moment_ns

STATE = "watch-state.json"
PROMETHEUS = "Prometheus"
JOURNALCTL, DMESG = "journalctl", "dmesg"
HOLD_STEPS = 50
"""How long an error that an application can cause is followed; one of the hardware until the end of the attempt."""

_COMMAND_SECONDS = 30.0
_MAX_OUTPUT = 64 * 1024 * 1024
_MAX_STATE = 64 * 1024 * 1024

Diagnosing = Callable[[Path], Sequence[Finding]]


@dataclass(frozen=True, slots=True)
class Sources:
    """What is watched."""

    kernel_log: str | None = None
    """``journalctl``, ``dmesg``, or the path of a file."""
    dcgm: str | None = None
    """Address that dcgm-exporter serves its metrics under."""
    gcm: tuple[str, ...] = ()
    """Command line of GCM's check of the kernel log."""
    metrics: prometheus.Settings | None = None
    limits: tuple[prometheus.Limit, ...] = ()
    dumps: Path | None = None
    """Folder into which the job leaves Flight Recorder dumps."""
    replicas: bool = True
    """Compare the ranks' digests as they are written."""

    def query_text(self, limit: prometheus.Limit) -> str:
        """Return what Prometheus is asked for a limit."""
        return prometheus.query_text("" if self.metrics is None else self.metrics.url, limit)

    def looked_at(self, directory: Path) -> tuple[str, ...]:
        """Return the sources in words; the ranks' files among them where there are any."""
        told = {
            "kernel log": self.kernel_log,
            "DCGM": self.dcgm,
            "GCM": self.gcm,
            PROMETHEUS: self.metrics,
            "dumps": self.dumps,
            "digests of the ranks": self.replicas and any(directory.glob("capture-rank*.jsonl")),
        }
        return tuple(name for name, source in told.items() if source)


@dataclass(slots=True)
class Polled:
    """What one round brought."""

    signals: list[ExternalSignal] = field(default_factory=list)
    disagreements: list[Disagreement] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    """Summaries of findings of a diagnosis that escalate."""
    ordered: list[Order] = field(default_factory=list)
    closed: list[Order] = field(default_factory=list)
    problems: list[SignalProblem] = field(default_factory=list)
    looked_at: tuple[str, ...] = ()
    """Which sources there were to look at, in words; no Prometheus that has no series of any query."""
    without_series: dict[str, str] = field(default_factory=dict)
    """Name → query of those to Prometheus that should have a series and had none: nothing was seen there."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was seen at all."""
        return not any((self.signals, self.disagreements, self.findings, self.ordered, self.closed, self.problems))

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values; a problem with its entry in the registry of finding codes."""
        return {**asdict(self), "problems": [{**asdict(one), "code": one.code} for one in self.problems]}


class Watch:
    """A watcher of one job; :meth:`poll` looks once.

    Args:
        directory: Capture directory of the job.
        sources: What to look at.
        diagnose: Returns the findings of a folder of dumps.
        now_ns: The wall clock.

    Raises:
        InputError: There is no such directory, or its state file is none.
        NotUnderstoodError: Its state file is of a version that is not known here.
    """

    def __init__(
        self,
        directory: Path,
        sources: Sources,
        diagnose: Diagnosing | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        if not directory.is_dir():
            raise InputError(f"{directory}: capture directory: no such directory")
        self._directory, self._sources, self._diagnose, self._now_ns = directory, sources, diagnose, now_ns
        self._host = socket.gethostname()
        state = self._read_state()
        headers = _headers(directory)
        self._devices = gpu_devices.of_headers(headers)
        started = [at for header in headers if type(at := header.get("started_ns")) is int]
        self._kernel = KernelLog(
            self._devices,
            host=self._host,
            boot_id=_text(Path("/proc/sys/kernel/random/boot_id")),
            boot_ns=boot_moment_ns(_text(Path("/proc/stat"))),
            run_ns=min(started, default=None),
            state=state.get("kernel_log"),
        )
        self._dcgm = Dcgm(self._devices, host=self._host, state=state.get("dcgm"))
        self._gcm = Gcm(self._devices, host=self._host, state=state.get("gcm"))
        metrics = state.get("metrics", {})
        self._metrics = [
            (
                limit,
                prometheus.Prometheus(
                    limit, self._devices, query=sources.query_text(limit), state=metrics.get(limit.name)
                ),
            )
            for limit in sources.limits
        ]
        self._replicas = Replicas(directory, state.get("replicas"))
        self._dumps: dict[str, list[int]] = state.get("dumps", {})
        self._found: set[str] = set(state.get("findings", ()))
        self._problems: list[list[str]] = state.get("problems", [])
        """What the round before had: source, kind and text."""

    def poll(self) -> Polled:
        """Look at every source once, order what follows from it, and keep it all.

        Raises:
            StoreError: Orders or state could not be made durable.
            InputError: The control file is none.
        """
        polled, notes = Polled(looked_at=self._sources.looked_at(self._directory)), Notes(self._now_ns())
        self._look(polled, notes)
        for signal in polled.signals:
            because = notes.add(kinds.SIGNAL, asdict(signal))
            if not signal.is_context:
                for scope in gpu_devices.scopes(signal, self._devices):
                    self._give(polled, notes, self._order_of(signal, scope), because)
        for one in polled.disagreements:
            because = notes.add(kinds.DISAGREEMENT, asdict(one))
            self._give(polled, notes, self._order_of_ranks(one), because)
        self._keep(polled, notes)
        return polled

    def _give(self, polled: Polled, notes: Notes, order: Order, because: str) -> None:
        given = orders.give(self._directory, order)
        polled.ordered.append(given)
        notes.add(kinds.ORDER, {**asdict(given), "because": because})

    def _look(self, polled: Polled, notes: Notes) -> None:
        at = self._now_ns()
        looks = ((KERNEL_LOG, self._look_kernel), (DCGM, self._look_dcgm), (GCM, self._look_gcm))
        for name, look in looks:
            try:
                polled.signals += look(at)
            except (OSError, ProvstoreError, subprocess.SubprocessError) as error:
                polled.problems.append(SignalProblem(name, _kind(error), f"{name}: {_said(error)}"))
        for reader in (self._kernel, self._dcgm, self._gcm):
            polled.problems += reader.problems
            reader.problems.clear()
        if self._sources.metrics is not None:
            for limit, reading in self._metrics:
                found = reading.poll(prometheus.asked(self._sources.metrics, limit), at)
                polled.signals += found.signals
                polled.problems += found.problems
                if found.is_without_series:
                    polled.without_series[limit.name] = self._sources.query_text(limit)
                for scope in found.cleared:
                    polled.closed += orders.close(self._directory, scope, "prometheus")
            if polled.without_series.keys() >= {limit.name for limit in self._sources.limits}:
                polled.looked_at = tuple(one for one in polled.looked_at if one != PROMETHEUS)
        if self._sources.replicas:
            polled.disagreements += self._replicas.poll()
        self._look_dumps(polled, notes)

    def _look_kernel(self, _at: int) -> list[ExternalSignal]:
        source = self._sources.kernel_log
        if source is None:
            return []
        if source == JOURNALCTL:
            after = [f"--after-cursor={self._kernel.cursor}"] if self._kernel.cursor else ["--boot"]
            return self._kernel.read_journal(_output(["journalctl", "-k", "-o", "json", *after]))
        if source == DMESG:
            return self._kernel.read_dmesg(_output(["dmesg"]).decode("utf-8", "replace"))
        return self._kernel.read_file(Path(source))

    def _look_dcgm(self, at: int) -> list[ExternalSignal]:
        if self._sources.dcgm is None:
            return []
        return self._dcgm.read(fetched(self._sources.dcgm).decode("utf-8", "replace"), at)

    def _look_gcm(self, at: int) -> list[ExternalSignal]:
        if not self._sources.gcm:
            return []
        done = subprocess.run(
            list(self._sources.gcm),
            capture_output=True,
            check=False,
            timeout=_COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        return self._gcm.read(done.returncode, done.stdout[:_MAX_OUTPUT].decode("utf-8", "replace"), at)

    def _look_dumps(self, polled: Polled, notes: Notes) -> None:
        """Diagnose the folder of dumps when it has changed; what is certain or probable escalates its group."""
        folder = self._sources.dumps
        if folder is None or self._diagnose is None or not folder.is_dir():
            return
        seen = {
            path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in folder.iterdir() if path.is_file()
        }
        if not seen or seen == self._dumps:
            return
        self._dumps = seen
        try:
            findings = self._diagnose(folder)
        except ProvstoreError as error:
            polled.problems.append(SignalProblem("dumps", "failed", str(error)))
            return
        for finding in findings:
            if finding.confidence in {"certain", "probable"} and finding.key not in self._found:
                self._found.add(finding.key)
                polled.findings.append(finding.summary)
                scope = "run" if finding.group is None else f"group:{finding.group.name}"
                because = notes.add(kinds.FINDING, _told(finding))
                self._give(polled, notes, self._order("desync", scope, finding.summary, "diagnosis", None), because)

    def _order_of(self, signal: ExternalSignal, scope: str) -> Order:
        steps = HOLD_STEPS if signal.fault_class == "application" else None
        order = self._order(signal.trigger, scope, signal.line, signal.source, steps)
        return replace(order, value=signal.value, threshold=signal.threshold)

    def _order_of_ranks(self, one: Disagreement) -> Order:
        who = f"ranks {', '.join(map(str, one.minority))} differ" if one.minority else "there is no majority"
        text = f"{one.op} #{one.seq} of {one.group}: ranks hold different bytes: {who}"
        name = one.group.rpartition("@")[0] or one.group
        return self._order("replica-disagreement", f"group:{name}", text, "watch", HOLD_STEPS)

    def _order(self, trigger: str, scope: str, reason: str, source: str, steps: int | None) -> Order:
        return Order(0, trigger, scope, "P1", 0, reason[:500], source, self._now_ns(), steps)

    # What is kept

    def _keep(self, polled: Polled, notes: Notes) -> None:
        before, self._problems = self._problems, [[one.source, one.kind, one.text] for one in polled.problems]
        for one, said in zip(polled.problems, self._problems, strict=True):
            if said not in before:
                # A source that goes on giving nothing is noted once.
                notes.add(kinds.PROBLEM, {**asdict(one), "code": one.code})
        for order in polled.closed:
            notes.add(kinds.CLOSED, said_of_closed(order))
        notes.append_to(self._directory)
        try:
            whole_files.write(self._directory / STATE, orjson.dumps(self._state()), None)
        except OSError as error:
            raise StoreError(f"{self._directory}: watch: {error.strerror}") from error

    def _state(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "kernel_log": self._kernel.state(),
            "dcgm": self._dcgm.state(),
            "gcm": self._gcm.state(),
            "metrics": {limit.name: reading.state() for limit, reading in self._metrics},
            "replicas": self._replicas.state(),
            "dumps": self._dumps,
            "findings": sorted(self._found),
            "problems": self._problems,
        }

    def _read_state(self) -> dict[str, Any]:
        path = self._directory / STATE
        try:
            if path.stat().st_size > _MAX_STATE:
                raise InputError(f"{path}: state of a watcher: more than {_MAX_STATE} bytes")
            said = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError) as error:
            raise InputError(f"{path}: state of a watcher: {_said(error)}", hint="remove it to begin anew") from error
        place = f"{path}: state of a watcher"
        if not isinstance(said, dict) or not versions.is_known(said.get("schema"), SCHEMA, place):
            raise InputError(f"{place}: not of schema {SCHEMA}", hint="remove it to begin anew")
        return said


def _told(finding: Finding) -> dict[str, object]:
    group = None if finding.group is None else finding.group.name
    culprits = sorted({one.rank for one in finding.culprits})
    return {"summary": finding.summary, "code": finding.code, "key": finding.key, "confidence": finding.confidence,
            "ranks": culprits or None, "group": group, "op": finding.op, "seq": finding.seq}  # fmt: skip


def _headers(directory: Path) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for path in sorted(directory.glob("capture-rank*.jsonl")):
        with contextlib.suppress(OSError, InputError), path.open("rb") as file:
            found.append(capture_directory.parse(file.readline(capture_directory.MAX_LINE_BYTES)))
    return found


def _output(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False, timeout=_COMMAND_SECONDS, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(f"{command[0]}: exit {done.returncode}: {said[0][:200] if said else 'no message'}")
    return done.stdout[:_MAX_OUTPUT]


def _kind(error: BaseException) -> str:
    if isinstance(error, FetchError):
        return error.kind
    return "timeout" if isinstance(error, subprocess.TimeoutExpired) else "failed"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _said(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'operating system'}: {error.strerror}"
    return str(error)
