r"""Tensor digest v1: one digest over every byte, the dtype and the shape, whose tree lets one chunk prove itself.

The bytes are row-major and little-endian. They are cut at 1 MiB, the chunks are the leaves of a tree as in RFC 6962,
section 2.1, and the digest is ``SHA-256("provstore-tensor-v1\n" ‖ header ‖ "\n" ‖ root)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod

from provstore.errors import ConfigError, TrustError
from provstore.evidence import merkle
from provstore.model.action import TENSOR_V1, TENSORS_V1
from provstore.model.canonical import Json, encode

CHUNK_BYTES = 1 << 20
ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "uint16": 2,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "uint32": 4,
    "int32": 4,
    "float32": 4,
    "bcomplex32": 4,
    "complex32": 4,
    "uint64": 8,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element of each dtype that has a digest, by its name in torch."""

Data = bytes | bytearray | memoryview
_LEAF = b"\x00"
_TEXT_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True)
class TensorTree:
    """The digest of one tensor and the leaves below it."""

    dtype: str
    shape: tuple[int, ...]
    leaves: tuple[bytes, ...]
    """Leaf hash of each chunk; none for a tensor without elements."""
    digest: str

    def path(self, index: int) -> list[bytes]:
        """Return the hashes that prove chunk ``index``, from its sibling upward.

        Raises:
            ConfigError: There is no such chunk.
        """
        return merkle.inclusion(self.leaves, index, len(self.leaves))


def digest_of(dtype: str, shape: Sequence[int], data: Data) -> str:
    """Return the digest of one tensor, ``sha256:`` and 64 hex digits.

    Args:
        dtype: Name in torch without ``torch.``: ``float32``, ``bfloat16``, …
        shape: Sizes of the dimensions; empty for a single number.
        data: The elements, row-major and little-endian, in contiguous memory; it is not copied.

    Raises:
        ConfigError: A dtype without digest, a negative size, or another number of bytes than they need.
    """
    return tensor_tree(dtype, shape, data).digest


def tensor_tree(dtype: str, shape: Sequence[int], data: Data) -> TensorTree:
    """Return the digest of one tensor with its leaves; arguments and errors as :func:`digest_of`."""
    view = memoryview(data).cast("B")
    nbytes = size_bytes(dtype, shape)
    if len(view) != nbytes:
        raise ConfigError(f"tensor: data: {len(view)} bytes, but {dtype} of shape {list(shape)} needs {nbytes}")
    leaves = tuple(leaf(view[start : start + CHUNK_BYTES]) for start in range(0, nbytes, CHUNK_BYTES))
    return TensorTree(dtype, tuple(shape), leaves, _digest(dtype, shape, nbytes, merkle.root_of(leaves)))


def leaf(chunk: Data) -> bytes:
    """Return the leaf hash of one chunk."""
    # Not one call on joined bytes: that would copy the chunk.
    state = sha256(_LEAF)
    state.update(chunk)
    return state.digest()


def combined(digests: Sequence[str]) -> str:
    """Return the digest of several tensors in argument order, of type ``provstore-tensors-v1``.

    Raises:
        ConfigError: No digest is given.
    """
    if not digests:
        raise ConfigError("tensors: digests: none is given")
    return _TEXT_PREFIX + sha256("\n".join((TENSORS_V1, *digests)).encode()).hexdigest()


def of_side(digests: Sequence[str]) -> tuple[str, str] | None:
    """Return (digest, type) of what one side of a call holds, or ``None`` where it holds no tensor."""
    if not digests:
        return None
    return (digests[0], TENSOR_V1) if len(digests) == 1 else (combined(digests), TENSORS_V1)


def check_chunk(digest: str, dtype: str, shape: Sequence[int], index: int, chunk: Data, path: Sequence[bytes]) -> None:
    """Check that these bytes are chunk ``index`` of the tensor with this digest, dtype and shape.

    Raises:
        ConfigError: A dtype without digest, a negative size, or no such chunk.
        TrustError: ``root-mismatch``: other bytes, another length than the chunk has, or a path that does not fit;
            ``cap-exceeded``: a path of too many hashes.
    """
    nbytes = size_bytes(dtype, shape)
    count = chunk_count(nbytes)
    if not 0 <= index < count:
        raise ConfigError(f"tensor: chunk: {index} is not within {count}")
    wanted = min(CHUNK_BYTES, nbytes - index * CHUNK_BYTES)
    if memoryview(chunk).nbytes != wanted:
        raise _altered(index, f"{memoryview(chunk).nbytes} bytes, but it has {wanted}")
    if _digest(dtype, shape, nbytes, merkle.inclusion_root(leaf(chunk), index, count, path)) != digest:
        raise _altered(index, "its bytes do not lead to the digest of the tensor")


def size_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Return the bytes that a tensor holds.

    Raises:
        ConfigError: A dtype without digest, or a negative size.
    """
    if dtype not in ITEM_BYTES:
        raise ConfigError(f"tensor: dtype: {dtype[:40]!r} has no digest")
    if any(size < 0 for size in shape):
        raise ConfigError(f"tensor: shape: {list(shape)} has a negative size")
    return prod(shape) * ITEM_BYTES[dtype]


def chunk_count(nbytes: int) -> int:
    """Return how many chunks so many bytes are cut into."""
    return -(-nbytes // CHUNK_BYTES)


def _digest(dtype: str, shape: Sequence[int], nbytes: int, root: bytes) -> str:
    sizes: list[Json] = list(shape)
    header = encode({"byteorder": "little", "dtype": dtype, "nbytes": nbytes, "order": "C", "shape": sizes, "v": 1})
    return _TEXT_PREFIX + sha256(b"%b\n%b\n%b" % (TENSOR_V1.encode(), header, root)).hexdigest()


def _altered(index: int, reason: str) -> TrustError:
    return TrustError(f"tensor: chunk {index}: {reason}", code="root-mismatch")
