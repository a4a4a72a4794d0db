"""Signing in the background: an open store signs what it records, without anybody waiting for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from provstore.errors import ProvstoreError
from provstore.evidence.bundles import Ledger
from provstore.ingest.sealing import Scope, SealRequest, load, seal
from provstore.journal import Journal

_LOG = logging.getLogger("provstore")
_LOOK_SECONDS = 0.25
_REASON_CHARACTERS = 200


class BackgroundSigner:
    """Signs what waits when a limit is reached. Recording goes on when it fails: what waits can be signed later.

    Args:
        journal: Open for writing.
        request: Signer and limits.
        clock: Seconds, never going backwards.
    """

    def __init__(self, journal: Journal, request: SealRequest, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.problem: str | None = None
        """Why the last attempt to sign failed; ``None`` when it did not."""
        self._journal, self._request, self._clock = journal, request, clock
        self._ledgers: dict[Scope, Ledger] = {}
        self._waiting: dict[Scope, float] = {}
        self._mutex = threading.Lock()
        self._wake, self._is_over = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="provstore-signer", daemon=True)
        self._thread.start()

    def ledger(self, scope: Scope) -> Ledger:
        """Return how far a run is signed; read from the journal once.

        Raises:
            TrustError: A bundle does not fit its records: nothing can be signed on top of it.
        """
        with self._mutex:
            if scope not in self._ledgers:
                self._ledgers[scope] = load(self._journal, scope)
            return self._ledgers[scope]

    def forget(self, scope: Scope) -> None:
        """Read the run from the journal again before anything is added: an append has failed."""
        with self._mutex:
            ledger = self._ledgers.pop(scope, None)
        if ledger is not None:
            ledger.is_stale = True

    def note(self, scope: Scope) -> None:
        """Say that something of a run waits for a signature."""
        with self._mutex:
            self._waiting.setdefault(scope, self._clock())
        self._wake.set()

    def finish(self) -> None:
        """Sign all that waits and stop; a failure is logged and kept in :attr:`problem`."""
        self._is_over = True
        self._wake.set()
        self._thread.join()
        for scope in list(self._waiting):
            self._sign(scope)

    def _run(self) -> None:
        while not self._is_over:
            self._wake.wait(_LOOK_SECONDS if self._waiting else None)
            self._wake.clear()
            for scope in self._due():
                if not self._is_over:
                    self._sign(scope)

    def _due(self) -> list[Scope]:
        with self._mutex:
            waiting = dict(self._waiting)
        limits, now = self._request.limits, self._clock()
        return [scope for scope, since in waiting.items() if now - since >= limits.seconds or self._is_full(scope)]

    def _is_full(self, scope: Scope) -> bool:
        ledger, limits = self._ledgers.get(scope), self._request.limits
        return ledger is not None and (ledger.pending >= limits.records or ledger.pending_bytes >= limits.size_bytes)

    def _sign(self, scope: Scope) -> None:
        with self._mutex:
            self._waiting.pop(scope, None)
        try:
            seal(self._journal, self.ledger(scope), replace(self._request, close=None))
            self.problem = None
        except ProvstoreError as error:
            self.problem = str(error)
            self.forget(scope)
            _LOG.warning("provstore: %s: attempt %s: not signed: %s", *scope, error)
        except Exception as error:  # noqa: BLE001 - whatever a signer of somebody else raises must not end recording
            self.problem = f"the signer failed: {type(error).__name__}: {str(error)[:_REASON_CHARACTERS]}"
            self.forget(scope)
            _LOG.warning("provstore: %s: attempt %s: not signed: %s", *scope, self.problem)
