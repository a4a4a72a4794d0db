"""How a diagnosis is laid out on a terminal."""

import dataclasses

from provstore.cli._diagnosis_view import LINE_LIMIT, diagnosis_lines
from provstore.model.finding import Culprit, Diagnosis, Evidence, Finding, GroupName, Hop, LastCall, Source, Undecided

SOURCE = Source("/opt/job/train.py", 165, "step", 0)
FINDING = Finding(
    key="k1",
    code="host",
    kind="host",
    summary=(
        "rank 3: never entered all_reduce #7 of default_pg (0); ranks 0-2 wait there at train.py:165; "
        "its last call was #6. Host side."
    ),
    confidence="certain",
    culprits=(Culprit(3, "node07"),),
    victims=(0, 1, 2),
    group=GroupName("0", "default_pg", (0, 1, 2, 3), "declared"),
    op="all_reduce",
    seq=7,
    source=SOURCE,
    chain=(
        Hop(0, "waits in all_reduce #7 of default_pg (0)", "waits", source=SOURCE),
        Hop(3, "did not enter it", "absent"),
    ),
    caveats=("clocks of hosts may differ",),
    alternatives=("a crash without a dump",),
    next_step="look at the Python stack of rank 3 on node07",
)
DIAGNOSIS = Diagnosis(
    "my-job", 0, "findings", (FINDING,),
    last_calls=(LastCall((3,), "all_reduce #6, done"), LastCall((0, 1, 2), "all_reduce #7, pending")),
    coverage={"ranks_expected": 4, "ranks_seen": [0, 1, 2, 3], "calls": 27},
)  # fmt: skip


def texts(diagnosis, width=80, **options):
    return [line.text for line in diagnosis_lines(diagnosis, width=width, **options)]


def crowded(findings, hops, ranks):
    chain = tuple(Hop(rank, f"waits for rank {rank + 1} in recv of pipe_{rank}", "waits") for rank in range(hops))
    many = tuple(
        dataclasses.replace(FINDING, key=str(at), chain=chain, caveats=tuple(f"caveat {n}" for n in range(9)))
        for at in range(findings)
    )
    last = tuple(LastCall((rank,), f"send {rank}->{rank + 1} #9 of PIPELINE_GROUP, pending") for rank in range(ranks))
    undecided = tuple(Undecided(f"ring_wrapped_{n}", "the ring has lost it", "raise the size") for n in range(9))
    return dataclasses.replace(DIAGNOSIS, findings=many, last_calls=last, undecided=undecided)


def test_a_finding_opens_with_its_summary_and_keeps_the_order_of_the_contract():
    lines = texts(DIAGNOSIS, width=300)
    labels = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]

    assert lines[0] == "my-job, attempt 0: 1 finding"
    assert lines[3] == FINDING.summary
    assert labels == ["class", "chain", "culprit", "victims", "last", "caveat", "or", "next"]


def test_culprits_and_victims_stand_apart_with_host_and_folded_ranks():
    lines = texts(DIAGNOSIS)

    assert "  culprit  rank 3 on node07" in lines
    assert "  victims  ranks 0-2" in lines


def test_nothing_is_wider_than_the_terminal():
    assert max(map(len, texts(crowded(3, 30, 64)))) <= 80


def test_an_answer_fits_forty_lines_however_much_there_is_to_say():
    for findings, hops, ranks in ((1, 3, 4), (1, 40, 16), (2, 16, 16), (9, 40, 256)):
        assert len(texts(crowded(findings, hops, ranks))) <= LINE_LIMIT


def test_every_finding_keeps_its_first_line_when_a_few_of_them_crowd():
    shown = "\n".join(texts(crowded(4, 20, 16), width=300))

    assert shown.count("never entered all_reduce #7") == 4


def test_verbose_leaves_nothing_out():
    shown = "\n".join(texts(crowded(3, 30, 64), verbose=True))

    assert "--verbose" not in shown
    assert "pipe_29" in shown
    assert "caveat 8" in shown


def test_a_cut_chain_says_how_many_hops_it_leaves_out_and_keeps_both_ends():
    shown = "\n".join(texts(crowded(1, 40, 16)))

    assert "rank 0: waits" in shown
    assert "rank 39: waits" in shown
    assert "hops …" in shown


def test_control_characters_of_a_dump_are_spelled_not_obeyed():
    hostile = dataclasses.replace(FINDING, summary="rank 3: \x1b[2J[bold]all_reduce[/bold]\r\n of \u202egroup\x9b31m")

    shown = "\n".join(texts(dataclasses.replace(DIAGNOSIS, findings=(hostile,)), width=200))

    assert r"rank 3: \x1b[2J[bold]all_reduce[/bold]\x0d\x0a of \u202egroup\x9b31m" in shown


