"""The restore plan of an epoch: each item present, missing or a mismatch, and what a re-run can be at best."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from provstore.evidence import epoch_bundles as roles
from provstore.evidence.replay import skips as skip_lists
from provstore.evidence.replay.checkpoints import Given, checkpoint_item, nearest
from provstore.evidence.replay.epoch import MISMATCH, MISSING, PRESENT, EpochFacts, Held, Row
from provstore.evidence.replay.items import Item
from provstore.evidence.replay.skips import Skip
from provstore.model import canonical

EXACT_POSSIBLE, APPROXIMATE, NOT_POSSIBLE = "exact-possible", "approximate", "not-possible"
CHECKPOINT, RNG, DATA, SAMPLER, SKIPS, ENVIRONMENT, ANCHORS = (
    "checkpoint",
    "rng",
    "data-order",
    "sampler",
    "skip-list",
    "environment",
    "anchors",
)

_TABLES = {
    CHECKPOINT: roles.CHECKPOINTS,
    RNG: roles.RNG,
    DATA: roles.DATA,
    SAMPLER: roles.SAMPLERS,
    SKIPS: roles.DATA,
    ENVIRONMENT: roles.HEADERS,
    ANCHORS: roles.ANCHORS,
}
"""Which table each item is taken from."""
_DRAWING = ("shuffle", "replacement", "drop_last", "batch_size")

__all__ = ["APPROXIMATE", "EXACT_POSSIBLE", "NOT_POSSIBLE", "Item", "RestorePlan", "restore_plan"]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What is needed to run an epoch again, and what that can be at best."""

    run: str
    attempt: int
    epoch: int
    bundles: tuple[str, ...]
    steps: tuple[int, int] | None
    items: tuple[Item, ...]
    verdict: str
    """``exact-possible``, ``approximate`` or ``not-possible``."""
    reasons: tuple[str, ...]
    """Why it is no better."""
    is_fork: bool
    """It skips batches that the run did not skip."""
    skips: tuple[Skip, ...]
    """All that a re-run skips, what the run itself skipped included."""
    added_skips: tuple[Skip, ...] = ()
    catch_up_steps: int | None = None
    """Steps from the checkpoint to the first step of the epoch."""
    notes: tuple[str, ...] = field(default=())

    def item(self, name: str) -> Item:
        """Return one item."""
        return next(one for one in self.items if one.name == name)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "run": self.run,
            "attempt": self.attempt,
            "epoch": self.epoch,
            "bundles": [f"sha256:{one}" for one in self.bundles],
            "steps": list(self.steps) if self.steps else None,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "is_fork": self.is_fork,
            "items": [one.to_dict() for one in self.items],
            "skips": skip_lists.as_values(self.skips),
            "added_skips": skip_lists.as_values(self.added_skips),
            "catch_up_steps": self.catch_up_steps,
            "notes": list(self.notes),
        }


def restore_plan(facts: EpochFacts, held: Held, skips: Sequence[Skip] = (), given: Given | None = None) -> RestorePlan:
    """Return the plan to run an epoch again; it starts nothing.

    Args:
        facts: What is stored of the epoch.
        held: Tells which blobs are there.
        skips: Batches that a re-run is to leave out.
        given: A copy of the checkpoint that the caller has at hand.

    Raises:
        InputError: The skip list names batches that the epoch does not have.
    """
    if roles.DATA not in facts.unread:
        skip_lists.require_known(skips, facts)
    own = skip_lists.own_skips(facts.data)
    added = skip_lists.beyond(skips, own)
    row, catch_up = nearest(facts), steps_to_catch_up(facts)
    found = (
        checkpoint_item(row, facts, given),
        _rng(facts, held, row, catch_up or 0),
        _data(facts),
        _sampler(facts),
        _skips(own, added, facts),
        _environment(facts),
        _anchors(facts),
    )
    items = tuple(_as_read(one, facts) for one in found)
    reasons = tuple(_reasons(facts, items, catch_up or 0))
    return RestorePlan(
        facts.run,
        facts.attempt,
        facts.epoch,
        facts.bundles,
        facts.steps,
        items,
        _verdict(facts, items, reasons),
        reasons,
        bool(added),
        (*own, *added),
        added,
        catch_up,
        tuple(_notes(items)),
    )


