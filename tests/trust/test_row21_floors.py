"""Floors of speed and memory on a small part, which the long run measures in full with ``bench/trust.py`` (row 21)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scale import times

from tests.fresh import fresh

RECORDS = times("FLOOR_RECORDS", 50_000, 100_000)
SLACK = 2.0
"""Other tests run beside these: the floors themselves, within 30 %, are judged by the long run alone."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, float]]:
    def one(side: str) -> dict[str, float]:
        command = [sys.executable, str(ROOT / "bench" / "trust.py"), "--side", side, "--records", str(RECORDS)]
        done = subprocess.run(fresh(command), check=True, capture_output=True, cwd=ROOT, env=dict(os.environ))
        found = dict(json.loads(done.stdout))
        print(side, found)
        return found

    return {side: one(side) for side in ("one signature an epoch", "verify", "rates")}


def test_records_are_signed_by_the_epoch_at_the_floor(measured: dict[str, dict[str, float]]) -> None:
    assert RECORDS / measured["one signature an epoch"]["cpu_seconds"] >= 200_000 / SLACK


def test_a_verification_streams(measured: dict[str, dict[str, float]]) -> None:
    assert measured["verify"]["peak_mb"] <= 300


def test_a_signature_is_made_and_checked_at_the_floor(measured: dict[str, dict[str, float]]) -> None:
    assert measured["rates"]["sign"] >= 20_000 / SLACK
    assert measured["rates"]["verify"] >= 8_000 / SLACK
    assert measured["rates"]["sha256_gb"] >= 1.0 / SLACK
