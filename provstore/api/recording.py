"""Recording training: actions, epoch bundles and agent records into a store's journal, without its graph."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from provstore import config
from provstore.api.opening import journal_for_writing

if TYPE_CHECKING:
    from provstore.evidence.keys import Signer
    from provstore.ingest.given import Progress
    from provstore.model.recording_report import RecordReport


def record(
    paths: Sequence[str | os.PathLike[str]],
    run: str | None = None,
    *,
    epoch: int | None = None,
    attempt: int | None = None,
    trace_id: str | None = None,
    mode_floor: str = "validation",
    recursive: bool = False,
    signer: Signer | None = None,
    org: str = "provstore",
    store: str | None = None,
    journal: str | Path | None = None,
    progress: Progress | None = None,
) -> RecordReport:
    """Record dumps or capture directories of training; what was recorded before is not recorded again.

    Args:
        paths: Flight Recorder dumps, or capture directories of live jobs.
        run: Name of the run; a capture directory names its own.
        epoch: Training epoch that the calls of dumps are of; a capture directory names its own.
        attempt: Incarnation of the run; else what the files say, else 0.
        trace_id: Of what launched the run.
        mode_floor: Recording mode that is demanded of every action at least.
        recursive: Look into the folders below, too.
        signer: Signs agent records, and everything that waits for a signature.
        org: First part of the origin of checkpoints.
        store: Address of the store, which tells where its journal is.
        journal: Directory of the journal, where the address does not tell it.
        progress: Called with (done, total, what).

    Raises:
        ConfigError: A name is missing that the input does not give, or one is out of range.
        InputError: Nothing there can be used, or the run is closed.
        StoreError: The journal cannot be written.
        TrustError: What is signed already does not hold: nothing is signed on top of it.
        SafeModeError: Nothing may be recorded now.
    """
    from provstore import __version__
    from provstore.api import overview
    from provstore.api.control import require_allowed
    from provstore.ingest.record_flow import RecordRequest
    from provstore.ingest.record_flow import record as record_all
    from provstore.ingest.sealing import SealRequest

    given = [Path(path) for path in paths]
    named = (run, epoch, attempt, trace_id, mode_floor)
    request = RecordRequest(given, *named, progress, f"provstore/{__version__}", recursive)
    seal = None if signer is None else SealRequest(signer, org=org)
    require_allowed("record", store, journal)
    uri = config.store_uri(store)
    with contextlib.closing(journal_for_writing(uri, config.journal_directory(uri, journal))) as opened:
        report = record_all(request, opened, seal)
        changed: dict[tuple[str, int], set[int]] = {}
        for one in report.epochs:
            changed.setdefault((one.run, one.attempt), set()).add(one.epoch)
        for scope, epochs in changed.items():
            overview.keep(opened, scope, epochs)
        return report
