"""A recorded attempt in short: its epochs, its escalations, its suspicious actions, as questions about it need them.

Working it out reads every record of the attempt. ``record`` keeps it beside the journal, and a question takes what is
kept as long as nothing was recorded since.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provstore.errors import InputError, ProvstoreError
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal, derived

if TYPE_CHECKING:
    from provstore.model.suspicion import Suspicion

Scope = tuple[str, int]
_WHOLE = "all"
_FEW_ACTIONS, _MOST_ACTIONS = 20_000, 500_000
"""An attempt of few is judged anew whenever it grows; of more than the most, actions are not held for it at once."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One attempt, and the suspicious actions of that part of it which was asked for; JSON values."""

    run: str
    attempt: int
    is_signed: bool
    bundles: Sequence[Mapping[str, Any]]
    """Each with ``digest``, ``epoch``, ``part``, ``where``, ``closed``, ``actions`` (their number), ``counts``,
    ``missing_ranks`` and ``escalations`` (their ids)."""
    escalations: Sequence[Mapping[str, Any]]
    """Records of escalations, in their order."""
    suspicion: Mapping[str, Any]
    """``suspicious`` (rows), ``affected`` (how many), ``undecided`` (``code``, ``what``, ``ranks``), ``coverage``."""


def overview(directory: Path, run: str | None, attempt: int | None, epoch: int | None) -> Overview:
    """Return an attempt in short.

    Args:
        directory: Of the journal.
        run: May be left out where the journal has one.
        attempt: The latest if it is not given.
        epoch: Training epoch whose actions are judged; all if it is not given.

    Raises:
        InputError: There is no such run, or several fit.
        StoreError: The journal is damaged.
        TrustError: A record is malformed.
    """
    known = derived.scopes(directory)
    if known is not None:
        scope = _chosen(known, run, attempt)
        kept = derived.current(directory, scope, recording.MARKS)
        if kept is not None and _is_ours(kept.content) and (key := _key(epoch)) in kept.content["suspicion"]:
            said = kept.content
            suspicion = said["suspicion"][key]["found"]
            return Overview(*scope, kept.is_signed, said["bundles"], said["escalations"], suspicion)
    from provstore.api.suspecting import suspected

    with Journal.open(directory, writable=False) as journal:
        scope = _chosen(journal.scopes(), run, attempt)
        bundles, escalations = _recorded(journal, scope)
        is_signed = journal.evidence_size(*scope).bundles > 0
        found = _plain(suspected(journal, *scope, epoch))
    return Overview(*scope, is_signed, [_short(one) for one in bundles], escalations, found)


def keep(journal: Journal, scope: Scope, epochs: Iterable[int]) -> bool:
    """Keep an attempt in short, now that epochs of it were recorded; return whether it is kept.

    What was found in other epochs is taken over where nothing before them has changed. All of the attempt is judged
    again when much of it is new: an attempt that grows epoch by epoch is not read whole each time.

    Args:
        journal: Open for writing.
        scope: Run and attempt.
        epochs: That may have changed.
    """
    from provstore.api.suspecting import suspected_in

    # A record that cannot be read is told by whoever is asked for it: here it only means that nothing is kept.
    with contextlib.suppress(ProvstoreError):
        bundles, escalations = _recorded(journal, scope)
        before = derived.before(journal.directory, scope)
        old: Mapping[str, Any] = before["suspicion"] if before is not None and _is_ours(before) else {}
        keys = _keys(bundles)
        found = {name: old[name] for name, key in keys.items() if name in old and old[name]["of"] == key}
        counts: dict[int, int] = {}
        for one in bundles:
            counts[one.epoch] = counts.get(one.epoch, 0) + one.record["actions"]["count"]
        wanted = {epoch for epoch in epochs if epoch in counts and _key(epoch) not in found}
        new, total = sum(counts[epoch] for epoch in wanted), sum(counts.values())
        asked: list[int | None] = [*sorted(wanted)] if new <= _MOST_ACTIONS else []
        if _WHOLE not in found and total <= max(_FEW_ACTIONS, min(2 * new, _MOST_ACTIONS)):
            asked.append(None)
        if asked:
            judged = suspected_in(journal, *scope, asked)
            found |= {_key(epoch): {"found": _plain(one), "of": keys[_key(epoch)]} for epoch, one in judged.items()}
        said = {"bundles": [_short(one) for one in bundles], "escalations": escalations}
        return derived.keep(journal, scope, {**said, "made_by": _made_by(), "suspicion": found})
    return False


def _recorded(journal: Journal, scope: Scope) -> tuple[list[StoredBundle], list[dict[str, Any]]]:
    return recording.stored_bundles(journal, *scope), list(recording.escalations(journal, *scope))


def _short(bundle: StoredBundle) -> dict[str, Any]:
    said = bundle.record
    return {
        "actions": said["actions"]["count"],
        "closed": said["closed"],
        "counts": said["counts"],
        "digest": bundle.digest,
        "epoch": bundle.epoch,
        "escalations": said["escalations"],
        "missing_ranks": said["missing_ranks"],
        "part": bundle.part,
        "where": bundle.where,
    }


def _plain(found: Suspicion) -> dict[str, Any]:
    undecided = [{"code": one.code, "what": one.what, "ranks": list(one.ranks)} for one in found.undecided]
    return {
        "affected": len(found.affected),
        "coverage": dict(found.coverage),
        "suspicious": [one.to_dict() for one in found.suspicious],
        "undecided": undecided,
    }


def _keys(bundles: Sequence[StoredBundle]) -> dict[str, str]:
    """Return, for each epoch and for all, what its judgement depends on: the epoch and those before it."""
    digest, keys = hashlib.sha256(), {}
    for one in bundles:
        digest.update(one.digest.encode())
        keys[_key(one.epoch)] = digest.hexdigest()
    return {**keys, _WHOLE: digest.hexdigest()}


def _key(epoch: int | None) -> str:
    return _WHOLE if epoch is None else str(epoch)


def _made_by() -> str:
    from provstore import __version__

    return f"provstore {__version__}"


def _is_ours(content: Mapping[str, Any]) -> bool:
    """Return whether what is kept was worked out by this very version."""
    return content.get("made_by") == _made_by()


def _chosen(scopes: Iterable[Scope], run: str | None, attempt: int | None) -> Scope:
    """Return run and attempt as they are meant; the latest attempt where none is given."""
    known = [scope for scope in scopes if scope[0]]
    fits = [scope for scope in known if run in {None, scope[0]} and attempt in {None, scope[1]}]
    runs = sorted({name for name, _ in fits})
    if not fits:
        text = f"{run}: no such run" if run is not None else "run: none is stored"
        raise InputError(f"{text}; stored are {listed(sorted({name for name, _ in known}))}")
    if len(runs) > 1:
        raise InputError(f"run: several fit: {listed(runs)}")
    return max(fits)


def listed(found: Sequence[object]) -> str:
    """Return names as a text of bounded length."""
    names = ", ".join(map(str, found[:20])) or "none"
    return f"{names} and {len(found) - 20} more" if len(found) > 20 else names
