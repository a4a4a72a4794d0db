"""What was recorded of training, as a journal holds it: epochs with their modes, axes of their agent records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from provstore.api.stored_tables import StoredTables, Unreadable
from provstore.errors import InputError, StoreError
from provstore.evidence.aep import judge
from provstore.evidence.aep_record import link_after
from provstore.evidence.verify.blobs import AGENT_RECORD
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal
from provstore.model.aep import AXES, Axis
from provstore.model.evidence_report import RecordedEpoch
from provstore.sources import aep

if TYPE_CHECKING:
    from provstore.evidence.keys import Signer
    from provstore.exports.evidence.agent_records import AgentExportOptions, AgentExportReport

Scope = tuple[str, int]


def recorded_epochs(journal: Journal, scope: Scope, *, epoch: int | None = None) -> tuple[RecordedEpoch, ...]:
    """Return the training epochs of an attempt that were recorded.

    Args:
        journal: Where they are.
        scope: Run and attempt.
        epoch: Only this training epoch.

    Raises:
        TrustError: A record is malformed.
        StoreError: The journal is damaged there.
    """
    found = map(_row, recording.stored_bundles(journal, *scope))
    return tuple(row for row in found if epoch in {None, row.epoch})


def axes_of(journal: Journal, scope: Scope, digest: str, known: Mapping[str, bytes]) -> Mapping[str, object] | None:
    """Return the axes of the agent record of an epoch; ``None`` where it has none.

    What cannot be read is not judged, and ends no answer: no axis of a record that is lost, and no chain around one.

    Args:
        journal: Where it is.
        scope: Run and attempt.
        digest: Of the epoch's bundle.
        known: Public keys by the id that signatures give.

    Raises:
        TrustError: A record is malformed.
        StoreError: The journal is damaged there.
    """
    stored, lost = _readable(journal, recording.stored_bundles(journal, scope[0]))
    if digest in lost:
        return {name: Axis(evaluated=False, reason=lost[digest].words).to_dict() for name in AXES}
    at = next((at for at, (bundle, _) in enumerate(stored) if bundle.digest == digest), None)
    if at is None:
        return None
    lines = b"".join(data + b"\n" for _, data in stored)
    verdict = judge(aep.read(lines, name=f"agent records of {scope[0]}"), known).records[at]
    gap = next((Axis(evaluated=False, reason=f"of another epoch, {one.text}") for one in lost.values()), None)
    axes = verdict.axes if gap is None else {**verdict.axes, "chain": gap}
    return {name: axis.to_dict() for name, axis in axes.items()}


def export_agents(
    journal: Journal,
    directory: Path,
    run: str | None,
    options: AgentExportOptions,
    attempt: int | None = None,
    signer: Signer | None = None,
) -> AgentExportReport:
    """Write the agent records of a run for other verifiers.

    Args:
        journal: Where they are.
        directory: Absent, empty, or an older export that may be replaced.
        run: The run; may be left out when one was recorded.
        options: What to write.
        attempt: Only this incarnation.
        signer: Signs the records of single actions.

    Raises:
        ConfigError: The directory is in use.
        InputError: No such run, or several were recorded.
        StoreError: A record is missing or altered, or nothing can be written.
    """
    from provstore import __version__
    from provstore.exports.evidence.agent_records import export_agent_records

    scopes = [scope for scope in journal.scopes() if run in {None, scope[0]} and attempt in {None, scope[1]}]
    bundles = {scope: recording.stored_bundles(journal, *scope) for scope in scopes}
    names = sorted({scope[0] for scope, found in bundles.items() if found})
    if len(names) != 1:
        said = "none was recorded" if not names else f"{len(names)} were recorded: {', '.join(names)}"
        raise InputError(f"{run or 'runs'}: agent records: {said}", hint="provstore evidence list shows what there is")
    own = [one for found in bundles.values() for one in found]
    stored = [(bundle.digest, data) for bundle, data in agent_lines(journal, own)]
    actions = (
        (scope[1], action)
        for scope, found in bundles.items()
        if found and options.per_action
        for action in recording.actions(journal, *scope)
    )
    source, options = (names[0], journal.journal_id), replace(options, producer=f"provstore/{__version__}")
    return export_agent_records(directory, source, stored, options, actions=actions, signer=signer)


def agent_lines(journal: Journal, bundles: Sequence[StoredBundle]) -> list[tuple[StoredBundle, bytes]]:
    """Return the agent records of epochs, byte for byte, in the order of their chain.

    Raises:
        StoreError: One is missing or altered.
    """
    stored = [(one, data) for one in bundles if (data := recording.agent_record(journal, one)) is not None]
    return _chained(stored)


def _readable(
    journal: Journal, bundles: Sequence[StoredBundle]
) -> tuple[list[tuple[StoredBundle, bytes]], dict[str, Unreadable]]:
    """Return the agent records that can be read, and by the digests of their bundles what is wrong with others."""
    tables, stored, lost = StoredTables(journal), [], {}
    for one in bundles:
        try:
            data = recording.agent_record(journal, one)
        except StoreError:
            link = one.link or {}
            fault = tables.fault_of(link["aep"], link["aep_bytes"])
            lost[one.digest] = tables.lose(one, AGENT_RECORD, link["aep"], *fault)
            continue
        stored += [] if data is None else [(one, data)]
    return _chained(stored), lost


def _chained(stored: list[tuple[StoredBundle, bytes]]) -> list[tuple[StoredBundle, bytes]]:
    linked = {None if one.link is None else one.link["aep_prev"]: (one, data) for one, data in stored}
    chain, link = [], None
    while (found := linked.pop(link, None)) is not None:
        chain.append(found)
        link = link_after(found[1])
    # What does not hang together is shown in the order of its epochs.
    return chain if len(chain) == len(stored) else stored


def _row(bundle: StoredBundle) -> RecordedEpoch:
    said, link = bundle.record, bundle.link or {}
    shortfall = {str(row["name"]): int(row["count"]) for row in said["counts"]["shortfall"]}
    return RecordedEpoch(
        epoch=bundle.epoch,
        part=bundle.part,
        actions=said["actions"]["count"],
        recording_mode=said["recording_mode"],
        policy_mode=said["policy_mode"],
        policy_reason=said["policy_reason"],
        shortfall=shortfall,
        closed=said["closed"],
        missing_ranks=tuple(bundle.missing_ranks),
        escalations=tuple(said["escalations"]),
        digest=bundle.digest,
        agent_record=link.get("aep"),
        index=bundle.index,
    )
