"""A command is answered by its own module: the others are loaded only where all of them are asked about."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from provstore.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*(name for name in sys.modules if name == "rich.console" or name.startswith("provstore.cli.")), sep="\\n")
"""


def loaded(*arguments: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    return {name.removeprefix("provstore.cli.") for name in done.stdout.splitlines()}


def test_a_question_of_an_assistant_loads_no_other_command_and_nothing_that_draws() -> None:
    found = loaded("agent-query", "--schema")

    assert "agent_query" in found
    assert found & {"record", "trace", "store", "watch", "rich.console"} == set()


@pytest.mark.parametrize("arguments", [["--help"], [], ["--json", "trace", "--help"], ["trac"]])
def test_what_is_not_plainly_one_command_is_looked_for_among_all(arguments: list[str]) -> None:
    assert {"agent_query", "record", "trace", "store", "watch"} <= loaded(*arguments)
