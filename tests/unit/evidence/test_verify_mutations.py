"""Each of the 23 mutations gives its codes in each anchor setting, from the bytes of one place alone."""

import pytest

from tests.mutations import ANCHORS, MUTATIONS, applied, build
from tests.unit.evidence.verifying import asked, checked, codes, faults, of

PLACES = [(mutation, setting) for mutation in MUTATIONS for setting in ANCHORS]


@pytest.fixture(scope="module")
def model():
    return build()


def test_there_are_23_mutations():
    assert [mutation.number for mutation in MUTATIONS] == list(range(1, 24))


@pytest.mark.parametrize("setting", ANCHORS)
def test_the_unchanged_run_has_no_fault(model, setting):
    assert faults(checked(model.log, model.trust, model.anchors(setting))) == []


@pytest.mark.parametrize(("mutation", "setting"), PLACES, ids=lambda one: getattr(one, "number", one))
def test_a_mutation_gives_its_codes(model, mutation, setting):
    answer = checked(applied(mutation.edits(model), model.log), model.trust, model.anchors(setting))

    assert mutation.expected(setting) <= set(codes(answer))
    if setting in mutation.finds_nothing:
        assert faults(answer) == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.number)
def test_findings_name_the_run_and_where_defined_epoch_and_record(model, mutation):
    answer = checked(applied(mutation.edits(model), model.log), model.trust, model.anchors("none"))
    told = [one for code in faults(answer) for one in of(answer, code)]

    assert {one.run for one in answer.findings} == {"run-1"}
    assert all("run-1" in one.text for one in told)
    if mutation.epoch is not None:
        assert min(one.epoch for one in told if one.epoch is not None) == mutation.epoch


@pytest.mark.parametrize(
    ("number", "setting", "verdict", "code"),
    [
        (1, "none", "fault", 1),
        (1, "half", "fault", 5),
        (10, "none", "fault", 1),
        (11, "none", "limited", 3),
        (20, "half", "limited", 3),
        (20, "full", "fault", 5),
        (21, "none", "limited", 3),
        (21, "half", "fault", 5),
        (22, "none", "unknown", 4),
        (22, "half", "fault", 5),
        (23, "half", "limited", 3),
        (23, "full", "fault", 5),
    ],
)
def test_the_exit_code_follows_from_the_worst_finding(model, number, setting, verdict, code):
    edits = MUTATIONS[number - 1].edits(model)

    assert asked(checked(applied(edits, model.log), model.trust, model.anchors(setting))) == (verdict, code)


def test_a_dropped_epoch_beyond_a_held_anchor_is_said_in_words(model):
    edits = MUTATIONS[19].edits(model)
    without = checked(applied(edits, model.log), model.trust)
    half = checked(applied(edits, model.log), model.trust, model.anchors("half"))

    assert without.limits[0].startswith("No fault found in 4 bundles, 160 records. Not anchored: ")
    assert "Anchored to 100 of 160 records; completeness of the tail is not proven." in half.limits


def test_a_rewrite_beyond_a_held_anchor_is_said_in_words(model):
    answer = checked(applied(MUTATIONS[22].edits(model), model.log), model.trust, model.anchors("half"))

    assert "Anchored to 100 of 200 records; completeness of the tail is not proven." in answer.limits


@pytest.mark.parametrize("number", [20, 21])
def test_with_a_closing_bundle_a_cut_tail_also_shows_as_not_closed(number):
    from tests.sealing import line

    closed = build()
    closed.sealing.add([line("run-close", 0, reason="finished", records=200, batches=0)])
    cut = [closed.log.signed.index(bundle) for bundle in closed.log.signed[4 if number == 20 else 2 :]]
    log = closed.log
    log.signed, log.lines = log.signed[: cut[0]], log.lines[: 40 * cut[0]]

    assert "not-closed" not in codes(checked(closed.log, closed.trust))
    assert "not-closed" in codes(checked(log, closed.trust))
