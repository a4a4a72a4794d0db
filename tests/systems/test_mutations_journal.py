"""Each of the 23 mutations, done to the bytes of a journal whose checksums fit again, gives its codes."""

import pytest

from provstore.journal import Journal
from tests.journal_edits import rewrite, write
from tests.mutations import ANCHORS, MUTATIONS, applied, build
from tests.unit.evidence.verifying import checked, codes, faults

PLACES = [(mutation, setting) for mutation in MUTATIONS for setting in ANCHORS]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A journal with the signed run, and the model it was signed from."""
    directory = tmp_path_factory.mktemp("store") / "journal"
    with Journal.open(directory, writable=True) as journal:
        model = build(journal.journal_id)
        write(journal, model.log)
    return directory, model


def judged(directory, model, setting):
    with Journal.open(directory, writable=False) as journal:
        assert [problem.code for problem in journal.check()] == []
        return checked(journal.evidence("run-1", 0), model.trust, model.anchors(setting))


@pytest.mark.parametrize("setting", ANCHORS)
def test_the_unchanged_journal_has_no_fault(place, setting):
    directory, model = place
    rewrite(directory, model.log)

    assert faults(judged(directory, model, setting)) == []


@pytest.mark.parametrize(("mutation", "setting"), PLACES, ids=lambda one: getattr(one, "number", one))
def test_a_mutation_of_the_journal_gives_its_codes(place, mutation, setting):
    directory, model = place
    rewrite(directory, applied(mutation.edits(model), model.log))
    answer = judged(directory, model, setting)

    assert mutation.expected(setting) <= set(codes(answer))
    assert {one.run for one in answer.findings} == {"run-1"}
    if setting in mutation.finds_nothing:
        assert faults(answer) == []
    if mutation.epoch is not None and mutation.epoch < 5:
        assert min(one.epoch for one in answer.findings if one.epoch is not None) == mutation.epoch
