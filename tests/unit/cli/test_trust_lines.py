"""What replay and diff say of the evidence: in short, once, and loudly only where it does not hold."""

from __future__ import annotations

from provstore.api.stored_runs import NOT_VERIFIED, Trustworthiness
from provstore.cli.replay import ignored_lines, trust_lines

LONG = Trustworthiness("limited", findings=("not-closed: " + "x" * 300, "no-anchor: none"))


def texts(*trusts: tuple[str, Trustworthiness]) -> list[str]:
    return [line.text for line in trust_lines(trusts, 200)]


def test_many_findings_are_the_beginning_of_the_first_and_a_count() -> None:
    (line,) = texts(("a", LONG))
    assert line.startswith("evidence: limited: not-closed: xxx")
    assert line.endswith("x…; 1 more, provstore verify tells all")
    assert len(line) < 170


def test_what_is_equal_of_two_runs_is_said_once_and_what_differs_with_its_run() -> None:
    none = Trustworthiness(NOT_VERIFIED, findings=("no key says whose signatures count",))
    assert texts(("a", none), ("b", none)) == ["evidence: not-verified: no key says whose signatures count"]
    assert texts(("a", none), ("b", Trustworthiness("pass"))) == [
        "evidence of a: not-verified: no key says whose signatures count",
        "evidence of b: pass",
    ]
    assert len(texts(("a", none), ("a", Trustworthiness("pass")))) == 2, "two attempts of one run"


def test_only_evidence_that_does_not_hold_is_told_first() -> None:
    broken = Trustworthiness("fault", findings=("record-altered: x",), is_ignored=True)
    assert [line.text for line in ignored_lines(broken, 80)] == ["UNVERIFIED: the evidence does not hold"]
    assert list(ignored_lines(LONG, 80)) == []
