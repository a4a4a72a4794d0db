#!/usr/bin/env python3
"""Sweep the diagnosis over simulated faults and layouts and print how often it is right, undecided or wrong.

Each cell counts answers: ``right/decidable`` and, after it, what was not right. Exit status 1 when an innocent rank was
accused anywhere. Every scenario is named by (layout, fault, seed, variation), which reproduces it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from simulator import HANGS, Verdict, simulate  # noqa: E402
from simulator.sampling import LAYOUT_NAMES, VARIATIONS, draw, fits  # noqa: E402
from simulator.trial import hold  # noqa: E402

FAULTS = ("none", "in_flight", *HANGS, "skip_first", "wrong_op_first", "wrong_size_first", "order", "two", "slow")


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario and its verdict."""

    layout: str
    fault: str
    seed: int
    variation: str
    decidable: bool
    hangs: bool
    verdict: Verdict
    described: str
    seconds: float


def sweep(layouts: list[str], faults: list[str], variations: list[str], seeds: range, large: bool) -> list[Row]:
    """Return a row for each scenario that can exist."""
    rows = []
    for variation in variations:
        for layout in layouts:
            if not fits(layout, variation):
                continue
            # a hook that reports nothing has nothing to say about a hang
            asked = [fault for fault in faults if variation != "hook" or fault == "none"]
            rows += [trial(layout, fault, seed, variation, large) for fault in asked for seed in seeds]
    return [row for row in rows if row is not None]


def trial(layout: str, fault: str, seed: int, variation: str, large: bool) -> Row | None:
    """Hold one scenario; ``None`` when the fault has no place in the layout."""
    scenario = draw(layout, fault, seed, variation, large)
    if not simulate(scenario).recordings:
        # nobody left a file: there is nothing to ask about
        return None
    started = time.process_time()
    try:
        held = hold(scenario)
    except Exception:  # noqa: BLE001 - one crash must not end a long sweep
        verdict = Verdict("crash", traceback.format_exc(limit=-3))
        return Row(layout, fault, seed, variation, True, True, verdict, scenario.describe(), 0.0)
    truth = held.outcome.truth
    if scenario.faults and truth.fault == "none":
        return None
    used = time.process_time() - started
    return Row(layout, fault, seed, variation, truth.decidable, truth.hangs, held.verdict, scenario.describe(), used)


def table(rows: list[Row]) -> str:
    """Return the accuracy of each fault (rows) in each layout (columns)."""
    cells: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        cells[row.fault, row.layout].append(row)
    layouts = list(dict.fromkeys(row.layout for row in rows))
    lines = [f"{'':16}" + "".join(f"{name[:15]:>17}" for name in layouts)]
    for fault in dict.fromkeys(row.fault for row in rows):
        cells_of = [cell(cells[fault, name]) for name in layouts]
        lines += [f"{fault:16}" + "".join(f"{text:>17}" for text in cells_of)]
    return "\n".join(lines)


def cell(rows: list[Row]) -> str:
    """Return e.g. ``4/5 1u``: right answers of all, and the others by first letter (W wrong, X crash)."""
    if not rows:
        return "-"
    letters = {
        "undecided": "u",
        "silent": "s",
        "class": "c",
        "place": "p",
        "partial": "h",
        "weak": "w",
        "wrong": "W",
        "crash": "X",
    }
    others = Counter(letters[row.verdict.word] for row in rows if row.verdict.word != "right")
    text = " ".join(f"{count}{letter}" for letter, count in sorted(others.items()))
    return f"{sum(row.verdict.word == 'right' for row in rows)}/{len(rows)} {text}".strip()


def main() -> int:
    """Run the sweep that the options name."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--layouts", nargs="*", default=list(LAYOUT_NAMES))
    options.add_argument("--faults", nargs="*", default=list(FAULTS))
    options.add_argument("--variations", nargs="*", default=["plain"], help=f"of {', '.join(VARIATIONS)}, or all")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--large", action="store_true", help="32 and 64 ranks")
    options.add_argument("--show", nargs="*", default=["wrong", "crash"], help="verdicts to list in full")
    options.add_argument("--json", type=Path, help="write all rows there")
    given = options.parse_args()
    variations = list(VARIATIONS) if given.variations == ["all"] else given.variations
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    rows = sweep(given.layouts, given.faults, variations, seeds, given.large)
    print(table(rows))
    decidable = [row for row in rows if row.decidable]
    words = Counter(row.verdict.word for row in decidable)
    print(f"\n{len(rows)} scenarios, {sum(row.seconds for row in rows):.0f} CPU-s of this process")
    print(f"decidable faults: {len(decidable)}: " + ", ".join(f"{count} {word}" for word, count in words.most_common()))
    print(
        "all: "
        + ", ".join(f"{count} {word}" for word, count in Counter(row.verdict.word for row in rows).most_common())
    )
    for row in rows:
        unanswered = "decidable" in given.show and row.decidable and row.verdict.word != "right"
        if row.verdict.word in given.show or unanswered:
            call = f"draw({row.layout!r}, {row.fault!r}, {row.seed}, {row.variation!r}, {given.large})"
            print(f"\n{row.verdict.word.upper()} {call}\n  {row.described}\n  {row.verdict.why}")
    if given.json:
        given.json.write_text(json.dumps([_plain(row) for row in rows], indent=1))
    return int(any(row.verdict.word in ("wrong", "crash") for row in rows))


def _plain(row: Row) -> dict[str, object]:
    names = ("layout", "fault", "seed", "variation", "decidable", "hangs", "described")
    return {**{name: getattr(row, name) for name in names}, "verdict": row.verdict.word, "why": row.verdict.why}


if __name__ == "__main__":
    sys.exit(main())
