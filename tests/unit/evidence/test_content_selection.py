"""Selection under a limit: equal on all ranks, coarser is a subset, and inputs follow from kept outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.evidence.content import selection
from provstore.evidence.content.tensor_digest import CHUNK_BYTES

TEXT = st.text(min_size=1, max_size=12)


@given(TEXT, st.integers(0, 9), TEXT, st.integers(0, 10**6), st.integers(0, 20))
def test_a_coarser_selection_is_a_subset_of_a_finer_one(run: str, attempt: int, group: str, seq: int, k: int) -> None:
    if selection.is_selected(run, attempt, group, seq, k + 1):
        assert selection.is_selected(run, attempt, group, seq, k)
    assert selection.is_selected(run, attempt, group, seq, 0)


def test_a_call_is_selected_by_the_first_64_bits_of_a_sha_256_that_anyone_can_compute() -> None:
    def expected(seq: int, k: int) -> bool:
        name = f'["run-1",2,"default@0-3",{seq}]'.encode()
        return int(hashlib.sha256(name).hexdigest()[:16], 16) % 2**k == 0

    for k in (1, 3, 6):
        found = [seq for seq in range(4_000) if selection.is_selected("run-1", 2, "default@0-3", seq, k)]
        assert found == [seq for seq in range(4_000) if expected(seq, k)]
        # One in 2^k, within five standard deviations of a fair coin.
        assert abs(len(found) - 4_000 / 2**k) < 5 * (4_000 / 2**k) ** 0.5


def test_parts_of_a_name_are_not_run_together() -> None:
    seqs = range(2_000)
    one = [selection.is_selected("a", 1, "1b", seq, 1) for seq in seqs]
    other = [selection.is_selected("a", 11, "b", seq, 1) for seq in seqs]

    assert one != other


@given(TEXT, TEXT, st.integers(0, 99), st.integers(0, 60), st.integers(-1, 70))
def test_kept_chunks_fill_the_budget_with_first_and_last_and_shrink_to_a_subset(
    run: str, group: str, seq: int, count: int, budget: int
) -> None:
    kept = selection.kept_chunks(run, group, seq, count, budget)

    assert len(kept) == max(0, min(count, budget))
    assert kept == sorted(set(kept))
    assert set(kept) <= set(range(count))
    if kept:
        assert kept[0] == 0
    if len(kept) > 1:
        assert kept[-1] == count - 1
    assert set(selection.kept_chunks(run, group, seq, count, budget - 1)) <= set(kept)


def test_inner_chunks_are_those_with_the_smallest_sha_256() -> None:
    order = sorted(range(1, 99), key=lambda chunk: hashlib.sha256(f'["r","g",5,{chunk}]'.encode()).digest())

    assert selection.kept_chunks("r", "g", 5, 100, 12) == sorted([0, 99, *order[:10]])


SIZES = [3 * CHUNK_BYTES + 8, 0, 12, CHUNK_BYTES]


def test_chunks_are_counted_through_all_tensors_of_a_side() -> None:
    assert selection.chunks_of(SIZES) == 6
    assert [selection.place_of_chunk(chunk, SIZES) for chunk in range(6)] == [
        (0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (3, 0),
    ]  # fmt: skip
    assert selection.chunk_ranges([0, 1, 3, 4], SIZES) == [
        (0, 2 * CHUNK_BYTES),
        (3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 20),
    ]


@given(st.lists(st.integers(0, 3 * CHUNK_BYTES), min_size=1, max_size=4), st.data())
def test_the_chunks_that_cover_the_ranges_of_some_chunks_are_those_chunks(
    sizes: list[int], data: st.DataObject
) -> None:
    chunks = sorted(data.draw(st.sets(st.sampled_from(range(selection.chunks_of(sizes) or 1)))))
    if selection.chunks_of(sizes) == 0:
        chunks = []

    assert selection.covering_chunks(selection.chunk_ranges(chunks, sizes), sizes) == chunks


def outputs_of(op: str, inputs: list[list[int]], root: int) -> list[list[int]]:
    """What each rank gets, by the meaning of the operation; a value stands for one byte, a sum for a reduction."""
    ranks, part = len(inputs), len(inputs[0]) // len(inputs)
    total = [sum(values) for values in zip(*inputs, strict=True)]
    joined = [value for one in inputs for value in one]
    got: dict[str, list[list[int]]] = {
        "all_reduce": [total] * ranks,
        "reduce": [total if rank == root else [] for rank in range(ranks)],
        "broadcast": [inputs[root]] * ranks,
        "all_gather": [joined] * ranks,
        "all_gather_into_tensor": [joined] * ranks,
        "gather": [joined if rank == root else [] for rank in range(ranks)],
        "reduce_scatter": [total[rank * part : (rank + 1) * part] for rank in range(ranks)],
        "reduce_scatter_tensor": [total[rank * part : (rank + 1) * part] for rank in range(ranks)],
        "scatter": [inputs[root][rank * part : (rank + 1) * part] for rank in range(ranks)],
        "all_to_all": [[v for one in inputs for v in one[to * part : (to + 1) * part]] for to in range(ranks)],
        "all_to_all_single": [[v for one in inputs for v in one[to * part : (to + 1) * part]] for to in range(ranks)],
    }
    return got[op]


@settings(max_examples=200)
@given(
    st.sampled_from(
        ["all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather", "reduce_scatter",
         "reduce_scatter_tensor", "scatter", "all_to_all", "all_to_all_single"]
    ),
    st.integers(1, 4), st.integers(1, 3), st.data(),
)  # fmt: skip
def test_kept_outputs_can_be_computed_again_from_the_derived_input_ranges_alone(
    op: str, ranks: int, part: int, data: st.DataObject
) -> None:
    """Everything outside the ranges is replaced by another value; no kept byte of an output changes by that."""
    size, root = part * ranks, data.draw(st.integers(0, ranks - 1))
    true = [[1 + rank * size + at for at in range(size)] for rank in range(ranks)]
    longest = max(map(len, outputs_of(op, true, root)))
    bounds = st.tuples(st.integers(0, longest), st.integers(0, longest)).map(lambda two: (min(two), max(two)))
    kept = data.draw(st.lists(bounds, max_size=3))
    damaged = []
    for rank, values in enumerate(true):
        ranges = selection.input_ranges(op, kept, ranks=ranks, place=rank, sizes=[size], is_root=rank == root)
        assert ranges is not None
        damaged.append([v if any(a <= at < b for a, b in ranges) else -99_999 for at, v in enumerate(values)])

    for before, after in zip(outputs_of(op, true, root), outputs_of(op, damaged, root), strict=True):
        for start, end in kept:
            assert before[start:end] == after[start:end]


def test_only_what_is_needed_is_derived() -> None:
    def ranges(op: str, **more: object) -> object:
        return selection.input_ranges(op, [(4, 6)], ranks=4, place=1, sizes=[16], **more)  # type: ignore[arg-type]

    assert ranges("all_reduce") == [(4, 6)]
    assert ranges("all_gather") == []
    assert selection.input_ranges("all_gather", [(14, 18)], ranks=4, place=1, sizes=[16]) == [(0, 2)]
    assert selection.input_ranges("reduce_scatter", [(1, 2)], ranks=4, place=1, sizes=[16]) == [
        (1, 2), (5, 6), (9, 10), (13, 14),
    ]  # fmt: skip
    assert ranges("broadcast", is_root=False) == []
    assert ranges("all_to_all_single") == [(0, 2), (4, 6), (8, 10), (12, 14)]


def test_parts_of_unknown_size_and_unknown_operations_need_the_whole_input() -> None:
    kept = [(0, 4)]

    assert selection.input_ranges("all_to_all", kept, ranks=2, place=0, sizes=[4, 8]) is None
    assert selection.input_ranges("all_to_all_single", kept, ranks=2, place=0, sizes=[8], is_even=False) is None
    assert selection.input_ranges("reduce_scatter_tensor", kept, ranks=3, place=0, sizes=[8]) is None
    assert selection.input_ranges("coalesced", kept, ranks=2, place=0, sizes=[8]) is None


@pytest.mark.parametrize("budget", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES, 40 * CHUNK_BYTES])
def test_a_plan_fits_its_budget_on_both_sides_and_keeps_all_where_all_fits(budget: int) -> None:
    """Each output chunk of a reduce_scatter of 4 ranks needs four chunks of the input."""
    outputs, inputs = [5 * CHUNK_BYTES + 100], [20 * CHUNK_BYTES + 400]

    def derive(chunks: Sequence[int]) -> list[int]:
        kept = selection.chunk_ranges(chunks, outputs)
        found = selection.input_ranges("reduce_scatter_tensor", kept, ranks=4, place=2, sizes=inputs)
        assert found is not None
        return selection.covering_chunks(found, inputs)

    made, needed = selection.plan_chunks(
        lambda chunks: selection.kept_chunks("r", "g", 1, 6, chunks), derive, (outputs, inputs), budget
    )

    for chunks, sizes in ((made, outputs), (needed, inputs)):
        assert sum(end - start for start, end in selection.chunk_ranges(chunks, sizes)) <= budget
    assert needed == derive(made)
    if budget == 40 * CHUNK_BYTES:
        assert made == list(range(6))
        assert needed == list(range(21))
