"""in-toto-verify checks our link and layout, and through them the files of an export."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from provstore.errors import TrustError
from provstore.evidence import dsse, intoto_link, keys, public_forms, statement
from provstore.exports.evidence import signing_forms
from tests.foreign import tools

FILES = {
    "epoch-0.jsonl": b'{"n":0}\n',
    "epoch-1.jsonl": b'{"n":1}\n',
    "epoch-0.dsse.json": b"{}",
    "checkpoint": b"a\n2\n\n",
}


@pytest.fixture(scope="module")
def key() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, key: keys.PrivateKey) -> Path:
    folder = tmp_path_factory.mktemp("export")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    signing_forms.write_signing_forms(folder, ["in-toto"], key, {"run"})
    return folder


@pytest.fixture
def export(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "export"))


def verify(folder: Path, public: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    order = [tools.program("in-toto"), "--layout", "root.layout"]
    return tools.run([*order, "--verification-keys", public or folder / "in-toto.pem"], folder=folder)


def rejected(folder: Path, reason: bytes) -> None:
    shown = verify(folder)
    assert shown.returncode == 1, shown.stderr.decode()
    assert reason in shown.stderr, shown.stderr.decode()


def test_in_toto_verify_accepts_an_export(export: Path) -> None:
    shown = verify(export)
    assert shown.returncode == 0, shown.stderr.decode()


def test_in_toto_verify_accepts_what_lies_beside(export: Path) -> None:
    (export / "VERIFY.txt").write_text("how to")
    (export / "record-3.tlog-proof").write_text("proof")
    (export / "SHA256SUMS.minisig").write_text("signature")
    assert verify(export).returncode == 0


def test_in_toto_verify_rejects_a_changed_bit_of_a_file(export: Path) -> None:
    (export / "epoch-1.jsonl").write_bytes(b'{"n":0}\n')
    rejected(export, b"epoch-1.jsonl")


def test_in_toto_verify_rejects_a_missing_and_an_extra_file(export: Path) -> None:
    (export / "epoch-2.jsonl").write_bytes(b"{}\n")
    rejected(export, b"epoch-2.jsonl")
    (export / "epoch-2.jsonl").unlink()
    (export / "epoch-0.jsonl").unlink()
    rejected(export, b"epoch-0.jsonl")


@pytest.mark.parametrize("what", ["link", "layout"])
def test_in_toto_verify_rejects_a_tampered_link_or_layout(what: str, export: Path) -> None:
    (path,) = export.glob(f"*.{what}")
    envelope = json.loads(path.read_text())
    payload = json.loads(base64.b64decode(envelope["payload"]))
    if what == "link":
        payload["products"]["epoch-0.jsonl"]["sha256"] = payload["products"]["epoch-1.jsonl"]["sha256"]
    else:
        payload["expires"] = "2100-12-31T23:59:59Z"
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    path.write_text(json.dumps(envelope))
    shown = verify(export)
    assert shown.returncode == 1, shown.stderr.decode()


@pytest.mark.parametrize("what", ["link", "layout"])
def test_in_toto_verify_rejects_a_changed_bit_of_the_signed_bytes(what: str, export: Path) -> None:
    (path,) = export.glob(f"*.{what}")
    text = path.read_bytes()
    at = text.index(b'"sig":"') + 10
    path.write_bytes(text[:at] + (b"A" if text[at : at + 1] != b"A" else b"B") + text[at + 1 :])
    assert verify(export).returncode == 1


def test_in_toto_verify_rejects_another_key(export: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(public_forms.FORMS["pem"](keys.PrivateKey.generate().public_key))
    assert verify(export, other).returncode == 1


def test_in_toto_verify_rejects_a_link_of_a_key_that_the_layout_does_not_name(export: Path) -> None:
    other = keys.PrivateKey.generate()
    (path,) = export.glob("*.link")
    path.unlink()
    digests = signing_forms.digests_of(export)
    (export / intoto_link.link_file(other.public_key)).write_bytes(intoto_link.link(digests, other))
    assert verify(export).returncode == 1


def test_in_toto_verify_rejects_an_expired_layout(export: Path, key: keys.PrivateKey) -> None:
    digests = signing_forms.digests_of(export)
    (export / "root.layout").write_bytes(intoto_link.layout(digests, ["*"], key, expires="2020-01-01T00:00:00Z"))
    rejected(export, b"expired")


def with_key_id(path: Path, keyid: str) -> Path:
    envelope = json.loads(path.read_text())
    envelope["signatures"][0]["keyid"] = keyid
    path.write_text(json.dumps(envelope))
    return path


def test_in_toto_verify_takes_its_own_key_id_in_hex_digits_only(export: Path, key: keys.PrivateKey) -> None:
    """Its own is accepted above; the fingerprint and the digest of the key in DER are not."""
    for form in ("fingerprint", "spki-sha256"):
        with_key_id(export / "root.layout", public_forms.FORMS[form](key.public_key).decode().strip())
        assert verify(export).returncode == 1


def test_we_read_our_own_link(export: Path, key: keys.PrivateKey) -> None:
    (path,) = export.glob("*.link")
    stated = intoto_link.products_of(path.read_bytes(), key.public_key)
    assert stated == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    with pytest.raises(TrustError) as caught:
        intoto_link.products_of(path.read_bytes(), keys.PrivateKey.generate().public_key)
    assert caught.value.code == "bad-signature"
    with pytest.raises(TrustError) as caught:
        intoto_link.products_of((export / "root.layout").read_bytes(), key.public_key)
    assert caught.value.code == "envelope-malformed"


def test_a_link_is_never_taken_for_a_bundle(export: Path) -> None:
    """Both have the media type that in-toto asks for; the payload says which of the two it is."""
    for path in (*export.glob("*.link"), export / "root.layout"):
        envelope = dsse.parse(path.read_bytes())
        with pytest.raises(TrustError):
            statement.parse(envelope.payload)
