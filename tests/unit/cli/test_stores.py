"""Where the password of a server comes from."""

import os

import pytest

from provstore.cli import _stores


@pytest.fixture
def prompt(monkeypatch):
    asked = []

    def ask(text, stream=None):
        asked.append(text)
        return "secret"

    monkeypatch.setattr(_stores.getpass, "getpass", ask)
    monkeypatch.setattr(_stores.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setenv(_stores.USER, "ann")
    monkeypatch.setenv(_stores.PASSWORD, "")
    return asked


def test_a_terminal_is_asked_when_only_the_user_is_set(prompt):
    _stores.ask_password("neo4j://host")

    assert prompt == ["Password of ann at neo4j://host: "]
    assert os.environ[_stores.PASSWORD] == "secret"


@pytest.mark.parametrize("uri", ["", "embedded:here", "memory:"])
def test_nobody_is_asked_for_a_store_on_this_machine(prompt, uri):
    _stores.ask_password(uri)

    assert prompt == []


def test_nobody_is_asked_when_the_environment_knows_it(prompt, monkeypatch):
    monkeypatch.setenv(_stores.PASSWORD, "known")

    _stores.ask_password("bolt://host")

    assert (prompt, os.environ[_stores.PASSWORD]) == ([], "known")
