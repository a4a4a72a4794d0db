"""securesystemslib, in-toto, in-toto-attestation and pymerkle read the exports."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from provstore.evidence import public_forms
from provstore.evidence.keys import PrivateKey, fingerprint
from tests.foreign import tools
from tests.foreign.exports import exported, flip, with_keyid
from tests.signed_logs import signed_run

# Multibase base58btc of multicodec ed25519-pub and the key: did:key as in the did:key method specification.
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def did_key(public: bytes) -> str:
    """Return the did:key of an Ed25519 key."""
    number, digits = int.from_bytes(b"\xed\x01" + public, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = _BASE58[digit] + digits
    return f"did:key:z{digits}"


def spellings(public: bytes) -> dict[str, str | None]:
    """Return the key ids of trust's table: column → key id."""
    return {
        "absent": None,
        "empty": "",
        "SHA256: fingerprint": fingerprint(public),
        "sha256(SPKI) hex": public_forms.FORMS["spki-sha256"](public).decode().strip(),
        "securesystemslib id": public_forms.FORMS["securesystemslib-id"](public).decode().strip(),
        "did:key": did_key(public),
    }


def library_key(directory: Path, keyid: str | None) -> Any:
    """Return the exported key as securesystemslib has it, under a key id."""
    tools.python_package("securesystemslib", "securesystemslib")
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    key = SSlibKey.from_crypto(load_pem_public_key((directory / "pub.pem").read_bytes()))
    return key if keyid is None else SSlibKey(keyid, key.keytype, key.scheme, key.keyval)


def by_securesystemslib(path: Path, keyid: str | None = None) -> str:
    """Return ``accept``, ``reject`` or the name of another error."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError

    key = library_key(path.parent, keyid)
    try:
        Envelope.from_dict(json.loads(path.read_bytes())).verify([key], threshold=1)
    except VerificationError:
        return "reject"
    except (KeyError, ValueError) as error:
        return type(error).__name__
    return "accept"


def by_in_toto(path: Path, keyid: str | None = None) -> str:
    """The same for in-toto's metadata."""
    tools.python_package("in-toto", "in_toto")
    from in_toto.exceptions import SignatureVerificationError
    from in_toto.models.metadata import Metadata

    key = library_key(path.parent, keyid)
    try:
        Metadata.load(str(path)).verify_signature({"keyid": key.keyid, **key.to_dict()})
    except SignatureVerificationError:
        return "reject"
    return "accept"


@pytest.mark.parametrize("verified", [by_securesystemslib, by_in_toto])
def test_every_envelope_is_accepted_and_any_changed_bit_of_it_rejected(verified: Any, tmp_path: Path) -> None:
    log, _ = exported(tmp_path / "out")
    (keyid,) = log.publics

    for number in range(5):
        assert verified(tmp_path / "out" / f"epoch-{number}.dsse.json", keyid) == "accept"
    for bit in range(4):
        exported(tmp_path / f"flipped-{bit}", log)
        path = tmp_path / f"flipped-{bit}" / "epoch-1.dsse.json"
        start = path.read_bytes().find(b'"payload":"') + 11
        flip(path, at=start + 7 + bit, bit=bit)
        assert verified(path, keyid) != "accept"


def test_each_line_of_the_attestations_is_an_envelope_that_is_accepted(tmp_path: Path) -> None:
    log, _ = exported(tmp_path / "out")
    lines = (tmp_path / "out" / "run.intoto.jsonl").read_bytes().splitlines()

    assert len(lines) == 5
    for number, line in enumerate(lines):
        path = tmp_path / "out" / f"line-{number}.json"
        path.write_bytes(line)
        assert by_securesystemslib(path, *log.publics) == "accept"


@pytest.mark.parametrize(
    ("spelling", "verdict"),
    [
        ("absent", "KeyError"),
        ("empty", "accept"),
        ("SHA256: fingerprint", "accept"),
        ("sha256(SPKI) hex", "accept"),
        ("securesystemslib id", "accept"),
        ("did:key", "accept"),
    ],
)
def test_securesystemslib_takes_every_key_id_that_its_key_object_has_too(
    spelling: str, verdict: str, tmp_path: Path
) -> None:
    log, _ = exported(tmp_path / "out", signed_run(sizes=[3]))
    keyid = spellings(*log.publics.values())[spelling]
    path = tmp_path / "out" / "epoch-0.dsse.json"
    with_keyid(path, keyid)

    assert by_securesystemslib(path, keyid) == verdict
    if verdict == "accept" and spelling != "securesystemslib id":
        assert by_securesystemslib(path) == "reject", "its own id of this key is another one"


