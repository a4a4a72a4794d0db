"""Several writers of one store: exact counts, unique numbers, a chain that verifies (matrix row 15)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import evidence_seeds
import pytest
from scale import LONG, times

import provstore
from provstore.api.verifying import Belief
from provstore.errors import StoreError
from provstore.evidence import keys
from provstore.evidence.trust.keys import Trust
from provstore.journal import Journal
from provstore.model.evidence import Observation

EACH = times("WRITER_RECORDS", 1_000, 5_000)
WRITERS = 4 if LONG else 2
A_BATCH = 5


def test_threads_and_processes_together_leave_each_record_once(tmp_path: Path) -> None:
    place, key = tmp_path / "store", keys.PrivateKey.generate()
    driver = str(Path(__file__).with_name("writing_driver.py"))
    # One process has several threads on one store; the others have one each, and wait for their turn.
    orders = [["threads", str(WRITERS * EACH), str(WRITERS)]]
    orders += [[f"process{number}", str(EACH), "1"] for number in range(WRITERS - 1)]
    orders += [[f"process{WRITERS - 1}", str(EACH), "1"]]
    running = [
        subprocess.Popen(
            [sys.executable, driver, str(place), name, records, str(A_BATCH), threads],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for name, records, threads in orders
    ]
    ended = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0] * len(running), [errors for _, errors in ended]
    print([json.loads(said) for said, _ in ended])

    with provstore.open(f"embedded:{place}") as store:
        store.seal(signer=key, close="finished")
        (answer,) = store.verify(belief=Belief(Trust.of_keys([key.public_key], "test")), refresh=False)
        assert {one.code for one in answer.findings} <= {"unanchored"}, answer.findings[:5]
        rows = store.cypher("MATCH (r:Record {run: 'job'}) RETURN count(r) AS n").rows
        assert rows[0]["n"] == 2 * WRITERS * EACH + 1
    with Journal.open(place / "journal", writable=False) as journal:
        found = list(journal.evidence("job", 0).records())
    said = [json.loads(record.line) for record in found]
    assert [record.index for record in found] == list(range(2 * WRITERS * EACH + 1))
    names = Counter(line["name"] for line in said if line["kind"] == "observation")
    wanted = [f"threads-{at}" for at in range(WRITERS * EACH)]
    wanted += [f"process{number}-{at}" for number in range(WRITERS) for at in range(EACH)]
    assert names == Counter(wanted)
    for rank in range(3):
        assert [line["n"] for line in said if line["rank"] == rank] == list(
            range(sum(line["rank"] == rank for line in said))
        )


def test_a_second_writer_is_refused_with_the_first_ones_number_and_may_come_later(tmp_path: Path) -> None:
    code = "import provstore, sys; provstore.open(f'embedded:{sys.argv[1]}')"
    command = [sys.executable, "-m", "provstore", "store", "check", "--store", f"embedded:{tmp_path / 'store'}"]
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        store.record([Observation("a", {"x": 1})], run="job")
        with pytest.raises(StoreError, match="is being written by process"):
            provstore.open(f"embedded:{tmp_path / 'store'}")
        second = subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], capture_output=True, check=False)
        assert second.returncode != 0
        assert b"is being written by process" in second.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done


def test_recording_while_another_thread_signs_leaves_a_chain_that_verifies(tmp_path: Path) -> None:
    key, stop = keys.PrivateKey.generate(), threading.Event()
    failed: list[BaseException] = []
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        store.record([Observation("first", {"x": 0})], run="job")

        def sign() -> None:
            try:
                while not stop.is_set():
                    store.seal(signer=key)
            except BaseException as error:  # noqa: BLE001 - shown by the main thread
                failed.append(error)

        signing = threading.Thread(target=sign)
        signing.start()
        for at in range(times("WHILE_SIGNING", 250, 2_000)):
            store.record([Observation(f"{at}", {"x": at}, rank=at % 2)], run="job")
        stop.set()
        signing.join()
        assert failed == []
        store.seal(signer=key)
        (answer,) = store.verify(belief=Belief(Trust.of_keys([key.public_key], "test")), refresh=False)
        assert {one.code for one in answer.findings} <= evidence_seeds.LIMITS, answer.findings[:5]
        assert answer.counts["records"] == answer.counts["signed"] == times("WHILE_SIGNING", 250, 2_000) + 1
