"""Merkle trees over record lines: roots, proofs of inclusion and consistency, and their checks.

Source: RFC 6962, section 2.1; RFC 9162, sections 2.1.3.2 and 2.1.4.2, for the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from provstore.errors import ConfigError, TrustError

HASH_BYTES = 32
MAX_PROOF_HASHES = 64
EMPTY = sha256(b"").digest()
"""Root of the tree without leaves."""


def leaf_hash(line: bytes) -> bytes:
    """Return the hash of one record line, which has no line end."""
    return sha256(b"\x00" + line).digest()


def leaf_hashes(lines: Iterable[bytes]) -> list[bytes]:
    """Return the hashes of many record lines."""
    return [sha256(b"\x00" + line).digest() for line in lines]


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree: what is needed to give its root, and nothing else."""

    __slots__ = ("_peaks", "size")

    size: int
    """Leaves so far."""

    def __init__(self) -> None:
        self.size = 0
        # Root of the perfect subtree of 2**level leaves where bit `level` of the size is 1, else b"".
        self._peaks: list[bytes] = []

    def copy(self) -> Frontier:
        """Return another frontier of the same tree, which grows by itself."""
        other = Frontier()
        other.size = self.size
        other._peaks = list(self._peaks)
        return other

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        self.extend((leaf,))

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes in order, level by level."""
        row = list(leaves)
        if any(len(leaf) != HASH_BYTES for leaf in row):
            raise ConfigError(f"tree: leaf: is no hash of {HASH_BYTES} bytes")
        self.size += len(row)
        level = 0
        while row:
            if level == len(self._peaks):
                self._peaks.append(b"")
            if self._peaks[level]:
                row.insert(0, self._peaks[level])
            self._peaks[level] = row.pop() if len(row) % 2 else b""
            row = _parents(row)
            level += 1

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        found = b""
        for peak in self._peaks:
            if peak:
                found = node_hash(peak, found) if found else peak
        return found or EMPTY


class Tree:
    """A tree with all its levels in memory, 64 bytes a leaf, which gives any proof in few steps."""

    __slots__ = ("_levels", "size")

    size: int

    def __init__(self, leaves: Sequence[bytes]) -> None:
        row = list(leaves)
        self.size = len(row)
        # Level k holds the roots of all whole subtrees of 2**k leaves, joined.
        self._levels = [b"".join(row)]
        while len(row) > 1:
            row = _parents(row if len(row) % 2 == 0 else row[:-1])
            self._levels.append(b"".join(row))

    def root(self, size: int | None = None) -> bytes:
        """Return the root over the first ``size`` leaves, or over all."""
        upto = self.size if size is None else size
        self._require(0 <= upto <= self.size, f"size {upto}")
        return self._range(0, upto) if upto else EMPTY

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """Return the hashes from the leaf's sibling upward that prove it to be in the tree of ``size`` leaves."""
        self._require(0 <= index < size <= self.size, f"leaf {index} in {size}")
        proof: list[bytes] = []
        start, end = 0, size
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                proof.append(self._range(middle, end))
                end = middle
            else:
                proof.append(self._range(start, middle))
                start = middle
        return proof[::-1]

    def consistency(self, first: int, second: int) -> list[bytes]:
        """Return the hashes that prove the tree of ``first`` leaves to be the beginning of that of ``second``."""
        self._require(1 <= first <= second <= self.size, f"{first} before {second}")
        proof: list[bytes] = []
        start, end, whole = 0, second, True
        while first != end:
            middle = start + _split(end - start)
            if first <= middle:
                proof.append(self._range(middle, end))
                end = middle
            else:
                proof.append(self._range(start, middle))
                start, whole = middle, False
        if not whole:
            proof.append(self._range(start, end))
        return proof[::-1]

    def _range(self, start: int, end: int) -> bytes:
        """Return the root over leaves [start, end), a node that the recursive definition has."""
        width = end - start
        if width & (width - 1) == 0:
            level = width.bit_length() - 1
            at = (start >> level) * HASH_BYTES
            return self._levels[level][at : at + HASH_BYTES]
        middle = start + _split(width)
        return node_hash(self._range(start, middle), self._range(middle, end))

    def _require(self, holds: bool, what: str) -> None:
        if not holds:
            raise ConfigError(f"proof: {what}: not within a tree of {self.size} leaves")


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    edge = Frontier()
    edge.extend(leaves)
    return edge.root()


