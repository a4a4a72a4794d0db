"""Where ranks of a stored run stop holding equal parameters, from its anchors and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson

from provstore.analysis.replicas import STATE, Drift, Held, drifts
from provstore.api.stored_tables import StoredTables
from provstore.evidence.epoch_bundles import ANCHORS, CHECKPOINTS
from provstore.ingest.recording import StoredBundle


def stored_drifts(tables: StoredTables, bundles: Sequence[StoredBundle]) -> list[Drift]:
    """Return where ranks that held equal parameters stop doing so; one entry a cause.

    Args:
        tables: Of this attempt; those that cannot be read end the comparison there, and are remembered.
        bundles: All of one attempt up to the epoch asked for, since what was equal before decides who is compared.
    """
    held = list(_held(tables, bundles, ANCHORS, "params"))
    found = drifts(held)
    probed = {(one.rank, one.place) for one in held}
    # Where it is not known what was probed, nobody knows either which states a rank holds for itself.
    gap = tables.gap(ANCHORS)
    for one in drifts(_held(tables, bundles, CHECKPOINTS, "state_digest", gap), STATE):
        # Where parameters were probed they have told, and another state is what a rank holds for itself.
        if not all((rank, one.place) in probed for rank in one.members):
            told = {rank for other in found if other.place <= one.place for rank in other.members}
            found += [one] if not told & set(one.members) else []
    return sorted(found, key=lambda one: one.place)


def _held(
    tables: StoredTables, bundles: Sequence[StoredBundle], role: str, member: str, before: int | None = None
) -> Iterator[Held]:
    mark = f'"{member}":"'.encode()
    seen: dict[tuple[int, int, int], int] = {}
    for sha256, lines in tables.until_unreadable(bundles, role, before):
        for line in lines:
            row = orjson.loads(line) if mark in line else {}
            if type(row.get("step")) is not int or type(row.get("rank")) is not int:
                continue
            # Of two checkpoints of one step the first is compared with the first of other ranks.
            key = (row["rank"], row["epoch"], row["step"])
            again = seen[key] = seen.get(key, -1) + 1
            place = (row["epoch"], row["step"], again)
            yield Held(row["rank"], place, row[member], f"sha256:{sha256}")
