"""Which calls one dump alone shows to be done."""

from __future__ import annotations

from provstore.model.dump import ABSENT, COLLECTIVE, COMPLETED, Dump


def done_rows(dump: Dump) -> bytearray:
    """Return one byte a call, 1 where this file alone shows that the call is done and its output exists.

    With completion events: the call is completed, or the group's status table says so and the group has no sends or
    receives (whose numbers share that table). Without events (``Dump.eventless``): the call, or a later one of its
    group, left the work list, and the rank went on to another call; a failed call leaves the work list too, so the last
    call of a rank is never shown done by its own file.

    Source: docs/explanation/diagnosis.md
    """
    return _settled_and_passed(dump) if dump.eventless else _completed(dump)


def _completed(dump: Dump) -> bytearray:
    calls = dump.calls
    done = bytearray(1 if state == COMPLETED else 0 for state in calls.state)
    with_p2p = {group for group, channel in zip(calls.group, calls.channel) if channel != COLLECTIVE}
    known = {
        at: group.last_completed
        for at, group in enumerate(dump.groups)
        if group.last_completed != ABSENT and at not in with_p2p
    }
    if known and not all(done):
        for row, (group, seq) in enumerate(zip(calls.group, calls.seq)):
            if not done[row] and seq != ABSENT and seq <= known.get(group, ABSENT):
                done[row] = 1
    return done


def _settled_and_passed(dump: Dump) -> bytearray:
    calls = dump.calls
    done = bytearray(len(calls))
    settled_groups: set[int] = set()
    last = len(calls) - 1
    for row in range(last, -1, -1):
        if calls.retired[row]:
            settled_groups.add(calls.group[row])
        if row != last and calls.group[row] in settled_groups:
            done[row] = 1
    return done
