"""A recorded and signed run made by hand, for tests of what is checked of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from captures import FULL, RankCapture, floats

import provstore
from provstore.api.recording import record
from provstore.evidence.keys import PrivateKey
from provstore.ingest import recording
from provstore.journal import Journal
from provstore.model.verification import Verification

STATE = b'{"python":"made by hand"}'


@dataclass(frozen=True)
class Signed:
    """A store with one recorded, sealed run of one epoch."""

    store: Path
    key: PrivateKey

    @property
    def journal(self) -> Path:
        return self.store / "journal"

    def verified(self, *, blobs: bool = True) -> Verification:
        belief = provstore.belief(public_keys=[self.public], state=self.store.parent / "anchors")
        with provstore.open(f"embedded:{self.store}", read_only=True) as store:
            (answer,) = store.verify("job", belief=belief, refresh=False, blobs=blobs)
        return answer

    @property
    def public(self) -> Path:
        path = self.store.parent / "key.hex"
        path.write_text(self.key.public_key.hex())
        return path

    def blob(self, role: str) -> Path:
        """Return the file of the one blob of a role."""
        return self.path_of(self.sha256(role))

    def sha256(self, role: str) -> str:
        with Journal.open(self.journal, writable=False) as journal:
            (bundle,) = recording.stored_bundles(journal, "job")
            if role == "rng-state":
                (row,) = recording.table(journal, bundle, "rng")
                return row["blob"]
            if role == "agent record":
                return bundle.link["aep"]
            (blob,) = bundle.blobs(role)
            return blob["sha256"]

    def path_of(self, sha256: str) -> Path:
        return self.journal / "blobs" / sha256[:2] / f"{sha256}.zst"


def signed_capture(folder: Path) -> Signed:
    """Record and sign one epoch of one rank that has all there is: a snapshot, statistics, random states."""
    capture = RankCapture(folder / "capture", 0, 1)
    capture.begin(0)
    name = hashlib.sha256(STATE).hexdigest()
    capture.lines.append(
        {"t": "rng", "epoch": 0, "step": 0, "at_ns": 5, "where": "epoch", "digest": f"sha256:{name}", "blob": name,
         "states": ["python"]}
    )  # fmt: skip
    values = floats(*range(1000))
    said = capture.call(0, values, mode="full", policy=FULL)
    for side in ("in", "out"):
        capture.snapshot(said, side, values)
    capture.end(0)
    capture.write()
    (folder / "capture" / "blobs").mkdir()
    (folder / "capture" / "blobs" / name).write_bytes(STATE)
    key = PrivateKey.generate()
    record([folder / "capture"], store=f"embedded:{folder / 'store'}", signer=key)
    with provstore.open(f"embedded:{folder / 'store'}") as store:
        store.seal(run="job", signer=key, close="finished")
    return Signed(folder / "store", key)


def packed(data: bytes) -> bytes:
    """Return bytes as the journal packs a blob."""
    return pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
