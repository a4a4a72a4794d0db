"""The end of a run, the recording policy, and the clocks."""

import pytest

from provstore.evidence import actions
from provstore.evidence.keys import PrivateKey
from provstore.evidence.statement import Policy
from provstore.model.action import Action
from provstore.model.evidence import BundleAt
from provstore.model.verification import NEVER_CLOSED
from tests.sealing import NOTHING, RUN, Sealing, line, loss, losses, sealed, trusting
from tests.unit.evidence.verifying import asked, checked, codes, faults, of, only


def closing(n=0, records=4, **own):
    return line("run-close", n, **({"reason": "finished", "records": records, "batches": 0} | own))


def closed_run():
    made = sealed([4])
    made.add([closing()])
    return made


def test_a_closed_run_says_so():
    answer = checked(closed_run())

    assert codes(answer) == ["unanchored"]
    assert answer.axes["closing"] == "ok"


def test_a_run_without_an_end_is_never_closed():
    answer = checked(sealed([4]))

    assert (
        only(answer, "not-closed").text
        == NEVER_CLOSED
        == "Run never closed: nobody has signed that these are all its records."
    )
    assert NEVER_CLOSED in answer.limits
    assert answer.axes["closing"] == "unproven"


def test_an_end_that_nobody_signed_is_none():
    made = sealed([4])
    log = made.log()
    log.lines.append(closing())
    answer = checked(log, trusting(made.key))

    assert {"not-closed", "unsigned-tail"} <= set(codes(answer))
    assert faults(answer) == []


def test_a_record_behind_the_end_is_named():
    made = closed_run()
    log = made.log()
    log.lines.append(loss(1, 0, 5))
    answer = checked(log, trusting(made.key))

    assert faults(answer) == ["after-close"]
    assert only(answer, "after-close").seq == 5


def test_a_signed_record_behind_the_end_is_named_with_its_bundle():
    made = closed_run()
    made.add([loss(1, 0, 5)])
    answer = checked(made)

    assert faults(answer) == ["after-close"]
    assert [(one.epoch, one.seq) for one in of(answer, "after-close")] == [(2, 5), (2, 5)]
    assert any("a bundle follows" in one.text for one in of(answer, "after-close"))
    assert any(
        "records follow the one that closed the run, 1 in number" in one.text for one in of(answer, "after-close")
    )


def test_an_end_inside_an_epoch_is_told_by_what_follows_it():
    made = sealed([4])
    made.add([closing(), loss(1, 0, 5)])
    answer = checked(made)

    assert faults(answer) == ["after-close"]
    assert only(answer, "after-close").epoch == 1


def test_a_run_ends_once():
    made = sealed([4])
    made.add([closing(), closing(1, records=5)])

    assert (only(checked(made), "after-close").epoch, only(checked(made), "after-close").seq) == (1, 5)


def test_a_bundle_that_closes_without_a_record_that_does_is_told():
    made = sealed([4])
    made.add(losses(8)[4:], closed=True)
    answer = checked(made)

    assert faults(answer) == ["close-mismatch"]
    assert (only(answer, "close-mismatch").epoch, only(answer, "close-mismatch").seq) == (1, 7)
    assert "its bundle closes the run, but the last of its records does not" in only(answer, "close-mismatch").text
    assert asked(answer, "open", "unanchored") == ("fault", 1)


def test_records_behind_a_bundle_that_closes_are_told_without_a_record_that_does():
    made = sealed([4])
    made.add(losses(8)[4:], closed=True)
    log = made.log()
    log.lines.append(loss(2, 0, 9))

    assert "after-close" in faults(checked(log, trusting(made.key)))


def test_a_record_that_closes_in_a_bundle_that_does_not_is_told():
    made = sealed([4])
    made.add([closing()], closed=False)
    answer = checked(made)

    assert faults(answer) == ["close-mismatch"]
    assert "the last of its records closes the run, but its bundle does not" in only(answer, "close-mismatch").text
    assert "not-closed" in codes(answer)


def test_the_total_in_the_last_record_must_be_right():
    made = sealed([4])
    made.add([closing(records=5)])

    assert faults(checked(made)) == ["close-mismatch"]


def policy(n, mode, reason, **own):
    return line("policy", n, mode=mode, reason=reason, document=[], **own)


def ingest(n, mode, reason):
    facts = {"encoding": "lines", "rows": 1, "sha256": "0" * 64}
    return line("ingest", n, batch=n, facts=facts, policy={"mode": mode, "reason": reason}, quarantined=0, source=None)


def test_a_policy_that_fits_its_records_is_ok():
    made = sealed([4])
    made.add([policy(0, "full", "audit")])
    made.add([ingest(1, "full", "audit"), ingest(2, "delta", "load"), ingest(3, "delta", "later")])
    made.add([loss(1, 0, 4)])

    assert made.epochs[2].policy == Policy(made.epochs[1].policy.digest, "delta", "load")
    assert made.epochs[3].policy.mode == "full"
    assert faults(checked(made)) == []
    assert checked(made).axes["policy"] == "ok"


