"""A recorded run of a journal: opened without the graph, its epochs chosen, its bytes verified."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provstore import config
from provstore.api.opening import existing
from provstore.api.stored_tables import StoredTables, Unreadable
from provstore.errors import InputError, StoreError
from provstore.evidence.actions import OPENING
from provstore.evidence.epoch_bundles import RNG, RNG_STATE, SNAPSHOT
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal
from provstore.model.action import Action
from provstore.model.lost import ALTERED, MISSING

if TYPE_CHECKING:
    from provstore.api.believing import Belief
    from provstore.api.verifying_epoch import EpochLook
    from provstore.model.verification import Verification

NOT_VERIFIED = "not-verified"
_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class Trustworthiness:
    """What verifying a run said before it was used."""

    verdict: str
    """``pass``, ``limited``, ``fault`` or ``unknown``; ``not-verified`` where no key is believed."""
    axes: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    exit_code: int = 0
    is_ignored: bool = False
    """It does not hold, and was used all the same."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "verdict": self.verdict,
            "axes": dict(self.axes),
            "findings": list(self.findings),
            "unverified": self.is_ignored,
        }


class StoredRun:
    """One attempt of a recorded run; bytes of it that cannot be read are remembered, and end no answer."""

    def __init__(self, journal: Journal, run: str, attempt: int, bundles: Sequence[StoredBundle]) -> None:
        self.journal, self.run, self.attempt = journal, run, attempt
        self.bundles = [one for one in bundles if one.attempt == attempt]
        self.attempts = sorted({one.attempt for one in bundles})
        self._tables = StoredTables(journal)

    @property
    def lost(self) -> list[Unreadable]:
        """What was asked for so far and cannot be read, damaged bytes first."""
        return self._tables.lost

    def unreadable(self, *roles: str, epoch: int) -> list[Unreadable]:
        """Return which tables of an epoch were asked for so far and cannot be read, all pieces of them."""
        return self._tables.unreadable(*roles, epochs=(epoch,))

    @property
    def epochs(self) -> list[int]:
        """Training epochs that are stored."""
        return sorted({one.epoch for one in self.bundles})

    def of_epoch(self, epoch: int) -> list[StoredBundle]:
        """Return the parts of an epoch's bundle."""
        return [one for one in self.bundles if one.epoch == epoch]

    def rows(self, epoch: int, role: str) -> list[dict[str, Any]]:
        """Return the rows of a table of an epoch, all parts of it, as far as they can be read."""
        return [row for bundle in self.of_epoch(epoch) for row in self._tables.rows(bundle, role)]

    def actions(self, epoch: int | None = None) -> Iterator[Action]:
        """Yield the recorded actions in their stored order."""
        return recording.actions(self.journal, self.run, self.attempt, epoch)

    def actions_of_rank(self, epoch: int, rank: int) -> Iterator[Action]:
        """Yield the actions of one rank in an epoch; those of others are passed over unread."""
        mark = b'"rank":%d,' % rank
        for line in self.journal.evidence(self.run, self.attempt).lines(mark):
            if line.startswith(OPENING):
                action = recording.read_quickly(line)
                if action.rank == rank and action.epoch == epoch:
                    yield action

    def held(self, sha256: str, size_bytes: int) -> str:
        """Return whether the bytes of random states are ``present``, ``missing`` or a ``mismatch``."""
        try:
            self.journal.kept(sha256, size_bytes)
        except StoreError:
            fault, reason = self._tables.fault_of(sha256, size_bytes)
            self._tables.lose(self._naming_state(sha256), RNG_STATE, sha256, fault, reason)
            return "missing" if fault == MISSING else "mismatch"
        return "present"

    def blob(self, sha256: str) -> bytes | Unreadable:
        """Return the bytes of a blob that a bundle names, or what is wrong with them.

        Raises:
            InputError: No bundle names it.
        """
        for bundle in self.bundles:
            for said in bundle.record["blobs"]:
                if said["sha256"] == sha256:
                    try:
                        return self.journal.kept(sha256, said["bytes"])
                    except StoreError:
                        fault, reason = self._tables.fault_of(sha256, said["bytes"])
                        return self._tables.lose(bundle, said["role"], sha256, fault, reason)
        raise InputError(f"{self.run}: blob {sha256[:80]!a}: no bundle names it")

    def contradicted(self, sha256: str, reason: str) -> Unreadable:
        """Remember that bytes of a blob are not those that a table says they are; return what is wrong."""
        naming = (one for one in self.bundles if any(said["sha256"] == sha256 for said in one.record["blobs"]))
        return self._tables.lose(next(naming, self.bundles[-1]), SNAPSHOT, sha256, ALTERED, reason)

    def _naming_state(self, sha256: str) -> StoredBundle:
        """Return the bundle whose table names random states; the last one where none does."""
        named = (one for one in self.bundles for row in self._tables.rows(one, RNG) if row.get("blob") == sha256)
        return next(named, self.bundles[-1])

    def random_state(self, digest: str) -> bytes:
        """Return the random states of one rank, which a row of a table names.

        Raises:
            InputError: No row names them.
            StoreError: They are missing or altered.
        """
        for epoch in reversed(self.epochs):
            for row in self.rows(epoch, RNG):
                if row.get("digest") == digest and row.get("blob"):
                    return self.journal.kept(row["blob"], row["bytes"])
        raise InputError(f"{self.run}: random states {digest[:80]!a}: no table names them")


