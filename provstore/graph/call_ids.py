"""The ids of a dump's calls: which activity each row is, and which entity carries its record."""

from __future__ import annotations

from dataclasses import dataclass

from provstore.model import ids
from provstore.model.dump import ABSENT, COLLECTIVE, RECV, SEND, Dump

SIDES = ("in", "out", "call")


@dataclass(frozen=True, slots=True)
class CallIds:
    """The ids of one dump's calls, in row order."""

    rank: int
    activities: list[str]
    on_input: list[int]
    """Rows whose record sits on their input entity."""
    on_output: list[int]
    """Rows without an input, whose record sits on their output entity."""
    bare: list[int]
    """Rows without tensors, whose record sits on an entity ``…/call``."""
    second_output: list[int]
    """Rows on their input that have an output entity too."""

    def rows(self, side: str) -> list[int]:
        """Return the rows whose record sits on a side."""
        return {"in": self.on_input, "out": self.on_output, "call": self.bare}[side]

    def side(self, row: int, side: str) -> str:
        """Return the id of what the rank puts into, gets from, or leaves as the record of, the call of ``row``."""
        return f"{self.activities[row]}/{self.rank}/{side}"

    def records(self) -> list[str]:
        """Return the id of the entity that carries each call's record."""
        records = [""] * len(self.activities)
        for side in SIDES:
            for row in self.rows(side):
                records[row] = self.side(row, side)
        return records

    def outputs(self) -> list[int]:
        """Return the rows that have an output entity."""
        return sorted((*self.on_output, *self.second_output))


def call_ids(dump: Dump, run: str, attempt: int) -> CallIds:
    """Return the ids of a dump's calls, made from what the dump and its sidecar state.

    Numbers are shared between ranks only where they are comparable: in a group that has batched sends and receives, and
    in formats that count both kinds with one counter, the instance id is local to the rank.
    """
    calls, rank = dump.calls, dump.rank
    shared, p2p = [], []
    for group in dump.groups:
        base = ids.group_iri(run, attempt, group.backend or dump.backend, ids.group_key(group.name, group.ranks))
        local = group.batched_p2p or not dump.seq_comparable
        shared.append(f"{base}/local/{rank}/" if local else f"{base}/")
        p2p.append(f"{base}/p2p/{rank}/")
    activities = [
        f"{shared[group]}{seq}" if channel == COLLECTIVE else f"{p2p[group]}{op_id if op_id != ABSENT else f's{seq}'}"
        for group, channel, seq, op_id in zip(calls.group, calls.channel, calls.seq, calls.op_id)
    ]
    found = CallIds(rank, activities, [], [], [], [])
    has_input = [bool(signature.input_sizes) for signature in dump.signatures]
    has_output = [bool(signature.output_sizes) for signature in dump.signatures]
    for row, (channel, signature) in enumerate(zip(calls.channel, calls.signature)):
        output = channel != SEND and has_output[signature]
        if channel != RECV and has_input[signature]:
            found.on_input.append(row)
            if output:
                found.second_output.append(row)
        elif output:
            found.on_output.append(row)
        else:
            found.bare.append(row)
    return found
