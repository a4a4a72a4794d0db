"""The strict comparison of PROV documents."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prov.model import Literal, ProvDocument

from provstore.graph.prov_compare import LEVELS, Difference, fingerprint, strict_diff
from provstore.graph.prov_objects import document_parts
from provstore.model.prov import XSD, Bundle, Part, QName, Record, Value, double, integer, string
from tests.cost import how_many_times

EX = "http://example.org/"
Change = Callable[[ProvDocument], object]


def document(change: Change | None = None) -> ProvDocument:
    made = ProvDocument()
    made.add_namespace("ex", EX)
    made.add_namespace("xs", XSD)
    made.entity("ex:e", {"ex:n": 1})
    made.activity("ex:a")
    if change is not None:
        change(made)
    return made


def diff(left: ProvDocument, right: ProvDocument) -> Difference:
    return strict_diff(document_parts(left), document_parts(right))


def decimal(text: str) -> Change:
    return lambda made: made.entity("ex:d", {"ex:v": Literal(text, made.valid_qualified_name("xs:decimal"))})


def language(tag: str) -> Change:
    return lambda made: made.entity("ex:l", {"ex:v": Literal("x", langtag=tag)})


def instant(text: str) -> Change:
    return lambda made: made.wasGeneratedBy("ex:e", "ex:a", text)


# Each pair is equal to ``==`` of prov 3.2 in at least one order of its arguments.
WEAKNESSES: dict[str, tuple[Change | None, Change]] = {
    "an extra bundle": (None, lambda made: made.bundle("ex:b")),
    "a relation with an id against one without": (
        lambda made: made.used("ex:a", "ex:e"),
        lambda made: made.used("ex:a", "ex:e", identifier="ex:u"),
    ),
    "a relation stated twice": (
        lambda made: made.used("ex:a", "ex:e"),
        lambda made: [made.used("ex:a", "ex:e"), made.used("ex:a", "ex:e")],
    ),
    "decimals 10 and 10.00": (decimal("10"), decimal("10.00")),
    "languages en and EN": (language("en"), language("EN")),
    "one instant with two offsets": (instant("2020-01-01T12:00:00+00:00"), instant("2020-01-01T13:00:00+01:00")),
}


@pytest.mark.parametrize("case", WEAKNESSES)
def test_what_the_library_takes_for_equal_differs_in_both_argument_orders(case: str) -> None:
    left, right = map(document, WEAKNESSES[case])
    assert left == right or right == left
    there, back = diff(left, right), diff(right, left)
    assert not there.holds("multiset")
    assert not back.holds("multiset")
    assert (there.only_left, there.only_right) == (back.only_right, back.only_left)
    assert there.first
    assert back.first


def test_other_prefixes_for_the_same_names_are_equal_but_not_exactly() -> None:
    other = ProvDocument()
    other.add_namespace("foo", EX)
    other.entity("foo:e", {"foo:n": 1})
    other.activity("foo:a")
    plain = document()
    assert plain == other
    for found in (diff(plain, other), diff(other, plain)):
        assert found.equal_at == "multiset"
        assert found.scopes == ("",)


def test_another_order_of_records_is_equal_but_not_exactly() -> None:
    left = document(lambda made: [made.entity("ex:x"), made.entity("ex:y")])
    right = document(lambda made: [made.entity("ex:y"), made.entity("ex:x")])
    assert left == right
    for found in (diff(left, right), diff(right, left)):
        assert found.equal_at == "multiset"
        assert found.reordered == ("",)


def test_nan_equals_nan_where_the_library_says_it_does_not() -> None:
    nan: Change = lambda made: made.entity("ex:nan", {"ex:v": float("nan")})  # noqa: E731
    left, right = document(nan), document(nan)
    assert left != right
    assert diff(left, right).equal_at == "exact"


def test_a_repeated_statement_is_equal_only_as_a_set() -> None:
    once = document(lambda made: made.used("ex:a", "ex:e"))
    twice = document(lambda made: [made.used("ex:a", "ex:e"), made.used("ex:a", "ex:e")])
    found = diff(once, twice)
    assert found.equal_at == "set"
    assert (found.only_left, found.only_right) == (0, 1)


def test_a_redundant_declaration_is_reported_and_no_difference() -> None:
    bare: list[Part] = [Bundle(None, (("ex", EX),)), Bundle(QName("ex", EX, "b"))]
    again: list[Part] = [Bundle(None, (("ex", EX),)), Bundle(QName("ex", EX, "b"), (("ex", EX),))]
    found = strict_diff(bare, again)
    assert found.equal_at == "exact"
    assert found.declared == (f"{EX}b",)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (integer(1), Value("boolean", "true")),
        (integer(1), double(1.0)),
        (integer(1), string("1")),
        (double(0.0), double(-0.0)),
        (Value("boolean", "true"), string("true")),
        (Value("dateTime", "2020-01-01T00:00:00"), Value("dateTime", "2020-01-01T00:00:00Z")),
        (Value("anyURI", EX), string(EX)),
    ],
)
def test_values_that_only_look_alike_differ(left: Value, right: Value) -> None:
    name = QName("ex", EX, "v")
    one, other = (Record("entity", name, (), ((name, value),)) for value in (left, right))
    assert strict_diff([one], [other]).equal_at is None


def test_two_spellings_of_one_time_are_equal() -> None:
    name = QName("ex", EX, "v")
    one, other = (
        Record("entity", name, (), ((name, Value("dateTime", text)),))
        for text in ("2020-01-01T00:00:00.500Z", "2020-01-01T00:00:00.5+00:00")
    )
    assert strict_diff([one], [other]).equal_at == "exact"


def test_four_times_as_many_records_take_about_four_times_as_long_to_compare() -> None:
    def many(kept: int) -> list[Part]:
        name = QName("ex", EX, "a")
        return [Record("used", None, (name, QName("ex", EX, f"e{n}"), None)) for n in range(kept)]

    def compare(count: int) -> None:
        found = strict_diff(many(count), reversed(many(count + 1)))
        assert (found.only_left, found.only_right) == (0, 1)

    assert how_many_times(lambda: compare(20_000), lambda: compare(5_000), rounds=3) < 8


def test_levels_are_ordered_from_strong_to_weak() -> None:
    found = Difference("multiset", 1, 1, 0, 0)
    assert [found.holds(level) for level in LEVELS] == [False, True, True]


def test_a_fingerprint_tells_what_the_comparison_tells() -> None:
    plain = fingerprint(document_parts(document()))
    assert fingerprint(document_parts(document())) == plain
    assert fingerprint(document_parts(document(lambda made: made.bundle("ex:b")))) != plain
    once = fingerprint(document_parts(document(lambda made: made.used("ex:a", "ex:e"))))
    twice = fingerprint(document_parts(document(lambda made: [made.used("ex:a", "ex:e"), made.used("ex:a", "ex:e")])))
    assert once.content != twice.content
