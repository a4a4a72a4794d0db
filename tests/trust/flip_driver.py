"""Opens a store whose graph file has one flipped bit, and says what became of it; run as a process of its own.

It reads one line of JSON a flip from standard input, ``{"byte": N, "bit": N}``, and answers with one line each:
``refused`` with the text of the error, or ``rows`` with the digest of all facts and what a check of the store says.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import provstore
from provstore.errors import StoreError
from provstore.stores.dump import canonical_dump


def digest(store: provstore.Store) -> str:
    """Return the SHA-256 over all facts, journal positions left out."""
    facts = hashlib.sha256()
    for line in canonical_dump(store._graph):
        facts.update(line.encode() + b"\n")
    return facts.hexdigest()


def judged(uri: str) -> dict[str, object]:
    """Return what somebody who opens the store for reading is told."""
    try:
        with provstore.open(uri, read_only=True) as store:
            return {"rows": digest(store), "clean": store.check().clean}
    except StoreError as error:
        return {"refused": str(error), "hint": error.hint}


def main() -> None:
    """Carry out the flips, one after the other, on the graph file named as the first argument."""
    path = Path(sys.argv[1])
    sound = path.read_bytes()
    for line in sys.stdin:
        flip = json.loads(line)
        damaged = bytearray(sound)
        damaged[flip["byte"]] ^= 1 << flip["bit"]
        path.write_bytes(damaged)
        print(json.dumps(judged(f"embedded:{path.parent}")), flush=True)
    path.write_bytes(sound)


if __name__ == "__main__":
    main()
