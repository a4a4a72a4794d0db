"""``evidence``: records what each rank of a job does, step by step, into a directory of files."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from provstore.capture.fail_open import say_once, tried
from provstore.capture.job_facts import environment_number, look
from provstore.capture.torch_library import load_torch
from provstore.errors import ConfigError
from provstore.model import ids
from provstore.model.evidence import MODES

if TYPE_CHECKING:
    from provstore.capture.content.limits import Limits
    from provstore.capture.recording.session import Session
    from provstore.evidence.recording.policy import WatchList

SWITCH = "PROVSTORE_CAPTURE"
_OFF_WORDS = frozenset({"0", "off", "no", "false"})
_VALIDATION = "validation"


def evidence(  # noqa: PLR0913 - each argument is a setting of the recording
    run: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    attempt: int | None = None,
    enabled: bool = True,
    mode_floor: str = _VALIDATION,
    external_groups: Collection[str] = (),
    watched: WatchList | None = None,
    has_consent_anomaly: bool = False,
    taint_window_steps: int = 1,
    classes: Mapping[str, str | Mapping[str, str]] | None = None,
    limits: Limits | None = None,
    trace_id: str | None = None,
    parent_trace_id: str | None = None,
    parent_action: str | None = None,
    launched_by: str | os.PathLike[str] | None = None,
) -> Recorder:
    """Start to record this rank and return its recorder; call it after ``init_process_group``.

    Nothing that goes wrong later reaches training: it becomes a line in the file and in the log ``provstore.capture``.
    ``PROVSTORE_CAPTURE=0`` in the environment switches recording off, whatever the program says.

    Args:
        run: Name of the run.
        directory: Where the files go, the same for all ranks; default is ``capture/<run>``.
        attempt: Number of the restart; default is torchrun's restart count, else 0, and where earlier files of the run
            name that already, the number after the highest of them: the first rank to ask decides for all.
        enabled: ``False`` gives a recorder that does nothing.
        mode_floor: Lowest mode that is demanded: ``validation``, ``delta`` or ``full``.
        external_groups: Names or descriptions of groups that lead out of the run.
        watched: Ranks, operations, groups and hosts that are recorded in full.
        has_consent_anomaly: The agent action that launched the run was denied or not approved.
        taint_window_steps: A tensor that is not finite taints calls that take it in until so many steps have ended; 0:
            it taints none.
        classes: Operation → side-effect class, or ``{"class": …, "reason": …}``, over the built-in table.
        limits: What recording may cost.
        trace_id: Of what launched the run; default is ``PROVSTORE_TRACE_ID``, else ``TRACEPARENT``.
        parent_trace_id: Default is ``PROVSTORE_PARENT_TRACE_ID``.
        parent_action: ``<run_id>/<action_id>``; default is ``PROVSTORE_PARENT_ACTION``.
        launched_by: File with the agent's records of that action, of at most 16 MiB; where they show it denied, or
            asked for without an approval, everything is recorded in full. Default is ``PROVSTORE_LAUNCH_RECORD``.

    Raises:
        ConfigError: torch is not installed, or an argument is none of its kind.
    """
    if not enabled or os.environ.get(SWITCH, "").strip().lower() in _OFF_WORDS:
        return Recorder(None)
    if not isinstance(run, str) or not run:
        raise ConfigError(f"{run!r}: run: is no name")
    torch = load_torch()
    if mode_floor not in MODES:
        raise ConfigError(f"{mode_floor}: mode floor: is none of {', '.join(MODES)}")
    number = _attempt(attempt)
    if type(taint_window_steps) is not int or taint_window_steps < 0:
        raise ConfigError(f"{taint_window_steps!r}: taint window: is no number of steps")
    from provstore.capture.content.limits import Limits

    if limits is not None and not isinstance(limits, Limits):
        raise ConfigError(f"{limits!r:.80}: limits: are no provstore.capture.content.limits.Limits")
    try:
        from provstore.evidence.recording.classes import TABLE, extended

        table = extended(TABLE, classes or {})
        rules = (mode_floor, frozenset(external_groups), watched, has_consent_anomaly, table, taint_window_steps)
        trace = (trace_id, parent_trace_id, parent_action)
        folder = _folder(run, directory)
        if attempt is None:
            from provstore.capture.recording.attempts import next_attempt

            number = next_attempt(torch, run, folder, look(torch).rank or environment_number("RANK") or 0, number)
        name = (run, number, folder)
        return Recorder(_started(torch, name, rules, limits, trace, launched_by))
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001  training is sacred: it goes on without a record
        say_once(f"recording: nothing is recorded: {type(error).__name__}: {error}")
        return Recorder(None)


class Recorder:
    """A running recording, or nothing at all where it is off; a context manager. Nothing in it raises into training."""

    def __init__(self, session: Session | None) -> None:
        self._session = session
        if session is not None:
            atexit.register(self._close_at_exit)

    @property
    def path(self) -> Path | None:
        """The file of this rank; ``None`` when nothing is recorded."""
        return None if self._session is None else self._session.file.path

    def begin_epoch(self, epoch: int) -> None:
        """Begin a training epoch, and end the one before.

        Without any call, an epoch is what lies between two checkpoints, or 1,000 steps.
        """
        if self._session is not None:
            self._session.guard.run("begin_epoch", self._session.begin_epoch, epoch)

    def step(
        self,
        step: int,
        *,
        loss: Any = None,
        grad_norm: Any = None,
        norm_is_local: bool = False,
        parameters: Any = None,
    ) -> None:
        """End a training step: what was recorded since the last one belongs to it.

        Args:
            step: Its number in the run.
            loss: A number, or a tensor with one; reading one on a device waits for it.
            grad_norm: The same.
            norm_is_local: The norm is of this rank's gradients alone.
            parameters: Model or state whose digest is kept with the step, or that digest; hashing takes its time.
        """
        session = self._session
        if session is not None:
            session.guard.run("step", self._step, session, step, loss, grad_norm, norm_is_local, parameters)

    def detector(self, name: str, score: float, step: int | None = None) -> None:
        """Take what a detector of your own says; above 0.8 this rank is recorded in full, until it is below 0.5 again.

        Args:
            name: Of the detector; it stands in the source of what it escalates.
            score: How unusual it is, from 0 to 1; 0.8 itself escalates nothing. NaN is refused and becomes a fault.
            step: Of which training step it is; default is the one under way.
        """
        if self._session is not None:
            self._session.guard.run("detector", self._session.alarms.saw_score, name, score, step)

    def data(self, batch_ids: Any, *, skipped: str | None = None) -> None:
        """Keep a digest of the ids of the samples of a batch; ``skipped`` says why it was not trained on."""
        if self._session is not None:
            self._session.guard.run("data", self._session.data, batch_ids, skipped)

    def sampler(self, loader: Any, *, dataset: str | None = None) -> None:
        """Keep what a loader or sampler states of the order of its samples: kind, seed, epoch, shards, sizes.

        Call it in each epoch, after ``set_epoch``. Nothing is iterated, and no random number is drawn.

        Args:
            loader: A loader, batch sampler or sampler of torch, or anything with attributes of the same names.
            dataset: Name and version of the data set, such as ``imagenet-1k@2012``.
        """
        if self._session is not None:
            self._session.guard.run("sampler", self._session.sampler, loader, dataset)

    def rng(self) -> None:
        """Keep the states of the random number generators; done by itself at each epoch and checkpoint."""
        if self._session is not None:
            self._session.guard.run("rng", self._session.rng, "asked")

    def checkpoint(
        self,
        uri: str | os.PathLike[str],
        state: Any = None,
        *,
        files: Sequence[str | os.PathLike[str]] = (),
        action: str = "save",
    ) -> None:
        """Take note of a checkpoint that was written or loaded.

        Args:
            uri: Where it is; user and password in it are not kept.
            state: Model or state of which a digest is kept, or that digest.
            files: Its files on this machine, whose sizes and SHA-256 are kept; default is ``uri`` where it is one.
            action: ``save`` or ``load``.
        """
        session = self._session
        if session is not None:
            session.guard.run("checkpoint", self._checkpoint, session, uri, state, files, action)

    def gradients(self, model: Any) -> None:
        """Record the gradient of each parameter as it is accumulated, and which call carries it."""
        if self._session is not None:
            self._session.guard.run("gradients", self._session.events.gradients, model)

    def modules(self, model: Any, *, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> None:
        """Record what goes into, and comes out of, the modules of these names."""
        session = self._session
        if session is not None:
            session.guard.run("modules", self._modules, session, model, inputs, outputs)

    def close(self) -> None:
        """End the recording; a second call does nothing."""
        self._close("end of run", is_clean=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._close(f"exception: {kind.__name__}", is_clean=False)

    @staticmethod
    def _step(session: Session, step: int, loss: Any, grad_norm: Any, norm_is_local: bool, parameters: Any) -> None:
        session.end_step(step, loss, grad_norm, norm_is_local=norm_is_local, parameters=parameters)

    @staticmethod
    def _checkpoint(session: Session, uri: Any, state: Any, files: Any, action: str) -> None:
        session.checkpoint(os.fspath(uri), state, [Path(one) for one in files], action)

    @staticmethod
    def _modules(session: Session, model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        session.events.modules(model, inputs=inputs, outputs=outputs)

    def _close_at_exit(self) -> None:
        self._close("end of process", is_clean=False)

    def _close(self, reason: str, *, is_clean: bool) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        atexit.unregister(self._close_at_exit)
        if session.pid == os.getpid():
            _, fault = tried(lambda: session.close(reason, is_clean=is_clean))
            if fault is not None:
                say_once(f"recording: {fault}")


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _started(
    torch: Any,
    name: tuple[str, int, Path],
    rules: tuple[Any, ...],
    limits: Limits | None,
    trace: tuple[str | None, str | None, str | None],
    launched_by: str | os.PathLike[str] | None,
) -> Session:
    from provstore.capture.content.limits import Limits
    from provstore.capture.recording.judging import Rules
    from provstore.capture.recording.launch import launch_found
    from provstore.capture.recording.session import Plan, Session
    from provstore.capture.recording.trace_context import trace_context
    from provstore.evidence.recording.policy import NOTHING_WATCHED

    floor, groups, watched, has_consent_anomaly, table, window = rules
    context = trace_context(*trace)
    launch = launch_found(launched_by, context.parent_action, is_stated=has_consent_anomaly)
    has_anomaly = launch is not None and launch.consent.has_anomaly
    rule = Rules(floor, groups, watched or NOTHING_WATCHED, has_anomaly, table, window)
    session = Session(torch, Plan(*name, rule, limits or Limits(), context, launch))
    session.start()
    if not _sessions:
        os.register_at_fork(after_in_child=_stop_in_child)
    _sessions.add(session)
    return session


def _stop_in_child() -> None:
    """Let a forked child record nothing: file, thread and hooks are its parent's."""
    for session in list(_sessions):
        session.guard.is_off = True


def _folder(run: str, given: str | os.PathLike[str] | None) -> Path:
    return Path(given if given is not None else Path("capture") / ids.component(run)).absolute()


def _attempt(given: int | None) -> int:
    found = environment_number("TORCHELASTIC_RESTART_COUNT") or 0 if given is None else given
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ConfigError(f"{given!r}: attempt: is not a number from 0")
    return found
