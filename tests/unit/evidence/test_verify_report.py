"""What a verification says: the same for the same bytes, never less for more, in fixed words, on separate axes."""

import random
import re
from dataclasses import replace

import pytest

from provstore.errors import InputError
from provstore.evidence.keys import PrivateKey
from provstore.evidence.verify.walk import FIRST_USE
from provstore.model import evidence_codes
from provstore.model.verification import ALWAYS, AXES, EXIT_OF
from tests.mutations import ANCHORS, MUTATIONS, applied, build
from tests.sealing import Log, losses, sealed, trusting
from tests.unit.evidence.verifying import LIMITS, asked, checked, codes, of

FORBIDDEN = ("tamper-proof", "immutable", "guaranteed", "complete ")


@pytest.fixture(scope="module")
def model():
    return build()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.number)
def test_the_same_bytes_give_the_same_report(model, mutation):
    log = applied(mutation.edits(model), model.log)
    anchors = [*model.anchors("half"), *model.anchors("full")]

    assert checked(log, model.trust, anchors) == checked(log.copy(), model.trust, list(reversed(anchors)))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.number)
def test_every_code_and_axis_is_a_known_one_and_no_text_promises_too_much(model, mutation):
    known = {code.name for code in evidence_codes.EVIDENCE}
    for setting in ANCHORS:
        answer = checked(applied(mutation.edits(model), model.log), model.trust, model.anchors(setting))
        said = [*answer.limits, *(one.text for one in answer.findings)]

        assert set(codes(answer)) <= known
        assert set(answer.axes) == set(AXES)
        assert set(answer.axes.values()) <= {"ok", "fault", "unproven", "unknown", "not-checked"}
        assert not any(word in text for text in said for word in FORBIDDEN)
        assert all(text.endswith(".") for text in said)
        assert list(answer.findings) == sorted(answer.findings, key=lambda one: one.order())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.number)
def test_an_axis_is_as_bad_as_its_findings(model, mutation):
    answer = checked(applied(mutation.edits(model), model.log), model.trust, model.anchors("full"))
    accused = any(EXIT_OF.get(code, 1) in {1, 5} for code in codes(answer))

    assert ("fault" in answer.axes.values()) is accused


def test_what_needs_the_graph_or_the_journal_is_not_checked():
    axes = checked(sealed([4])).axes

    assert (axes["graph"], axes["journal"]) == ("not-checked", "not-checked")
    assert {axes[name] for name in AXES if name not in {"graph", "journal", "anchor", "closing"}} == {"ok"}


def test_nothing_is_ok_that_was_not_looked_at():
    axes = checked(Log([], []), trusting(PrivateKey.generate())).axes

    assert set(axes.values()) == {"not-checked", "unknown"}
    assert axes["signature"] == "unknown"


def test_every_report_says_what_signatures_cannot_show():
    for log in (sealed([4]).log(), Log([], [])):
        assert checked(log, trusting(PrivateKey.generate())).limits[-1] == ALWAYS
    assert ALWAYS == (
        "Signatures show that what was recorded has not changed. They cannot show that everything was recorded, "
        "nor that a rank told the truth."
    )


def test_keys_that_were_believed_because_they_came_first_are_told():
    made = sealed([4])
    trust = replace(trusting(made.key), first_use=True)

    assert FIRST_USE in checked(made, trust).limits
    assert FIRST_USE not in checked(made).limits


def test_a_report_has_no_time_of_its_own(model):
    answer = checked(model.log, model.trust)

    assert not re.search(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", str(answer.findings) + str(answer.limits))


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00+01:00"])
def test_a_time_of_verification_that_is_none_is_refused(moment):
    with pytest.raises(InputError):
        checked(sealed([4]), at=moment)


def faulty_places(log):
    return [(one.code, one.epoch, one.seq, one.where, one.text) for one in log.findings if one.code not in LIMITS]


MONOTONE = [mutation for mutation in MUTATIONS if mutation.number in {*range(1, 6), 9, 12, 13, 15, 16, 17, 18, 19}]


@pytest.mark.parametrize("mutation", MONOTONE, ids=lambda one: one.number)
def test_adding_a_valid_bundle_removes_no_earlier_finding(mutation):
    model = build()
    before = checked(applied(mutation.edits(model), model.log), model.trust, model.anchors("half"))
    model.sealing.add(losses(240)[200:])
    after = checked(applied(mutation.edits(model), model.log), model.trust, model.anchors("half"))

    assert faulty_places(before) != []
    assert set(faulty_places(before)) <= set(faulty_places(after))


@pytest.mark.parametrize("number", [6, 7, 8, 10, 14])
def test_adding_a_valid_bundle_removes_no_code_where_its_place_moves(number):
    mutation = MUTATIONS[number - 1]
    model = build()
    before = set(codes(checked(applied(mutation.edits(model), model.log), model.trust))) - LIMITS
    model.sealing.add(losses(240)[200:])
    after = set(codes(checked(applied(mutation.edits(model), model.log), model.trust)))

    assert before
    assert before <= after


def test_the_order_in_which_anchors_are_given_says_nothing(model):
    anchors = [model.sealing.anchor(size, source=f"held {size}") for size in range(1, 201, 20)]
    shuffled = random.Random(5).sample(anchors, len(anchors))

    assert checked(model.log, model.trust, anchors) == checked(model.log, model.trust, shuffled)


def test_a_run_with_any_name_is_verified():
    for run in ("", "%", "a/b", "ü 火\n\x1b[31m", "x" * 3000, "1+1 \\\"'", "(.*)+$"):
        made = sealed([3, 3], run=run)
        answer = checked(made, anchors=[made.anchor(6)])

        assert codes(answer) == ["not-closed"], run
        assert answer.head_note is not None


def test_many_bundles_over_one_range_are_a_cap_and_no_burden():
    made = sealed([1], wall="2026-03-01T12:00:00Z")
    for size in range(2, 90):
        made.add(losses(size)[size - 1 :], first=0)
    answer = checked(made)

    assert of(answer, "cap-exceeded")
    assert asked(answer)[0] == "fault"


def test_nothing_odd_between_epochs_costs_the_walk_its_place():
    made = sealed([2, 2])
    made.put(replace(made.epochs[1], number=2, first=1, size=3, prev="0" * 64))
    answer = checked(made)

    assert {"chain-broken", "range-gap", "root-mismatch", "subject-mismatch"} <= set(codes(answer))
