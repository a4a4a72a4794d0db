"""Kills, limits and rivals: what only separate processes can show."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from journal_fakes import large, number, small

from provstore.journal import Journal

_HERE = Path(__file__).parent
_PROLOGUE = """
import sys
from pathlib import Path
from journal_fakes import large, small
from provstore.errors import StoreError
from provstore.journal import Journal, block_lines, writer
directory = Path(sys.argv[1])
"""

_ENDLESS = (
    _PROLOGUE
    + """
writer.ROLL_BYTES = 20_000
block_lines.MAX_FACTS = 12
with Journal.open(directory, writable=True) as journal:
    at = int(sys.argv[2])
    while True:
        print("try", at, flush=True)
        journal.append(large(at, 12) if at % 7 == 0 else small(at))
        print("done", at, flush=True)
        at += 1
"""
)

_LIMITED = (
    _PROLOGUE
    + """
import resource
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with Journal.open(directory, writable=True) as journal:
        for at in range(100):
            journal.append(large(at, 2000) if at % 5 == 4 else small(at, 40))
            print(at, flush=True)
except StoreError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""
)


def _start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=_HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_20_kills_in_the_middle_of_writing_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Acknowledged ⊆ recovered, and recovered ⊆ written, in order."""
    chance = random.Random(7)
    tried: list[int] = []
    acknowledged: list[int] = []
    for _ in range(20):
        with _start(_ENDLESS, tmp_path, len(tried)) as child:
            assert child.stdout is not None
            said = [child.stdout.readline() for _ in range(chance.randrange(1, 12))]
            time.sleep(chance.random() * 0.01)
            child.send_signal(signal.SIGKILL)
            said += child.stdout.readlines()
        for line in said:
            if not line.endswith("\n"):
                continue  # killed in the middle of saying it
            word, at = line.split()
            (tried if word == "try" else acknowledged).append(int(at))
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(10_000_000))
        assert [problem for problem in journal.check() if problem.is_loss] == []
        recovered = [number(block) for _, block in journal.blocks()][:-1]
    assert len(acknowledged) >= 20
    assert recovered == sorted(recovered)
    assert set(acknowledged) <= set(recovered) <= set(tried)


@pytest.mark.parametrize("limit", [100, 700, 5_000, 40_000, 66_000])
def test_on_a_full_disk_every_acknowledged_batch_stays_and_the_message_says_disk_full(
    tmp_path: Path, limit: int
) -> None:
    with _start(_LIMITED, tmp_path, limit) as child:
        output, errors = child.communicate(timeout=60)
    assert child.returncode == 7
    assert "disk full" in errors
    assert "Traceback" not in errors
    acknowledged = [int(line) for line in output.split()]
    with Journal.open(tmp_path, writable=True) as journal:
        assert [number(block) for _, block in journal.blocks()] == acknowledged
        assert journal.check() == []
        journal.append(large(200))
        assert [number(block) for _, block in journal.blocks()] == [*acknowledged, 200]


def test_of_many_processes_one_writes_and_the_lock_ends_with_it(tmp_path: Path) -> None:
    with _start(_ENDLESS, tmp_path, 0) as first:
        assert first.stdout is not None
        first.stdout.readline()
        code = (
            _PROLOGUE
            + "\ntry:\n    Journal.open(directory, writable=True)\nexcept StoreError as error:\n    print(error)\n"
        )
        with _start(code, tmp_path) as second:
            output, _ = second.communicate(timeout=60)
        assert f"is being written by process {first.pid}" in output
        with Journal.open(tmp_path, writable=False) as reader:
            assert [number(block) for _, block in reader.blocks()] == list(range(len(reader._entries)))
        first.kill()
        first.stdout.read()
    with Journal.open(tmp_path, writable=True) as journal:
        journal.append(small(10_000_000))


def test_a_fork_does_not_inherit_the_right_to_write(tmp_path: Path) -> None:
    code = (
        _PROLOGUE
        + """
import os
with Journal.open(directory, writable=True) as journal:
    journal.append(small(0))
    child = os.fork()
    if not child:
        try:
            journal.append(small(1))
        except StoreError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    journal.append(small(2))
    print([block.nodes[0].columns["seq"][0] for _, block in journal.blocks()])
"""
    )
    with _start(code, tmp_path) as child:
        output, errors = child.communicate(timeout=60)
    assert not errors
    assert "before a fork" in output
    assert "[0, 2]" in output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_a_clear_error(tmp_path: Path) -> None:
    from provstore.errors import StoreError

    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written: Permission denied"):
            Journal.open(tmp_path / "journal", writable=True)
    finally:
        tmp_path.chmod(0o700)
