"""The proof of every record of a run, checked by a verifier of 40 lines that knows RFC 6962 and notes only."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.foreign.exports import exported
from tests.signed_logs import signed_run


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def root_over(leaf: bytes, index: int, size: int, hashes: Sequence[bytes]) -> bytes:
    """Return the root by the recursive definition: the tree of ``size`` leaves splits at the largest power of two."""
    if size == 1:
        if hashes:
            raise ValueError("too many hashes")
        return leaf
    if not hashes or len(hashes[-1]) != 32:
        raise ValueError("too few hashes, or a short one")
    split = 1 << (size - 1).bit_length() - 1
    if index < split:
        return sha(b"\1" + root_over(leaf, index, split, hashes[:-1]) + hashes[-1])
    return sha(b"\1" + hashes[-1] + root_over(leaf, index - split, size - split, hashes[:-1]))


def holds(proof: bytes, record: bytes, key: bytes) -> bool:
    """Return whether a proof shows that a record is in a tree whose checkpoint this key signed."""
    head, _, note = proof.decode().partition("\n\n")
    version, number, *lines = head.split("\n")
    text, _, signature = note.partition("\n\n")
    origin, size, root = text.split("\n")
    named = re.fullmatch(r"— (\S+) (\S+)\n", signature)
    if version != "c2sp.org/tlog-proof@v1" or named is None or named[1] != origin:
        return False
    public = load_pem_public_key(key)
    raw = public.public_bytes_raw()
    said = base64.b64decode(named[2], validate=True)
    try:
        public.verify(said[4:], f"{text}\n".encode())
        index = int(number.removeprefix("index "))
        found = root_over(sha(b"\0" + record), index, int(size), [base64.b64decode(line) for line in lines])
    except (InvalidSignature, ValueError):
        return False
    is_named = said[:4] == sha(f"{origin}\n".encode() + b"\1" + raw)[:4]
    return is_named and 0 <= index < int(size) and found == base64.b64decode(root)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("proofs") / "out"
    exported(directory, signed_run(sizes=[1, 300, 299, 400], closed=True), records="all")
    return directory


def read(out: Path, index: int) -> tuple[bytes, bytes, bytes]:
    return (
        (out / f"record-{index}.tlog-proof").read_bytes(),
        (out / f"record-{index}.json").read_bytes(),
        (out / "pub.pem").read_bytes(),
    )


def test_the_proof_of_every_record_of_a_run_of_1000_holds(out: Path) -> None:
    assert [index for index in range(1000) if not holds(*read(out, index))] == []


def test_no_proof_holds_for_the_record_before(out: Path) -> None:
    for index in range(1, 1000, 7):
        proof, _, key = read(out, index)
        assert not holds(proof, read(out, index - 1)[1], key)


@pytest.mark.parametrize("index", [0, 1, 511, 512, 999])
def test_a_wrong_index_size_or_root_and_a_short_missing_or_added_hash_are_rejected(out: Path, index: int) -> None:
    proof, record, key = read(out, index)
    text = proof.decode()
    head, _, note = text.partition("\n\n")
    lines = head.split("\n")
    root = note.split("\n")[2]
    short = base64.b64encode(base64.b64decode(lines[2])[:31]).decode()
    wrong = {
        "index": text.replace(f"index {index}\n", f"index {index ^ 1}\n"),
        "index beyond": text.replace(f"index {index}\n", "index 1000\n"),
        "size": text.replace("\n1000\n", "\n1001\n"),
        "root": text.replace(root, base64.b64encode(sha(b"")).decode()),
        "short": text.replace(lines[2], short),
        "missing": "\n".join(lines[:-1]) + "\n\n" + note,
        "added": "\n".join((*lines, lines[-1])) + "\n\n" + note,
    }

    assert holds(proof, record, key)
    assert {name: holds(told.encode(), record, key) for name, told in wrong.items()} == dict.fromkeys(wrong, False)


def test_a_proof_in_an_export_of_one_epoch_leads_to_the_checkpoint_of_that_epoch(tmp_path: Path) -> None:
    exported(tmp_path / "out", epoch=1, records=[3, 79])
    note = (tmp_path / "out" / "checkpoint").read_text()

    assert note.split("\n")[1] == "80"
    assert holds(*read(tmp_path / "out", 3))
    assert holds(*read(tmp_path / "out", 79))
