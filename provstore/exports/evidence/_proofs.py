"""Inclusion proofs of many records of one tree."""

from __future__ import annotations

from provstore.evidence.merkle import node_hash

_HASH_BYTES = 32


class Levels:
    """Every level of an RFC 6962 tree, 64 bytes a record: proofs of all its leaves cost no hashing any more.

    The odd node at the end of a level is promoted, which equals the recursive definition.

    Args:
        leaves: The leaf hashes, one behind the other.
    """

    def __init__(self, leaves: bytearray) -> None:
        self._levels = [leaves]
        while len(self._levels[-1]) > _HASH_BYTES:
            self._levels.append(_parents(self._levels[-1]))

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self._levels[0]) // _HASH_BYTES

    def proof(self, index: int) -> list[bytes]:
        """Return the hashes that lead from a leaf to the root, its sibling first."""
        hashes = []
        for level in self._levels[:-1]:
            start = (index ^ 1) * _HASH_BYTES
            if start < len(level):
                hashes.append(bytes(level[start : start + _HASH_BYTES]))
            index >>= 1
        return hashes


def _parents(level: bytearray) -> bytearray:
    above = bytearray()
    pairs_end = len(level) - len(level) % (2 * _HASH_BYTES)
    for start in range(0, pairs_end, 2 * _HASH_BYTES):
        middle = start + _HASH_BYTES
        above += node_hash(bytes(level[start:middle]), bytes(level[middle : middle + _HASH_BYTES]))
    return above + level[pairs_end:]
