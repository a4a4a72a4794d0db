"""Of a closed run that an anchor covers whole, no change at all goes unseen."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.sealing import Log, line, sealed, trusting
from tests.unit.evidence.verifying import checked, codes, faults

SEED = random.randrange(2**32)


@pytest.fixture(scope="module")
def run():
    made = sealed([4, 3, 5])
    made.add([line("run-close", 0, reason="finished", records=12, batches=0)])
    return made


def changed_bytes(chance: random.Random, data: bytes) -> bytes:
    text = bytearray(data)
    start = chance.randrange(len(text))
    new = bytes(chance.choice(b'019aZ"{}[],:=\\ \n') for _ in range(chance.randrange(4)))
    text[start : start + chance.randrange(4)] = new
    return bytes(text)


def change(chance: random.Random, log: Log) -> str:
    """Change something and say what."""
    what = chance.choice(
        ["line", "envelope", "note", "drop", "repeat", "swap", "drop bundle", "repeat bundle", "swap bundles"]
    )
    rows = log.signed if "bundle" in what else log.lines
    at, other = chance.randrange(len(rows)), chance.randrange(len(rows))
    if what == "line":
        log.lines[at] = changed_bytes(chance, log.lines[at])
    elif what in {"envelope", "note"}:
        at %= len(log.signed)
        held = log.signed[at]
        envelope = changed_bytes(chance, held.envelope) if what == "envelope" else held.envelope
        note = changed_bytes(chance, held.checkpoint or b"") if what == "note" else held.checkpoint
        log.signed[at] = replace(held, envelope=envelope, checkpoint=note)
    elif what.startswith("drop"):
        del rows[at]
    elif what.startswith("repeat"):
        rows.insert(other, rows[at])  # type: ignore[arg-type]
    else:
        rows[at], rows[other] = rows[other], rows[at]  # type: ignore[call-overload]
    return what


def test_the_run_itself_passes(run):
    assert codes(checked(run, anchors=[run.anchor(13)])) == []


def test_no_change_goes_unseen(run):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    trust, anchors, whole = trusting(run.key), [run.anchor(13)], run.log()
    tried = 0
    while tried < 600:
        log = run.log()
        told = [change(chance, log) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        if (log.lines, log.signed) == (whole.lines, whole.signed):
            continue
        tried += 1
        assert faults(checked(log, trust, anchors)), (SEED, told)
