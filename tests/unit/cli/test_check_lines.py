"""A check tells what follows from one cause as one counted line with one example."""

from __future__ import annotations

import json

from provstore.cli._reports import check_lines
from provstore.model.report import CheckReport, Difference

LOST = "seg-1.pvj: journal-damaged: bytes 8 to 9 are damaged; numbers 21 to 21 are missing"
WHY = "journal-stray-file: no frame names it: it may belong to a batch whose frame is lost"
STRAYS = tuple(f"blobs/{at:02}/{at:064}.zst: {WHY}" for at in range(18))
EDGES = tuple(
    Difference("graph", json.dumps({"type": "USED", "from": ["iri", f"a{at}"], "to": ["iri", "b"], "properties": {}}))
    for at in range(20)
)


def lines(report: CheckReport, *, verbose: bool = False) -> list[str]:
    return [one.text for one in check_lines(report, width=400, verbose=verbose)]


def damaged(**more: object) -> CheckReport:
    return CheckReport(problems=(LOST,), position=43, applied=43, notes=STRAYS, **more)  # type: ignore[arg-type]


def test_files_that_no_frame_names_are_one_counted_line_with_an_example() -> None:
    said = lines(damaged())
    assert said[0] == f"journal: {LOST}"
    assert [one for one in said if "stray" in one] == [f"18 × {WHY}; one is blobs/00/{0:064}.zst: --verbose lists all"]


def test_all_of_them_are_listed_when_that_is_asked_for() -> None:
    assert [one for one in lines(damaged(), verbose=True) if "stray" in one] == list(STRAYS)


def test_one_alone_is_told_as_it_is() -> None:
    report = CheckReport(position=1, applied=1, compared=1, notes=STRAYS[:1])
    assert lines(report)[-1] == STRAYS[0]


def test_faults_of_the_journal_that_differ_in_their_place_alone_are_counted_too() -> None:
    why = "journal-damaged: payload missing: no such file"
    report = CheckReport(problems=tuple(f"seg-{at}.pvj: {why}" for at in range(3)), position=1, applied=1)
    assert lines(report)[0] == f"journal: 3 × {why}; one is seg-0.pvj: --verbose lists all"


def test_differences_beside_a_loss_are_counted_with_one_example() -> None:
    said = lines(damaged(differences=EDGES, difference_count=210))
    at = said.index("210 differences between graph and journal")
    assert said[at + 1 : at + 3] == [
        "only in the graph: (a0)-[:USED]->(b)",
        "… 209 more differences: --verbose lists the first",
    ]
    assert sum("USED" in one for one in lines(damaged(differences=EDGES, difference_count=210), verbose=True)) == 20


def test_differences_of_a_journal_that_is_whole_are_told_one_by_one() -> None:
    report = CheckReport(differences=EDGES, difference_count=20, position=1, applied=1, compared=50)
    assert sum("USED" in one for one in lines(report)) == 20
