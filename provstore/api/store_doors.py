"""Methods of ``Store`` about recorded runs, signed evidence and its upkeep; :mod:`.store` takes them into the class."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from provstore.api.believing import Belief
    from provstore.api.diffing import Diff
    from provstore.api.joining import JoinAnswer
    from provstore.api.replaying import Replay
    from provstore.api.store import Store
    from provstore.evidence.keys import Signer
    from provstore.exports import ExportOptions, ExportReport
    from provstore.exports.evidence import EvidenceExportOptions, EvidenceExportReport
    from provstore.model.evidence_report import EvidenceItem, EvidenceList
    from provstore.model.report import CheckReport, StoreInfo


def replay(
    store: Store,
    run: str,
    epoch: int,
    *,
    attempt: int | None = None,
    rank: int | None = None,
    execute: bool = False,
    instance: str | None = None,
    against: str | None = None,
    skip: str | Path | None = None,
    checkpoint: str | Path | None = None,
    belief: Belief | None = None,
    unverified: bool = False,
    source: str = "both",
) -> Replay:
    """Plan to run a training epoch again, and check what can be checked; nothing of the run is started.

    Args:
        store: The open store.
        run: The run.
        epoch: Number of the training epoch.
        attempt: Its incarnation; else the last closed one.
        rank: Return the first 50 actions of this rank, too, and recompute only its collectives.
        execute: Recompute collectives from the stored inputs of all ranks.
        instance: Recompute only this one, such as ``gloo/0@0-3/17``.
        against: A re-run, recorded under this name, whose anchors are compared.
        skip: File with the batches to leave out, a JSON list of epoch, batch, reason.
        checkpoint: A copy of the checkpoint, compared with what was recorded.
        belief: Whose signatures count; nothing is judged without it.
        unverified: Go on although the evidence does not hold; the answer says so.
        source: ``both``, or ``journal``: then the graph is not compared with the records of the epoch.

    Returns:
        The plan with its verdict ``exact-possible``, ``approximate`` or ``not-possible``, and what was compared.

    Raises:
        ConfigError: Arguments do not fit together.
        InputError: Run, epoch, attempt, rank, instance or skip list does not fit what is stored.
        SafeModeError: Recomputing is asked for in safe mode.
        StoreError: The journal cannot be read.
        TrustError: The evidence does not hold, and that is not ignored.

    Example:
        ``store.replay("my-run", 2, belief=provstore.belief()).plan.verdict``
    """
    from provstore.api.control import require_off
    from provstore.api.replaying import ReplayRequest, replayed

    request = ReplayRequest(
        run,
        epoch,
        attempt=attempt,
        rank=rank,
        execute=execute,
        instance=instance,
        against=against,
        skip=None if skip is None else Path(skip),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        unverified=unverified,
        source=source,
    )
    opened = store.opened
    if execute:
        require_off("replay --execute", opened.journal.directory)
    return replayed(request, opened.journal, lambda: contextlib.nullcontext((opened.graph, "")), belief)


def diff(
    store: Store,
    a: str,
    b: str,
    *,
    epoch: int | None = None,
    context: int = 5,
    attempts: tuple[int | None, int | None] = (None, None),
    belief: Belief | None = None,
    unverified: bool = False,
) -> Diff:
    """Compare two recorded runs by the digests of their calls.

    Args:
        store: The open store.
        a: The first run.
        b: The second run.
        epoch: Only this training epoch.
        context: Tell other events within so many steps of the first difference.
        attempts: Incarnation of each; else the last closed one.
        belief: Whose signatures count; nothing is judged without it.
        unverified: Go on although the evidence does not hold; the answer says so.

    Returns:
        The first difference, the last equal call before it, and how much could be compared.

    Raises:
        ConfigError: Fewer than 0 steps of context.
        InputError: A run, attempt or epoch is not stored.
        StoreError: The journal cannot be read.
        TrustError: The evidence does not hold, and that is not ignored.

    Example:
        ``store.diff("my-run", "my-rerun", epoch=2).divergence.first_divergence``
    """
    from provstore.api.diffing import compared

    journal = store.opened.journal
    return compared(
        journal, (a, b), epoch=epoch, context=context, attempts=attempts, belief=belief, unverified=unverified
    )  # fmt: skip


def join(
    store: Store,
    trace_id: str | None = None,
    *,
    keys: Sequence[str] = (),
    trust_file: str | Path | None = None,
    accept: bool = False,
) -> JoinAnswer:
    """Return which agents' runs and training runs of the store belong together, how surely, and who says so.

    Args:
        store: The open store.
        trace_id: Only what has to do with this trace, in any spelling.
        keys: ``ID=HEX`` or ``ID=FILE``: the public key that agents' signatures name by that id.
        trust_file: Its keys count too; the user's own trust file when not given, if there is one.
        accept: Take the weak links that are found for true, for everybody and from now on.

    Returns:
        Groups, links with their rules and strength, and all that is ambiguous, missing or unresolved.

    Raises:
        ConfigError: A key is not given as ``ID=HEX`` or ``ID=FILE``, or something is to be accepted and the store was
            opened for reading only.
        SafeModeError: Something is to be accepted in safe mode.
        StoreError: The journal is damaged, or cannot be written.
        TrustError: The trust file does not hold, or a stored record is malformed.

    Example:
        ``[link.rules for link in store.join().report.links]``
    """
    from provstore.api.joining import joined_in

    if accept:
        store.require_writable("no link can be accepted")
    return joined_in(store.opened, trace_id, keys=keys, trust_file=trust_file, accept=accept)


def list_evidence(
    store: Store,
    run: str | None = None,
    attempt: int | None = None,
    *,
    epoch: int | None = None,
    mode: str | None = None,
    finding: str | None = None,
    limit: int = 50,
    offset: int = 0,
) -> EvidenceList:
    """Return the signed bundles of each run, and the training epochs that were recorded; nothing is verified.

    Args:
        store: The open store.
        run: Only this run; so does ``attempt`` narrow it.
        attempt: See ``run``.
        epoch: Only this training epoch.
        mode: Only training epochs whose weakest recorded mode is this one: ``validation``, ``delta`` or ``full``.
        finding: Only what carries a finding: a code, such as ``replica-disagreement``, or the beginning of an id.
        limit: How many actions that carry it are listed at most.
        offset: Actions before these.

    Raises:
        ConfigError: There is no such mode, or a limit or offset is below 0.
        InputError: There is no such run; or no such code, and not exactly one finding has this id.

    Example:
        ``[one.run for one in store.list_evidence().runs]``
    """
    from provstore.api.evidence_export import Evidence

    if finding is None:
        return Evidence(store.opened.journal).listed(run, attempt, epoch=epoch, mode=mode)
    from provstore.api.carrying import carried

    return carried(store.opened, finding, (run, attempt), epoch=epoch, mode=mode, page=(limit, offset))


def show_evidence(store: Store, target: str, run: str | None = None, attempt: int | None = None) -> EvidenceItem:
    """Return one bundle or record byte by byte, as it is stated; nothing is verified.

    Args:
        store: The open store.
        target: ``epoch:RUN:N``; ``recorded:RUN:N`` for a training epoch; the index of a record, or
            ``record:RUN:INDEX``; the id of a recorded action; or the beginning of a digest.
        run: Narrows the search; so does ``attempt``.
        attempt: See ``run``.

    Raises:
        ConfigError: ``target`` has none of these forms.
        InputError: It fits nothing, or several, which are listed.

    Example:
        ``store.show_evidence("recorded:my-run:2").digests``
    """
    from provstore.api.evidence_export import Evidence

    return Evidence(store.opened.journal).shown(target, run, attempt)


def export_evidence(
    store: Store,
    directory: str | Path,
    run: str | None = None,
    attempt: int | None = None,
    *,
    options: EvidenceExportOptions | None = None,
    public_keys: Sequence[str | Path] = (),
    trust_file: str | Path | None = None,
    sign: Sequence[str] = (),
    signer: Signer | None = None,
) -> EvidenceExportReport:
    """Write the signed evidence of one attempt for other people's verifiers; ``VERIFY.txt`` among it says how.

    Args:
        store: The open store.
        directory: Absent or empty; it appears whole or not at all.
        run: The run; may be left out when one is signed.
        attempt: Its incarnation.
        options: What to write.
        public_keys: Files with public keys that may have signed; others are looked for in the trust file and among the
            user's own.
        trust_file: Where to look instead of the user's trust file.
        sign: Forms of signature over the whole export: ``sshsig``, ``minisign``, ``signify``, ``in-toto``.
        signer: Makes these; everything else needs no private key.

    Raises:
        ConfigError: A form of signature, and nothing to sign with.
        InputError: No such run, or nothing in it is signed.
        TrustError: The evidence does not hold: nothing is written.

    Example:
        ``store.export_evidence("evidence-of-my-run", "my-run").records``
    """
    from provstore.api.evidence_export import Evidence

    return Evidence(store.opened.journal).exported(
        directory,
        run,
        attempt,
        options=options,
        public_keys=public_keys,
        trust_file=trust_file,
        sign=sign,
        signer=signer,
    )


def forget_anchors(store: Store, run: str | None = None, attempt: int | None = None, *, belief: Belief) -> int:
    """Forget the verifier's own anchors of some runs, which is logged; return how many there were.

    Args:
        store: The open store.
        run: Of this run; of all when not given.
        attempt: Its incarnation.
        belief: Where the anchors are.
    """
    from provstore.api.verifying import forget

    return forget(store.opened.journal, belief, run, attempt)


def info(store: Store) -> StoreInfo:
    """Return what the store is and holds."""
    from provstore.api.opening import described

    opened = store.opened
    return described(store.uri, opened.graph, opened.journal)


def check(store: Store) -> CheckReport:
    """Check the journal, and compare the graph with what the journal says it should hold."""
    from provstore.ingest.upkeep import check as check_all
    from provstore.stores import open_store

    opened = store.opened
    with contextlib.closing(open_store("memory:", writable=True)) as empty:
        return check_all(opened.graph, opened.journal, empty, opened.late)


def export(
    store: Store,
    form: str,
    *,
    run: str | None = None,
    attempt: int | None = None,
    to: str | Path | TextIO | None = None,
    options: ExportOptions | None = None,
) -> ExportReport:
    """Write a run in an exchange or picture format; PROV documents are read back and compared first.

    Args:
        store: The open store.
        form: ``prov-json``, ``prov-n``, ``dot``, ``mermaid``, ``json``.
        run: The run, or the key of an imported document; may be left out when the store holds one run.
        attempt: Its incarnation.
        to: A file, written whole or not at all, or an open text stream; standard output when not given.
        options: What the writers offer.

    Raises:
        ConfigError: No such format.
        InputError: The store holds no such run.
    """
    from provstore.api.writing import document, write

    return write(form, document(store.opened.graph, run, attempt, store.scope_of), to, options)
