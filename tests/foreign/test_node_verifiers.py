"""Node's crypto, tweetnacl, @noble/ed25519 and @sigstore/verify read the exports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.foreign import tools
from tests.foreign.exports import exported, flip, with_keyid
from tests.foreign.test_python_verifiers import spellings

CHECKS = ("node", "tweetnacl", "noble", "sigstore")
FORMS = {"sigstore": ("sigstore.json", "jsonl")}


def verdicts(check: str, folders: Sequence[Path], *, stem: str = "epoch-1", **more: object) -> list[str]:
    """Return ``accept``, ``reject`` or the error's text for the export in each folder."""
    tools.program("node")
    tools.npm_packages()
    asked = [{"check": check, "folder": str(folder), "stem": stem, **more} for folder in folders]
    done = tools.run(tools.node(str(tools.HERE / "node" / "check.js")), stdin=json.dumps(asked).encode())
    assert done.returncode == 0, done.stderr.decode()
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("check", CHECKS)
def test_every_exported_epoch_is_accepted(check: str, tmp_path: Path) -> None:
    exported(tmp_path / "out")

    assert [verdicts(check, [tmp_path / "out"], stem=f"epoch-{number}") for number in range(5)] == [["accept"]] * 5


@pytest.mark.parametrize("check", CHECKS)
def test_any_changed_bit_is_rejected(check: str, tmp_path: Path) -> None:
    exported(tmp_path / "out")
    altered = []
    for form in FORMS.get(check, ("pae.bin", "sig.raw")):
        for bit in range(8):
            folder = tmp_path / f"{form}-{bit}"
            shutil.copytree(tmp_path / "out", folder)
            path = folder / f"epoch-1.{form}"
            start = max(0, path.read_bytes().find(b'"payload":"') + 11)
            flip(path, at=start + 7 * bit + 1, bit=bit)
            altered.append(folder)

    assert "accept" not in verdicts(check, altered)


@pytest.mark.parametrize(
    "spelling", ["absent", "empty", "SHA256: fingerprint", "sha256(SPKI) hex", "securesystemslib id", "did:key"]
)
def test_sigstore_takes_every_key_id(spelling: str, tmp_path: Path) -> None:
    log, _ = exported(tmp_path / "out")
    keyid = spellings(*log.publics.values())[spelling]
    with_keyid(tmp_path / "out" / "epoch-1.sigstore.json", keyid)

    assert verdicts("sigstore", [tmp_path / "out"]) == ["accept"]


def test_sigstore_asks_for_a_public_log_unless_its_thresholds_are_0(tmp_path: Path) -> None:
    exported(tmp_path / "out")

    (said,) = verdicts("sigstore", [tmp_path / "out"], thresholds={})

    assert said == "expected 1 timestamps, got 0"


@pytest.mark.parametrize("keyid", ["ssh", "hex", "none"])
def test_every_spelling_of_the_key_id_that_can_be_exported_is_accepted(keyid: str, tmp_path: Path) -> None:
    exported(tmp_path / "out", keyid=keyid)

    assert verdicts("sigstore", [tmp_path / "out"]) == ["accept"]


def test_the_bundle_says_what_a_bundle_for_a_key_says(tmp_path: Path) -> None:
    """Sigstore bundle format v0.3: a public key's hint instead of a certificate, no entries of a log."""
    log, _ = exported(tmp_path / "out")
    bundle = json.loads((tmp_path / "out" / "epoch-0.sigstore.json").read_bytes())

    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["verificationMaterial"] == {"publicKey": {"hint": next(iter(log.publics))}, "tlogEntries": []}
    assert bundle["dsseEnvelope"] == json.loads((tmp_path / "out" / "epoch-0.dsse.json").read_bytes())
