"""What an operator switches: safe mode, which stops writing and running, and deeper recording of a running job."""

from __future__ import annotations

import getpass
import os
import re
import socket
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from provstore import config
from provstore.errors import ConfigError, InputError, SafeModeError, StoreError
from provstore.evidence.recording import orders
from provstore.evidence.recording.orders import Order
from provstore.ingest.running_job import why_without_effect
from provstore.ingest.watch_spool import Notes, said_of_closed
from provstore.journal import Journal, control
from provstore.model.group_names import stated
from provstore.model.signals import CLOSED, ORDER

_SCOPE = re.compile(r"rank:(0|[1-9][0-9]{0,6})|(group|host):.{1,200}|epoch|run")


@dataclass(frozen=True, slots=True)
class SafeMode:
    """Whether safe mode is on, and who switched it last."""

    is_on: bool
    reason: str = ""
    who: str = ""
    host: str = ""
    since_ns: int | None = None
    """``None`` when nobody ever switched it."""

    @property
    def since(self) -> str:
        """When it was switched, ISO 8601 in UTC."""
        if self.since_ns is None:
            return ""
        return datetime.fromtimestamp(self.since_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        said: dict[str, object] = {"safe_mode": control.ON if self.is_on else control.OFF}
        if self.since_ns is not None:
            said |= {"reason": self.reason, "who": self.who, "host": self.host, "since": self.since}
        return said


def safe_mode(store: str | None, journal: str | Path | None = None) -> SafeMode:
    """Return whether safe mode is on for a store.

    Args:
        store: Address of the store; ``PROVSTORE_STORE`` or the default when not given.
        journal: Where its journal is, when it is not beside the store.

    Raises:
        StoreError: The journal is there and cannot be read.
    """
    return _state(_directory(store, journal))


def switch(store: str | None, journal: str | Path | None = None, *, on: bool, reason: str) -> SafeMode:
    """Switch safe mode for every process and host on a store; return what holds now.

    It needs no hold of the journal: a process that is writing goes on until it ends, whatever begins later is refused.

    Raises:
        ConfigError: Safe mode is to be switched on without a reason, or the store is in memory only.
        StoreError: There is no journal, or the change could not be made durable.
    """
    directory = _directory(store, journal)
    if directory is None:
        raise ConfigError(f"{store}: safe mode: a store in memory has no journal that would keep it")
    if on and not reason.strip():
        raise ConfigError("safe mode: --reason: say why, for whoever is refused by it")
    if not directory.is_dir():
        raise StoreError(f"{directory}: journal: no such directory", hint="provstore ingest or record makes one")
    state = control.ON if on else control.OFF
    who = _user()
    control.announce(
        directory, control.Change(control.SAFE_MODE, state, reason.strip(), who, socket.gethostname(), time.time_ns())
    )
    return _state(directory)


def require_allowed(what: str, store: str | None, journal: str | Path | None = None) -> None:
    """Refuse what safe mode forbids.

    Args:
        what: The command, as the user knows it.
        store: See :func:`safe_mode`.
        journal: See :func:`safe_mode`.

    Raises:
        SafeModeError: Safe mode is on; the message says who switched it on, when and why.
    """
    require_off(what, _directory(store, journal))


def require_off(what: str, directory: Path | None) -> None:
    """Refuse what safe mode forbids on the journal in a directory; see :func:`require_allowed`."""
    state = _state(directory)
    if state.is_on:
        said = f"{what}: refused by safe mode: {state.who} on {state.host} switched it on at {state.since}: "
        raise SafeModeError(said + state.reason, hint="provstore admin safe-mode off ends it")


def escalate(directory: Path, scope: str, reason: str, steps: int | None = None) -> Order:
    """Order that a running job records a scope in full; return the order, with its first step.

    Args:
        directory: Capture directory of the job.
        scope: ``rank:<r>``, ``group:<name>``, ``host:<h>``, ``epoch`` or ``run``; a group by its name, description or
            id, or ``default`` for that of all ranks, as in targets.
        reason: Stands in the record.
        steps: For so many training steps; until :func:`deescalate` when not given.

    Raises:
        ConfigError: No such scope, or no reason.
        InputError: There is no such directory; or its files tell that the order could take no effect, because there is
            no such rank, group or host, or because the job has ended.
        StoreError: It could not be made durable, or not be noted beside the capture.
    """
    if not _SCOPE.fullmatch(scope):
        raise ConfigError(f"{scope}: --scope: not rank:R, group:NAME, host:NAME, epoch or run")
    if not reason.strip():
        raise ConfigError("escalate: --reason: say why; it stands in the record")
    scope = _as_stated(scope)
    if (why := why_without_effect(directory, scope)) is not None:
        raise InputError(f"{directory}: --scope {scope}: {why}")
    order = Order(
        0, "manual", scope, "P1", 0, reason.strip(), f"{_user()}@{socket.gethostname()}", time.time_ns(), steps
    )
    given = orders.give(directory, order)
    notes = Notes(time.time_ns())
    notes.add(ORDER, asdict(given))
    notes.append_to(directory)
    return given


def _as_stated(scope: str) -> str:
    """Return a scope as a running job knows it."""
    kind, _, name = scope.partition(":")
    return f"group:{stated(name)}" if kind == "group" else scope


def deescalate(directory: Path, scope: str | None = None) -> tuple[Order, ...]:
    """End the orders for a scope, or all of them; return those that were open.

    Raises:
        ConfigError: Nothing is ordered for that scope.
        InputError: There is no such directory.
        StoreError: It could not be made durable, or not be noted beside the capture.
    """
    ended = orders.close(directory, None if scope is None else _as_stated(scope))
    if not ended:
        known = ", ".join(sorted({one.scope for one in orders.read(directory) if not one.is_closed})) or "nothing"
        raise ConfigError(f"{scope or 'deescalate'}: nothing is ordered for it; ordered is {known}")
    notes = Notes(time.time_ns())
    for order in ended:
        notes.add(CLOSED, said_of_closed(order))
    notes.append_to(directory)
    return ended


def _state(directory: Path | None) -> SafeMode:
    if directory is None or not directory.is_dir():
        return SafeMode(is_on=False)
    change = control.current(directory, () if control.is_remembered(directory) else _events(directory)).get(
        control.SAFE_MODE
    )
    if change is None:
        return SafeMode(is_on=False)
    return SafeMode(change.state == control.ON, change.reason, change.who, change.host, change.at_ns)


def _events(directory: Path) -> list[dict[str, object]]:
    """Return the events of a journal, none where there is no journal yet."""
    if not any(directory.glob("seg-*.pvj")):
        return []
    with Journal.open(directory, writable=False) as found:
        return [said for _, said in found.events()]


def _directory(store: str | None, journal: str | Path | None) -> Path | None:
    uri = config.store_uri(store)
    if uri.startswith("memory:") and not (journal or os.environ.get("PROVSTORE_JOURNAL")):
        return None
    return config.journal_directory(uri, journal)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
