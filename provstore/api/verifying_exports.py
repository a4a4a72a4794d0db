"""Verifying exported evidence: folders and single files, no store needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from provstore.api.anchoring import AnchorChoice
from provstore.api.believing import Belief
from provstore.api.merging import merged, state
from provstore.api.verifying import with_remarks
from provstore.evidence import anchors as held
from provstore.evidence import checkpoint
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.trust import file as trust_file
from provstore.evidence.verify.blobs import check_blobs
from provstore.evidence.verify.file import verify_file
from provstore.evidence.verify.folder import verify_folder
from provstore.evidence.verify.org import require_org
from provstore.evidence.verify.signatures import is_signed
from provstore.evidence.verify.walk import Checked, verify
from provstore.journal.kept import KeptBytes
from provstore.model.verification import (
    BLOBS_LEFT_OUT,
    BLOBS_NOT_HERE,
    FAULT,
    NOT_CHECKED,
    UNPROVEN,
    EvidenceFinding,
    Verification,
)

BLOBS = "blobs"
"""Folder of an export in which a copy of the journal's blobs may lie, named and packed as there."""


def verify_files(paths: Iterable[Path], belief: Belief, *, blobs: bool = True) -> tuple[Verification, ...]:
    """Return what can be said of exported evidence, one answer a directory or file.

    Args:
        paths: Directories or files.
        belief: Trust and anchors.
        blobs: Look at the bytes that bundles name by their SHA-256, where an export carries them.

    Raises:
        InputError: A directory holds no exported evidence.
        TrustError: The trust file lies inside a directory that it would judge.
    """
    answers: list[Verification] = []
    used: set[held.Anchor] = set()
    for path in paths:
        if path.is_file():
            alone = verify_file(path, belief.trust, belief.at)
            inputs = {**belief.inputs("file", ()), "path": str(path)}
            answers.append(replace(alone, inputs=inputs, allowed=belief.allow))
        else:
            answers.append(_of_folder(path, belief, used, blobs=blobs))
    return with_remarks(answers, belief, used)


def _of_folder(path: Path, belief: Belief, used: set[held.Anchor], *, blobs: bool) -> Verification:
    if belief.trust_path is not None and path.is_dir():
        trust_file.require_outside(belief.trust_path, path)
    log = ExportedEvidence(path, lambda envelope: is_signed(envelope, belief.trust))
    choice = AnchorChoice(belief, path, used)
    origin = checkpoint.origin(belief.org, log.store, log.run, log.attempt)
    anchors, not_used = choice.of(origin, log.run), choice.findings(origin, (log.run, log.attempt))
    require_org([log], belief.trust, belief.org)
    checked = verify(log, belief.trust, anchors, at=belief.at, org=belief.org, source="files", within=path)
    checked, not_read = verify_folder(log, checked, belief.trust, belief.org)
    findings = [] if _has_other_records(checked) else list(_moved(log))
    axes = {"graph": NOT_CHECKED, "journal": NOT_CHECKED} | ({"tree": FAULT} if findings else {})
    axes |= {"anchor": UNPROVEN} if not_used else {}
    counts, limits, scope = {}, [], (log.run, log.attempt)
    if checked.named and blobs and (path / BLOBS).is_dir():
        kept = check_blobs(scope, checked.named, KeptBytes(path))
        findings, counts = [*findings, *kept.findings], {BLOBS: kept.blobs}
        axes |= {"journal": state(kept.findings)} if kept.findings else {}
        not_read = tuple(name for name in not_read if name != BLOBS)
    elif checked.named:
        words = BLOBS_NOT_HERE if blobs else BLOBS_LEFT_OUT
        limits = [words.format(blobs=sum(len(one.blobs) for one in checked.named))]
    answer = merged(scope, [checked], [*findings, *not_used], axes, counts)
    inputs = {**belief.inputs("files", anchors), "path": str(path), "not_read": list(not_read)}
    return replace(answer, inputs=inputs, limits=(*limits, *answer.limits), allowed=belief.allow)


def _has_other_records(checked: Checked) -> bool:
    """Return whether the records were found to differ already, or could not be read."""
    return any(one.code in {"subject-mismatch", "rows-missing", "check-unfinished"} for one in checked.findings)


def _moved(log: ExportedEvidence) -> Iterator[EvidenceFinding]:
    """Yield the files whose lines are all signed, yet in another epoch: whoever reads one by itself is misled."""
    for number, name in log.moved():
        text = f"{name} is not the file that its bundle signs: records stand in the file of another epoch."
        yield EvidenceFinding(log.run, log.attempt, number, None, "subject-mismatch", name, text)
