"""Exported evidence with one bit flipped: found, or of no meaning to what is signed.

300 flips are drawn, with ``PROVSTORE_LONG=1`` 6,000; ``PROVSTORE_FLIPS_SEED`` repeats a draw.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from provstore.errors import ProvstoreError
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.walk import verify
from provstore.exports.evidence import EvidenceExportOptions
from provstore.exports.evidence.writer import export
from tests.signed_logs import signed_run

FLIPS = 3000 if os.environ.get("PROVSTORE_LONG") == "1" else 150
SEED = int(os.environ.get("PROVSTORE_FLIPS_SEED") or random.randrange(2**32))


def codes(directory: Path, trust: Trust) -> set[str]:
    """Return what a verification finds, or the kind of the error that ends it."""
    try:
        log = ExportedEvidence(directory)
        return {one.code for one in verify(log, trust, source="files").findings}
    except ProvstoreError as error:
        return {type(error).__name__}


@pytest.mark.parametrize("form", ["dsse.json", "sigstore.json"])
def test_every_flipped_bit_of_an_export_is_found_or_changes_nothing_that_counts(form: str, tmp_path: Path) -> None:
    log = signed_run(sizes=[5, 4, 6], closed=True)
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions())
    for path in tmp_path.glob("out/epoch-*.json"):
        if not path.name.endswith(form):
            path.unlink()
    trust = Trust.of_keys(list(log.publics.values()), "test")
    read = sorted(path for path in (tmp_path / "out").glob("epoch-*") if path.suffix not in {".bin", ".raw"})
    print(f"{form}: {FLIPS} flips, seed {SEED}")
    chosen = random.Random(f"{SEED} {form}")

    assert codes(tmp_path / "out", trust) == {"unanchored"}
    missed = []
    for _ in range(FLIPS):
        path = chosen.choice(read)
        whole = path.read_bytes()
        at, bit = chosen.randrange(len(whole)), chosen.randrange(8)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        if codes(tmp_path / "out", trust) == {"unanchored"}:
            missed.append((path.name, at, bit, whole[max(0, at - 12) : at + 12]))
        path.write_bytes(whole)

    # What stands beside the envelope in a Sigstore bundle names the key, and nothing is concluded from it.
    beside = (
        (tmp_path / "out" / "epoch-0.sigstore.json").read_bytes().find(b',"mediaType"') if form != "dsse.json" else 0
    )
    counted = [one for one in missed if not (one[0].endswith("sigstore.json") and one[1] > beside > 0)]
    assert counted == [], f"seed {SEED}"
