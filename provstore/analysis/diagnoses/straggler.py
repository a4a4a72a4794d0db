"""A rank that enters the calls of a group well after the others, again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provstore.analysis.build import Place, Remarks, make
from provstore.analysis.lateness import Lateness
from provstore.analysis.scene import Scene
from provstore.analysis.wording import group_words, source_words
from provstore.model.finding import Finding

ABOUT = "slow"
PRECEDENCE = 80

NO_DEVICE_TIME = "the dumps hold no device times (duration_ms), so slowness on the device cannot be told"
ENTRIES_ONLY = "only when ranks enter calls is recorded: what keeps this one, or whom it waits for elsewhere, is not"
CLOCK = "the lateness is constant: if the ranks are on different hosts, a clock offset cannot be excluded"
CONTRADICTORY = "calls that do not block left contradictory bounds for the clocks"


def find(scene: Scene, _earlier: Sequence[Finding]) -> Iterator[Finding]:
    """Yield a finding for each rank that is late in most calls of a group, unless another late rank holds it up."""
    for late in scene.stragglers:
        yield _finding(scene, late)


def _finding(scene: Scene, late: Lateness) -> Finding:
    case, rows = scene.case, late.rows
    group = case.table.groups[late.group]
    worst = int(rows[np.argmax(late.late_ms)])
    first = int(rows[np.flatnonzero(late.late_ms >= late.median_ms / 2)[0]])
    lost = float(np.clip(late.late_ms, 0, None).sum())
    summary = (
        f"rank {late.rank}: enters {case.signature(first).op} of {group_words(group)}"
        f"{source_words(case.source(first))} {late.median_ms:.0f} ms after the others (at most "
        f"{late.late_ms.max():.0f} ms, #{case.seq(worst)}), the last in {late.last_share:.0%} of {len(rows)} calls "
        f"from #{case.seq(first)} on; about {lost / 1000:.1f} s lost. Straggler."
    )
    no_times = all(np.isnan(dump.calls.duration_ms).all() for dump in case.table.dumps if dump.rank == late.rank)
    caveats = [NO_DEVICE_TIME if no_times else ENTRIES_ONLY]
    uncertain = late.is_constant and late.explained_by_clock
    caveats += [CLOCK] if uncertain else []
    caveats += [CONTRADICTORY] if late.contradictory else []
    return make(
        case,
        "straggler",
        Place(first, evidence=(worst,)),
        summary=summary,
        confidence="possible" if uncertain else "probable",
        culprits=(late.rank,),
        victims=group.ranks,
        measures={
            "median_lateness_ms": round(late.median_ms, 3),
            "max_lateness_ms": round(float(late.late_ms.max()), 3),
            "cadence_ms": round(late.cadence_ms, 3),
            "last_share": round(late.last_share, 4),
            "instances": float(len(rows)),
            "lost_ms": round(lost, 3),
            "clock_offset_ms": round(late.offset_ms, 3),
        },
        remarks=Remarks(
            next_step=f"profile the host side of rank {late.rank}: data loading, garbage collection, a busy neighbour",
            caveats=tuple(caveats),
        ),
    )
