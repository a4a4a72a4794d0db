"""What the page about evidence says is seen of each attack is what the tests of the attacks require."""

import re
from pathlib import Path

import pytest

from provstore.model import verification
from tests.mutations import ANCHORS, MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "evidence.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
EVIDENCE_PAGES = [
    "docs/explanation/evidence.md", "docs/howto/sign-and-verify.md", "docs/howto/verify-it-yourself.md",
    "docs/howto/record-your-own-facts.md", "docs/reference/evidence-format.md", "README.md", "SECURITY.md",
]  # fmt: skip


def codes(cell):
    return set(re.findall(r"[a-z]+(?:-[a-z]+)+|rollback|fork", cell))


def test_the_page_lists_every_attack_once_and_in_order():
    assert [(int(row[0]), row[1]) for row in ROW.findall(PAGE)] == [(one.number, one.name) for one in MUTATIONS]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one.number} {one.name}")
def test_the_page_says_of_an_attack_what_the_tests_require(mutation: Mutation):
    cells = next(row[2:] for row in ROW.findall(PAGE) if int(row[0]) == mutation.number)
    first = codes(cells[0])

    for setting, cell in zip(ANCHORS, cells, strict=True):
        is_more = setting != "none" and (cell == "same" or cell.startswith("+"))
        if mutation.number == 22 and setting != "none":
            # An empty place has no bundles with any anchor; only the rollback must be told.
            assert codes(cell) == mutation.expected(setting)
            continue
        assert (first | codes(cell) if is_more else codes(cell)) == mutation.expected(setting)
        assert ("**nothing**" in cell) == (setting in mutation.finds_nothing and not mutation.expected(setting))


@pytest.mark.parametrize(
    "words",
    [
        verification.ALWAYS,
        verification.NO_ANCHOR.format(bundles="N", records="M"),
        verification.PARTLY_ANCHORED.format(size="N", records="M"),
        verification.NEVER_CLOSED,
        verification.REVOKED.format(since="T"),
        verification.ASSERTED.format(rank="R", keyid="K"),
    ],
)
def test_the_page_has_the_fixed_words_as_the_answers_have_them(words):
    assert words in PAGE.replace("\n> ", " ")


def test_the_page_lists_every_axis():
    listed = re.findall(r"^\| (\w+) \| .*\? ?.*\|$", PAGE, re.MULTILINE)

    assert tuple(one for one in listed if one in verification.AXES) == verification.AXES


@pytest.mark.parametrize("page", EVIDENCE_PAGES)
def test_no_page_about_evidence_promises_more_than_signatures_can_give(page):
    text = (ROOT / page).read_text(encoding="utf-8").lower()

    assert re.findall(r"tamper-?proof|immutable|guarantee\w*|a complete run|run is complete", text) == []
