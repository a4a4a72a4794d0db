"""Foreign tools: found or counted as missing, built once, never dropped silently."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foreign import conftest, tools


def test_a_missing_tool_is_a_skip_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="foreign tool no-such-verifier: not installed"):
        conftest._give_up(_missing("no-such-verifier"))


@pytest.mark.parametrize("tool", sorted(tools.MANDATORY))
def test_a_tool_that_must_be_there_fails_where_tests_decide(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="may not be missing"):
        conftest._give_up(tools.MissingError(tool, "not installed"))


def test_other_tools_may_be_missing_where_tests_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.skip.Exception):
        conftest._give_up(tools.MissingError("minisign", "not installed"))


def test_two_processes_that_build_at_once_build_once(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.foreign import tools\n"
        "def install(fresh):\n"
        "    print('built'); time.sleep(0.5); (fresh / 'whole').touch()\n"
        "assert (tools._once('probe', 'x', install) / 'whole').exists()\n"
    )
    order = [sys.executable, "-c", script]
    root = Path(__file__).parents[2]
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    both = [subprocess.Popen(order, cwd=root, env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(said) == [b"", b"built\n"]


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(tools.MissingError, match="cannot be made here"):
        tools._once(
            "probe", "x", lambda fresh: tools._build("probe", [sys.executable, "-c", "raise SystemExit(1)"], fresh)
        )
    assert [path.name for path in tools.cache().iterdir()] == ["probe-x.lock"]


def test_foreign_programs_run_without_a_network_where_that_is_allowed() -> None:
    if not tools._cut_off():
        pytest.skip("this system lets no process give up its network (unshare -n)")
    shown = tools.run([sys.executable, "-c", "import socket; print([name for _, name in socket.if_nameindex()])"])
    assert shown.stdout.decode().strip() == "['lo']"


def _missing(tool: str) -> tools.MissingError:
    assert shutil.which(tool) is None
    with pytest.raises(tools.MissingError) as caught:
        tools.program(tool)
    return caught.value