def steps_to_catch_up(facts: EpochFacts) -> int | None:
    """Return how many steps lie between the nearest checkpoint and the epoch; ``None`` without a checkpoint."""
    row = nearest(facts)
    return None if row is None or facts.steps is None else max(facts.steps[0] - row["step"] - 1, 0)


def _as_read(item: Item, facts: EpochFacts) -> Item:
    """Return an item as what it is where its table cannot be read in whole: what is left of it may be another one."""
    if _TABLES[item.name] not in facts.unread or item.state == MISMATCH:
        return item
    state, reason = facts.unread[_TABLES[item.name]]
    return Item(item.name, state, None, item.source, reason)


def _verdict(facts: EpochFacts, items: Sequence[Item], reasons: Sequence[str]) -> str:
    checkpoint = items[0]
    if checkpoint.state == MISMATCH or (checkpoint.state == MISSING and not facts.is_first):
        return NOT_POSSIBLE
    return APPROXIMATE if reasons else EXACT_POSSIBLE


def _reasons(facts: EpochFacts, items: Sequence[Item], catch_up: int) -> Iterable[str]:
    for one in items:
        if one.state != PRESENT:
            yield f"{one.name}: {one.state}: {one.detail}" if one.detail else f"{one.name}: {one.state}"
    if not facts.is_closed:
        yield "epoch: it was not closed, so that its end is not recorded"
    if facts.missing_ranks:
        yield f"ranks: {len(facts.missing_ranks)} of {facts.world_size} were not recorded"
    if catch_up:
        yield f"checkpoint: {catch_up} steps lie between it and the epoch, whose order is not part of this plan"
    settings = [_determinism(row) for row in facts.headers]
    if settings and not all(one.get("deterministic_algorithms") for one in settings):
        yield "determinism: deterministic algorithms were not switched on"
    elif any(one.get("warn_only") for one in settings):
        yield "determinism: kernels without a deterministic form were only warned of"


def _notes(items: Sequence[Item]) -> Iterable[str]:
    if items[0].state == PRESENT:
        yield (
            "whether the checkpoint holds all that training goes on from, the state of the optimizer included, was not "
            "recorded: only the program knows"
        )
    if items[0].checked is False:
        yield "the checkpoint itself was not looked at: --checkpoint PATH compares a copy of it with what was recorded"
    if any(one.name == SAMPLER and one.state == MISSING for one in items):
        yield (
            "recorder.sampler(loader) records how samples are drawn; without it, the digests of sample ids show only "
            "afterwards whether a re-run had the same ones"
        )


def _rng(facts: EpochFacts, held: Held, checkpoint: Row | None, catch_up: int) -> Item:
    """States at the checkpoint when steps are to be caught up, else at the start of the epoch."""
    if catch_up and checkpoint is not None:
        rows = [one for one in facts.earlier_rng if one["where"] == "checkpoint" and one["step"] == checkpoint["step"]]
        source = f"step {checkpoint['step']}"
    else:
        rows, source = [one for one in facts.rng if one["where"] == "epoch"], "start of the epoch"
    by_rank = {one["rank"]: one for one in rows}
    lacking = [rank for rank in facts.ranks if rank not in by_rank]
    if lacking or not facts.ranks:
        return Item(RNG, MISSING, None, source, f"no state of rank {', '.join(map(str, lacking[:8])) or 'any'}")
    states = {rank: held(row["blob"], row["bytes"]) if row.get("blob") else MISSING for rank, row in by_rank.items()}
    for bad in (MISMATCH, MISSING):
        ranks = sorted(rank for rank, state in states.items() if state == bad)
        if ranks:
            names = "; ".join(f"rank {rank}: state {by_rank[rank].get('digest')}" for rank in ranks[:8])
            return Item(RNG, bad, None, source, names)
    digests = {str(rank): row["digest"] for rank, row in sorted(by_rank.items())}
    kinds = sorted({kind for row in by_rank.values() for kind in row.get("states") or ()})
    return Item(RNG, PRESENT, _digest(list(digests.values())), source, f"of {', '.join(kinds)}", digests)


def _data(facts: EpochFacts) -> Item:
    ranks = {row["rank"] for row in facts.data}
    lacking = [rank for rank in facts.ranks if rank not in ranks]
    if not facts.data or lacking:
        return Item(DATA, MISSING, None, "data", f"no batches of rank {', '.join(map(str, lacking[:8])) or 'any'}")
    rows = sorted((row["rank"], row["batch"], row["ids_digest"]) for row in facts.data)
    batches = {row["batch"] for row in facts.data}
    detail = f"digests of the sample ids of {len(batches)} batches on {len(ranks)} ranks"
    return Item(DATA, PRESENT, _digest([f"{rank} {batch} {ids}" for rank, batch, ids in rows]), "data", detail)


