"""What could not be decided, because: one question a reason, with what to collect next time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from provstore.analysis.idle import idle_ends
from provstore.analysis.presence import UNKNOWN
from provstore.analysis.scene import Scene, is_clock
from provstore.analysis.stillness import still_seconds
from provstore.analysis.waits import HANG, End
from provstore.analysis.wording import call_words, group_words, rank_words, verb
from provstore.model.codes import REASONS
from provstore.model.dump import ABSENT, Dump
from provstore.model.finding import Finding, Undecided

NEXT_STEPS = {code.name.replace("-", "_"): code.what_to_do for code in REASONS}


def open_questions(scene: Scene, findings: Sequence[Finding]) -> list[Undecided]:
    """Return what stayed open, those that block an answer first."""
    about = scene.case.options.about
    found: list[Undecided] = []
    if about != "nan":
        found += _about_emptiness(scene, findings)
    if about in (None, "hang"):
        found += _about_waits(scene, findings)
        found += _about_files(scene, findings)
        found += _ties(findings)
        found += _uneven(scene, findings)
        if not findings and not any(item.blocks_answer for item in found):
            found += _about_stillness(scene)
    if about == "slow":
        found += _about_slowness(scene, findings)
    if about == "nan" or (about is None and scene.case.evidence.tensors):
        found += _about_values(scene, findings)
    return sorted(dict.fromkeys(found), key=lambda item: (not item.blocks_answer, item.code, item.ranks))


def _question(code: str, what: str, ranks: Sequence[int] = (), blocks: bool = True) -> Undecided:
    return Undecided(code, what, NEXT_STEPS[code], tuple(sorted(set(ranks))), blocks)


def _about_emptiness(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    """Yield that nothing is recorded, and groups whose status tables tell of a call that no dump shows pending."""
    case = scene.case
    dumps = case.table.dumps
    if dumps and not len(case.table) and not all(dump.active_only and _is_at_rest(dump) for dump in dumps):
        yield _question("no_calls", "no dump holds a call: the recorder was off, or its ring is empty")
    if findings or case.pending_of:
        return
    for at, group in enumerate(case.table.groups):
        said = _stated(scene, at)
        top = max((enqueued for enqueued, _ in said.values()), default=0)
        behind = [rank for rank, (enqueued, _) in said.items() if enqueued < top]
        if behind and not any(completed >= top for _, completed in said.values()):
            what = f"{rank_words(behind)} never came to #{top} of {group_words(group)}, others did and no dump shows it"
            yield _question("no_calls", what, behind)


def _is_at_rest(dump: Dump) -> bool:
    """Return whether the status table of a dump shows all that was enqueued completed."""
    said = [group for group in dump.groups if group.last_enqueued != ABSENT]
    return bool(said) and all(group.last_enqueued <= group.last_completed for group in said)


def _stated(scene: Scene, group: int) -> dict[int, tuple[int, int]]:
    """Return the last numbers enqueued and completed in a declared group by rank, where completion is recorded."""
    table, item = scene.case.table, scene.case.table.groups[group]
    if not item.declared or item.has_p2p or not scene.case.comparable(group):
        return {}
    return {
        table.dumps[at].rank: (said.last_enqueued, said.last_completed)
        for (at, known), said in table.status.items()
        if known == group and not table.dumps[at].eventless and said.last_enqueued != ABSENT
    }


def _about_waits(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    explained = {rank for item in findings for rank in (*item.victims, *(one.rank for one in item.culprits))}
    for end in scene.waits.ends:
        if set(end.victims) <= explained and findings:
            continue
        if end.kind == UNKNOWN:
            yield _unknown(scene, end)
        elif end.kind == HANG and not findings:
            words = call_words(scene.case, end.row)
            what = f"all members entered {words}; nothing tells whether it ended or hangs"
            yield _question("no_completion_events", what, end.ranks)
    yield from _undeclared(scene, findings)
    for item in idle_ends(scene):
        if item.is_doubtful and not item.may_hide and item.end.ranks[0] not in explained:
            words = call_words(scene.case, item.row)
            what = f"{rank_words(item.end.ranks)} did not enter {words}, and others did; who is wrong cannot be told"
            yield _question("tie", what, (*item.end.ranks, scene.case.rank(item.row)), blocks=not findings)
    hidden = sorted(item.end.ranks[0] for item in idle_ends(scene) if item.may_hide)
    if hidden and not explained & set(hidden):
        what = f"{rank_words(hidden)} look idle, but may be in a send or receive that the recorder does not keep"
        yield _question("no_p2p_records", what, hidden, blocks=not findings)


def _unknown(scene: Scene, end: End) -> Undecided:
    wait = next(wait for wait in scene.waits.of_rank.values() if wait.row in end.awaited)
    blocker = next(item for item in wait.blockers if item.rank == end.ranks[0])
    who = rank_words(end.ranks) if end.ranks[0] >= 0 else "the other end"
    waiting = f"{rank_words(end.victims)} {verb(end.victims, 'waits', 'wait')} in {call_words(scene.case, end.row)}"
    what = f"{waiting}; where {who} stands is not known"
    return _question(blocker.detail or "ring_wrapped", what, [rank for rank in (*end.ranks, *end.victims) if rank >= 0])


def _undeclared(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    """Yield the waits in groups whose members nobody declares: who is missing there cannot be told."""
    case = scene.case
    for rank, wait in sorted(scene.waits.of_rank.items()):
        if not case.group(wait.row).declared and wait.verdict == HANG:
            what = f"rank {rank} waits in {call_words(case, wait.row)}, whose members no file declares"
            yield _question("membership_unknown", what, (rank,), blocks=not findings)


def _about_files(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    case = scene.case
    dead = {one.rank for item in findings if item.kind in ("dead", "mismatch") for one in item.culprits}
    refused = sorted(case.refused - {dump.rank for dump in case.table.dumps})
    missing = sorted(set(case.missing) - case.refused)
    if missing:
        stopped = "why it stopped" if len(missing) == 1 else "why they stopped"
        why = f"{stopped} cannot be told: no dump" if dead & set(missing) else "no dump"
        blocks = not findings or bool(dead & set(missing))
        yield _question("missing_dump", f"{rank_words(missing)}: {why}", missing, blocks)
    if refused:
        yield _question("refused_dump", f"{rank_words(refused)}: the dump could not be read", refused, not findings)
    nameless = [item.file for item in case.evidence.refusals if item.rank is None and not item.skipped]
    if nameless:
        yield _question("refused_dump", f"{nameless[0]}: could not be read", (), not findings)


def _ties(findings: Sequence[Finding]) -> Iterator[Undecided]:
    for item in findings:
        if item.kind in ("mismatch", "order_deadlock") and not item.culprits:
            ranks = sorted({one.rank for one in item.evidence})
            yield _question("tie", f"who is wrong: {' or '.join(item.alternatives) or rank_words(ranks)}", ranks)


def _uneven(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    """Yield the groups without completion events in which nobody waits although some members never came as far."""
    case = scene.case
    if findings or case.pending_of:
        return
    for at, group in enumerate(case.table.groups):
        windows = {rank: case.presence.window(rank, at) for rank in group.ranks}
        lasts = {rank: window[1] for rank, window in windows.items() if window is not None}
        if len(set(lasts.values())) < 2 or not _is_eventless(scene, at, lasts):
            continue
        behind = [rank for rank, last in lasts.items() if last < max(lasts.values())]
        what = f"{rank_words(behind)} never came to #{max(lasts.values())} of {group_words(group)}, others did"
        yield _question("no_completion_events", f"{what}; whether they wait there is not recorded", behind)
        return


def _about_stillness(scene: Scene) -> Iterator[Undecided]:
    """Yield that a watcher found the job standing still, while no call has waited for long."""
    case = scene.case
    dumps = case.table.dumps
    still = {dump.rank: seconds for dump in dumps if (seconds := still_seconds(dump.sidecar)) is not None}
    pending = sum(map(len, case.pending_of.values()))
    if not still or not (pending or len(still) == len({dump.rank for dump in dumps})):
        return
    said = f"the watcher says that nothing moved for {max(still.values()):.1f} s"
    if pending:
        calls = "1 call that had not ended is" if pending == 1 else f"{pending} calls that had not ended are"
        its, counts = ("its", "counts") if pending == 1 else ("their", "count")
        limit = f"{case.options.wait_limit_seconds:g} s, and than a tenth of {its} timeout"
        what = f"{said}, while {calls} younger than {limit}, and {counts} as in flight"
        yield _question("stood_still", what, [*still])
    else:
        yield _question("stood_still", f"{said}, and no dump shows a call that waits", [*still])


def _is_eventless(scene: Scene, group: int, ranks: Iterable[int]) -> bool:
    case = scene.case
    ats = [case.presence.dump_of(rank, group) for rank in ranks]
    return all(at is not None and case.table.dumps[at].eventless and case.comparable(group) for at in ats)


def _about_slowness(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    for late in scene.late:
        if is_clock(late):
            what = f"rank {late.rank} looks {late.median_ms:.0f} ms late, which the offset of its clock may explain"
            yield _question("clock_unknown", what, (late.rank,), blocks=not findings)
    if not any(len(group.ranks) > 1 for group in scene.case.table.groups):
        yield _question("membership_unknown", "no group has two ranks that could be compared")


def _about_values(scene: Scene, findings: Sequence[Finding]) -> Iterator[Undecided]:
    if not scene.case.evidence.tensors:
        yield _question("no_values", "the dumps hold no values, so where a NaN began cannot be told")
    elif scene.values.unmatched:
        record = scene.values.unmatched[0]
        what = f"a tensor record names #{record.seq} of group {record.group} on rank {record.rank}, no dump does"
        yield _question("no_values", what, (record.rank,), blocks=not findings)
    elif scene.values.gap is not None:
        first = scene.values.origins[0]
        known = f"earliest known: {call_words(scene.case, first.rows[0])}, {rank_words(first.ranks or first.victims)}"
        yield _question("no_values", f"{scene.values.gap}; {known}", first.ranks)
    if scene.values.gone:
        yield _gone(scene, findings)


def _gone(scene: Scene, findings: Sequence[Finding]) -> Undecided:
    """Return that values were not finite for a time, of which nobody is accused."""
    case, rows = scene.case, scene.values.gone
    ranks = sorted({case.rank(row) for row in rows})
    what = (
        f"{rank_words(ranks)}: values that are not finite, first in {call_words(case, rows[0])}, are gone in later "
        "calls: left out, as a scaler of the loss does, or meant so, as padding and the start of a maximum; steps and "
        "loaded checkpoints, which would tell more, are not recorded"
    )
    step = "look at what the program did there; a recording of the job holds its steps and checkpoints"
    return Undecided("no_values", what, step, tuple(ranks), case.options.about == "nan" and not findings)
