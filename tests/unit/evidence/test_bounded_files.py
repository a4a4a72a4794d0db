"""Files of at most so many bytes: one that is longer is refused by its size, whoever reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence import bounded_files, files
from provstore.evidence.aep import key_maps
from provstore.evidence.replay import skips
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify import file as one_file
from provstore.sources.signals import spool

MOST = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / spool.NAME


def test_a_file_may_be_as_long_as_its_limit_and_no_longer(path: Path) -> None:
    path.write_bytes(b"x" * MOST)
    assert bounded_files.read(path, MOST, "thing") == b"x" * MOST
    path.write_bytes(b"x" * (MOST + 1))
    with pytest.raises(NotUnderstoodError, match=r"^thing: more than 20 bytes$"):
        bounded_files.read(path, MOST, "thing")


def test_a_file_that_cannot_be_read_is_named_with_the_reason(path: Path) -> None:
    with pytest.raises(InputError, match=r"^thing: cannot be read: No such file or directory$"):
        bounded_files.read(path, MOST, "thing")
    with pytest.raises(InputError, match=f"^{path}: skip list: cannot be read: No such file or directory$"):
        skips.skips_in(path)


def test_each_reader_of_a_whole_file_names_the_file_and_its_own_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (key_maps, skips, one_file, spool):
        monkeypatch.setattr(module, "MAX_BYTES", MOST)
    path.write_bytes(b"[" + b" " * MOST)

    with pytest.raises(NotUnderstoodError, match=f"^{path}: agent keys: more than 20 bytes$"):
        key_maps.read(path)
    with pytest.raises(InputError, match=f"^{path}: skip list: more than 20 bytes$"):
        skips.skips_in(path)
    with pytest.raises(TrustError, match=f"^{path}: evidence: more than 20 bytes$") as refused:
        one_file.verify_file(path, Trust.of_keys([], "test"))
    assert refused.value.code == "cap-exceeded"
    with pytest.raises(InputError, match=f"^{spool.NAME}: more than 20 bytes$") as told:
        spool.read(path.parent)
    assert not isinstance(told.value, NotUnderstoodError)


def test_the_files_of_an_epoch_are_each_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "epoch-0.dsse.json").write_bytes(b"one")
    (tmp_path / "epoch-0.sigstore.json").write_bytes(b"another")
    log = files.ExportedEvidence(tmp_path, lambda envelope: envelope == b"one")
    opened: list[str] = []
    real = os.open

    def noting(file: Path, flags: int) -> int:
        opened.append(file.name)
        return real(file, flags)

    monkeypatch.setattr("os.open", noting)

    (found,) = log.numbered()

    assert (found.number, found.bundle.envelope, found.others) == (0, b"one", ("epoch-0.sigstore.json",))
    assert sorted(opened) == ["epoch-0.dsse.json", "epoch-0.sigstore.json"]