def test_what_blocks_the_answer_comes_before_what_only_limits_it():
    open_, limit = (
        Undecided("no_values", "the dumps hold no values", "record tensors"),
        Undecided("clock_unknown", "clocks differ", "", blocks_answer=False),
    )
    lines = texts(Diagnosis("j", 0, "undecided", undecided=(limit, open_)))

    assert lines[0] == "j, attempt 0: cannot decide"
    assert [line.split()[0] for line in lines if "no_values" in line or "clock_unknown" in line] == ["open", "limit"]


def test_what_could_not_be_used_is_named_with_its_reason():
    coverage = {
        "ranks_expected": 4, "ranks_seen": [0, 1], "ranks_missing": [3], "ranks_refused": [2], "calls": 1,
        "wrapped": [0, 1],
        "refused_files": [{"file": "dump_2", "reason": "the pickle ends at byte 17"}], "skipped_files": [],
    }  # fmt: skip
    lines = texts(dataclasses.replace(DIAGNOSIS, coverage=coverage), width=200)

    assert lines[1:3] == [
        "2 of 4 ranks · 1 call · no dump of rank 3 · refused dump of rank 2 · ring wrapped on ranks 0-1",
        "  refused  dump_2: the pickle ends at byte 17",
    ]


def test_a_tie_names_the_ranks_it_lies_between_and_calls_none_of_them_a_victim():
    tie = dataclasses.replace(FINDING, kind="mismatch", culprits=(), victims=(0, 1, 2))
    reason = Undecided("tie", FINDING.summary, "ask both", (0, 1), blocks_answer=False)
    lines = texts(dataclasses.replace(DIAGNOSIS, findings=(tie,), undecided=(reason,)), width=200)

    assert "  culprit  not decided: rank 0 or rank 1" in lines
    assert "  victims  rank 2" in lines
    assert sum(FINDING.summary in line for line in lines) == 1


def test_the_sides_of_a_tie_are_told_once():
    evidence = tuple(Evidence(f"dump_{rank}", "d", rank) for rank in (0, 1, 2))
    tie = dataclasses.replace(
        FINDING, kind="mismatch", culprits=(), victims=(), evidence=evidence,
        alternatives=("ranks 0,1 wrong", "rank 2 wrong"),
    )  # fmt: skip
    reason = Undecided("tie", "who is wrong: ranks 0,1 wrong or rank 2 wrong", "ask", (0, 1, 2), blocks_answer=False)
    lines = texts(dataclasses.replace(DIAGNOSIS, findings=(tie,), undecided=(reason,)), width=200)

    assert "  culprit  not decided: ranks 0,1 or rank 2" in lines
    assert sum("wrong" in line or "victims" in line for line in lines) == 0


def test_a_hang_of_all_members_has_no_line_for_a_culprit():
    nobody = dataclasses.replace(FINDING, kind="collective_hang", culprits=())

    assert not any("culprit" in line for line in texts(dataclasses.replace(DIAGNOSIS, findings=(nobody,))))


def test_findings_shown_in_brief_say_where_the_rest_of_them_is():
    shown = "\n".join(texts(crowded(4, 20, 16), width=300))

    assert "--verbose shows the chain and the next step of each" in shown


def test_ranks_that_a_text_begins_with_are_not_repeated_behind_it():
    reason = Undecided("missing_dump", "ranks 0,1,3: no dump", "collect them", (0, 1, 3))
    lines = texts(Diagnosis("j", 0, "undecided", undecided=(reason,)))

    assert "  open     missing_dump: ranks 0,1,3: no dump" in lines


def test_a_healthy_answer_names_calls_that_had_not_ended_and_from_when_on_they_count_as_waiting():
    coverage = {"ranks_expected": 3, "ranks_seen": [0, 1, 2], "calls": 67, "pending": 4}
    healthy = Diagnosis("my-job", 0, "healthy", coverage=coverage)
    said = " ".join(" ".join(texts(healthy)).split())

    assert "nothing waits" not in said
    assert "healthy, nothing has waited for long and nothing disagrees" in said
    assert "4 calls had not ended when the dumps were written" in said
    assert "younger than 30 s, and than a tenth of its timeout, counts as in flight" in said
    ended = dataclasses.replace(healthy, coverage={**coverage, "pending": 0})
    assert texts(ended)[0] == "my-job, attempt 0: healthy, nothing waits and nothing disagrees"
    assert "not ended" not in " ".join(texts(ended))
