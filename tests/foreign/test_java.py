"""Java's own Ed25519 checks the exported triple: SPKI PEM, signed bytes, raw signature."""

from __future__ import annotations

from pathlib import Path

from provstore.evidence import dsse, keys, public_forms
from tests.foreign import tools

PROGRAM = tools.HERE / "java" / "VerifyRaw.java"


def test_java_accepts_ours_and_rejects_any_changed_bit(tmp_path: Path) -> None:
    key, other = keys.PrivateKey.generate(), keys.PrivateKey.generate()
    signed = dsse.sign(b'{"_type":"https://in-toto.io/Statement/v1"}', dsse.INTOTO, key)
    pae, sig = signed.signed_bytes(), signed.signatures[0].sig
    pem, other_pem = (public_forms.FORMS["pem"](one.public_key) for one in (key, other))
    # S below 2**253 keeps its top bits zero: the last byte is changed in its lowest bit, so that S stays in range.
    changed = [(pem, _flipped(pae, at), sig) for at in (0, 7, len(pae) - 1)]
    changed += [(pem, pae, _flipped(sig, at)) for at in (32, 40, 62)]
    triples = [(pem, pae, sig), *changed, (other_pem, pae, sig)]
    files: list[Path] = []
    for number, triple in enumerate(triples):
        for name, content in zip(("pub.pem", "pae.bin", "sig.raw"), triple):
            files.append(tmp_path / f"{number}.{name}")
            files[-1].write_bytes(content)
    shown = tools.run([*tools.java_program(PROGRAM), *files])
    assert shown.returncode == 0, shown.stderr.decode()
    assert shown.stdout.decode().split() == ["accepted", *["rejected"] * (len(triples) - 1)]


def test_java_refuses_a_broken_point_or_a_signature_cut_short(tmp_path: Path) -> None:
    key = keys.PrivateKey.generate()
    signed = dsse.sign(b"{}", dsse.INTOTO, key)
    (tmp_path / "pub.pem").write_bytes(public_forms.FORMS["pem"](key.public_key))
    (tmp_path / "pae.bin").write_bytes(signed.signed_bytes())
    (tmp_path / "sig.raw").write_bytes(signed.signatures[0].sig[:63])
    triple = [tmp_path / name for name in ("pub.pem", "pae.bin", "sig.raw")]
    shown = tools.run([*tools.java_program(PROGRAM), *triple])
    assert b"accepted" not in shown.stdout


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
