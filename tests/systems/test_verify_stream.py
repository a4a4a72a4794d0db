"""Verification reads a long run as a stream: its memory does not grow with the run, and a record costs little."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.fresh import fresh

LONG = os.environ.get("PROVSTORE_LONG") == "1"
RECORDS = 1_000_000 if LONG else 120_000
MOST_MEGABYTES = 300
MOST_SECONDS_PER_MILLION = 6.5
"""5 and 30 %, judged where somebody measures."""
MOST_TIMES_PARSING = 3
"""Elsewhere a record is held against parsing its line as JSON in the same process, which costs about as much."""

PROGRAM = """
import json, resource, sys, time

from provstore.evidence import bundles
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.walk import verify
from provstore.model.evidence import BundleAt, RecordAt

COUNT, EPOCH, RANKS = int(sys.argv[1]), 20_000, 8
TEXT = (
    b'{"at":"i64:%d","attempt":0,"kind":"observation","n":%d,"name":"loss and gradient norms of the whole model",'
    b'"rank":%d,"run":"training-run-7","schema":1,"step":%d,"values":[{"n":"grad_norm","t":"f",'
    b'"v":"f64:0x1.999999999999ap-4"},{"n":"loss","t":"f","v":"f64:0x1.8000000000000p+1"},'
    b'{"n":"tokens","t":"i","v":"i64:%d"}]}'
)


def line(at):
    return TEXT % (1767225600000000000 + at * 1000, at // RANKS, at % RANKS, at // RANKS, at)


key = PrivateKey.generate()
ledger = bundles.Ledger("training-run-7", 0, "s" * 32)
signed = []
for start in range(0, COUNT, EPOCH):
    numbers = range(start, min(COUNT, start + EPOCH))
    ledger.add([line(at) for at in numbers])
    sealed = ledger.seal(key, limits=bundles.Limits())
    ledger.accept(sealed)
    signed.append(BundleAt(sealed.envelope, sealed.note, str(start)))


class Log:
    run, attempt, store = "training-run-7", 0, "s" * 32

    def bundles(self):
        return iter(signed)

    def records(self):
        return (RecordAt(at, line(at), f"line {at}") for at in range(COUNT))


def cost(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def parse():
    for record in Log().records():
        json.loads(record.line)


making = cost(lambda: [None for _ in Log().records()])
parsing = cost(parse) - making
began = time.process_time()
answer = verify(Log(), Trust.of_keys([key.public_key], "test"))
seconds = time.process_time() - began - making
parsing = max(parsing, cost(parse) - making)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
print(json.dumps({"codes": sorted({one.code for one in answer.findings}), "seen": answer.leaves_seen,
                  "megabytes": peak, "seconds": seconds, "times_parsing": seconds / parsing}))
"""


def test_a_long_run_is_verified_as_a_stream():
    ran = subprocess.run(
        fresh([sys.executable, "-c", PROGRAM, str(RECORDS)]),
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = json.loads(ran.stdout)
    print(told)

    assert told["codes"] == ["not-closed", "unanchored"]
    assert told["seen"] == RECORDS
    assert told["megabytes"] <= MOST_MEGABYTES
    assert told["times_parsing"] <= MOST_TIMES_PARSING
    if LONG:
        assert told["seconds"] * 1_000_000 / RECORDS <= MOST_SECONDS_PER_MILLION
