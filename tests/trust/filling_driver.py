"""Records and signs until the disk is full, and says what counts: ``filling_driver.py STORE SEED-FILE MOST-BYTES``."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import provstore
from provstore.errors import ProvstoreError
from provstore.evidence import keys
from provstore.model.evidence import Observation

MOST_CALLS = 4_000


def main() -> int:
    store, seed, most = sys.argv[1], Path(sys.argv[2]).read_bytes(), int(sys.argv[3])
    if most:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        with provstore.open(f"embedded:{store}") as opened:
            for at in range(MOST_CALLS):
                items = [Observation(f"{at}-{number}", {"text": "x" * 500}) for number in range(20)]
                first = opened.record(items, run="job")
                print(json.dumps({"first": first, "label": at}), flush=True)
                if at % 2:
                    note = opened.seal(signer=keys.PrivateKey.from_seed(seed)).runs[0].checkpoint
                    print(json.dumps({"note": note}), flush=True)
    except ProvstoreError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