def _sampler(facts: EpochFacts) -> Item:
    """Return how the samples were drawn: digests of their ids show that an order is the same, and do not give it."""
    latest = {row["rank"]: row for row in facts.samplers}
    lacking = [rank for rank in facts.ranks if rank not in latest]
    if not latest or lacking:
        whose = ", ".join(map(str, lacking[:8])) or "any"
        return Item(SAMPLER, MISSING, None, "samplers", f"kind and seed were not recorded of rank {whose}")
    rows = [{name: value for name, value in row.items() if name != "at"} for row in facts.samplers]
    parts = {str(rank): _drawn(row) for rank, row in sorted(latest.items())}
    first = latest[min(latest)]
    length = f" of length {first['dataset_length']}" if "dataset_length" in first else ""
    name = first.get("dataset") or first.get("dataset_kind") or "a data set without a name"
    detail = f"{name}{length}, drawn by {first.get('kind')}"
    digest = _digest(sorted(canonical.encode(row).decode() for row in rows))
    return Item(SAMPLER, PRESENT, digest, "samplers", detail, parts)


def _drawn(row: Row) -> str:
    """Return in words how one rank drew its samples."""
    # Without a seed of its own a sampler draws from the states of random numbers, which are another item.
    said = [f"seed {row['seed']}" if "seed" in row else "no seed of its own"]
    said += [f"epoch {row['shard_epoch']}"] if "shard_epoch" in row else []
    said += [f"shard {row['shard']} of {row['shards']}"] if {"shard", "shards"} <= row.keys() else []
    said += [f"{name.replace('_', ' ')} {str(row[name]).lower()}" for name in _DRAWING if name in row]
    return f"{row.get('kind')}: {', '.join(said)}"


def _skips(own: Sequence[Skip], added: Sequence[Skip], facts: EpochFacts) -> Item:
    if not facts.data:
        return Item(SKIPS, MISSING, None, "data", "what the run itself skipped was not recorded")
    every = [f"{one.epoch} {one.batch} {one.ids_digest or ''}" for one in (*own, *added)]
    detail = f"{len(own)} skipped by the run itself, {len(added)} more"
    return Item(SKIPS, PRESENT, _digest(every), "data", detail)


def _environment(facts: EpochFacts) -> Item:
    if facts.environment is None and not facts.headers:
        return Item(ENVIRONMENT, MISSING, None, "headers", "nothing of it was recorded")
    digests = {row.get("env_digest") for row in facts.headers} or {facts.environment}
    if len(digests) > 1:
        return Item(ENVIRONMENT, MISMATCH, None, "headers", "ranks ran in different environments")
    digest = digests.pop()
    first = facts.headers[0] if facts.headers else {}
    detail = f"python {first.get('python')}, torch {first.get('torch')}, world size {facts.world_size}"
    settings = _determinism(first)
    facts_of_it = {name: str(value) for name, value in sorted(settings.items())}
    return Item(ENVIRONMENT, PRESENT, digest if isinstance(digest, str) else None, "headers", detail, facts_of_it)


def _determinism(header: Row) -> Row:
    """Return the settings of a header, which are stored as names with values."""
    said = header.get("determinism") or {}
    return said if isinstance(said, dict) else {one["n"]: one["v"] for one in said}


def _anchors(facts: EpochFacts) -> Item:
    ranks = {row["rank"] for row in facts.anchors}
    lacking = [rank for rank in facts.ranks if rank not in ranks]
    if not facts.anchors or lacking:
        return Item(ANCHORS, MISSING, None, "anchors", f"none of rank {', '.join(map(str, lacking[:8])) or 'any'}")
    probed = sum(row.get("params") is not None for row in facts.anchors)
    detail = f"{len(facts.anchors)} of {len(ranks)} ranks, {probed} with a digest of the parameters"
    rows = [canonical.encode(dict(row)).decode() for row in facts.anchors]
    return Item(ANCHORS, PRESENT, _digest(sorted(rows)), "anchors", detail)


def _digest(parts: Sequence[str]) -> str:
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()