def test_an_export_with_hex_key_ids_fits_keys_as_securesystemslib_makes_them(tmp_path: Path) -> None:
    exported(tmp_path / "out", keyid="hex")

    for number in range(5):
        assert by_securesystemslib(tmp_path / "out" / f"epoch-{number}.dsse.json") == "accept"
        assert by_in_toto(tmp_path / "out" / f"epoch-{number}.dsse.json") == "accept"


def by_in_toto_verify(folder: Path, seed: bytes, keyid: str) -> str:
    """Return what in-toto-verify says of a layout and a link that in-toto itself signed, the key under ``keyid``."""
    program = tools.program("in-toto")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from in_toto.models.layout import Layout, Step
    from in_toto.models.link import Link
    from in_toto.models.metadata import Envelope
    from securesystemslib.exceptions import FormatError
    from securesystemslib.signer import CryptoSigner

    key = library_key(folder / "out", keyid)
    signer = CryptoSigner(Ed25519PrivateKey.from_private_bytes(seed), key)
    try:
        step = Step(name="train", pubkeys=[keyid])
        layout = Envelope.from_signable(Layout(steps=[step], keys={keyid: {"keyid": keyid, **key.to_dict()}}))
    except FormatError:
        return "FormatError"
    for signable, name in ((Link(name="train"), f"train.{keyid[:8]}.link"), (layout, "root.layout")):
        envelope = signable if name == "root.layout" else Envelope.from_signable(signable)
        envelope.create_signature(signer)
        (folder / name).write_text(json.dumps(envelope.to_dict()))
    order = [program, "--layout", "root.layout", "--verification-keys", "out/pub.pem"]
    return "accept" if tools.run(order, folder=folder).returncode == 0 else "reject"


@pytest.mark.parametrize(
    ("spelling", "verdict"),
    [
        ("empty", "FormatError"),
        ("SHA256: fingerprint", "FormatError"),
        ("sha256(SPKI) hex", "reject"),  # hex digits, yet not the id that it gives the PEM file's key
        ("securesystemslib id", "accept"),
        ("did:key", "FormatError"),
    ],
)
def test_in_toto_verify_wants_the_key_id_that_securesystemslib_gives(
    spelling: str, verdict: str, tmp_path: Path
) -> None:
    seed = os.urandom(32)
    key = PrivateKey.from_seed(seed)
    exported(tmp_path / "out", signed_run(sizes=[3], keys=[key]))

    assert by_in_toto_verify(tmp_path, seed, spellings(key.public_key)[spelling] or "") == verdict


def test_every_statement_has_the_shape_that_in_toto_attestation_asks_for(tmp_path: Path) -> None:
    tools.python_package("in-toto-attestation", "in_toto_attestation")
    from google.protobuf import json_format
    from in_toto_attestation.v1.statement import Statement
    from in_toto_attestation.v1.statement_pb2 import Statement as Message

    exported(tmp_path / "out")
    for number in range(5):
        payload = base64.b64decode(json.loads((tmp_path / "out" / f"epoch-{number}.dsse.json").read_bytes())["payload"])
        Statement.copy_from_pb(json_format.Parse(payload, Message())).validate()

    told = json.loads(payload)
    del told["subject"][0]["digest"]
    with pytest.raises(ValueError, match="digest"):
        Statement.copy_from_pb(json_format.ParseDict(told, Message())).validate()


def test_the_root_of_a_thousand_records_is_that_of_pymerkle(tmp_path: Path) -> None:
    tools.python_package("pymerkle", "pymerkle")
    from pymerkle import InmemoryTree

    exported(tmp_path / "out", signed_run(sizes=[1, 333, 332, 334]))
    tree, roots = InmemoryTree(algorithm="sha256"), []
    for number in range(4):
        for line in (tmp_path / "out" / f"epoch-{number}.jsonl").read_bytes().splitlines():
            tree.append_entry(line)
        note = (tmp_path / "out" / f"epoch-{number}.checkpoint").read_text().split("\n")
        roots.append((int(note[1]), base64.b64decode(note[2])))

    assert roots == [(size, tree.get_root(size)) for size in (1, 334, 666, 1000)]
