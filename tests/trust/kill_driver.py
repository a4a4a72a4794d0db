"""Does what users do, says what was acknowledged, and goes on until it is killed.

It reads orders from standard input, ``SEED-HEX`` first, then one line of JSON an order, and carries each out in a
process of its own, forked when everything is imported. It answers ``pid N``, the acknowledgements, and ``ended``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import provstore
from provstore.api import evidence_export
from provstore.evidence import keys
from provstore.evidence.trust import changes
from provstore.evidence.trust import file as trust_file
from provstore.exports.evidence import EvidenceExportOptions
from provstore.journal import writer
from provstore.model.evidence import Observation

RUN = "job"
ROLL_BYTES = 12_000
"""Segments roll every few operations, so that many kills hit a roll."""


def say(**acknowledged: Any) -> None:
    """Tell the one who kills, at once and whole."""
    os.write(1, json.dumps(acknowledged).encode() + b"\n")


def root_key(seed: bytes, version: int) -> keys.PrivateKey:
    """Return the root key of one version of the trust file."""
    return keys.PrivateKey.from_seed(hashlib.sha256(seed + b"root %d" % version).digest())


def observations(label: str, count: int = 3) -> list[Observation]:
    return [
        Observation(f"{label}-{at}", {"loss": 0.5}, rank=at % 2, step=at, at_ns=time.time_ns()) for at in range(count)
    ]


def ingest(order: dict[str, str], seed: bytes) -> None:
    """Ingest file by file, with records between."""
    del seed
    with provstore.open(f"embedded:{order['store']}") as store:
        say(open=True)
        for path in sorted(Path(order["dumps"]).iterdir()):
            store.ingest(path, run=RUN)
            say(file=path.name)
            label = f"{order['number']}-{path.name}"
            store.record(observations(label), run=RUN)
            say(label=label)


def seal(order: dict[str, str], seed: bytes) -> None:
    """Record and sign in turns."""
    with provstore.open(f"embedded:{order['store']}") as store:
        say(open=True)
        for at in range(30):
            label = f"{order['number']}-{at}"
            store.record(observations(label), run=RUN)
            say(label=label)
            sealed = store.seal(signer=keys.PrivateKey.from_seed(seed))
            say(note=sealed.runs[0].checkpoint)


def export(order: dict[str, str], seed: bytes) -> None:
    """Record, sign, export, exchange the root key of the trust file, and rebuild the graph, in turns."""
    uri, trust_path, state = f"embedded:{order['store']}", Path(order["trust"]), Path(order["state"])
    say(open=True)
    for at in range(6):
        label = f"{order['number']}-{at}"
        with provstore.open(uri) as store:
            store.record(observations(label), run=RUN)
            say(label=label)
            say(note=store.seal(signer=keys.PrivateKey.from_seed(seed)).runs[0].checkpoint)
        with evidence_export.opened(uri) as found:
            options = EvidenceExportOptions(overwrite=True)
            found.exported(order["export"], options=options, public_keys=[order["public"]])
        say(exported=label)
        held = trust_file.read(trust_path)
        old, new = root_key(seed, held.trust.version), root_key(seed, held.trust.version + 1)
        changed = changes.rotated(held.trust, keys.fingerprint(old.public_key), new.public_key)
        trust_file.publish(trust_path, changed, [old, new], old=held, state=state)
        say(version=changed.version)
        provstore.rebuild(uri)
        say(rebuilt=True)


ORDERS: dict[str, Callable[[dict[str, str], bytes], None]] = {"ingest": ingest, "seal": seal, "export": export}


def main() -> None:
    writer.ROLL_BYTES = ROLL_BYTES
    seed = base64.b64decode(sys.stdin.readline())
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                ORDERS[order["what"]](order, seed)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        say(pid=pid)
        _, status = os.waitpid(pid, 0)
        say(ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
