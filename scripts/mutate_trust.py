#!/usr/bin/env python3
"""Changes the code that verifies, parses and journals in small ways, one at a time, and counts what the tests notice.

Works on a copy of the tracked files, never in the checkout. Each group of modules gets its share of
``PROVSTORE_MUTATE_MINUTES`` (15); what was not tried in that time is counted as such, not as noticed. A function that
no test runs is missed with all its changes. Lines of words for people are left as they are. Exit code 1 when fewer
than ``PROVSTORE_MUTATE_LEAST`` percent (85) of the changes that were tried were noticed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINUTES = float(os.environ.get("PROVSTORE_MUTATE_MINUTES", "15"))
LEAST = float(os.environ.get("PROVSTORE_MUTATE_LEAST", "85"))
EVIDENCE, JOURNAL, VECTORS = "tests/unit/evidence/test_", "tests/unit/journal/test_journal_", "tests/vectors/test_"
VERIFYING = tuple(sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(f"{EVIDENCE}verify_*.py")))
ACTIONS = f"{EVIDENCE}action_records.py"
"""The tests of the fast reader of actions, which is the verifier's."""
FRAMES_OF_EVIDENCE = "tests/unit/journal/test_evidence_frames.py"
GROUPS = {
    "parse": (
        ("evidence/dsse.py", "evidence/statement.py", "evidence/checkpoint.py"),
        (*(f"{EVIDENCE}{name}.py" for name in ("dsse", "statement", "checkpoint")), f"{VECTORS}dsse_pae.py"),
    ),
    "verify": (("evidence/verify/*.py",), (*VERIFYING, ACTIONS)),
    "tree": (("evidence/merkle.py",), (f"{VECTORS}rfc6962.py",)),
    "journal": (
        tuple(f"journal/{name}.py" for name in ("frames", "segments", "scan", "evidence")),
        (*(f"{JOURNAL}{name}.py" for name in ("frames", "scan", "append", "recovery")), FRAMES_OF_EVIDENCE),
    ),
}
"""Name → (modules below provstore, tests that must notice)."""
SHARES = {"parse": 0.2, "verify": 0.5, "tree": 0.1, "journal": 0.2}
"""Of the time: the verifier's tests take longest."""
SURVIVED, UNTESTED = 0, frozenset((5, 33))
"""Exit codes of mutmut: the tests passed, and no test runs the function at all. Both are missed."""
WORDS = (
    # Statements that raise: their text is for people.
    r"^\s*raise\b",
    # What becomes the wording of a finding.
    r"^\s*text\s=",
    # A line that is a sentence and nothing else: the wording of a finding, or a part of it.
    r"""^\s*f?"[^"]* [^"]*"[,)]*$""",
)
"""Lines that are left as they are."""


def main() -> int:
    """Run every group and print the table."""
    total: Counter[str] = Counter()
    print("group    changes  tried  noticed  percent")
    for name, (modules, tests) in GROUPS.items():
        found = _tried(modules, tests, 60 * MINUTES * SHARES[name])
        total.update(found)
        print(_row(name, found), flush=True)
    print(_row("all", total))
    tried = total["noticed"] + total["missed"]
    if not tried:
        print("nothing was tried: see above")
        return 1
    return int(100 * total["noticed"] / tried < LEAST)


def _row(name: str, found: Counter[str]) -> str:
    tried = found["noticed"] + found["missed"]
    percent = f"{100 * found['noticed'] / tried:.0f} %" if tried else "-"
    return f"{name:8} {found['changes']:7} {tried:6} {found['noticed']:8}  {percent}"


def _tried(modules: tuple[str, ...], tests: tuple[str, ...], seconds: float) -> Counter[str]:
    place = Path(tempfile.mkdtemp(prefix="provstore-mutants-"))
    try:
        _copy(place)
        (place / "setup.cfg").write_text(_settings(modules, tests))
        with (place / "log").open("wb") as log:
            command = [sys.executable, "-m", "mutmut", "run"]
            running = subprocess.Popen(command, cwd=place, stdout=log, stderr=log, start_new_session=True)
            try:
                running.wait(seconds)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGTERM)
                running.wait()
        found = _counted(place)
        if not found["changes"]:
            print((place / "log").read_text(errors="replace")[-2000:])
        return found
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy(place: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "provstore", "cypher", "tests", "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / name)


def _settings(modules: tuple[str, ...], tests: tuple[str, ...]) -> str:
    def listed(name: str, values: tuple[str, ...]) -> str:
        return f"{name}=\n" + "".join(f"    {value}\n" for value in values)

    settings = "[mutmut]\nsource_paths=provstore\n"
    settings += listed("only_mutate", tuple(f"provstore/{module}" for module in modules))
    settings += listed("do_not_mutate_patterns", WORDS)
    settings += listed("also_copy", ("cypher", "README.md", "LICENSE"))
    settings += listed("pytest_add_cli_args", ("-p", "no:cacheprovider"))
    return settings + listed("pytest_add_cli_args_test_selection", tests)


def _counted(place: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in (place / "mutants").rglob("*.meta"):
        for code in json.loads(path.read_bytes())["exit_code_by_key"].values():
            found["changes"] += 1
            if code is None:
                continue
            found["missed" if code == SURVIVED or code in UNTESTED else "noticed"] += 1
    return found


if __name__ == "__main__":
    sys.exit(main())