def inclusion(leaves: Sequence[bytes], index: int, size: int) -> list[bytes]:
    """Return the hashes that prove leaf ``index`` to be in the tree over the first ``size`` of ``leaves``.

    For many proofs over the same leaves, make one :class:`Tree`.

    Raises:
        ConfigError: There is no such leaf.
    """
    return Tree(leaves[:size]).inclusion(index, size)


def consistency(leaves: Sequence[bytes], first: int, second: int) -> list[bytes]:
    """Return the hashes that prove the tree of ``first`` leaves to be the beginning of that of ``second``.

    Raises:
        ConfigError: There are no such trees.
    """
    return Tree(leaves[:second]).consistency(first, second)


def check_inclusion(leaf: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """Check that ``leaf`` is number ``index`` in the tree of ``size`` leaves with this root.

    Raises:
        TrustError: ``root-mismatch``, or ``cap-exceeded`` for a proof of too many hashes.
    """
    _require_hashes("inclusion proof", (root,), ())
    if inclusion_root(leaf, index, size, proof) != root:
        raise _broken("inclusion proof", "leads to another root")


def inclusion_root(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """Return the root of the tree of ``size`` leaves in which ``proof`` shows ``leaf`` to be number ``index``.

    Raises:
        TrustError: ``root-mismatch``: there is no such place, or the proof has too few or too many hashes for it;
            ``cap-exceeded`` for a proof of too many hashes.
    """
    _require_hashes("inclusion proof", (leaf,), proof)
    if not 0 <= index < size:
        raise _broken("inclusion proof", f"leaf {index} is not within {size}")
    node, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise _broken("inclusion proof", "has more hashes than the tree has levels")
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            # The last node of a level, without sibling there, is carried up unchanged; it is not 0, or `last` would be.
            while node & 1 == 0:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise _broken("inclusion proof", "has fewer hashes than the tree has levels")
    return found


def check_consistency(first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the tree of ``first`` leaves is the beginning of the tree of ``second`` leaves.

    Raises:
        TrustError: ``root-mismatch``, or ``cap-exceeded`` for a proof of too many hashes.
    """
    what = "consistency proof"
    _require_hashes(what, (first_root, second_root), proof)
    if not 1 <= first <= second:
        raise _broken(what, f"no tree of {first} leaves comes before one of {second}")
    if first == second:
        if proof or first_root != second_root:
            raise _broken(what, "equal sizes need equal roots and no hashes")
        return
    hashes = list(proof)
    if first & (first - 1) == 0:
        hashes.insert(0, first_root)
    if not hashes:
        raise _broken(what, "has no hashes")
    old, new = _climbed(hashes, first - 1, second - 1)
    if old != first_root or new != second_root:
        raise _broken(what, "leads to other roots")


def _climbed(hashes: Sequence[bytes], node: int, last: int) -> tuple[bytes, bytes]:
    """Return the two roots that a consistency proof leads to."""
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            raise _broken("consistency proof", "has more hashes than the tree has levels")
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while node & 1 == 0:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise _broken("consistency proof", "has fewer hashes than the tree has levels")
    return old, new


def _parents(row: Sequence[bytes]) -> list[bytes]:
    """Return the hashes of neighbouring pairs of a row of even length."""
    return [sha256(b"\x01%b%b" % pair).digest() for pair in zip(row[::2], row[1::2])]


def _split(size: int) -> int:
    """Return the largest power of two below ``size``, which is 2 at least."""
    return 1 << (size - 1).bit_length() - 1


def _broken(what: str, reason: str) -> TrustError:
    return TrustError(f"{what}: tree: {reason}", code="root-mismatch")


def _require_hashes(what: str, ends: Sequence[bytes], proof: Sequence[bytes]) -> None:
    if len(proof) > MAX_PROOF_HASHES:
        raise TrustError(f"{what}: hashes: more than {MAX_PROOF_HASHES}", code="cap-exceeded")
    if any(len(one) != HASH_BYTES for one in (*ends, *proof)):
        raise _broken(what, f"a hash is not {HASH_BYTES} bytes long")
