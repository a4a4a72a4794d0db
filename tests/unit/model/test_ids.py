"""Ids: what they look like, that distinct things get distinct ids, that PROV-N can write them."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provstore.model import ids

# PROV-N's PN_LOCAL: a first character of PN_CHARS_U, digits or PN_CHARS_OTHERS, then also '-' and, not last, '.';
# reduced to ASCII, with the characters of PN_CHARS_OTHERS that need no backslash.
_PN_LOCAL = re.compile(
    r"(?:[A-Za-z0-9_/@~&+*?#$!]|%[0-9A-F]{2})(?:(?:[A-Za-z0-9_/@~&+*?#$!.\-]|%[0-9A-F]{2})*(?:[A-Za-z0-9_/@~&+*?#$!\-]|%[0-9A-F]{2}))?"
)

_texts = st.text(st.characters(exclude_categories=["Cs"]))
_rank_sets = st.sets(st.integers(0, 2**20 - 1), min_size=1, max_size=40)


def test_ids_are_readable() -> None:
    group = ids.group_key("0", [0, 1, 2, 3])
    instance = ids.instance_iri("run-1", 0, "nccl", group, 7)
    assert instance == "https://w3id.org/provstore/id/run-1/0/nccl/0@0-3/7"
    assert ids.side_iri(instance, 2, "out") == "https://w3id.org/provstore/id/run-1/0/nccl/0@0-3/7/2/out"
    assert ids.p2p_iri("run-1", 0, "nccl", group, 3, 12).endswith("/0@0-3/p2p/3/12")
    assert ids.rank_iri("run-1", 2, 5) == "https://w3id.org/provstore/id/run-1/2/rank/5"


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        ([3], "3"),
        (range(256), "0-255"),
        ([1, 5], "1-5x4"),
        (range(0, 256, 4), "0-252x4"),
        ([3, 1, 2], "1-3"),
        ([0, 1, 3], hashlib.sha256(b"0,1,3").hexdigest()[:12]),
    ],
)
def test_a_set_of_ranks_has_a_short_name(ranks: list[int], name: str) -> None:
    assert ids.rank_set(ranks) == name


@given(_rank_sets, _rank_sets)
def test_distinct_sets_of_ranks_have_distinct_names(one: set[int], other: set[int]) -> None:
    assert (ids.rank_set(one) == ids.rank_set(other)) == (one == other)


@given(_rank_sets, st.randoms())
def test_the_name_of_a_set_does_not_depend_on_its_order(ranks: set[int], random: object) -> None:
    shuffled = list(ranks)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ids.rank_set(shuffled) == ids.rank_set(ranks)


@given(_texts)
def test_a_component_gives_its_text_back(text: str) -> None:
    assert ids.component_text(ids.component(text)) == text


@given(_texts)
def test_a_component_never_holds_a_separator(text: str) -> None:
    assert not set("/@: \n") & set(ids.component(text))


@given(_texts, _texts, st.integers(0, 9), st.integers(0, 2**40), _rank_sets)
def test_every_id_is_a_legal_local_name_in_prov_n(run: str, name: str, attempt: int, seq: int, ranks: set[int]) -> None:
    group = ids.group_key(name, sorted(ranks))
    instance = ids.instance_iri(run, attempt, "nccl", group, seq)
    for iri in (instance, ids.side_iri(instance, 3, "in"), ids.rank_iri(run, attempt, 1)):
        assert _PN_LOCAL.fullmatch(iri.removeprefix(ids.BASE)), iri


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        ids.component("\ud800")


def test_one_name_with_two_rank_sets_is_two_groups() -> None:
    assert ids.group_key("5", [0, 1]) != ids.group_key("5", [2, 3])
    assert ids.group_key("5", None) == "5@unknown"
