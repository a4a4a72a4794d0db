"""Ids of what records state: actions, epochs, escalations, checkpoints, gradients; records and bundles themselves."""

from __future__ import annotations

from provstore.model import ids


def action_iri(run: str, attempt: int, action_id: str) -> str:
    """Return the id of an action; its components are encoded already."""
    return f"{ids.attempt_iri(run, attempt)}/action/{action_id}"


def epoch_iri(run: str, attempt: int, epoch: int, part: int = 0) -> str:
    """Return the id of an epoch's bundle, or of a later part of it."""
    return f"{ids.attempt_iri(run, attempt)}/bundle/{epoch}" + (f"/{part}" if part else "")


def training_run_iri(run: str, attempt: int) -> str:
    """Return the id of one attempt of a run as an activity."""
    return f"{ids.attempt_iri(run, attempt)}/run"


def checkpoint_iri(uri: str) -> str:
    """Return the id of a checkpoint, which stands outside every run."""
    return f"{ids.BASE}checkpoint/{ids.component(uri)}"


def escalation_iri(run: str, attempt: int, source: str, name: str) -> str:
    """Return the id of an escalation."""
    return f"{ids.attempt_iri(run, attempt)}/escalation/{ids.component(source)}/{ids.component(name)}"


def tensor_iri(run: str, attempt: int, rank: int, step: int | None, name: str, kind: str) -> str:
    """Return the id of a gradient, activation or input of a step."""
    at = "~" if step is None else str(step)
    return f"{ids.attempt_iri(run, attempt)}/tensor/{rank}/{at}/{ids.component(name)}/{ids.component(kind)}"


def side_iri(run: str, attempt: int, action_id: str, rank: int, side: str = "in") -> str:
    """Return the id of what a call with this action takes or gives."""
    base = f"{ids.attempt_iri(run, attempt)}/{action_id}"
    return f"{base}/{rank}/{side}" if "/p2p/" in action_id else f"{base}/{side}"


def record_iri(run: str, attempt: int, index: int) -> str:
    """Return the id of the record at an index of the run tree."""
    return f"{ids.attempt_iri(run, attempt)}/record/{index}"


def bundle_iri(run: str, attempt: int, epoch: int) -> str:
    """Return the id of the bundle of an evidence epoch."""
    return f"{ids.attempt_iri(run, attempt)}/epoch/{epoch}"


def key_iri(keyid: str) -> str:
    """Return the id of a signing key, which stands outside every run."""
    return f"{ids.BASE}key/{ids.component(keyid)}"
