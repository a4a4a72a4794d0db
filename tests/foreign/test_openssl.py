"""OpenSSL reads the exported key, signed bytes and signature."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.foreign import tools
from tests.foreign.exports import exported, flip

pytestmark = pytest.mark.usefixtures("_openssl")


@pytest.fixture
def _openssl() -> None:
    tools.program("openssl")


def verified(directory: Path, stem: str) -> bool:
    order = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "pub.pem", "-rawin"]
    files = ["-in", f"{stem}.pae.bin", "-sigfile", f"{stem}.sig.raw"]
    return tools.run([*order, *files], folder=directory).returncode == 0


def test_every_exported_signature_holds_over_the_exported_bytes(tmp_path: Path) -> None:
    exported(tmp_path / "out")

    assert all(verified(tmp_path / "out", f"epoch-{number}") for number in range(5))


@pytest.mark.parametrize("form", ["pae.bin", "sig.raw"])
def test_any_changed_bit_is_rejected(form: str, tmp_path: Path) -> None:
    exported(tmp_path / "out")
    path = tmp_path / "out" / f"epoch-1.{form}"
    whole = path.read_bytes()
    places = range(64) if form == "sig.raw" else range(0, len(whole), max(1, len(whole) // 64))

    accepted = []
    for place in places:
        flip(path, at=place, bit=place % 8)
        if verified(tmp_path / "out", "epoch-1"):
            accepted.append(place)
        path.write_bytes(whole)

    assert not accepted


def test_a_signature_of_another_epoch_is_rejected(tmp_path: Path) -> None:
    exported(tmp_path / "out")
    (tmp_path / "out" / "epoch-1.sig.raw").write_bytes((tmp_path / "out" / "epoch-2.sig.raw").read_bytes())

    assert not verified(tmp_path / "out", "epoch-1")


def test_another_key_rejects_every_signature(tmp_path: Path) -> None:
    exported(tmp_path / "out")
    exported(tmp_path / "other")
    (tmp_path / "out" / "pub.pem").write_bytes((tmp_path / "other" / "pub.pem").read_bytes())

    assert not any(verified(tmp_path / "out", f"epoch-{number}") for number in range(5))


def test_the_subject_is_the_digest_that_openssl_gives_of_the_epoch_file(tmp_path: Path) -> None:
    exported(tmp_path / "out")
    statement = json.loads((tmp_path / "out" / "epoch-3.pae.bin").read_bytes().split(b" ", 4)[4])

    done = tools.run(["openssl", "dgst", "-sha256", "-r", "epoch-3.jsonl"], folder=tmp_path / "out")

    assert done.stdout.split()[0].decode() == statement["subject"][0]["digest"]["sha256"]
    assert statement["subject"][0]["name"] == "run-1/0/epoch-3"
    assert hashlib.sha256((tmp_path / "out" / "epoch-3.jsonl").read_bytes()).hexdigest().encode() in done.stdout
