"""Which calls and which chunks are kept under a limit: equal on every rank without a word between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from heapq import nsmallest

from provstore.evidence.content.tensor_digest import CHUNK_BYTES, chunk_count
from provstore.model.canonical import encode

MOST_DOUBLINGS = 64

Range = tuple[int, int]
"""First byte and the byte after the last, in the tensors of one side of a call laid end to end."""

_SAME = frozenset({"all_reduce", "broadcast", "reduce", "send", "isend", "recv", "irecv"})
_FROM_ROOT = frozenset({"broadcast", "scatter"})
_GATHERS = frozenset({"all_gather", "all_gather_into_tensor", "gather"})
_SCATTERS = frozenset({"reduce_scatter", "reduce_scatter_tensor", "scatter"})
_EXCHANGES = frozenset({"all_to_all", "all_to_all_single"})


def is_selected(run: str, attempt: int, group: str, seq: int, k: int) -> bool:
    """Return whether a call is among the one in 2^k that is kept; a larger ``k`` keeps a subset.

    The first 64 bits of SHA-256 over the canonical JSON of ``[run, attempt, group, seq]`` are 0 modulo 2^k.
    """
    if k <= 0:
        return True
    bits = int.from_bytes(sha256(encode([run, attempt, group, seq])).digest()[:8], "big")
    return bits & ((1 << min(k, MOST_DOUBLINGS)) - 1) == 0


def kept_chunks(run: str, group: str, seq: int, count: int, budget_chunks: int) -> list[int]:
    """Return which of ``count`` output chunks are kept, in order; a smaller budget keeps a subset.

    First and last are always kept, the first alone where the budget is one chunk; the others are those with the
    smallest SHA-256 over the canonical JSON of ``[run, group, seq, chunk]``.
    """
    budget = min(budget_chunks, count)
    if budget <= 0:
        return []
    ends = [0, count - 1][: min(budget, 2)] if count > 1 else [0]
    if budget == count:
        return list(range(count))
    begun = sha256(encode([run, group, seq])[:-1] + b",")

    def place(chunk: int) -> bytes:
        state = begun.copy()
        state.update(b"%d]" % chunk)
        return state.digest()

    return sorted((*ends, *nsmallest(budget - len(ends), range(1, count - 1), key=place)))


def chunks_of(sizes: Sequence[int]) -> int:
    """Return how many chunks the tensors of one side have; chunks are numbered through all of them in order."""
    return sum(map(chunk_count, sizes))


def chunk_ranges(chunks: Iterable[int], sizes: Sequence[int]) -> list[Range]:
    """Return the bytes that some chunks cover.

    Args:
        chunks: Their numbers, ascending, counted through all tensors of the side.
        sizes: Bytes of each tensor of the side, in argument order.
    """
    places = [where for _, _, where in _chunks(sizes)]
    return _joined(places[chunk] for chunk in chunks)


def covering_chunks(ranges: Iterable[Range], sizes: Sequence[int]) -> list[int]:
    """Return the numbers of the chunks that hold any byte of these ranges, ascending."""
    wanted = _joined(ranges)
    return [
        number
        for number, (_, _, (start, end)) in enumerate(_chunks(sizes))
        if any(first < end and start < last for first, last in wanted)
    ]


def place_of_chunk(chunk: int, sizes: Sequence[int]) -> tuple[int, int]:
    """Return (tensor, chunk in it) of a chunk that is counted through all tensors of a side."""
    tensor, inner, _ = _chunks(sizes)[chunk]
    return tensor, inner


def input_ranges(
    op: str,
    kept: Sequence[Range],
    *,
    ranks: int,
    place: int,
    sizes: Sequence[int],
    is_root: bool | None = None,
    is_even: bool = True,
) -> list[Range] | None:
    """Return which bytes of one rank's input the kept output bytes of all ranks are made from.

    Args:
        op: Operation, as the table of side-effect classes names it.
        kept: Ranges that every rank keeps of its output.
        ranks: Ranks in the group.
        place: This rank's number in the group, from 0.
        sizes: Bytes of each tensor of this rank's input, in argument order.
        is_root: Whether this rank is the root, where the operation has one.
        is_even: Whether the operation cuts what it moves into parts of equal size.

    Returns:
        Ascending ranges without overlap, empty where this rank puts nothing in; ``None`` where the parts of an
        operation are not known, so that only the whole input would do.
    """
    if op in _FROM_ROOT and is_root is False:
        return []
    total = sum(sizes)
    if op in _SAME:
        return _joined(_cut(one, 0, total) for one in kept)
    if op in _GATHERS and is_even:
        return _joined(_shifted(_cut(one, place * total, total), -place * total) for one in kept)
    if not is_even or len(set(sizes)) > 1 or total % ranks or op not in _SCATTERS | _EXCHANGES:
        return None
    part = total // ranks
    # Where this rank's share lies in what each rank gets: of an exchange in its part, else at the beginning.
    start = place * part if op in _EXCHANGES else 0
    return _joined(_shifted(_cut(one, start, part), to * part - start) for one in kept for to in range(ranks))


def plan_chunks(
    candidates: Callable[[int], Sequence[int]],
    derive: Callable[[Sequence[int]], Sequence[int]],
    sizes: tuple[Sequence[int], Sequence[int]],
    budget_bytes: int,
    both_bytes: int | None = None,
) -> tuple[list[int], list[int]]:
    """Return the largest (output chunks, input chunks) of which each side fits a budget, and both another.

    Args:
        candidates: Gives the output chunks for a budget of so many, as :func:`kept_chunks` does.
        derive: Gives the input chunks that some output chunks are made from.
        sizes: Bytes of each tensor of the outputs, and of the inputs.
        budget_bytes: Most bytes of each side.
        both_bytes: Most bytes of both sides together; ``None``: twice those of one.
    """
    outputs, inputs = sizes
    most = min(chunks_of(outputs), budget_bytes // CHUNK_BYTES + len(outputs))
    for budget in range(most, 0, -1):
        made = list(candidates(budget))
        needed = list(derive(made))
        each = _bytes_of(made, outputs), _bytes_of(needed, inputs)
        if max(each) <= budget_bytes and (both_bytes is None or sum(each) <= both_bytes):
            return made, needed
    return [], []


def _chunks(sizes: Sequence[int]) -> list[tuple[int, int, Range]]:
    """Return (tensor, chunk in it, range on the side) of each chunk of a side."""
    found: list[tuple[int, int, Range]] = []
    start = 0
    for tensor, size in enumerate(sizes):
        for inner in range(chunk_count(size)):
            first = inner * CHUNK_BYTES
            found.append((tensor, inner, (start + first, start + min(first + CHUNK_BYTES, size))))
        start += size
    return found


def _bytes_of(chunks: Iterable[int], sizes: Sequence[int]) -> int:
    return sum(end - start for start, end in chunk_ranges(chunks, sizes))


def _cut(one: Range, start: int, size: int) -> Range:
    """Return the part of a range inside ``size`` bytes from ``start``; an empty one where there is none."""
    first, last = max(one[0], start), min(one[1], start + size)
    return (first, last) if first < last else (start, start)


def _shifted(one: Range, by: int) -> Range:
    return one[0] + by, one[1] + by


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges ascending, with those that touch made one and empty ones left out."""
    found: list[Range] = []
    for start, end in sorted(one for one in ranges if one[0] < one[1]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
