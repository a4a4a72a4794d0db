"""What recomputing says of collectives whose right answer is known by hand."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from provstore.analysis.reexecution import Instance, Piece, Side, StoredTensor, recompute
from provstore.analysis.reexecution.orders import ring_bounds
from provstore.evidence.content.tensor_digest import digest_of, of_side

MIB = 1 << 20


def floats(*values: float) -> StoredTensor:
    return StoredTensor.whole("float32", (len(values),), struct.pack(f"<{len(values)}f", *values))


def ints(dtype: str, code: str, *values: int) -> StoredTensor:
    return StoredTensor.whole(dtype, (len(values),), struct.pack(f"<{len(values)}{code}", *values))


def side(*tensors: StoredTensor) -> Side:
    digests = [digest_of(one.dtype, one.shape, one.pieces[0].data) for one in tensors]
    return Side(tensors, of_side(digests)[0])


def all_reduce(inputs: list[StoredTensor], outputs: list[StoredTensor], op: str = "sum", **more: object) -> Instance:
    ranks = tuple(range(len(inputs)))
    return Instance(
        "all_reduce", ranks, {r: side(inputs[r]) for r in ranks}, {r: side(outputs[r]) for r in ranks}, op, **more
    )


def test_whole_numbers_wrap_and_need_no_order() -> None:
    top = 2**31 - 1
    verdict = recompute(
        all_reduce([ints("int32", "i", top, 5), ints("int32", "i", 1, 6)], [ints("int32", "i", -(2**31), 11)] * 2)
    )
    assert (verdict.name, verdict.order) == ("exact", "order-free")


def test_truth_values_add_up_to_or() -> None:
    one = StoredTensor.whole("bool", (4,), bytes([0, 0, 1, 1]))
    two = StoredTensor.whole("bool", (4,), bytes([0, 1, 0, 1]))
    assert (
        recompute(all_reduce([one, two], [StoredTensor.whole("bool", (4,), bytes([0, 1, 1, 1]))] * 2)).name == "exact"
    )


def test_bits_combine_bit_by_bit() -> None:
    inputs = [ints("uint8", "B", 0b1100), ints("uint8", "B", 0b1010)]
    for op, expected in (("band", 0b1000), ("bor", 0b1110), ("bxor", 0b0110)):
        assert recompute(all_reduce(inputs, [ints("uint8", "B", expected)] * 2, op)).name == "exact"
        assert recompute(all_reduce(inputs, [ints("uint8", "B", expected ^ 1)] * 2, op)).name == "mismatch"


def test_nan_under_max_is_no_mismatch_wherever_it_went() -> None:
    inputs = [floats(1, 5), floats(math.nan, 6), floats(3, 4)]
    for recorded in (math.nan, 3.0, 1.0):
        verdict = recompute(all_reduce(inputs, [floats(recorded, 6)] * 3, "max"))
        assert (verdict.name, dict(verdict.silent)) == ("explained", {"not-comparable": 3}), "one on each rank"


def test_a_number_that_no_rank_put_in_is_a_mismatch_even_beside_nan() -> None:
    inputs = [floats(1), floats(math.nan)]
    assert recompute(all_reduce(inputs, [floats(2)] * 2, "max")).name == "mismatch"


def test_zeros_of_both_signs_may_keep_either() -> None:
    inputs = [floats(0.0, -1), floats(-0.0, -2)]
    for zero in (0.0, -0.0):
        verdict = recompute(all_reduce(inputs, [floats(zero, -1)] * 2, "max"))
        assert (verdict.name, dict(verdict.silent)) == ("explained", {"zero-sign": 2}), "one on each rank"


def test_a_sum_beyond_the_bound_names_element_count_error_and_the_ranks_that_differ() -> None:
    inputs = [floats(1, 2, 3, 4)] * 3
    good, bad = floats(3, 6, 9, 12), floats(3, 6, 9.5, 13)
    verdict = recompute(all_reduce(inputs, [good, bad, good]))
    (found,) = [one for one in verdict.differences if one.rank == 1]
    assert (verdict.name, verdict.minority) == ("mismatch", (1,))
    assert (found.first_index, found.count, found.largest_error) == (2, 2, 1.0)


def test_the_last_bit_of_a_sum_is_within_the_bound_and_not_exact() -> None:
    inputs = [floats(1.0)] * 3
    recorded = np.nextafter(np.float32(3), np.float32(4))
    verdict = recompute(all_reduce(inputs, [floats(float(recorded))] * 3))
    assert verdict.name == "within-bound"
    assert verdict.differences[0].first_index == 0


def test_a_sum_in_another_order_than_the_backend_uses_is_explained_at_most() -> None:
    # Numbers near 1e8 are 8 apart in float32: whoever adds 1 to one of them loses it, and only the order that begins
    # with the two large ones keeps it. The ring of three begins its first chunk with the last rank and the middle one.
    inputs = [floats(1e8), floats(1.0), floats(-1e8)]
    assert recompute(all_reduce(inputs, [floats(0.0)] * 3, backend="gloo")).order == "gloo-ring"
    assert recompute(all_reduce(inputs, [floats(1.0)] * 3, backend="gloo")).name == "explained"


def test_ranks_added_in_pairs_are_found_as_a_tree() -> None:
    big, small = 2.0**24, 1.0
    inputs = [floats(big), floats(small), floats(small), floats(small)]
    # (2^24 + 1) + (1 + 1) = 2^24 + 2 in float32; from the left all ones are lost.
    verdict = recompute(all_reduce(inputs, [floats(big + 2)] * 4))
    assert verdict.name == "exact"
    assert verdict.order in ("gloo-ring", "tree")


def test_chunks_of_a_ring_are_whole_elements_and_cover_everything() -> None:
    # 10 float32 on 4 ranks: 8 segments of 5 bytes, rounded up to 8; a chunk is 2 segments, 4 elements.
    assert ring_bounds(10, 4, 4) == [0, 4, 8, 10, 10]
    # 3 MiB on 2 ranks: 4 segments of 768 KiB; a chunk is half of all.
    assert ring_bounds(3 * MIB // 4, 4, 2) == [0, 3 * MIB // 8, 3 * MIB // 4]


def test_sixteen_bits_are_rounded_after_each_addition() -> None:
    # 256 + 1 is 256 in bfloat16 (8 bits of precision), twice: 256; in one rounding it would be 258.
    def bfloat16(*values: float) -> StoredTensor:
        data = b"".join(struct.pack("<f", value)[2:] for value in values)
        return StoredTensor.whole("bfloat16", (len(values),), data)

    inputs = [bfloat16(256), bfloat16(1), bfloat16(1)]
    assert recompute(all_reduce(inputs, [bfloat16(256)] * 3)).name == "exact"


def test_a_copy_must_be_equal_to_the_last_byte() -> None:
    inputs = {0: side(floats(1, 2))}
    good, bad = side(floats(1, 2)), side(floats(1, -2))
    whole = Instance("broadcast", (0, 1), inputs, {0: good, 1: good}, root=0)
    assert (recompute(whole).name, recompute(whole).order) == ("exact", "copy")
    verdict = recompute(replace(whole, outputs={0: good, 1: bad}))
    assert (verdict.name, verdict.differences[0].rank, verdict.differences[0].first_index) == ("mismatch", 1, 1)


def test_what_is_missing_is_named_with_its_rank_and_reason() -> None:
    whole = all_reduce([floats(1), floats(2)], [floats(3)] * 2)
    no_bytes = Side((replace(floats(2), pieces=()),), whole.inputs[1].digest, "byte-budget")
    for changed, expected in (
        (replace(whole, inputs={**whole.inputs, 1: no_bytes}), (1, "input", "byte-budget")),
        (replace(whole, inputs={0: whole.inputs[0]}, outputs={0: whole.outputs[0]}), (1, "call", "not recorded")),
        (replace(whole, reduce_op=None), (None, "reduce-op", "not recorded")),
        (replace(whole, op="broadcast"), (None, "root", "not recorded")),
    ):
        verdict = recompute(changed)
        assert verdict.name == "not-recomputable"
        assert [(one.rank, one.what, one.reason) for one in verdict.missing] == [expected]


@pytest.mark.parametrize("op", ["barrier", "send", "user_defined"])
def test_what_is_no_collective_cannot_be_recomputed(op: str) -> None:
    assert recompute(Instance(op, (0, 1), {}, {})).name == "not-recomputable"


def test_a_digest_without_bytes_is_enough_unless_the_sum_came_about_in_no_known_order() -> None:
    inputs = [floats(0.1, 0.2), floats(0.3, 0.4)]
    data = (np.float32([0.1, 0.2]) + np.float32([0.3, 0.4])).astype("<f4").tobytes()
    right = StoredTensor.whole("float32", (2,), data)
    bare = Side((replace(right, pieces=()),), side(right).digest)
    whole = all_reduce(inputs, [right] * 2)
    assert recompute(replace(whole, outputs={0: bare, 1: bare})).name == "exact"
    other = replace(bare, digest="sha256:" + "0" * 64)
    verdict = recompute(replace(whole, outputs={0: bare, 1: other}))
    assert [(one.rank, one.reason) for one in verdict.missing] == [(1, "output-bytes-missing")]


def test_only_the_kept_ranges_are_recomputed_and_the_coverage_is_said() -> None:
    count = 4 * MIB // 4
    rows = [np.full(count, value, "<f4") for value in (1.5, 2.25)]
    total = (rows[0] + rows[1]).tobytes()
    kept = (0, 3)

    def sampled(data: bytes) -> Side:
        pieces = tuple(Piece(chunk * MIB, data[chunk * MIB : (chunk + 1) * MIB]) for chunk in kept)
        return Side((StoredTensor("float32", (count,), pieces, len(data)),), "sha256:" + "0" * 64)

    inputs = {rank: sampled(row.tobytes()) for rank, row in enumerate(rows)}
    whole = Instance("all_reduce", (0, 1), inputs, dict.fromkeys((0, 1), sampled(total)), "sum")
    verdict = recompute(whole)
    assert (verdict.name, verdict.compared_chunks, verdict.chunks, verdict.is_whole) == ("exact", 4, 8, False)
    changed = bytearray(total)
    changed[3 * MIB + 3] ^= 0x40
    verdict = recompute(replace(whole, outputs={0: sampled(total), 1: sampled(bytes(changed))}))
    assert (verdict.name, verdict.differences[0].first_index) == ("mismatch", 3 * MIB // 4)


def test_a_tensor_without_elements_is_exact() -> None:
    assert recompute(all_reduce([floats()] * 2, [floats()] * 2)).name == "exact"


def test_sizes_that_do_not_fit_are_said_and_not_guessed() -> None:
    verdict = recompute(all_reduce([floats(1, 2), floats(1)], [floats(2, 2)] * 2))
    assert (verdict.name, verdict.missing[0].what) == ("not-recomputable", "sizes")


def test_unequal_shares_of_one_tensor_are_not_called_a_mismatch() -> None:
    given = {0: side(floats(1, 2, 3, 4)), 1: side(floats(5, 6, 7, 8))}
    # Rank 0 sends one element to itself and three to rank 1, which sends three and one.
    got = {0: side(floats(1, 5, 6, 7)), 1: side(floats(2, 3, 4, 8))}
    verdict = recompute(Instance("all_to_all_single", (0, 1), given, got))
    assert (verdict.name, verdict.missing[0].what) == ("not-recomputable", "splits")


def test_an_overflow_that_depends_on_the_order_is_no_mismatch() -> None:
    largest = float(np.finfo(np.float32).max)
    inputs = [floats(largest), floats(largest), floats(-largest)]
    assert recompute(all_reduce(inputs, [floats(math.inf)] * 3)).name != "mismatch"
    assert recompute(all_reduce([floats(1)] * 3, [floats(math.inf)] * 3)).name == "mismatch"


def test_several_tensors_gathered_in_lists_come_rank_by_rank() -> None:
    given = {0: side(floats(1), floats(2)), 1: side(floats(3), floats(4))}
    got = side(floats(1), floats(2), floats(3), floats(4))
    instance = Instance("all_gather_coalesced", (0, 1), given, {0: got, 1: got})
    assert recompute(instance).name == "exact"
    swapped = side(floats(1), floats(3), floats(2), floats(4))
    assert recompute(replace(instance, outputs={0: swapped, 1: swapped})).name == "mismatch"
