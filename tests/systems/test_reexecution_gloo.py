"""Collectives of real gloo ranks, recomputed from what went in, give what came out."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provstore.analysis.reexecution import Instance, Piece, Side, StoredTensor, recompute
from provstore.api.recording import record
from provstore.api.reexecuting import recomputed
from provstore.api.stored_runs import opened_journal, stored_run
from provstore.evidence.content.tensor_digest import digest_of, of_side

if importlib.util.find_spec("torch") is None:  # the project is tested without torch, too
    pytest.skip("needs the capture extra", allow_module_level=True)

JOB = Path(__file__).with_name("gloo_collectives.py")
WORLDS = (2, 3, 4, 8)


@pytest.fixture(scope="module", params=WORLDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a job of real ranks left."""
    found = tmp_path_factory.mktemp(f"gloo-{request.param}")
    subprocess.run([sys.executable, JOB, str(request.param), found], check=True, timeout=400)
    return found


@pytest.fixture(scope="module")
def recorded(folder: Path) -> list[Instance]:
    """What real ranks put into collectives and got from them."""
    return list(instances(folder, len(list(folder.glob("rank*.bin")))))


def instances(folder: Path, world: int) -> Iterator[Instance]:
    data = [(folder / f"rank{rank}.bin").read_bytes() for rank in range(world)]
    lines = [(folder / f"rank{rank}.jsonl").read_text().splitlines() for rank in range(world)]
    for row in zip(*lines, strict=True):
        said = [json.loads(line) for line in row]
        sides = {name: {rank: side(one, name, data[rank]) for rank, one in enumerate(said)} for name in ("in", "out")}
        first = said[0]
        yield Instance(
            first["op"], tuple(range(world)), sides["in"], sides["out"], first["reduce_op"], first["root"], "gloo"
        )


def side(said: dict, name: str, data: bytes) -> Side:
    tensors = [
        StoredTensor.whole(said["dtype"], tuple(shape), data[offset : offset + size])
        for shape, offset, size in said[name]
    ]
    return with_digest(Side(tuple(tensors)))


def with_digest(given: Side) -> Side:
    found = of_side([digest_of(one.dtype, one.shape, b"".join(p.data for p in one.pieces)) for one in given.tensors])
    return replace(given, digest=found[0] if found else None)


def test_recomputing_gives_every_output_of_gloo_bit_for_bit(recorded: list[Instance]) -> None:
    told = {
        (
            one.op,
            one.reduce_op,
            one.inputs[one.root or 0].tensors[0].dtype,
            one.inputs[one.root or 0].tensors[0].count,
        ): (recompute(one).name)
        for one in recorded
    }
    assert {key: name for key, name in told.items() if name != "exact"} == {}
    covered = {(op, dtype) for op, _, dtype, _ in told}
    families = {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}
    assert {(op, dtype) for op in families for dtype in ("float32", "bfloat16", "float16", "int32")} <= covered


def test_what_was_recorded_of_a_live_job_is_recomputed_bit_for_bit(folder: Path) -> None:
    store = f"embedded:{folder / 'store'}"
    record([folder / "capture"], store=store)
    with opened_journal(store) as journal:
        found = list(recomputed(stored_run(journal, "job"), 0))
    assert {one.verdict.name for one in found} == {"exact"}
    assert {one.op for one in found} >= {
        "all_reduce", "all_reduce_coalesced", "all_gather", "all_gather_into_tensor", "reduce_scatter",
        "reduce_scatter_tensor", "broadcast", "reduce", "gather", "scatter", "all_to_all", "all_to_all_single",
    }  # fmt: skip
    assert {one.verdict.order for one in found} == {"gloo-ring", "order-free", "copy"}
    sampled = [one.verdict for one in found if not one.verdict.is_whole]
    assert sampled, "of a large tensor a few chunks were kept"
    assert all(0 < one.compared_chunks < one.chunks for one in sampled)


def test_sums_of_floats_are_reproduced_in_the_order_of_the_ring_alone(recorded: list[Instance]) -> None:
    one = next(
        one for one in recorded if one.op == "all_reduce" and one.inputs[0].tensors[0].shape == (5000,)
        and one.inputs[0].tensors[0].dtype == "float32"
    )  # fmt: skip
    assert recompute(one).order == "gloo-ring"


