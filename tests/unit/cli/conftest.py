"""The command line, run in this process with a store of the test's own."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from provstore.cli._app import run

SAMPLES = Path(__file__).parents[3] / "provstore" / "samples"


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("PROVSTORE_STORE", "PROVSTORE_JOURNAL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments):
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Answer(code, out, err)

    return call


@pytest.fixture
def samples():
    return SAMPLES


@pytest.fixture
def filled(command, samples):
    assert command("ingest", samples / "hang", samples / "healthy").code == 0
    return command
