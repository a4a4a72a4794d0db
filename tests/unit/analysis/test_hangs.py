"""Who is named when a job hangs, and who is not: cases small enough to be judged by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from provstore.analysis import Options, diagnose
from provstore.analysis.diagnoses.host import HIDDEN_P2P, IN_FLIGHT
from provstore.model.dump import COMPLETED, RECV, SCHEDULED, SEND, STARTED, Dump, DumpSet, Group, Refusal, Sidecar
from provstore.model.finding import Diagnosis, Finding
from tests.hand_dumps import SECOND, Row, dump, ring, world


def judged(dumps: Sequence[Dump], **facts: object) -> Diagnosis:
    return diagnose(DumpSet("run", 0, dumps, **facts))  # type: ignore[arg-type]


def only(answer: Diagnosis) -> Finding:
    (finding,) = answer.findings
    return finding


def named(finding: Finding) -> list[int]:
    return [culprit.rank for culprit in finding.culprits]


def done(count: int) -> list[Row]:
    return [Row(seq) for seq in range(count)]


def waiting(seq: int, **facts: object) -> Row:
    return Row(seq, state=SCHEDULED, retired=0, **facts)  # type: ignore[arg-type]


def aged(one: Dump, seconds: float) -> Dump:
    """Return the dump as written ``seconds`` after its last call was made."""
    return replace(
        one, sidecar=Sidecar("0" * 64, one.rank, dumped_at_ns=one.calls.created_ns[-1] + int(seconds * SECOND))
    )


def test_a_job_whose_calls_are_all_done_is_healthy() -> None:
    answer = judged(ring())
    assert (answer.status, answer.findings, answer.undecided) == ("healthy", (), ())


def test_the_one_rank_that_did_not_enter_is_held_up_on_the_host() -> None:
    finding = only(judged([dump(rank, [*done(3), *([waiting(3)] if rank != 2 else [])]) for rank in range(4)]))
    assert (finding.kind, named(finding), finding.victims, finding.seq) == ("host", [2], (0, 1, 3), 3)
    assert (finding.confidence, finding.alternatives) == ("probable", (IN_FLIGHT,))


def test_the_same_rank_without_a_dump_is_called_dead_and_the_open_question_stays() -> None:
    answer = judged([dump(rank, [*done(3), waiting(3)]) for rank in range(4) if rank != 2])
    finding = only(answer)
    assert (finding.kind, named(finding)) == ("dead", [2])
    assert len(finding.alternatives) == 2
    assert [item.code for item in answer.undecided] == ["missing_dump"]


def test_a_dump_that_could_not_be_read_is_weaker_evidence_of_death() -> None:
    dumps = [dump(rank, [*done(3), waiting(3)]) for rank in range(4) if rank != 2]
    answer = judged(dumps, refusals=[Refusal("rank_2", "truncated", rank=2)])
    assert only(answer).confidence == "possible"
    assert [item.code for item in answer.undecided] == ["refused_dump"]


def test_a_missing_file_of_a_job_that_waits_for_nothing_names_nobody() -> None:
    answer = judged(ring()[1:])
    assert (answer.status, answer.findings) == ("undecided", ())
    assert [(item.code, item.ranks) for item in answer.undecided] == [("missing_dump", (0,))]


def test_a_call_that_peers_completed_points_to_the_device_of_the_rank_that_has_it_pending() -> None:
    stuck = dump(1, [*done(3), waiting(3)])
    finding = only(judged([stuck, *(dump(rank, [*done(4), waiting(4)]) for rank in (0, 2, 3))]))
    assert (finding.kind, named(finding), finding.seq) == ("device", [1], 3)
    assert finding.victims == (0, 2, 3)


def test_a_completion_not_yet_noticed_that_holds_nobody_up_is_no_fault() -> None:
    late = dump(1, [*done(3), waiting(3)])
    assert judged([late, *(dump(rank, done(4)) for rank in (0, 2, 3))]).status == "healthy"


def test_a_root_that_is_done_does_not_accuse_a_receiver_while_another_is_missing() -> None:
    root = dump(0, [*done(2), Row(2, "broadcast")])
    receivers = [dump(rank, [*done(2), waiting(2, op="broadcast")]) for rank in (1, 2)]
    finding = only(judged([root, *receivers, dump(3, done(2))]))
    assert (finding.kind, named(finding)) == ("host", [3])


def test_a_call_with_all_members_inside_names_the_group_and_nobody_in_it() -> None:
    finding = only(judged([dump(rank, [*done(2), waiting(2)]) for rank in range(4)]))
    assert (finding.kind, finding.culprits, finding.victims) == ("collective_hang", (), (0, 1, 2, 3))


def test_the_members_that_had_not_started_are_named_when_others_had() -> None:
    states = {0: STARTED, 1: STARTED, 2: SCHEDULED, 3: STARTED}
    dumps = [dump(rank, [*done(2), Row(2, state=state, retired=0)]) for rank, state in states.items()]
    finding = only(judged(dumps))
    assert (finding.kind, named(finding)) == ("collective_hang", [2])


@pytest.mark.parametrize(("seconds", "kinds"), [(5, []), (60, ["host"])])
def test_a_young_wait_is_in_flight_and_an_old_one_a_hang(seconds: float, kinds: list[str]) -> None:
    dumps = [aged(dump(rank, [*done(3), waiting(3)]), seconds) for rank in (0, 1, 3)]
    answer = judged([*dumps, aged(dump(2, done(3)), seconds)])
    assert [finding.kind for finding in answer.findings] == kinds


def test_without_a_dump_time_the_finding_says_so() -> None:
    finding = only(judged([dump(rank, [*done(3), *([waiting(3)] if rank else [])]) for rank in range(4)]))
    assert any("time of the dump" in text for text in finding.caveats)


def test_ranks_in_opposite_order_are_a_deadlock_of_both() -> None:
    groups = [Group("a", "a", (0, 1), "nccl", "pg_config"), Group("b", "b", (0, 1), "nccl", "pg_config")]
    dumps = [dump(rank, [waiting(0, group=rank, line=10 + rank)], groups, ranks=2) for rank in (0, 1)]
    finding = only(judged(dumps))
    assert (finding.kind, named(finding)) == ("order_deadlock", [0, 1])
    assert [hop.rank for hop in finding.chain] in ([0, 1], [1, 0])


def test_a_deadlock_runs_through_as_many_ranks_as_it_takes() -> None:
    pairs = [Group(f"p{at}", "pair", (at, (at + 1) % 5), "nccl", "pg_config") for at in range(5)]
    dumps = [dump(rank, [waiting(0, group=0, line=rank)], [pairs[rank], pairs[rank - 1]]) for rank in range(5)]
    assert named(only(judged(dumps))) == [0, 1, 2, 3, 4]


def test_two_faults_in_different_groups_are_two_findings() -> None:
    left, right = (Group(str(at), "tp", ranks, "nccl", "pg_config") for at, ranks in ((1, (0, 1)), (2, (2, 3))))
    dumps = [
        dump(0, [*done(2), waiting(2)], [left]),
        dump(1, done(2), [left]),
        dump(2, [*done(2), waiting(2)], [right]),
        dump(3, done(2), [right]),
    ]
    assert [named(finding) for finding in judged(dumps).findings] == [[1], [3]]


def test_the_chain_leads_from_a_rank_that_waits_behind_others_to_the_cause() -> None:
    pair = Group("7", "tp", (1, 2), "nccl", "pg_config")
    dumps = [
        dump(0, [*done(2), waiting(2)], [world(3), pair], ranks=3),
        dump(1, [*done(2), waiting(0, group=1), waiting(2)], [world(3), pair], ranks=3),
        dump(2, done(2), [world(3), pair], ranks=3),
    ]
    finding = only(judged(dumps))
    assert (named(finding), finding.victims) == ([2], (0, 1))
    assert (finding.group and finding.group.name, finding.seq) == ("7", 0)
    assert finding.chain[-1].rank in (0, 1)


def test_a_receive_whose_send_was_never_posted_leads_to_the_sender() -> None:
    pipeline = [Group("0", "pp", (0, 1), "nccl", "pg_config")]
    sender = dump(0, [Row(0, "send", channel=SEND, peer=1)], pipeline)
    receiver = dump(
        1, [Row(0, "recv", channel=RECV, peer=0), waiting(0, op="recv", channel=RECV, peer=0, line=20)], pipeline
    )
    finding = only(judged([sender, receiver]))
    assert (finding.kind, named(finding), finding.op, finding.channel) == ("host", [0], "send", "p2p")


def test_a_send_and_receive_that_both_wait_are_a_hang_of_the_two() -> None:
    pipeline = [Group("0", "pp", (0, 1), "nccl", "pg_config")]
    dumps = [
        dump(0, [waiting(0, op="send", channel=SEND, peer=1)], pipeline),
        dump(1, [waiting(0, op="recv", channel=RECV, peer=0)], pipeline),
    ]
    finding = only(judged(dumps))
    assert (finding.kind, finding.culprits) == ("collective_hang", ())


def test_a_member_whose_ring_has_gone_far_beyond_a_call_is_not_absent_from_it() -> None:
    ahead = replace(dump(0, [Row(seq, record_id=100 + seq) for seq in range(50, 60)]), wrapped=True)
    behind = [dump(rank, [*done(5), waiting(5, op="broadcast")]) for rank in (1, 2)]
    assert named(only(judged([ahead, *behind, dump(3, done(5))]))) == [3]


def test_a_group_that_a_wrapped_ring_has_lost_leaves_the_answer_open() -> None:
    pair = Group("7", "tp", (0, 1), "nccl", "pg_config")
    lost = replace(dump(0, [Row(seq, record_id=100 + seq) for seq in range(5)], [world(2), pair]), wrapped=True)
    answer = judged([lost, dump(1, [waiting(3, group=1)], [world(2), pair])])
    assert (answer.status, answer.findings) == ("undecided", ())
    assert "ring_wrapped" in {item.code for item in answer.undecided}


def test_a_rank_that_never_made_the_group_did_not_enter_its_call() -> None:
    pair = Group("7", "tp", (0, 1), "nccl", "pg_config")
    answer = judged([dump(0, done(3), [world(2)]), dump(1, [*done(3), waiting(0, group=1)], [world(2), pair])])
    assert named(only(answer)) == [0]


def test_the_status_table_tells_where_a_rank_with_an_empty_dump_stands() -> None:
    stated = replace(world(4), last_enqueued=2, last_completed=2, backend="")
    empty = replace(dump(2, [], [stated]), backend="", active_only=True)
    active = [
        replace(
            dump(rank, [waiting(3, record_id=9)], [replace(world(4), last_enqueued=3, last_completed=2)]),
            active_only=True,
        )
        for rank in (0, 1, 3)
    ]
    finding = only(judged([empty, *active]))
    assert (finding.kind, named(finding), finding.seq) == ("host", [2], 3)


def test_an_eventless_call_that_others_left_is_settling_and_no_fault() -> None:
    rows = [Row(seq, state=SCHEDULED) for seq in range(3)]
    dumps = [dump(rank, rows, backend="gloo", eventless=True) for rank in range(3)]
    late = dump(3, [*rows[:2], waiting(2)], backend="gloo", eventless=True)
    assert judged([*dumps, late]).status == "healthy"


def test_a_backend_that_retires_everything_at_once_is_no_hang() -> None:
    dumps = [
        dump(rank, [Row(seq, state=SCHEDULED) for seq in range(5)], backend="fake", eventless=True) for rank in range(4)
    ]
    assert judged(dumps).status == "healthy"


def test_an_idle_rank_in_a_job_with_hidden_sends_is_at_most_possible() -> None:
    rows = [Row(seq, state=SCHEDULED, op_id=seq * 3 + 1) for seq in range(3)]
    waits = [dump(rank, [*rows, waiting(3, op_id=10)], backend="gloo", eventless=True) for rank in (0, 1, 3)]
    finding = only(judged([*waits, dump(2, rows, backend="gloo", eventless=True)]))
    assert (finding.kind, named(finding), finding.confidence) == ("host", [2], "possible")
    assert any("victim" in text for text in finding.alternatives)


def test_a_call_that_only_one_rank_makes_after_all_others_ended_is_one_too_many() -> None:
    finding = only(
        judged([dump(rank, [*done(3), *([waiting(3, line=99)] if rank == 5 else [])], ranks=8) for rank in range(8)])
    )
    assert (finding.kind, named(finding), finding.seq) == ("extra_call", [5], 3)


def test_asking_for_something_else_leaves_hangs_alone() -> None:
    dumps = [dump(rank, [*done(3), *([waiting(3)] if rank else [])]) for rank in range(4)]
    assert diagnose(DumpSet("run", 0, dumps), Options(about="slow")).findings == ()


def test_equal_evidence_gives_equal_findings_in_any_order_of_files() -> None:
    dumps = [dump(rank, [*done(3), *([waiting(3)] if rank != 2 else [])]) for rank in range(4)]
    assert judged(dumps) == judged(dumps[::-1])


def test_another_recorder_of_the_same_rank_is_no_proof_of_death() -> None:
    gloo = Group("0", "default_pg", (0, 1), "gloo", "pg_config")
    dumps = [
        dump(0, [*done(2), waiting(2)], [world(2)], ranks=2),
        dump(1, [Row(1, state=SCHEDULED)], [gloo], backend="gloo", eventless=True),
    ]
    answer = judged(dumps)
    assert answer.findings == ()
    assert "missing_dump" in {item.code for item in answer.undecided}


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_what_an_idle_rank_should_have_done_next_does_not_depend_on_the_clocks_of_those_that_wait(hours: int) -> None:
    """Rank 2 sent to 3, received from 1, and stopped: to send is what it did longest ago."""

    def in_ring(rank: int, at: int, channel: int, state: int, clock: int = 0) -> Row:
        when = (at + 1) * SECOND + clock
        op, peer = ("send", rank + 1) if channel == SEND else ("recv", rank - 1)
        return Row(at // 2, op, state, channel, peer % 4, retired=state // 2, record_id=at, created_ns=when)

    rows = {
        rank: [
            in_ring(rank, at, RECV if at % 2 else SEND, COMPLETED, hours * 3600 * SECOND * (rank == 1))
            for at in range(4)
        ]
        for rank in range(4)
    }
    rows[1].append(in_ring(1, 4, SEND, SCHEDULED, hours * 3600 * SECOND))
    rows[3].append(in_ring(3, 4, RECV, SCHEDULED))
    finding = only(judged([dump(rank, rows[rank]) for rank in range(4)]))
    assert (finding.kind, named(finding), finding.op) == ("host", [2], "send")


@pytest.mark.parametrize("receiver", [0, 3])
def test_how_sure_it_is_that_a_rank_stands_idle_does_not_depend_on_who_waits_first(receiver: int) -> None:
    dumps = [dump(2, done(3)), *(dump(rank, [*done(3), waiting(3)]) for rank in (0, 1, 3) if rank != receiver)]
    row = Row(2, "recv", SCHEDULED, RECV, 2, retired=0)
    dumps.append(dump(receiver, [*done(3), row]))
    findings = judged(dumps).findings
    assert [(one.kind, named(one), one.op, one.confidence) for one in findings] == [
        ("host", [2], "all_reduce", "probable")
    ]


def ended(last: str, line: int, late: int) -> list[Dump]:
    """Return a job without completion events that went round three times, then called ``last``; rank 0 is lost."""
    rows = [*done(3), Row(3, last, SCHEDULED, line=line)]
    return [
        dump(rank, [*rows[:-1], replace(rows[-1], retired=int(rank > late))], backend="gloo", eventless=True)
        for rank in (1, 2, 3)
    ]


def test_a_late_flag_of_what_may_be_the_last_call_is_no_sign_of_death() -> None:
    answer = judged(ended("barrier", line=20, late=1))
    assert (answer.status, answer.findings) == ("undecided", ())
    assert [(item.code, item.ranks) for item in answer.undecided] == [("missing_dump", (0,))]


@pytest.mark.parametrize(("last", "line", "late"), [("all_reduce", 10, 1), ("barrier", 20, 2), ("barrier", 20, 3)])
def test_waiting_in_the_midst_of_a_loop_or_most_ranks_waiting_is_a_sign_of_death(
    last: str, line: int, late: int
) -> None:
    finding = only(judged(ended(last, line, late)))
    assert (finding.kind, named(finding)) == ("dead", [0])


def test_a_dump_time_before_a_call_of_the_dump_says_nothing() -> None:
    dumps = [dump(rank, [*done(3), *([] if rank == 2 else [waiting(3)])]) for rank in range(4)]
    finding = only(judged([aged(one, -1) for one in dumps]))
    assert (finding.kind, named(finding)) == ("host", [2])


def test_dumps_without_any_call_are_not_healthy() -> None:
    answer = judged([dump(rank, []) for rank in range(4)])
    assert (answer.status, [item.code for item in answer.undecided]) == ("undecided", ["no_calls"])


def test_ranks_that_only_status_tables_show_behind_are_named() -> None:
    last = {rank: 12 if rank == 2 else 13 for rank in range(4)}
    groups = [[replace(world(4), last_enqueued=last[rank], last_completed=12)] for rank in range(4)]
    answer = judged([dump(rank, [], groups[rank]) for rank in range(4)])
    assert answer.status == "undecided"
    assert ("no_calls", (2,)) in [(item.code, item.ranks) for item in answer.undecided]


@pytest.mark.parametrize(("ranks", "seen"), [(64, [0]), (64, list(range(0, 64, 2))), (4, [3]), (10_000, [0, 1, 2, 3])])
def test_many_missing_dumps_are_one_question_and_no_accusation(ranks: int, seen: list[int]) -> None:
    answer = judged([dump(rank, [*done(3), waiting(3)], ranks=ranks) for rank in seen])
    assert (answer.status, answer.findings) == ("undecided", ())
    assert [item.code for item in answer.undecided] == ["missing_dump"]


def test_a_rank_without_dump_comes_after_one_that_is_proven_to_keep_the_same_ranks_waiting() -> None:
    dumps = [dump(rank, [*done(3), *([] if rank == 2 else [waiting(3)])], ranks=6) for rank in range(5)]
    found = [(one.kind, one.confidence, named(one)) for one in judged(dumps).findings]
    assert found == [("host", "probable", [2]), ("dead", "possible", [5])]


def test_sizes_beyond_64_bits_and_a_world_without_end_are_judged_all_the_same() -> None:
    huge = Row(0, inputs=((2**62, 2**62),))
    dumps = [dump(rank, [huge if rank == 1 else Row(0), Row(1)]) for rank in range(4)]
    dumps[0] = replace(dumps[0], sidecar=Sidecar("0" * 64, 0, world_size=2**60))
    answer = judged(dumps)
    assert answer.coverage["ranks_expected"] == 2**20
    assert [item.code for item in answer.undecided] == ["missing_dump"]


def test_only_a_dump_time_makes_it_certain_that_a_rank_stands_idle() -> None:
    dumps = [dump(rank, [*done(3), *([] if rank == 2 else [waiting(3)])]) for rank in range(4)]
    finding = only(judged([aged(one, 60) for one in dumps]))
    assert (finding.confidence, named(finding), finding.alternatives) == ("certain", [2], ())


def undeclared(rank: int, rows: Sequence[Row], numbers: Sequence[int]) -> Dump:
    """Return the dump of a backend without events, whose groups are told by name and process-local number only."""
    names = {0: ("0", "default_pg"), 1: ("1", "tp"), 2: ("2", "dp")}
    groups = [Group(*names[number], None, "gloo", "entries", pg_id=number) for number in numbers]
    return dump(rank, rows, groups, backend="gloo", eventless=True)


@pytest.mark.parametrize(
    ("numbers", "confidence", "why"),
    [((0,), "probable", ()), ((0, 1), "possible", (HIDDEN_P2P,)), ((0, 2), "possible", (HIDDEN_P2P,))],
)
def test_an_idle_rank_may_be_in_a_group_that_nobody_declares(
    numbers: Sequence[int], confidence: str, why: tuple[str, ...]
) -> None:
    rows = [row for seq in range(3) for row in (Row(seq), Row(seq, group=1)) if row.group < len(numbers)]
    last = {rank: [] if rank == 2 else [waiting(3)] for rank in range(4)}
    finding = only(judged([undeclared(rank, [*rows, *last[rank]], numbers) for rank in range(4)]))
    assert (finding.kind, named(finding), finding.confidence) == ("host", [2], confidence)
    assert finding.alternatives == (*why, IN_FLIGHT)


def test_of_several_ranks_that_may_be_in_an_unrecorded_send_nobody_is_named() -> None:
    rows = [row for seq in range(3) for row in (Row(seq), Row(seq, group=1))]
    answer = judged([undeclared(rank, rows + [waiting(3)] * (rank > 1), (0, 2)) for rank in range(4)])
    assert (answer.status, [item.code for item in answer.undecided]) == ("undecided", ["no_p2p_records"])
