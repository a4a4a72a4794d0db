#!/usr/bin/env python3
"""Signing a million records with one signature an epoch, beside one each; hashing, signing and verifying beside peers.

A million records of about 338 bytes are made canonical, hashed into the run's tree and signed: ten epochs of 100,000,
one signature each. Beside it the same records are signed singly with PyNaCl, on a part, scaled up and said so. The
journal's write is measured on its own, since it is not part of the bar. Every side runs in a fresh process; figures
are CPU seconds of one core, without interpreter start, imports and the making of the input.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RECORDS, EPOCH = 1_000_000, 100_000
SEAL_BAR, SEAL_AIM, TOLERANCE = 5.0, 4.0, 1.3
VERIFY_BAR_MB = 300
RATES = {"sign": 20_000.0, "verify": 8_000.0}
SHA256_BAR_GB = 1.0
Figures = dict[str, Any]


def main() -> int:
    """Measure every side and print the table; 1 when a bar is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeat", type=int, default=3, help="runs of each side; the median counts")
    options.add_argument("--records", type=int, default=RECORDS, help="records; the bars are scaled with them")
    options.add_argument("--quick", action="store_true", help="a twentieth of the records, once; for a first look")
    options.add_argument("--json", type=Path, help="write all figures there")
    options.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = options.parse_args()
    records, repeat = (RECORDS // 20, 1) if given.quick else (given.records, given.repeat)
    if given.side:
        print(json.dumps(SIDES[given.side](given.records)))
        return 0
    found = {side: _median([_fresh(side, records) for _ in range(repeat)]) for side in SIDES}
    lines = list(_table(found, records, repeat))
    print("\n".join(line for line, _ in lines))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return int(any(is_missed for _, is_missed in lines))


def _fresh(side: str, records: int) -> Figures:
    command = [sys.executable, __file__, "--side", side, "--records", str(records)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


def _median(runs: list[Figures]) -> Figures:
    """Return the run whose first figure is the median."""
    return sorted(runs, key=lambda run: float(next(iter(run.values()))))[len(runs) // 2]


def _table(found: dict[str, Figures], records: int, repeat: int) -> Iterator[tuple[str, bool]]:
    """Yield each line of the table, and whether it misses a bar."""

    def judged(line: str, value: float, bar: float, *, least: bool = False) -> tuple[str, bool]:
        is_missed = value < bar / TOLERANCE if least else value > bar * TOLERANCE
        mark = "MISSED" if is_missed else ("met" if (value >= bar if least else value <= bar) else "met within 30 %")
        return f"{line}  bar {'≥' if least else '≤'} {bar:g}: {mark}", is_missed

    share = records / RECORDS
    seal, single, verify = found["one signature an epoch"], found["one signature a record"], found["verify"]
    yield f"{records:,} records of {seal['bytes_each']:.0f} B; CPU seconds, median of {repeat}", False
    parts = ", ".join(f"{name} {seal[name]:.2f}" for name in ("canonical", "tree", "rest"))
    details = f"({parts}; {seal['epochs']} epochs; aim {SEAL_AIM * share:g})"
    line = f"one signature an epoch   {seal['cpu_seconds']:8.2f}  {details}"
    yield judged(line, seal["cpu_seconds"], SEAL_BAR * share)
    details = f"(canonical and PyNaCl, scaled up from {single['measured']:,})"
    yield f"one signature a record   {single['cpu_seconds']:8.2f}  {details}", False
    written = found["journal"]
    yield f"journal write, beyond it {written['cpu_seconds']:8.2f}  ({written['wall_seconds']:.2f} s wall)", False
    yield f"verify, from the journal {verify['cpu_seconds']:8.2f}  ({verify['findings']})", False
    yield judged(f"verify, most memory      {verify['peak_mb']:8.0f} MB", verify["peak_mb"], VERIFY_BAR_MB)
    rates = found["rates"]
    for name, bar in RATES.items():
        beside = f"openssl speed {rates[f'openssl_{name}']:,.0f} (32 B)" if rates[f"openssl_{name}"] else "no openssl"
        yield judged(f"{name} 700 B, a second     {rates[name]:10,.0f}  beside {beside}", rates[name], bar, least=True)
    yield judged(
        f"sha256                   {rates['sha256_gb']:8.2f} GB/s", rates["sha256_gb"], SHA256_BAR_GB, least=True
    )


def _value(at: int) -> dict[str, Any]:
    """Return one record as a collector states it."""
    numbers = f"{at * 2654435761 % (1 << 32):08x}"
    return {
        "schema": 1,
        "kind": "observation",
        "run": "run-7b",
        "attempt": 0,
        "n": at // 8,
        "rank": at % 8,
        "at": f"i64:{1_790_000_000_000_000_000 + at * 1_000_003}",
        "name": "layer17.weight",
        "step": at // 64,
        "values": [
            {"n": "digest", "t": "s", "v": numbers * 8},
            {"n": "norm", "t": "f", "v": (at * 0.37 + 0.1).hex().join(("f64:", ""))},
            {"n": "shape", "t": "s", "v": "[64, 4096]"},
        ],
    }


@functools.cache
def _signer() -> Any:
    from provstore.evidence.keys import PrivateKey

    return PrivateKey.generate()


def _one_signature_an_epoch(records: int) -> Figures:
    from provstore.evidence import bundles, merkle
    from provstore.model import canonical

    bundles.Ledger("warm", 0, "0" * 32).add([canonical.encode(_value(0))])
    signer, total, spent = _signer(), 0, dict.fromkeys(("canonical", "tree", "rest"), 0.0)
    ledger, limits = bundles.Ledger("run-7b", 0, "0" * 32), bundles.Limits(EPOCH)
    for first in range(0, records, EPOCH):
        values = [_value(at) for at in range(first, min(records, first + EPOCH))]
        ranks = [at % 8 for at in range(first, min(records, first + EPOCH))]
        steps = [at // 64 for at in range(first, min(records, first + EPOCH))]
        started = time.process_time()
        lines = [canonical.encode(value) for value in values]
        encoded = time.process_time()
        ledger.add_plain(lines, ranks, steps)
        while ledger.pending:
            ledger.accept(ledger.seal(signer, limits=limits))
        ended = time.process_time()
        # What hashing alone costs, once more beside it, to tell its share.
        merkle.Frontier().extend(merkle.leaf_hashes(lines))
        tree = time.process_time() - ended
        spent["canonical"] += encoded - started
        spent["tree"] += tree
        spent["rest"] += ended - encoded - tree
        total += sum(map(len, lines))
    facts = {"bytes_each": total / records, "epochs": ledger.number, "size": ledger.size}
    assert ledger.size == records
    return {"cpu_seconds": sum(spent.values()), **spent, **facts}


def _one_signature_a_record(records: int) -> Figures:
    import nacl.signing

    from provstore.model import canonical

    key, part = nacl.signing.SigningKey.generate(), min(records, 50_000)
    values = [_value(at) for at in range(part)]
    started = time.process_time()
    for value in values:
        key.sign(canonical.encode(value))
    return {"cpu_seconds": (time.process_time() - started) * records / part, "measured": part}


def _filled(place: Path, records: int) -> tuple[float, float]:
    """Write records and bundles into a journal; return CPU and wall seconds of the writing alone."""
    from provstore.evidence import bundles
    from provstore.journal import Journal
    from provstore.model import canonical

    cpu = wall = 0.0
    with Journal.open(place, writable=True) as journal:
        ledger = bundles.Ledger("run-7b", 0, journal.journal_id)
        for first in range(0, records, EPOCH):
            own = range(first, min(records, first + EPOCH))
            lines, ranks = [canonical.encode(_value(at)) for at in own], [at % 8 for at in own]
            started, began = time.process_time(), time.perf_counter()
            journal.append_records(ledger.run, 0, lines)
            cpu, wall = cpu + time.process_time() - started, wall + time.perf_counter() - began
            ledger.add_plain(lines, ranks, [at // 64 for at in own])
            sealed = ledger.seal(_signer(), limits=bundles.Limits(EPOCH))
            journal.append_bundle(ledger.run, 0, sealed.envelope, sealed.note)
            ledger.accept(sealed)
    return cpu, wall


def _journal(records: int) -> Figures:
    place = Path(tempfile.mkdtemp(prefix="bench-trust-"))
    try:
        cpu, wall = _filled(place, records)
        return {"cpu_seconds": cpu, "wall_seconds": wall}
    finally:
        shutil.rmtree(place)


def _verify(records: int) -> Figures:
    """Fill a journal in a child, so that only the verification counts in this process's memory."""
    place = Path(tempfile.mkdtemp(prefix="bench-trust-"))
    try:
        public_end, child_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            _filled(place, records)
            os.write(child_end, _signer().public_key)
            os._exit(0)
        public = os.read(public_end, 32)
        assert os.waitpid(pid, 0)[1] == 0
        return _verified(place, public, records)
    finally:
        shutil.rmtree(place)


def _verified(place: Path, public: bytes, records: int) -> Figures:
    from provstore.evidence.trust.keys import Trust
    from provstore.evidence.verify.walk import verify
    from provstore.journal import Journal

    trust = Trust.of_keys([public], "bench")
    started = time.process_time()
    with Journal.open(place, writable=False) as journal:
        log = journal.evidence("run-7b", 0)
        checked = verify(log, trust, (), at=None, org="provstore", source="journal")
    cpu = time.process_time() - started
    codes = sorted({found.code for found in checked.findings})
    assert codes == ["not-closed", "unanchored"], codes
    assert checked.signed == records
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_seconds": cpu, "peak_mb": peak, "findings": "no fault found"}


def _rates(records: int) -> Figures:
    from provstore.evidence import keys

    del records
    signer, message = _signer(), os.urandom(700)
    signature = signer.sign(message)
    data = os.urandom(64 * 1024 * 1024)
    started = time.process_time()
    for _ in range(4):
        hashlib.sha256(data).digest()
    sha = 4 * len(data) / 1e9 / (time.process_time() - started)
    peer = _openssl()
    return {
        "sign": _rate(lambda: signer.sign(message)),
        "verify": _rate(lambda: keys.is_signed(signer.public_key, message, signature)),
        "sha256_gb": sha,
        "openssl_sign": peer[0],
        "openssl_verify": peer[1],
    }


def _rate(call: Callable[[], object], seconds: float = 0.7) -> float:
    """Return calls a CPU second: the median of five rounds."""
    found = []
    for _ in range(5):
        count, started = 0, time.process_time()
        while time.process_time() - started < seconds / 5:
            for _ in range(100):
                call()
            count += 100
        found.append(count / (time.process_time() - started))
    return statistics.median(found)


def _openssl() -> tuple[float, float]:
    """Return what ``openssl speed`` signs and verifies a second; zeros without it."""
    if shutil.which("openssl") is None:
        return 0.0, 0.0
    asked = ["openssl", "speed", "-seconds", "1", "ed25519"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = re.search(r"Ed25519\S*\s+\S+s\s+\S+s\s+([\d.]+)\s+([\d.]+)", told, re.IGNORECASE)
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


SIDES: dict[str, Callable[[int], Figures]] = {
    "one signature an epoch": _one_signature_an_epoch,
    "one signature a record": _one_signature_a_record,
    "journal": _journal,
    "verify": _verify,
    "rates": _rates,
}


if __name__ == "__main__":
    sys.exit(main())
