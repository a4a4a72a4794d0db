"""Tensor digest v1: its vectors, that nothing can change unseen, and that a chunk proves itself."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provstore.errors import ConfigError, TrustError
from provstore.evidence.content import tensor_digest
from provstore.evidence.content.tensor_digest import CHUNK_BYTES, digest_of, tensor_tree

ONE_TO_FOUR = struct.pack("<4f", 1, 2, 3, 4)
VECTORS = [
    # Published with the format: the first 16 hex digits.
    ("float32", (2, 2), ONE_TO_FOUR, "07b9bfada2f0932b"),
    ("float32", (4,), ONE_TO_FOUR, "ebdf310547c65ed2"),
    ("float32", (0,), b"", "9dae61b57a5b580e"),
    ("float32", (), struct.pack("<f", 1), "8dd651021322d600"),
    ("int64", (3,), struct.pack("<3q", 0, 1, 2**53 + 1), "d887cd9612e620c7"),
    ("bool", (3,), bytes([1, 0, 1]), "31f7ad4a3b9b4e51"),
    ("bfloat16", (2,), struct.pack("<2H", 0x3F80, 0x4000), "03848a6b813a1ea5"),
    ("float32", (262_145,), bytes(4 * 262_145), "ec7b01ba47eb32dd"),
]


def by_definition(dtype: str, shape: tuple[int, ...], data: bytes) -> str:
    """The format again, from its text: the tree by the recursive definition, the header by the json module."""

    def root(chunks: list[bytes]) -> bytes:
        if not chunks:
            return hashlib.sha256(b"").digest()
        if len(chunks) == 1:
            return hashlib.sha256(b"\x00" + chunks[0]).digest()
        half = 1
        while half * 2 < len(chunks):
            half *= 2
        return hashlib.sha256(b"\x01" + root(chunks[:half]) + root(chunks[half:])).digest()

    header: dict[str, Any] = {"byteorder": "little", "dtype": dtype, "nbytes": len(data), "order": "C"}
    header |= {"shape": list(shape), "v": 1}
    spelled = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    whole = b"provstore-tensor-v1\n" + spelled + b"\n" + root(chunks)
    return "sha256:" + hashlib.sha256(whole).hexdigest()


@pytest.mark.parametrize(("dtype", "shape", "data", "begins"), VECTORS)
def test_the_digest_has_the_published_vectors(dtype: str, shape: tuple[int, ...], data: bytes, begins: str) -> None:
    assert digest_of(dtype, shape, data).removeprefix("sha256:").startswith(begins)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 7])
def test_the_digest_of_any_number_of_chunks_is_that_of_its_definition(size: int) -> None:
    data = random.Random(size).randbytes(size)

    assert digest_of("uint8", (size,), data) == by_definition("uint8", (size,), data)


def test_every_byte_of_a_small_tensor_counts_in_every_bit() -> None:
    data = bytearray(random.Random(1).randbytes(96))
    before = digest_of("float32", (24,), data)
    found = set()
    for place in range(len(data) * 8):
        data[place // 8] ^= 1 << place % 8
        found.add(digest_of("float32", (24,), data))
        data[place // 8] ^= 1 << place % 8

    assert len(found) == 96 * 8
    assert before not in found


def test_single_bytes_all_over_a_tensor_of_three_chunks_change_its_digest() -> None:
    data = bytearray(random.Random(2).randbytes(3 * CHUNK_BYTES))
    shape = (len(data) // 4,)
    before = digest_of("float32", shape, data)
    edges = [0, 4_095, 4_096, 8_000, *(at * CHUNK_BYTES + by for at in (1, 2) for by in (-1, 0)), len(data) - 1]
    for place in (*edges, *(random.Random(3).randrange(len(data)) for _ in range(60))):
        data[place] ^= 0x01
        assert digest_of("float32", shape, data) != before, place
        data[place] ^= 0x01
    assert digest_of("float32", shape, data) == before


def test_dtype_and_shape_count_where_the_bytes_are_the_same() -> None:
    shapes = [(4,), (2, 2), (1, 4), (4, 1), (1, 4, 1)]
    found = {digest_of(dtype, shape, ONE_TO_FOUR) for shape in shapes for dtype in ("float32", "int32", "uint32")}
    found |= {digest_of("int64", (2,), ONE_TO_FOUR), digest_of("uint8", (16,), ONE_TO_FOUR)}
    nothing = {digest_of("float32", shape, b"") for shape in ((0,), (0, 3), (3, 0))}

    assert len(found) == 17
    assert len(nothing) == 3


def test_zero_with_sign_and_the_payload_of_a_nan_count() -> None:
    words = [0x00000000, 0x80000000, 0x7FC00000, 0x7FC00001, 0xFFC00000]

    assert len({digest_of("float32", (), struct.pack("<I", word)) for word in words}) == len(words)


def test_integers_that_are_equal_as_float32_have_different_digests() -> None:
    low, high = (digest_of("int64", (), struct.pack("<q", number)) for number in (16_777_216, 16_777_217))

    assert low != high


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "says"),
    [
        ("float32", (3,), 8, "8 bytes, but float32 of shape [3] needs 12"),
        ("float32", (), 0, "needs 4"),
        ("qint8", (1,), 1, "'qint8' has no digest"),
        ("float32", (-1,), 4, "negative size"),
    ],
)
def test_bytes_that_do_not_fit_dtype_and_shape_have_no_digest(
    dtype: str, shape: tuple[int, ...], size: int, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        digest_of(dtype, shape, bytes(size))

    assert says in str(caught.value)


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 8])
def test_each_chunk_proves_itself_against_the_digest_and_no_other_place_or_bytes_do(chunks: int) -> None:
    data = random.Random(chunks).randbytes((chunks - 1) * CHUNK_BYTES + 40)
    tree = tensor_tree("int8", (len(data),), data)
    pieces = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    for index, piece in enumerate(pieces):
        tensor_digest.check_chunk(tree.digest, "int8", tree.shape, index, piece, tree.path(index))
        changed = bytes([piece[0] ^ 1]) + piece[1:]
        wrong: list[tuple[str, int, bytes, list[bytes]]] = [
            (tree.digest, index, changed, tree.path(index)),
            (tree.digest, index, piece[:-1], tree.path(index)),
            (tree.digest, index, piece, [*tree.path(index), bytes(32)]),
            ("sha256:" + "0" * 64, index, piece, tree.path(index)),
        ]
        if chunks > 1:
            wrong.append((tree.digest, (index + 1) % chunks, piece, tree.path(index)))
        for digest, place, bytes_, path in wrong:
            with pytest.raises(TrustError) as caught:
                tensor_digest.check_chunk(digest, "int8", tree.shape, place, bytes_, path)
            assert caught.value.code == "root-mismatch"


def test_a_chunk_proves_nothing_under_another_dtype_or_shape() -> None:
    tree = tensor_tree("float32", (2, 2), ONE_TO_FOUR)
    for dtype, shape in (("int32", (2, 2)), ("float32", (4,))):
        with pytest.raises(TrustError):
            tensor_digest.check_chunk(tree.digest, dtype, shape, 0, ONE_TO_FOUR, [])
    for index in (-1, 1):
        with pytest.raises(ConfigError):
            tensor_digest.check_chunk(tree.digest, "float32", (2, 2), index, ONE_TO_FOUR, [])


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.data())
def test_the_digest_of_several_tensors_depends_on_each_and_on_their_order(pieces: list[bytes], data: Any) -> None:
    digests = [digest_of("uint8", (len(piece),), piece) for piece in pieces]
    other = data.draw(st.permutations(digests))

    assert (tensor_digest.combined(digests) == tensor_digest.combined(other)) == (digests == other)
    assert tensor_digest.combined(digests) != tensor_digest.combined([*digests, digests[0]])


def test_one_tensor_keeps_its_own_digest_several_get_one_of_another_type_and_none_has_none() -> None:
    one, two = (digest_of("uint8", (1,), bytes([number])) for number in (1, 2))
    joined = hashlib.sha256(f"provstore-tensors-v1\n{one}\n{two}".encode()).hexdigest()

    assert tensor_digest.of_side([one]) == (one, "provstore-tensor-v1")
    assert tensor_digest.of_side([one, two]) == (f"sha256:{joined}", "provstore-tensors-v1")
    assert tensor_digest.of_side([]) is None
    with pytest.raises(ConfigError):
        tensor_digest.combined([])
