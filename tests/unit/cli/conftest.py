"""The command line, run in this process with a store of the test's own."""

import os
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


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PROVSTORE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def keys(command, home):
    return lambda *arguments: command("keys", *arguments)


@pytest.fixture
def make(keys):
    def made(*names):
        ids = []
        for name in names:
            answer = keys("generate", name, "--unencrypted")
            assert answer.code == 0, answer.err
            ids.append(answer.out.strip())
        return ids[0] if len(ids) == 1 else ids

    return made


@pytest.fixture
def alice(keys, make):
    """Alice has a key, and a trust file whose root it is."""
    keyid = make("alice")
    assert keys("trust", "alice", "--role", "run").code == 0
    return keyid
