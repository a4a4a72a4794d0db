"""One of several writers: ``writing_driver.py STORE NAME RECORDS A-BATCH THREADS``; takes turns, says how often."""

from __future__ import annotations

import json
import random
import sys
import threading
import time

import provstore
from provstore.errors import StoreError
from provstore.model.evidence import Observation

GIVE_UP_SECONDS = 300


def items(name: str, first: int, count: int) -> list[Observation]:
    return [Observation(f"{name}-{at}", {"x": at}, rank=at % 3) for at in range(first, first + count)]


def write(store: provstore.Store, name: str, start: int, end: int, a_batch: int) -> None:
    for first in range(start, end, a_batch):
        store.record(items(name, first, min(a_batch, end - first)), run="job")


def main() -> None:
    place, name, records, a_batch, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    done = turns = refused = 0
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while done < records:
        # A turn is a tenth of the work: then others may write.
        goal = min(records, done + max(a_batch * threads, records // 10))
        try:
            with provstore.open(f"embedded:{place}") as store:
                each = -(-(goal - done) // threads)
                parts = [(done + at * each, min(goal, done + (at + 1) * each)) for at in range(threads)]
                workers = [
                    threading.Thread(target=write, args=(store, name, start, end, a_batch)) for start, end in parts
                ]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            done, turns = goal, turns + 1
        except StoreError as error:
            if "is being written by" not in str(error) or time.monotonic() > give_up:
                raise
            refused += 1
            time.sleep(random.uniform(0.001, 0.02))
        else:
            time.sleep(random.uniform(0, 0.03))
    print(json.dumps({"turns": turns, "refused": refused}))


if __name__ == "__main__":
    main()