def test_digests_of_outputs_are_enough_to_be_exact(recorded: list[Instance]) -> None:
    for one in recorded:
        if one.inputs[one.root or 0].tensors[0].count < 1000:
            outputs = {
                rank: replace(got, tensors=tuple(replace(tensor, pieces=()) for tensor in got.tensors))
                for rank, got in one.outputs.items()
            }
            assert recompute(replace(one, outputs=outputs)).name == "exact", one.op


def small(recorded: list[Instance]) -> Iterator[Instance]:
    """One small call of each operation and type."""
    seen = set()
    for one in recorded:
        tensor = one.inputs[one.root or 0].tensors[0]
        key = (one.op, tensor.dtype, one.reduce_op)
        is_small = len(one.members) < tensor.count <= 5 * len(one.members) or one.reduce_op != "sum"
        if is_small and key not in seen:
            seen.add(key)
            yield one


def test_no_flipped_bit_of_an_output_is_exact(recorded: list[Instance]) -> None:
    flipped = 0
    # Of one tensor of shares their sizes are not recorded, so that a difference says nothing.
    for one in (one for one in small(recorded) if one.op != "all_to_all_single"):
        for rank, at, bit in _bits(one.outputs):
            verdict = recompute(replace(one, outputs=_flipped(one.outputs, rank, at, bit, digest_too=True)))
            assert verdict.name in ("mismatch", "within-bound", "explained"), (one.op, rank, at, bit)
            size = one.outputs[rank].tensors[at].item_bytes
            found = [d.first_index for d in verdict.differences if d.rank == rank and d.tensor == at]
            assert found == [bit // 8 // size], "the element is named"
            flipped += 1
    assert flipped > 1000


def test_no_flipped_bit_of_stored_bytes_passes_its_recorded_digest(recorded: list[Instance]) -> None:
    for one in small(recorded):
        for rank, at, bit in _bits(one.inputs):
            verdict = recompute(replace(one, inputs=_flipped(one.inputs, rank, at, bit, digest_too=False)))
            assert verdict.name == "not-recomputable"
            assert [(lack.rank, lack.what) for lack in verdict.missing] == [(rank, "input")]


def test_a_flipped_bit_of_an_input_of_whole_numbers_or_copies_is_a_mismatch(recorded: list[Instance]) -> None:
    for one in small(recorded):
        is_copied = one.reduce_op is None
        if is_copied or (one.inputs[0].tensors[0].dtype == "int32" and one.reduce_op in ("sum", "bxor")):
            for rank, at, bit in _bits(one.inputs):
                verdict = recompute(replace(one, inputs=_flipped(one.inputs, rank, at, bit, digest_too=True)))
                assert verdict.name in ("mismatch", "not-recomputable"), (one.op, rank, bit)


def test_a_missing_rank_cannot_be_recomputed(recorded: list[Instance]) -> None:
    for one in small(recorded):
        lost = len(one.members) - 1
        rest = replace(one, inputs=_without(one.inputs, lost), outputs=_without(one.outputs, lost))
        verdict = recompute(rest)
        assert verdict.name == "not-recomputable"
        assert lost in {lack.rank for lack in verdict.missing}


def _without(sides: dict[int, Side], rank: int) -> dict[int, Side]:
    return {other: one for other, one in sides.items() if other != rank}


def _bits(sides: dict[int, Side]) -> Iterator[tuple[int, int, int]]:
    """Yield places of bits: all of two ranks, an even share of more."""
    places = [
        (rank, at, bit)
        for rank, one in sides.items()
        for at, tensor in enumerate(one.tensors)
        for bit in range(tensor.size_bytes * 8)
    ]
    stride = 1 if max(sides) == 1 else max(len(places) // 29, 1)
    return iter(places[::stride])


def _flipped(sides: dict[int, Side], rank: int, at: int, bit: int, *, digest_too: bool) -> dict[int, Side]:
    one = sides[rank]
    data = bytearray(one.tensors[at].pieces[0].data)
    data[bit // 8] ^= 1 << bit % 8
    tensors = list(one.tensors)
    tensors[at] = replace(tensors[at], pieces=(Piece(0, bytes(data)),))
    changed = replace(one, tensors=tuple(tensors))
    return {**sides, rank: with_digest(changed) if digest_too else changed}