@contextlib.contextmanager
def opened_journal(store: str | None, journal: str | Path | None = None) -> Iterator[Journal]:
    """Open the journal of a store for reading.

    Raises:
        StoreError: It is missing or damaged.
    """
    uri = config.store_uri(store)
    directory = existing(config.journal_directory(uri, journal), uri)
    with contextlib.closing(Journal.open(directory, writable=False)) as found:
        yield found


def stored_run(journal: Journal, run: str, attempt: int | None = None, epoch: int | None = None) -> StoredRun:
    """Return one attempt of a run: the last closed one that has the epoch, where several are stored.

    Raises:
        InputError: Run, epoch or attempt is not stored, or no closed one tells which attempt is meant.
    """
    bundles = recording.stored_bundles(journal, run)
    if not bundles:
        raise InputError(f"{run}: run: nothing of it is recorded here{_known(journal)}")
    attempts = sorted({one.attempt for one in bundles})
    if attempt is not None and attempt not in attempts:
        raise InputError(f"{run}: attempt {attempt}: not stored; stored are {_listed(attempts)}")
    fitting = [one for one in bundles if attempt in (None, one.attempt)]
    if epoch is not None:
        having = [one for one in fitting if one.epoch == epoch]
        if not having:
            raise InputError(f"{run}: epoch {epoch}: not stored; stored are {_listed({o.epoch for o in fitting})}")
        fitting = having
    found = {one.attempt for one in fitting}
    closed = {one.attempt for one in fitting if one.record["closed"]}
    if len(found) > 1 and not closed:
        raise InputError(f"{run}: several attempts, none closed: {_listed(found)}", hint="--attempt chooses one")
    return StoredRun(journal, run, max(closed or found), bundles)


def trustworthiness(
    run: StoredRun, belief: Belief | None, *, unverified: bool = False, look: EpochLook | None = None
) -> Trustworthiness:
    """Return what the signed bytes of a run show.

    Args:
        run: One attempt.
        belief: Whose signatures count; nothing is judged without it.
        unverified: Go on although they do not hold.
        look: What else is looked at: blobs and graph of an epoch. A blob that is missing is told, and refuses nothing.

    Raises:
        TrustError: They do not hold, and that was not asked to be ignored.
    """
    from provstore.errors import EXIT_NO, EXIT_ROLLBACK, EXIT_STORE, TrustError
    from provstore.model.verification import EXIT_OF, LIMITED, PASS, exit_code

    if belief is None:
        return Trustworthiness(NOT_VERIFIED, findings=("no key or trust file says whose signatures count",))
    answer, remarks = _verified(run, belief, look)
    code, bad = exit_code((answer,)), (EXIT_NO, EXIT_ROLLBACK, EXIT_STORE)
    findings = sorted(answer.findings, key=lambda one: EXIT_OF.get(one.code, EXIT_NO) not in bad)
    told = [f"{one.code}: {one.text}" for one in findings]
    if code in bad and not unverified:
        where = f"{run.run}: attempt {run.attempt}"
        raise TrustError(
            f"{where}: {told[0] if told else 'its evidence does not hold'}",
            code=findings[0].code if findings else "fault",
            hint="--unverified goes on, and says so",
        )
    at = sum(EXIT_OF.get(one.code, EXIT_NO) in bad for one in findings)
    verdict = LIMITED if remarks and answer.verdict == PASS else answer.verdict
    return Trustworthiness(verdict, answer.axes, (*told[:at], *remarks, *told[at:]), code, is_ignored=code in bad)


def _verified(run: StoredRun, belief: Belief, look: EpochLook | None) -> tuple[Verification, tuple[str, ...]]:
    """Return what the journal's bytes show, with what was looked at beside them, and what was not there to look at."""
    from provstore.api.anchoring import AnchorChoice
    from provstore.api.merging import merged
    from provstore.evidence import checkpoint
    from provstore.evidence.verify.walk import verify

    log = run.journal.evidence(run.run, run.attempt)
    origin = checkpoint.origin(belief.org, log.store, run.run, run.attempt)
    anchors = AnchorChoice(belief, run.journal.directory).of(origin, run.run)
    checked = verify(
        log, belief.trust, anchors, at=belief.at, org=belief.org, source="journal", within=run.journal.directory
    )  # fmt: skip
    scope = (run.run, run.attempt)
    if look is None:
        return merged(scope, [checked], (), {}, {}), ()
    beside = look.beside(checked)
    return merged(scope, [checked], beside.findings, dict(beside.axes), {}), beside.remarks


def _known(journal: Journal) -> str:
    runs = sorted({run for run, _ in journal.scopes() if run})
    return f"; stored are {_listed(runs)}" if runs else ""


def _listed(names: Sequence[object] | set[int]) -> str:
    ordered = sorted(names, key=lambda one: (isinstance(one, str), one))
    more = f" and {len(ordered) - _MOST_NAMES} more" if len(ordered) > _MOST_NAMES else ""
    return ", ".join(str(one) for one in ordered[:_MOST_NAMES]) + more
