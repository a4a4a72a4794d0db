"""Writing one epoch into the journal: its actions, its bundle, and the link that says where that stands.

Each step is durable before the next, and a recording that was interrupted is taken up by the next one: actions without
a bundle are covered by the bundle that then comes, a bundle without a link gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from provstore.errors import InputError
from provstore.evidence import actions, aep_record, epoch_bundles, records
from provstore.evidence.epoch_bundles import RANKS, Blob, EpochFacts, Tally
from provstore.evidence.keys import Signer
from provstore.ingest.record_history import Held, History, RunChain, content_hash, note_hash
from provstore.ingest.recording import actions as stored_actions
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.action import Action
from provstore.model.evidence import MODES, Scalar
from provstore.model.recording_report import FINISHED, KNOWN, NEW, EpochReport

POLICY_REASON = "rules of the recording policy: up to full where they demand it"
_LINES_AT_ONCE = 8_000

Written = Callable[[Sequence[bytes]], None]
Sealed = Callable[[], Sequence[tuple[int, str]]]


@dataclass(slots=True)
class Output:
    """Where records go.

    Args:
        journal: Open for writing.
        history: What it holds of the attempt.
        chain: What it holds of the run's epochs.
        producer: Name and version of what records.
        signer: Signs agent records.
        written: Called with records that are durable now.
        sealed: Signs what waits; gives number and epoch file digest of the evidence epochs that were made.
    """

    journal: Journal
    history: History
    chain: RunChain
    producer: str
    signer: Signer | None = None
    written: Written = lambda _: None
    sealed: Sealed = tuple

    def append(self, lines: Sequence[bytes]) -> None:
        """Make records durable."""
        if lines:
            self.journal.append_records(self.history.run, self.history.attempt, lines)
            self.written(lines)


@dataclass(slots=True)
class EpochWriter:
    """Takes the actions of one epoch, rank after rank, in program order; :meth:`finish` makes its bundle."""

    output: Output
    epoch: int
    tally: Tally = field(default_factory=Tally)
    notable: aep_record.Notable = field(default_factory=aep_record.Notable)
    known: int = 0
    other: int = 0
    _lines: list[bytes] = field(default_factory=list)
    _notes: list[bytes] = field(default_factory=list)

    def take(self, action: Action, ordinal: int | None) -> bool:
        """Record one action; return False when a bundle covers it already.

        Raises:
            InputError: A value that no record can hold.
            StoreError: It could not be made durable.
        """
        history = self.output.history
        if held := history.known.get(action.action_id):
            self.known += 1
            line = actions.record_line(replace(action, epoch=held[1]), history.run, history.attempt, 0)
            self.other += content_hash(line) != held[0]
            return False
        if held := history.loose.get(action.action_id):
            line = actions.record_line(action, history.run, history.attempt, 0)
            if content_hash(line) == held[0]:
                self._count(action, line, ordinal)
                return True
            # Left by another recording: it stays, and this one has another name to be told from it.
            action = replace(action, action_id=f"{action.action_id}/again")
        line = actions.record_line(action, history.run, history.attempt, history.next_n(action.rank))
        self._count(action, line, ordinal)
        self._lines.append(line)
        if len(self._lines) >= _LINES_AT_ONCE:
            self._flush()
        return True

    def note(self, make: Callable[[int], bytes], rank: int | None) -> None:
        """Record something beside the actions once; ``make`` gives the record with a number."""
        key = note_hash(make(0))
        if key not in self.output.history.notes:
            self.output.history.notes.add(key)
            self._lines.append(make(self.output.history.next_n(rank)))

    def demand(self, document: Mapping[str, Scalar]) -> None:
        """Record the policy in force, unless the latest policy record is this one.

        Raises:
            InputError: A value that no record can hold.
        """
        history = self.output.history

        def make(n: int) -> bytes:
            return records.policy(
                history.run, history.attempt, n, mode=MODES[-1], reason=POLICY_REASON, document=document
            )

        key = note_hash(make(0))
        if key != history.policy and self.tally.count:
            history.policy = key
            self._notes.append(make(history.next_n(None)))

    def finish(self, facts: EpochFacts, *, at_ns: int | None = None) -> EpochReport:
        """Make the bundle of what was taken, and its link; return what was done.

        Args:
            facts: What the bundle says beside its actions; part and predecessor are found here.
            at_ns: When the epoch ended, for one without actions.

        Raises:
            InputError: There is no action, and nothing says that the epoch ended and why.
            StoreError: Something could not be made durable; what was is taken up by the next recording.
        """
        history = self.output.history
        parts = history.parts(self.epoch)
        if not self.tally.count and (self.known or parts):
            return self._already(parts)
        if not self.tally.count and not (facts.is_closed and facts.close_reason):
            place = f"{history.run}: attempt {history.attempt}: epoch {self.epoch}"
            raise InputError(f"{place}: no action was recorded, and nothing says that the epoch ended and why")
        facts = replace(facts, part=len(parts), follows=parts[-1].digest if parts else None)
        own, at = self._own(facts), self.tally.latest_ns if self.tally.count else at_ns
        self._flush()
        line = records.epoch_bundle(history.run, history.attempt, history.next_n(None), at_ns=at, own=own)
        self.output.append([*self._notes, line])
        said = records.parse(line)
        held = history.close_epoch(said, epoch_bundles.digest_of(said))
        self.output.chain.digests.append(held.digest)
        return self._report(held, NEW, link(self.output, held, self.notable))

    def _already(self, parts: Sequence[Held]) -> EpochReport:
        self._flush()
        if not parts:
            # Its actions are covered by bundles of other epochs.
            said = [held for held in self.output.history.bundles if held.record["epoch"] != self.epoch]
            return self._report(said[-1], KNOWN, ())
        status, epochs = KNOWN, [(one["number"], "") for one in (parts[-1].link or {}).get("evidence_epochs", ())]
        for held in parts:
            if held.link is None:
                status, epochs = FINISHED, list(link(self.output, held, _notable_of(self.output, held)))
        return self._report(parts[-1], status, epochs)

    def _own(self, facts: EpochFacts) -> dict[str, Any]:
        if len(self.tally.ranks) <= epoch_bundles.MAX_RANKS_INSIDE:
            return epoch_bundles.own_members(self.tally, facts)
        rows = [canonical.encode(row) for row in epoch_bundles.rank_rows(self.tally)]
        blob = keep_lines(self.output.journal, RANKS, rows)
        facts = replace(facts, blobs=(*facts.blobs, blob))
        return epoch_bundles.own_members(self.tally, facts, ranks_blob=True)

    def _count(self, action: Action, line: bytes, ordinal: int | None) -> None:
        self.tally.add(action, line, ordinal)
        self.notable.see(action)

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        self.output.append(lines)

    def _report(self, held: Held, status: str, epochs: Iterable[tuple[int, str]]) -> EpochReport:
        said, link_record = held.record, held.link or {}
        counts = {
            name: {row["name"]: row["count"] for row in said["counts"][name]}
            for name in ("recording_mode", "policy_mode", "policy_reason", "shortfall", "side_effect_class")
        }
        return EpochReport(
            run=said["run"],
            attempt=said["attempt"],
            epoch=said["epoch"],
            part=said["part"],
            digest=held.digest,
            status=status,
            actions=said["actions"]["count"],
            known_actions=self.known,
            other_content=self.other,
            closed=said["closed"],
            ranks=len(said["ranks"]) if said["ranks"] is not None else len(self.tally.ranks),
            missing_ranks=tuple(epoch_bundles.spread(said["missing_ranks"])),
            world_size=said["world_size"],
            counts=counts,
            recording_mode=said["recording_mode"],
            agent_record=link_record.get("aep"),
            signed=bool(link_record.get("evidence_epochs")),
            evidence_epochs=tuple(number for number, _ in epochs),
        )


def link(output: Output, held: Held, notable: aep_record.Notable) -> Sequence[tuple[int, str]]:
    """Sign what waits, make the agent record of a bundle, and record where both stand.

    Raises:
        StoreError: It could not be made durable.
    """
    history = output.history
    epochs = output.sealed()
    stored, after = None, None
    if held.record["closed"]:
        if output.chain.agent_record is not None:
            after = aep_record.link_after(output.journal.kept(*output.chain.agent_record))
        record = aep_record.epoch_record(held.record, held.digest, notable, prev=after, producer=output.producer)
        stored = aep_record.stored_form(record, output.signer)
        output.chain.agent_record = (output.journal.keep(stored), len(stored))
    line = records.epoch_link(
        history.run,
        history.attempt,
        history.next_n(None),
        bundle=held.digest,
        prev=output.chain.before(held.digest),
        epochs=epochs,
        aep=stored,
        aep_prev=after,
    )
    output.append([line])
    held.link = records.parse(line)
    return epochs


def keep_lines(journal: Journal, role: str, lines: Sequence[bytes]) -> Blob:
    """Keep a table; each line gets a line end.

    Raises:
        StoreError: It could not be made durable.
    """
    data = b"".join(line + b"\n" for line in lines)
    return Blob(role, journal.keep(data), len(data), len(lines))


def _notable_of(output: Output, held: Held) -> aep_record.Notable:
    """Return the notable actions of a bundle that is in the journal already."""
    notable = aep_record.Notable()
    for action in stored_actions(output.journal, output.history.run, output.history.attempt, held.record["epoch"]):
        notable.see(action)
    return notable
