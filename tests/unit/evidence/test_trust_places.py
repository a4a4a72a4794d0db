"""Where trust, keys and anchors of a user are looked for: never in the project that is judged."""

from pathlib import Path

import pytest

from provstore import config

NAMES = (
    "PROVSTORE_CONFIG_HOME",
    "PROVSTORE_STATE_HOME",
    "PROVSTORE_TRUST",
    "PROVSTORE_ANCHORS",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
)


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/somebody")
    monkeypatch.chdir(tmp_path)


def test_without_settings_everything_is_below_home():
    assert config.trust_file() == Path("/somebody/.config/provstore/trust.json")
    assert config.keys_directory() == Path("/somebody/.config/provstore/keys")
    assert config.anchor_directory() == Path("/somebody/.local/state/provstore/anchors")


def test_the_xdg_places_are_respected_unless_they_are_relative(monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")

    assert config.config_directory() == Path("/c/provstore")
    assert config.state_directory() == Path("/somebody/.local/state/provstore")


def test_our_own_variables_win_and_arguments_win_over_them(monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", "/own")
    monkeypatch.setenv("PROVSTORE_STATE_HOME", "/seen")
    assert (config.config_directory(), config.state_directory()) == (Path("/own"), Path("/seen"))
    monkeypatch.setenv("PROVSTORE_TRUST", "/t.json")
    monkeypatch.setenv("PROVSTORE_ANCHORS", "/a")
    assert (config.trust_file(), config.anchor_directory()) == (Path("/t.json"), Path("/a"))

    assert config.trust_file("given") == Path("given")
    assert config.anchor_directory(Path("given")) == Path("given")


def test_files_of_a_project_change_nothing(tmp_path):
    for name in ("trust.json", ".provstore/trust.json", "provstore.toml", ".config/provstore/trust.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")

    assert config.trust_file() == Path("/somebody/.config/provstore/trust.json")
