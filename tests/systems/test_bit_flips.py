"""Single-bit flips of signed things: each is found, or shown to change nothing, and none is an accident of the code.

6,000 flips are drawn; ``PROVSTORE_LONG=1`` tries every bit, ``PROVSTORE_FLIPS_SEED`` repeats a draw.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from provstore.errors import ProvstoreError, TrustError
from provstore.evidence import checkpoint, merkle
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust import changes, document
from provstore.evidence.trust.keys import TrustedKey
from provstore.journal import Journal
from tests.journal_edits import write
from tests.sealing import leaf, line, sealed, trusting
from tests.unit.evidence.verifying import checked, faults

LONG = os.environ.get("PROVSTORE_LONG") == "1"
SEED = int(os.environ.get("PROVSTORE_FLIPS_SEED") or random.randrange(2**32))
DRAWN = {"bundle": 800, "checkpoint": 900, "proof": 900, "trust file": 900, "journal": 900}


def flips(what: str, data: bytes) -> Iterator[bytes]:
    """The bytes with one bit changed: of those drawn, or of all."""
    bits = range(len(data) * 8)
    chosen = bits if LONG else sorted(random.Random(f"{SEED} {what}").sample(bits, min(DRAWN[what], len(bits))))
    print(f"{what}: {len(chosen)} of {len(bits)} bits, seed {SEED}")
    for bit in chosen:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def missed(what: str, data: bytes, is_found: Callable[[bytes], bool]) -> list[int]:
    """The bits whose flip nobody found; anything but a deliberate error ends the test."""
    unfound = []
    for changed in flips(what, data):
        try:
            found = is_found(changed)
        except ProvstoreError:
            found = True
        if not found:
            unfound.append(next(at for at, (old, new) in enumerate(zip(data, changed)) if old != new))
    return unfound


@pytest.fixture(scope="module")
def run():
    made = sealed([3, 3])
    made.add([line("run-close", 0, reason="finished", records=6, batches=0)])
    return made


@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_flip_of_a_bundle_is_found(run, position):
    trust, log = trusting(run.key), run.log()
    assert faults(checked(log, trust)) == []

    def is_found(envelope: bytes) -> bool:
        changed = log.copy()
        changed.signed[position] = replace(changed.signed[position], envelope=envelope)
        return faults(checked(changed, trust)) != []

    assert missed("bundle", log.signed[position].envelope, is_found) == []


def test_every_flip_of_a_checkpoint_is_found(run):
    trust, log = trusting(run.key), run.log()

    def is_found(note: bytes) -> bool:
        changed = log.copy()
        changed.signed[1] = replace(changed.signed[1], checkpoint=note)
        return faults(checked(changed, trust)) != []

    assert missed("checkpoint", log.signed[1].checkpoint or b"", is_found) == []


def test_every_flip_of_a_proof_is_found(run):
    leaves = [leaf(one) for one in run.lines]
    proof = checkpoint.tlog_proof(4, merkle.inclusion(leaves, 4, 7), run.log().signed[2].checkpoint)

    def is_found(data: bytes) -> bool:
        index, hashes, point = checkpoint.parse_tlog_proof(data)
        merkle.check_inclusion(leaves[4], index, point.size, point.root, hashes)
        return not checkpoint.check(point, run.key.public_key)

    assert is_found(proof) is False
    assert missed("proof", proof, is_found) == []


def test_every_flip_of_a_trust_file_is_found_or_changes_nothing(run):
    root = PrivateKey.generate()
    keys = [
        TrustedKey(fingerprint(key.public_key), "ed25519", key.public_key, role)
        for key, role in ((run.key, "run"), (PrivateKey.generate(), "rank"))
    ]
    made = changes.with_keys(changes.first([root.public_key]), keys)
    made = changes.revoked(made, keys[1].keyid, "2026-01-01T00:00:00Z", "lost")
    data = document.sign(made, [root])
    pinned = document.parse(data, "held").trust.root
    words = document.parse(data, "held").trust

    def is_found(changed: bytes) -> bool:
        read = document.parse(changed, "held")
        if fingerprint(root.public_key) not in read.signers(pinned):
            return True
        # What is still signed is still the same, whatever became of the part that nobody signs.
        assert read.trust == words
        return False

    unfound = missed("trust file", data, is_found)
    assert not unfound


def test_every_flip_of_a_journal_segment_is_found_or_changes_nothing(tmp_path, run):
    directory = tmp_path / "journal"
    with Journal.open(directory, writable=True) as journal:
        made = sealed([3, 3], store=journal.journal_id)
        write(journal, made.log())
    (path,) = directory.glob("seg-*.pvj")
    whole = path.read_bytes()
    trust = trusting(made.key)

    def judged() -> tuple[list[str], list[bytes], list[bytes]]:
        with Journal.open(directory, writable=False) as journal:
            log = journal.evidence("run-1", 0)
            damage = [problem.code for problem in journal.check()]
            told = [*damage, *faults(checked(log, trust))]
            return told, [one.line for one in log.records()], [one.envelope for one in log.bundles()]

    before = judged()
    assert before[0] == []

    def is_found(data: bytes) -> bool:
        path.write_bytes(data)
        after = judged()
        return after[0] != [] or after[1:] == before[1:]

    assert missed("journal", whole, is_found) == []


def test_a_seed_draws_the_same_flips_again():
    assert list(flips("bundle", bytes(400))) == list(flips("bundle", bytes(400)))


def test_a_flip_that_raises_anything_but_a_deliberate_error_ends_the_test():
    def stumble(_: bytes) -> bool:
        raise KeyError("member")

    with pytest.raises(KeyError):
        missed("proof", b"x", stumble)
    assert missed("proof", b"x", lambda _: False) == [0] * 8

    def refuse(_: bytes) -> bool:
        raise TrustError("refused", code="bad-signature")

    assert missed("proof", b"x", refuse) == []
