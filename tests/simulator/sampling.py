"""Draws scenarios: a layout, a fault and a seed give sizes, styles and the place of the fault."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .faults import Fault
from .files import PREFIXES, Style
from .layouts import Shape3D
from .scenario import Scenario

LAYOUT_NAMES = (
    "ddp", "fsdp", "hsdp", "megatron", "megatron_batched", "expert", "context", "two_backends", "coalesced",
    "gloo_ddp", "gloo_fsdp", "gloo_hsdp", "gloo_megatron",
)  # fmt: skip

VARIATIONS = (
    "plain", "wrapped", "active_only", "timing", "no_frames", "json", "both_forms", "meta", "offsets", "lost",
    "truncated",
    "old_2.9", "old_2.4", "old_2.1", "old_1.4", "old_none", "hash_names", "shared_names", "seq_from_0", "resets",
    "hook",
)  # fmt: skip


def fits(layout: str, variation: str) -> bool:
    """Whether the format of a variation can hold a layout: gloo, for one, records from 2.9."""
    if not variation.startswith("old_"):
        return True
    if layout.startswith("gloo_") or layout in ("two_backends", "coalesced"):
        return variation == "old_2.9"
    if layout in ("megatron_batched", "context"):
        return variation in ("old_2.9", "old_2.4")
    return True


def draw_size(layout: str, luck: random.Random, large: bool = False) -> tuple[str, Shape3D]:
    """Return the builder's name and a size for it."""
    name = layout.removeprefix("gloo_").removesuffix("_batched")
    small = {
        "ddp": [Shape3D(2), Shape3D(4), Shape3D(5), Shape3D(8)],
        "fsdp": [Shape3D(4), Shape3D(6), Shape3D(8)],
        "hsdp": [Shape3D(8, shard=4), Shape3D(16, shard=4), Shape3D(12, shard=3), Shape3D(8, shard=2)],
        "megatron": [
            Shape3D(8, tp=2, pp=2, micro=3), Shape3D(16, tp=2, pp=4, layers=1), Shape3D(8, tp=1, pp=4, micro=4),
            Shape3D(16, tp=4, pp=2, layers=1, micro=2), Shape3D(12, tp=2, pp=3, layers=1, micro=3, dp_before_pp=True),
        ],
        "expert": [Shape3D(8, ep=4), Shape3D(8, ep=2), Shape3D(12, ep=3)],
        "context": [Shape3D(8, cp=4), Shape3D(8, cp=2), Shape3D(9, cp=3)],
        "two_backends": [Shape3D(4, tp=2), Shape3D(8, tp=4)],
        "coalesced": [Shape3D(4), Shape3D(6)],
    }  # fmt: skip
    big = {
        "ddp": [Shape3D(64)], "fsdp": [Shape3D(64)], "hsdp": [Shape3D(64, shard=8)], "expert": [Shape3D(64, ep=8)],
        "megatron": [Shape3D(64, tp=4, pp=4), Shape3D(32, tp=2, pp=4, dp_before_pp=True)],
        "context": [Shape3D(32, cp=4)], "two_backends": [Shape3D(32, tp=8)], "coalesced": [Shape3D(32)],
    }  # fmt: skip
    size = luck.choice((big if large else small)[name])
    return name, replace(
        size,
        backend="gloo" if layout.startswith("gloo_") else "nccl",
        batched=layout.endswith("_batched"),
        uniform=luck.random() < 0.3,
        sync_p2p=luck.random() < 0.4,
        steps=luck.choice((3, 4, 5)),
        warm=luck.random() < 0.8,
    )


def draw(layout: str, kind: str, seed: int, variation: str = "plain", large: bool = False) -> Scenario:
    """Return one scenario; equal arguments give an equal one.

    Args:
        kind: ``none``, ``in_flight``, ``order``, ``two`` (two independent faults) or the name of a fault.
        variation: One of ``VARIATIONS``.
        large: 32 or 64 ranks.
    """
    luck = random.Random(f"{layout}/{kind}/{seed}/{variation}")
    name, size = draw_size(layout, luck, large)
    style = Style(prefix=luck.choice(PREFIXES), timeout_ms=luck.choice((120_000, 600_000)))
    if kind == "slow":
        size = replace(size, steps=14)
    scenario = Scenario(name, size, seed=seed, style=style)
    if size.backend == "gloo" and name != "ddp":
        scenario = replace(scenario, style=replace(style, sidecar="pgs"))
    if kind == "order":
        cycle = luck.choice((2, 2, 3, 4))
        scenario = replace(
            scenario, layout="ring_of_pairs", cycle=cycle, size=replace(size, world=max(size.world, cycle))
        )
    elif kind == "in_flight":
        scenario = replace(scenario, in_flight=luck.uniform(0.2, 0.95), style=replace(scenario.style, sidecar="meta"))
    elif kind == "two":
        scenario = replace(scenario, faults=_two(size.world, luck))
    elif kind != "none":
        scenario = replace(scenario, faults=(_fault(kind, size.world, luck),))
    return vary(scenario, variation, luck)


def _fault(kind: str, world: int, luck: random.Random) -> Fault:
    first = kind.endswith("_first")
    return Fault(
        kind.removesuffix("_first"), luck.randrange(world), luck.random(), first, late_ms=luck.uniform(30, 120)
    )


def _two(world: int, luck: random.Random) -> tuple[Fault, ...]:
    ranks: Sequence[int] = luck.sample(range(world), 2)
    at = luck.random()
    kinds = luck.choice((("stuck", "stuck"), ("stuck", "dead"), ("device", "stuck"), ("wrong_size", "stuck")))
    return tuple(Fault(kind, rank, at) for kind, rank in zip(kinds, ranks, strict=True))


def vary(scenario: Scenario, variation: str, luck: random.Random) -> Scenario:
    """Return the scenario with one circumstance changed."""
    if variation.startswith("old_"):
        return replace(scenario, style=replace(scenario.style, version=variation.removeprefix("old_")))
    if variation in _STYLES:
        return replace(scenario, style=replace(scenario.style, **_STYLES[variation]))
    if variation in _NAMES:
        return replace(scenario, size=replace(scenario.size, naming=_NAMES[variation]))
    return replace(scenario, **_changes(scenario, variation, luck))


_STYLES: dict[str, dict[str, Any]] = {
    "no_frames": {"frames": False},
    "json": {"form": "json"},
    "both_forms": {"form": "both"},
    "meta": {"sidecar": "meta"},
}
_NAMES = {"hash_names": "hash", "shared_names": "shared"}


def _changes(scenario: Scenario, variation: str, luck: random.Random) -> dict[str, Any]:
    world = scenario.size.world
    faulty = {fault.rank for fault in scenario.faults}
    healthy = [rank for rank in range(world) if rank not in faulty and rank >= scenario.cycle] or [world - 1]
    hosts = [luck.choice((-3_600_000.0, -500.0, 0.0, 500.0, 2000.0)) for _ in range(world)]
    each = luck.choice((1, 2, 4))
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "wrapped": {"buffer": luck.choice((16, 24, 40))},
        "active_only": {"active_only": True},
        "timing": {"timing": True},
        "offsets": {"offsets_ms": {rank: hosts[rank // each] for rank in range(world)}},
        "lost": {"lost": (luck.choice(healthy),)},
        "truncated": {"truncated": (luck.choice(healthy),)},
        "seq_from_0": {"first_seq": 0},
        "resets": {"resets": True},
        "hook": {"hook": True},
    }
    return changes[variation]
