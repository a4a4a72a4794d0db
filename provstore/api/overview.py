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
from types import NoneType
from typing import TYPE_CHECKING, Any

import orjson

from provstore.errors import InputError, ProvstoreError, StoreError
from provstore.ingest import recording
from provstore.ingest.recording import StoredBundle
from provstore.journal import Journal, derived, ending

if TYPE_CHECKING:
    from provstore.model.suspicion import Suspicion

Scope = tuple[str, int]
_WHOLE = "all"
_SHOWN_ATTEMPTS = 20
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
    is_kept: bool = False
    """Worked out when it was recorded, and the journal not read for it now."""


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
            found = said["suspicion"][key]["found"]
            return Overview(*scope, kept.is_signed, said["bundles"], said["escalations"], found, is_kept=True)
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
        found |= _judged(journal, scope, asked, keys)
        said = {"bundles": [_short(one) for one in bundles], "escalations": escalations}
        return derived.keep(journal, scope, {**said, "made_by": _made_by(), "suspicion": found})
    return False


def untrue(journal: Journal, scope: Scope) -> list[str]:
    """Return in words what is kept and is not what the journal gives; nothing where nothing kept would be used.

    Raises:
        StoreError: The journal is damaged: nothing can be compared.
        TrustError: A record is malformed.
    """
    told = _untrue(journal, scope)
    # What was kept of records that came after the journal was opened is compared with them, not with this.
    return [] if ending.has_grown(journal) else told


def _untrue(journal: Journal, scope: Scope) -> list[str]:
    told: list[str] = []
    named, kept = derived.scopes(journal.directory), derived.current(journal.directory, scope, recording.MARKS)
    if named is not None and named != journal.scopes():
        told.append("names other runs than the journal has")
    if kept is None or not _is_ours(kept.content):
        return told
    bundles, escalations = _recorded(journal, scope)
    said, keys = kept.content, _keys(bundles)
    if kept.is_signed != (journal.evidence_size(*scope).bundles > 0):
        told.append(f"says that the attempt is {'' if kept.is_signed else 'not '}signed")
    for name, recorded in (("bundles", [_short(one) for one in bundles]), ("escalations", escalations)):
        if said[name] != orjson.loads(orjson.dumps(recorded)):
            told.append(f"tells other {name} than are recorded")
    known = {name: None if name == _WHOLE else int(name) for name in said["suspicion"] if name in keys}
    judged = _judged(journal, scope, list(known.values()), keys)
    for name, own in said["suspicion"].items():
        what = "the attempt" if name == _WHOLE else f"training epoch {name[:20]}"
        if name not in judged:
            told.append(f"judges {what}, which is not recorded")
        elif own != orjson.loads(orjson.dumps(judged[name])):
            told.append(f"tells other suspicious actions of {what} than the records give")
    return told


def _judged(
    journal: Journal, scope: Scope, epochs: Sequence[int | None], keys: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return what is kept of each of these epochs, and of all for ``None``.

    Raises:
        StoreError: Not everything can be read that it is judged by: nothing is kept of it, or compared with it.
        TrustError: A record is malformed.
    """
    from provstore.api.suspecting import suspected_in
    from provstore.model.suspicion import UNREADABLE

    if not epochs:
        return {}
    judged = suspected_in(journal, *scope, epochs)
    if gone := next((one for found in judged.values() for one in found.undecided if one.code == UNREADABLE), None):
        raise StoreError(f"{scope[0]}: attempt {scope[1]}: {gone.what}")
    return {_key(epoch): {"found": _plain(one), "of": keys[_key(epoch)]} for epoch, one in judged.items()}


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


def _is_ours(content: object) -> bool:
    """Return whether what is kept was worked out by this very version, and has the shape that it gives."""
    return isinstance(content, Mapping) and content.get("made_by") == _made_by() and _fits(content, _SHAPE)


_BATCH = {"batch": int, "epoch": int, "ids_digest": (str, NoneType), "samples": (int, NoneType)}
_ACTION = {
    ...: object,
    "batch_count": int,
    "batches": [_BATCH],
    "carried_by": [str],
    "code": str,
    "parameter": (str, NoneType),
    "rank": int,
    "score": (int, float),
}
_COUNTS = [{"count": int, "name": str}]
_FOUND = {
    "affected": int,
    "coverage": {...: int},
    "suspicious": [_ACTION],
    "undecided": [{"code": str, "ranks": [int], "what": str}],
}
_BUNDLE = {
    "actions": int,
    "closed": bool,
    "counts": {...: _COUNTS},
    "digest": str,
    "epoch": int,
    "escalations": [str],
    "missing_ranks": [[int]],
    "part": int,
    "where": str,
}
_SHAPE = {
    "bundles": [_BUNDLE],
    "escalations": [{...: object, "event": str, "number": int, "source": str}],
    "made_by": str,
    "suspicion": {...: {"found": _FOUND, "of": str}},
}
"""A list has any number of what it holds; ``...`` stands for any further member."""


def _fits(value: object, shape: Any) -> bool:
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            return False
        more = shape.get(...)
        return all(name in value for name in shape if name is not ...) and all(
            _fits(one, shape.get(name, more)) for name, one in value.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(one, shape[0]) for one in value)
    return shape is not None and isinstance(value, shape)


def _chosen(scopes: Iterable[Scope], run: str | None, attempt: int | None) -> Scope:
    """Return run and attempt as they are meant; the latest attempt where none is given."""
    known = [scope for scope in scopes if scope[0]]
    fits = [scope for scope in known if run in {None, scope[0]} and attempt in {None, scope[1]}]
    runs = sorted({name for name, _ in fits})
    if not fits:
        attempts = sorted(number for name, number in known if run in {None, name})
        if attempts:
            numbers = ", ".join(map(str, attempts[-_SHOWN_ATTEMPTS:]))
            raise InputError(f"{run or 'any run'}: attempt {attempt}: is not stored; stored are {numbers}")
        text = f"{run}: no such run" if run is not None else "run: none is stored"
        raise InputError(f"{text}; stored are {listed(sorted({name for name, _ in known}))}")
    if len(runs) > 1:
        raise InputError(f"run: several fit: {listed(runs)}")
    return max(fits)


def listed(found: Sequence[object]) -> str:
    """Return names as a text of bounded length."""
    names = ", ".join(map(str, found[:20])) or "none"
    return f"{names} and {len(found) - 20} more" if len(found) > 20 else names
