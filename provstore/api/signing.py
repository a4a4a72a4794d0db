"""Records and signatures of an open store: how far each run is signed, and signing in the background."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from provstore.api.answers import instead_of
from provstore.api.standing import own_trust
from provstore.errors import InputError, ProvstoreError
from provstore.evidence import dsse, keys, stated, statement
from provstore.evidence.bundles import Ledger, Limits
from provstore.evidence.keys import Signer
from provstore.evidence.trust import file as trust_file
from provstore.ingest import sealing
from provstore.ingest.background import BackgroundSigner
from provstore.ingest.given import Progress
from provstore.ingest.upkeep import catch_up
from provstore.ingest.vouching import Vouching
from provstore.journal import Journal
from provstore.model.evidence import AgreedDigest, Observation
from provstore.model.report import SealReport
from provstore.stores import GraphStore

Scope = tuple[str, int]


class Signing:
    """What an open store records and signs.

    Args:
        journal: Open for writing.
        graph: Its graph.
        signer: Signs in the background; without one only :meth:`seal` signs.
        limits: When an evidence epoch closes at the latest, in the background.
    """

    def __init__(
        self, journal: Journal, graph: GraphStore, signer: Signer | None = None, limits: Limits | None = None
    ) -> None:
        self._journal, self._graph = journal, graph
        self._ledgers: dict[Scope, Ledger] = {}
        self._mutex = threading.RLock()
        """Held while a run is read for the first time, and while the graph catches up: threads take turns."""
        self._background: BackgroundSigner | None = None
        if signer is not None:
            request = sealing.SealRequest(signer, limits=limits or Limits(), vouch=Vouching(own_trust))
            self._background = BackgroundSigner(journal, request)

    def record(self, items: Iterable[Observation | AgreedDigest], scope: Scope, rank_signer: Signer | None) -> int:
        """Keep records and show them in the graph; return the index of the first in the run tree.

        Raises:
            ConfigError: The run has no name, the items are no list, or the signer is none.
            InputError: An item cannot become a record.
        """
        scope = stated.scope(*scope)
        if rank_signer is not None:
            keys.require_signer(rank_signer, f"{scope[0]}: rank_signer")
        given, first = stated.statements(items, scope[0]), None
        while first is None:
            ledger = self._ledger(scope)
            with ledger.lock:
                if not ledger.is_stale:
                    first = self._record(ledger, given, scope, rank_signer)
        self.show()
        self.note([scope])
        return first

    def _record(
        self, ledger: Ledger, items: Sequence[Observation | AgreedDigest], scope: Scope, rank_signer: Signer | None
    ) -> int:
        try:
            return sealing.record(self._journal, ledger, items, rank_signer)
        except BaseException:
            self._forget(scope)
            raise

    def seal(
        self, scopes: Sequence[Scope], request: sealing.SealRequest, progress: Progress | None = None
    ) -> SealReport:
        """Sign what waits in each of these runs and show it in the graph."""
        request = replace(request, vouch=request.vouch or Vouching(own_trust))
        done = []
        try:
            for at, scope in enumerate(scopes):
                try:
                    done.append(sealing.seal(self._journal, self._ledger(scope), request))
                except BaseException:
                    self._forget(scope)
                    raise
                if progress:
                    progress(at + 1, len(scopes), "signing")
        finally:
            self.show()
        return SealReport(tuple(done), problems=tuple(str(found) for found in self._journal.problems if found.is_loss))

    def note(self, scopes: Sequence[Scope]) -> None:
        """Say that something of these runs waits for a signature."""
        if self._background is not None:
            for scope in scopes:
                self._background.note(scope)

    def show(self) -> None:
        """Bring into the graph what the journal has acknowledged."""
        with self._mutex:
            catch_up(self._graph, self._journal)

    def finish(self) -> None:
        """Sign what waits, when there is a signer, and show it."""
        if self._background is not None:
            self._background.finish()
            self._background = None
            self.show()

    def _ledger(self, scope: Scope) -> Ledger:
        if self._background is not None:
            return self._background.ledger(scope)
        with self._mutex:
            if scope not in self._ledgers:
                self._ledgers[scope] = sealing.load(self._journal, scope)
            return self._ledgers[scope]

    def _forget(self, scope: Scope) -> None:
        ledger = self._ledgers.pop(scope, None)
        if ledger is not None:
            ledger.is_stale = True
        if self._background is not None:
            self._background.forget(scope)


def vouching(trust: Path | None, *, after_unknown_key: bool, rekeyed_ranks: Iterable[int]) -> Vouching:
    """Return on top of what is signed.

    Args:
        trust: A trust file that is believed as it is, in place of the user's.
        after_unknown_key: See :class:`Vouching`.
        rekeyed_ranks: See :class:`Vouching`.

    Raises:
        InputError: The trust file cannot be read.
        TrustError: It is malformed, or not signed by its root keys.
    """
    held = trust_file.read(trust).trust if trust is not None else None
    return Vouching(own_trust if held is None else (lambda: held), after_unknown_key, frozenset(rekeyed_ranks))


def scopes_to_seal(
    journal: Journal, place: str, run: str | None, attempt: int | None, close: str | None
) -> list[Scope]:
    """Return the attempts to sign: those that fit and are open; imported documents (run ``""``) are one of them.

    Raises:
        InputError: None fits, or several do although one is to be closed.
    """
    fits = fitting(journal.scopes(), place, run, attempt)
    if run is None and close is None:
        fits = [scope for scope in fits if not _is_over(journal, scope)]
    if close is not None and len(fits) > 1:
        raise InputError(f"{place}: --close: {len(fits)} runs fit", hint="choose with --run and --attempt")
    return fits


def _is_over(journal: Journal, scope: Scope) -> bool:
    """Return whether the end of an attempt is signed; a signer that failed at it leaves an end that is not."""
    if not journal.evidence_size(*scope).is_closed:
        return False
    last = journal.evidence(*scope).last_bundle()
    try:
        return last is not None and statement.parse(dsse.parse(last.envelope).payload).closed
    except ProvstoreError:
        # No bundle at all: verification says so, and nothing can be signed on top of it.
        return True


def fitting(known: Sequence[Scope], place: str, run: str | None, attempt: int | None) -> list[Scope]:
    """Return the attempts that were asked for.

    Raises:
        InputError: There is none.
    """
    fits = [scope for scope in known if run in (None, scope[0]) and attempt in (None, scope[1])]
    if not fits:
        asked = " ".join(f"{name} {value}" for name, value in (("run", run), ("attempt", attempt)) if value is not None)
        raise InputError(f"{place}: {asked or 'runs'}: the store holds none", hint=instead_of(known, run))
    return fits
