"""RFC 6962 by its recursive definition: roots, proofs of inclusion and consistency, and proofs that must not hold."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

import pymerkle
import pytest

from provstore.errors import ConfigError, TrustError
from provstore.evidence import merkle

ROOTS_UPTO, PAIRS_UPTO = 300, 64
LINES = [b'{"n":%d}' % number for number in range(1_000)]


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def split(n):
    """RFC 6962, 2.1: the largest power of two smaller than n."""
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def naive_root(lines):
    if not lines:
        return sha()
    if len(lines) == 1:
        return sha(b"\x00", lines[0])
    k = split(len(lines))
    return sha(b"\x01", naive_root(lines[:k]), naive_root(lines[k:]))


def naive_path(m, lines):
    """RFC 6962, 2.1.1."""
    if len(lines) == 1:
        return []
    k = split(len(lines))
    if m < k:
        return [*naive_path(m, lines[:k]), naive_root(lines[k:])]
    return [*naive_path(m - k, lines[k:]), naive_root(lines[:k])]


def naive_proof(m, lines, whole=True):
    """RFC 6962, 2.1.2."""
    n = len(lines)
    if m == n:
        return [] if whole else [naive_root(lines)]
    k = split(n)
    if m <= k:
        return [*naive_proof(m, lines[:k], whole), naive_root(lines[k:])]
    return [*naive_proof(m - k, lines[k:], False), naive_root(lines[:k])]


LEAVES = merkle.leaf_hashes(LINES)
ROOTS = [naive_root(LINES[:n]) for n in range(ROOTS_UPTO + 1)]
FLIPPED = bytes([1]) + bytes(31)


def flip(hash_):
    return bytes(left ^ right for left, right in zip(hash_, FLIPPED))


def test_the_hashes_of_an_empty_tree_a_leaf_and_a_node_are_those_of_the_standard():
    assert merkle.EMPTY.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    # Published in the tests of Certificate Transparency: the empty leaf, and the leaf 0x00.
    assert merkle.leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle.leaf_hash(b"\0").hex() == "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
    assert merkle.node_hash(bytes(32), bytes(32)) == sha(b"\x01", bytes(64))
    assert LEAVES == [sha(b"\x00", line) for line in LINES] == [merkle.leaf_hash(line) for line in LINES]
    assert merkle.leaf_hashes(iter(LINES)) == LEAVES


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 100, 1_000])
def test_a_tree_grown_by_any_steps_has_the_root_of_the_definition(step):
    edge = merkle.Frontier()
    assert edge.root() == ROOTS[0]
    for start in range(0, ROOTS_UPTO, step):
        edge.extend(LEAVES[start : min(start + step, ROOTS_UPTO)])
        assert edge.root() == ROOTS[edge.size]

    assert edge.size == ROOTS_UPTO


def test_every_tree_of_up_to_300_leaves_has_the_root_of_the_definition():
    tree = merkle.Tree(LEAVES[:ROOTS_UPTO])
    grown = merkle.Frontier()
    for n in range(ROOTS_UPTO + 1):
        assert merkle.root_of(LEAVES[:n]) == tree.root(n) == grown.root() == ROOTS[n]
        grown.append(LEAVES[n])


@pytest.mark.parametrize("n", [1_000, 999])
def test_the_root_of_a_thousand_leaves_is_that_of_pymerkle(n):
    other = pymerkle.InmemoryTree(algorithm="sha256")
    for line in LINES[:n]:
        other.append_entry(line)

    assert merkle.root_of(LEAVES[:n]) == other.get_root() == naive_root(LINES[:n])


def test_a_copy_of_an_edge_grows_by_itself():
    edge = merkle.Frontier()
    edge.extend(LEAVES[:5])
    copy = edge.copy()
    copy.extend(LEAVES[5:13])

    assert (edge.size, edge.root()) == (5, ROOTS[5])
    assert (copy.size, copy.root()) == (13, ROOTS[13])


def holds(check, *args):
    try:
        check(*args)
    except TrustError as error:
        code = error.code
    else:
        return True
    assert code in {"root-mismatch", "cap-exceeded"}
    return False


def spoilt_hashes(proof):
    """Yield proofs that are not this one."""
    for at in range(len(proof)):
        yield [*proof[:at], flip(proof[at]), *proof[at + 1 :]]
        yield [*proof[:at], proof[at][:31], *proof[at + 1 :]]
        yield [*proof[:at], proof[at] + b"\0", *proof[at + 1 :]]
        yield [*proof[:at], b"", *proof[at + 1 :]]
        yield [*proof[:at], *proof[at + 1 :]]
        yield [*proof[:at], proof[at], *proof[at:]]
    yield [*proof, bytes(32)]
    yield [bytes(32), *proof]
    yield [*proof, b""]
    yield [*proof, *[bytes(32)] * merkle.MAX_PROOF_HASHES]
    if len(set(proof)) > 1:
        yield proof[::-1]


@pytest.mark.parametrize("size", range(1, PAIRS_UPTO + 1))
def test_every_proof_of_inclusion_holds_and_every_altered_one_fails(size):
    root, all_leaves = ROOTS[size], LEAVES[:size]
    tree = merkle.Tree(LEAVES[:PAIRS_UPTO])
    for index in range(size):
        proof = merkle.inclusion(LEAVES, index, size)
        leaf = LEAVES[index]

        assert proof == tree.inclusion(index, size) == naive_path(index, LINES[:size])
        assert holds(merkle.check_inclusion, leaf, index, size, root, proof)
        for spoilt in spoilt_hashes(proof):
            assert not holds(merkle.check_inclusion, leaf, index, size, root, spoilt)
        for other in {0, index - 1, index + 1, size - 1, size, -1, index + 2**63} - {index}:
            assert not holds(merkle.check_inclusion, leaf, other, size, root, proof)
        # A wrong size may leave the path as it is; it must not, where the path's length differs.
        for other in (0, index, -1, size * 2 + 1, 2**64):
            if len(naive_path_length(index, other)) != len(proof):
                assert not holds(merkle.check_inclusion, leaf, index, other, root, proof)
        assert not holds(merkle.check_inclusion, leaf, index, size, flip(root), proof)
        assert not holds(merkle.check_inclusion, flip(leaf), index, size, root, proof)
        assert not holds(merkle.check_inclusion, leaf[:31], index, size, root, proof)
        assert not holds(merkle.check_inclusion, leaf, index, size, root[:31], proof)
        assert not holds(merkle.check_inclusion, leaf, index, size, b"", proof)
    assert len(all_leaves) == size


def naive_path_length(index, size):
    """Return one entry a level of the path, or more than any path has where there is none."""
    if not 0 <= index < size:
        return [None] * 100
    levels = []
    while size > 1:
        k = split(size)
        index, size = (index, k) if index < k else (index - k, size - k)
        levels.append(None)
    return levels


@pytest.mark.parametrize("second", range(1, PAIRS_UPTO + 1))
def test_every_proof_of_consistency_holds_and_every_altered_one_fails(second):
    tree = merkle.Tree(LEAVES[:PAIRS_UPTO])
    for first in range(1, second + 1):
        proof = merkle.consistency(LEAVES, first, second)
        old, new = ROOTS[first], ROOTS[second]

        assert proof == tree.consistency(first, second) == naive_proof(first, LINES[:second])
        assert holds(merkle.check_consistency, first, old, second, new, proof)
        for spoilt in spoilt_hashes(proof):
            assert not holds(merkle.check_consistency, first, old, second, new, spoilt)
        for wrong in (flip(old), new if old != new else flip(new), old[:31], b""):
            assert not holds(merkle.check_consistency, first, wrong, second, new, proof)
        for wrong in (flip(new), old if old != new else flip(old), new[:31], b""):
            assert not holds(merkle.check_consistency, first, old, second, wrong, proof)
        for wrong in {0, -1, first - 1, first + 1, second + 1} - {first}:
            if (wrong, len(proof)) != (wrong, consistency_length(wrong, second)):
                assert not holds(merkle.check_consistency, wrong, old, second, new, proof)
        for wrong in (0, -1, first - 1):
            assert not holds(merkle.check_consistency, first, old, wrong, new, proof)


def consistency_length(first, second):
    return len(naive_proof(first, LINES[:second])) if 1 <= first <= second else -1


def test_no_tree_is_the_continuation_of_an_empty_one():
    """RFC 6962 defines the proof for sizes from 1; from 0 anything would follow."""
    for proof in ([], [ROOTS[4]], [bytes(32)]):
        with pytest.raises(TrustError) as refused:
            merkle.check_consistency(0, merkle.EMPTY, 4, ROOTS[4], proof)
        assert refused.value.code == "root-mismatch"


def test_a_proof_of_64_hashes_is_looked_at_and_one_of_65_is_not():
    for length, code in ((63, "root-mismatch"), (64, "root-mismatch"), (65, "cap-exceeded")):
        with pytest.raises(TrustError) as refused:
            merkle.check_inclusion(LEAVES[0], 0, 2**64, ROOTS[1], [bytes(32)] * length)
        assert refused.value.code == code
        with pytest.raises(TrustError) as refused:
            merkle.check_consistency(3, ROOTS[3], 2**64, ROOTS[4], [bytes(32)] * length)
        assert refused.value.code == code


def test_a_leaf_of_the_tree_of_2_to_the_64_needs_64_hashes():
    """The largest tree whose proofs are looked at, by hand: every sibling is the same."""
    found = LEAVES[0]
    for _ in range(64):
        found = sha(b"\x01", found, bytes(32))

    assert holds(merkle.check_inclusion, LEAVES[0], 0, 2**64, found, [bytes(32)] * 64)
    assert not holds(merkle.check_inclusion, LEAVES[0], 0, 2**63, found, [bytes(32)] * 64)


@pytest.mark.skipif(
    not os.environ.get("PROVSTORE_VECTORS"), reason="PROVSTORE_VECTORS names no folder with the public test vectors"
)
def test_the_probes_of_transparency_dev_are_judged_as_they_say():
    folders = [
        path for path in Path(os.environ["PROVSTORE_VECTORS"]).rglob("testdata") if (path / "inclusion").is_dir()
    ]
    assert folders
    judged = 0
    for path in sorted(folders[0].rglob("*.json")):
        probe = json.loads(path.read_text())
        numbers, proof = {k: int(v) for k, v in probe.items() if isinstance(v, int)}, probe.get("proof") or []
        data = {name: bytes64(probe.get(name) or "") for name in ("root", "leafHash", "root1", "root2")}
        hashes = [bytes64(one) for one in proof]
        if path.is_relative_to(folders[0] / "inclusion"):
            args = (data["leafHash"], numbers["leafIdx"], numbers["treeSize"], data["root"], hashes)
            said = holds(merkle.check_inclusion, *args)
        else:
            args = (numbers["size1"], data["root1"], numbers["size2"], data["root2"], hashes)
            # That set lets an empty first tree pass; here it never does.
            said = holds(merkle.check_consistency, *args)
            if numbers["size1"] == 0 and not probe["wantErr"]:
                assert not said
                continue
        assert said is not probe["wantErr"], path
        judged += 1
    assert judged > 150


def bytes64(text):
    return base64.b64decode(text)


def test_a_tree_gives_the_root_over_all_its_leaves_unless_a_size_is_said():
    for size in (0, 1, 2, 7, 64):
        assert merkle.Tree(LEAVES[:size]).root() == merkle.Tree(LEAVES[:size]).root(size) == ROOTS[size]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda tree: tree.root(6), "proof: size 6: not within a tree of 5 leaves"),
        (lambda tree: tree.root(-1), "proof: size -1: not within a tree of 5 leaves"),
        (lambda tree: tree.inclusion(5, 5), "proof: leaf 5 in 5: not within a tree of 5 leaves"),
        (lambda tree: tree.inclusion(-1, 5), "proof: leaf -1 in 5: not within a tree of 5 leaves"),
        (lambda tree: tree.inclusion(0, 6), "proof: leaf 0 in 6: not within a tree of 5 leaves"),
        (lambda tree: tree.consistency(0, 5), "proof: 0 before 5: not within a tree of 5 leaves"),
        (lambda tree: tree.consistency(4, 3), "proof: 4 before 3: not within a tree of 5 leaves"),
        (lambda tree: tree.consistency(4, 6), "proof: 4 before 6: not within a tree of 5 leaves"),
        (lambda _: merkle.root_of([bytes(31)]), "tree: leaf: is no hash of 32 bytes"),
    ],
)
def test_what_is_asked_of_a_tree_must_be_in_it(ask, message):
    with pytest.raises(ConfigError) as refused:
        ask(merkle.Tree(LEAVES[:5]))
    assert str(refused.value) == message


PROOF = merkle.inclusion(LEAVES, 2, 5)
GROWN = merkle.consistency(LEAVES, 3, 5)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((LEAVES[2], 2, 5, ROOTS[4], PROOF), "root-mismatch", "tree: leads to another root"),
        ((LEAVES[2], 5, 5, ROOTS[5], PROOF), "root-mismatch", "tree: leaf 5 is not within 5"),
        ((LEAVES[2], -1, 5, ROOTS[5], PROOF), "root-mismatch", "tree: leaf -1 is not within"),
        ((LEAVES[2], 2, 5, ROOTS[5], PROOF[:-1]), "root-mismatch", "tree: has fewer hashes"),
        ((LEAVES[2], 2, 5, ROOTS[5], [*PROOF, FLIPPED]), "root-mismatch", "tree: has more"),
        ((LEAVES[2], 2, 5, b"", PROOF), "root-mismatch", "tree: a hash is not 32 bytes"),
        ((b"", 2, 5, ROOTS[5], PROOF), "root-mismatch", "tree: a hash is not 32 bytes long"),
        ((LEAVES[2], 2, 5, ROOTS[5], [FLIPPED] * 65), "cap-exceeded", "hashes: more than 64"),
    ],
)  # fmt: skip
def test_why_a_proof_of_inclusion_does_not_hold_is_told(arguments, code, message):
    with pytest.raises(TrustError) as refused:
        merkle.check_inclusion(*arguments)
    assert refused.value.code == code
    assert str(refused.value).startswith(f"inclusion proof: {message}")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((3, ROOTS[4], 5, ROOTS[5], GROWN), "root-mismatch", "tree: leads to other roots"),
        ((3, ROOTS[3], 5, ROOTS[4], GROWN), "root-mismatch", "tree: leads to other roots"),
        ((0, ROOTS[3], 5, ROOTS[5], GROWN), "root-mismatch", "tree: no tree of 0 leaves comes before one of 5"),
        ((6, ROOTS[3], 5, ROOTS[5], GROWN), "root-mismatch", "tree: no tree of 6 leaves comes before one of 5"),
        ((5, ROOTS[5], 5, ROOTS[5], GROWN), "root-mismatch", "tree: equal sizes need equal roots and no hashes"),
        ((5, ROOTS[5], 5, ROOTS[4], []), "root-mismatch", "tree: equal sizes need equal roots and no hashes"),
        ((3, ROOTS[3], 5, ROOTS[5], []), "root-mismatch", "tree: has no hashes"),
        ((3, ROOTS[3], 5, ROOTS[5], GROWN[:-1]), "root-mismatch", "tree: has fewer hashes than the tree has levels"),
        ((3, ROOTS[3], 5, ROOTS[5], [*GROWN, FLIPPED]), "root-mismatch", "tree: has more hashes than the tree has"),
        ((3, b"", 5, ROOTS[5], GROWN), "root-mismatch", "tree: a hash is not 32 bytes long"),
        ((3, ROOTS[3], 5, b"", GROWN), "root-mismatch", "tree: a hash is not 32 bytes long"),
        ((3, ROOTS[3], 5, ROOTS[5], [b""]), "root-mismatch", "tree: a hash is not 32 bytes long"),
        ((3, ROOTS[3], 5, ROOTS[5], [FLIPPED] * 65), "cap-exceeded", "hashes: more than 64"),
    ],
)
def test_why_a_proof_of_consistency_does_not_hold_is_told(arguments, code, message):
    with pytest.raises(TrustError) as refused:
        merkle.check_consistency(*arguments)
    assert refused.value.code == code
    assert str(refused.value).startswith(f"consistency proof: {message}")