@pytest.mark.parametrize(
    "stated",
    [
        Policy("1" * 64, "validation", "no recording policy is stated"),
        Policy(NOTHING, "full", "no recording policy is stated"),
        Policy(NOTHING, "validation", "another reason"),
    ],
)
def test_a_signed_policy_that_no_record_states_is_told(stated):
    made = sealed([4])
    made.add(losses(8)[4:], policy=stated)
    answer = checked(made)

    assert faults(answer) == ["policy-mismatch"]
    assert only(answer, "policy-mismatch").epoch == 1
    said = f"signs policy {stated.digest[:16]}" if stated.digest != NOTHING else f"mode {stated.mode} ({stated.reason})"
    assert said in only(answer, "policy-mismatch").text
    assert answer.axes["policy"] == "fault"


@pytest.mark.parametrize("claimed", ["full", "delta"])
def test_a_bundle_cannot_claim_a_stronger_mode_than_its_weakest_record(claimed):
    made = sealed([4])
    made.add([policy(0, "full", "audit"), ingest(1, "validation", "load")])
    made.add([policy(2, "validation", "load"), ingest(3, "full", "audit")])
    assert faults(checked(made)) == []

    digest = made.epochs[-1].policy.digest
    made.add([ingest(4, "validation", "load")], policy=Policy(digest, claimed, "load"))
    assert faults(checked(made)) == ["policy-mismatch"]


def test_a_changed_policy_record_is_the_cause_of_what_follows():
    made = sealed([4])
    made.add([policy(0, "full", "audit")])
    log = made.log()
    log.lines[4] = policy(0, "full", "other")
    answer = checked(log, trusting(made.key))

    assert only(answer, "policy-mismatch").cause == "root-mismatch"


def walls(*times):
    made = Sealing(PrivateKey.generate())
    lines = losses(len(times))
    for at, wall in enumerate(times):
        made.add([lines[at]], wall=wall)
    return made


@pytest.mark.parametrize(
    ("times", "epochs"),
    [
        (("2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:01.5Z"), []),
        (("2026-03-01T12:00:00Z", "2026-03-01T11:59:59Z", "2026-03-01T12:00:00Z"), [1]),
        (("2026-03-01T12:00:00.000000002Z", "2026-03-01T12:00:00.000000001Z"), [1]),
        (("2026-03-01T12:00:00Z", "2036-03-01T12:00:00Z"), [1]),
        (("2026-03-01T12:00:00Z", "2036-02-01T12:00:00Z"), []),
        (("2026-03-01T12:00:00Z", "2016-03-01T12:00:00Z"), [1]),
        (("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"), []),
        (("2026-02-30T12:00:00Z",), [0]),
    ],
)
def test_a_clock_that_goes_back_or_jumps_is_a_note(times, epochs):
    answer = checked(walls(*times))

    assert [one.epoch for one in of(answer, "clock-odd")] == epochs
    assert asked(answer, "open", "unanchored")[1] == 0
    assert answer.axes["clock"] == ("unproven" if epochs else "ok")


@pytest.mark.parametrize(
    ("at", "odd"), [("2036-03-02T00:00:00Z", True), ("2016-02-28T00:00:00Z", True), ("2026-04-01T00:00:00Z", False)]
)
def test_a_clock_ten_years_from_the_time_of_the_verification_is_a_note(at, odd):
    answer = checked(walls("2026-03-01T12:00:00Z"), at=at)

    assert ("clock-odd" in codes(answer)) is odd


def test_the_clock_of_each_rank_is_judged_by_itself_and_named_once():
    made = Sealing(PrivateKey.generate())
    times = [(0, 5_000), (1, 9_000), (0, 4_000), (1, 9_001), (0, 3_000), (1, 9_001 + 10**19 // 20)]
    made.add([loss(at // 2, rank, at, at=f"i64:{time}") for at, (rank, time) in enumerate(times)])
    answer = checked(made)

    assert [(one.rank, one.seq, one.epoch) for one in of(answer, "clock-odd")] == [(0, 2, 0), (1, 5, 0)]


def test_an_empty_place_is_no_closed_run():
    log = sealed([4]).log()
    log.lines, log.signed = [], [BundleAt(b"", None, "bundle 0")]
    answer = checked(log, trusting(PrivateKey.generate()))

    assert "not-closed" in codes(answer)


def acted(n, op, mode, demanded, reason):
    return actions.record_line(Action(f"{op}/{n}", op, 1, 5, "read", mode, demanded, reason), RUN, 0, n)


@pytest.mark.parametrize("op", ["all_reduce", "é"], ids=["a plain one", "one for the strict reader"])
@pytest.mark.parametrize(
    ("stated", "fits"),
    [
        (("validation", "why"), True),
        (("validation", "other"), False),
        (("validation", "no recording policy is stated"), False),
        (("delta", "why"), False),
    ],
)
def test_actions_state_the_weakest_mode_that_they_have_and_why_the_strongest_was_demanded(op, stated, fits):
    made = sealed([4])
    lines = [acted(1, op, "delta", "full", "why"), acted(2, op, "validation", "delta", "other")]
    made.add(lines, policy=Policy(NOTHING, *stated))

    assert faults(checked(made)) == ([] if fits else ["policy-mismatch"])
