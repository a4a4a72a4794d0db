"""A time-stamping authority made here with OpenSSL stamps a checkpoint; rfc3161-client and OpenSSL read the token."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import checkpoint, keys, timestamps
from provstore.evidence.anchors import Anchor
from tests.foreign import tools

ORIGIN = "example.org/5f3c/run/0"
CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = Local time-stamping authority
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[stamper]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:{accuracy}
ordering = yes
ess_cert_id_chain = no
ess_cert_id_alg = sha256
"""


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs, the root that issued it, and what stamps with them."""

    folder: Path

    @property
    def root(self) -> bytes:
        return (self.folder / "root.pem").read_bytes()

    def stamp(self, query: bytes, *more: str) -> bytes:
        (self.folder / "query").write_bytes(query)
        order = ["ts", "-reply", "-config", self.folder / "tsa.cnf", "-queryfile", self.folder / "query"]
        return openssl(*order, "-out", self.folder / "reply", *more, out=self.folder / "reply")


def openssl(*order: str | Path, out: Path | None = None) -> bytes:
    shown = tools.run([tools.program("openssl"), *order])
    assert shown.returncode == 0, shown.stderr.decode()
    return shown.stdout if out is None else out.read_bytes()


def authority(folder: Path, accuracy: int = 0) -> Authority:
    folder.mkdir()
    config = folder / "tsa.cnf"
    config.write_text(CONFIG.format(folder=folder, accuracy=accuracy))
    (folder / "serial").write_text("01\n")
    for name in ("root", "tsa"):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / f"{name}.key")
    common = ["-config", config, "-subj"]
    root = ["-key", folder / "root.key", "-extensions", "root", "-days", "30", "-out", folder / "root.pem"]
    openssl("req", "-x509", *common, "/CN=Root", *root)
    openssl("req", "-new", *common, "/CN=Stamper", "-key", folder / "tsa.key", "-out", folder / "tsa.csr")
    issue = ["-CA", folder / "root.pem", "-CAkey", folder / "root.key", "-CAcreateserial", "-days", "20"]
    issue += ["-extfile", config, "-extensions", "stamper", "-in", folder / "tsa.csr", "-out", folder / "tsa.pem"]
    openssl("x509", "-req", *issue)
    return Authority(folder)


@pytest.fixture(scope="module")
def tsa(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("tsa") / "one")


@pytest.fixture(scope="module")
def key() -> keys.PrivateKey:
    return keys.PrivateKey.generate()


@pytest.fixture(scope="module")
def note(key: keys.PrivateKey) -> bytes:
    return checkpoint.make(ORIGIN, 5, bytes(range(32)), key)


def test_openssl_reads_our_query(note: bytes, tmp_path: Path) -> None:
    (tmp_path / "query").write_bytes(timestamps.query(note))
    shown = openssl("ts", "-query", "-in", tmp_path / "query", "-text").decode()
    assert "Hash Algorithm: sha256" in shown
    assert "Certificate required: yes" in shown
    dump = "".join("".join(line[11:59].replace("-", " ").split()) for line in shown.splitlines() if " - " in line[:12])
    (_, _, signature), *_ = checkpoint.parse(note).signatures
    assert dump == hashlib.sha256(signature).hexdigest()


def test_openssl_makes_the_same_query_from_the_signature(note: bytes, tmp_path: Path) -> None:
    (tmp_path / "sig").write_bytes(timestamps.stamped(note))
    order = ["ts", "-query", "-data", tmp_path / "sig", "-sha256", "-cert", "-no_nonce", "-out", tmp_path / "query"]
    assert openssl(*order, out=tmp_path / "query") == timestamps.query(note)


def test_the_time_of_a_token_is_that_of_the_authority(tsa: Authority, note: bytes) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    token = tsa.stamp(timestamps.query(note))
    stated = datetime.fromisoformat(timestamps.attested_time(token, note, [tsa.root]))
    assert before <= stated <= datetime.now(UTC) + timedelta(seconds=1)


def test_openssl_accepts_the_token_and_rejects_other_data(tsa: Authority, note: bytes, tmp_path: Path) -> None:
    tsa.stamp(timestamps.query(note))
    (tmp_path / "sig").write_bytes(timestamps.stamped(note))
    order = [tools.program("openssl"), "ts", "-verify", "-in", tsa.folder / "reply", "-CAfile", tsa.folder / "root.pem"]
    assert tools.run([*order, "-data", tmp_path / "sig"]).returncode == 0
    (tmp_path / "sig").write_bytes(bytes(64))
    assert tools.run([*order, "-data", tmp_path / "sig"]).returncode != 0


def test_a_bare_token_is_read_too(tsa: Authority, note: bytes) -> None:
    whole = tsa.stamp(timestamps.query(note))
    bare = openssl(
        "ts", "-reply", "-in", tsa.folder / "reply", "-token_out", "-out", tsa.folder / "bare", out=tsa.folder / "bare"
    )
    assert bare in whole
    assert timestamps.attested_time(bare, note, [tsa.root]) == timestamps.attested_time(whole, note, [tsa.root])


def test_a_token_of_another_checkpoint_is_rejected(tsa: Authority, key: keys.PrivateKey, note: bytes) -> None:
    other = checkpoint.make(ORIGIN, 6, bytes(range(32)), key)
    refused(tsa.stamp(timestamps.query(other)), note, [tsa.root], "bad-signature")


def test_a_token_of_another_authority_is_rejected(tsa: Authority, note: bytes, tmp_path: Path) -> None:
    other = authority(tmp_path / "other")
    refused(other.stamp(timestamps.query(note)), note, [tsa.root], "bad-signature")


def test_any_changed_bit_of_a_token_is_rejected_or_changes_nothing(tsa: Authority, note: bytes) -> None:
    token = tsa.stamp(timestamps.query(note))
    good = timestamps.attested_time(token, note, [tsa.root])
    rejected = 0
    for at in range(len(token)):
        changed = token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :]
        try:
            assert timestamps.attested_time(changed, note, [tsa.root]) == good
        except TrustError:
            rejected += 1
    # Not signed, and without a meaning here: two version numbers and the name of the signature's algorithm (8 bytes).
    assert rejected >= len(token) - 10


@pytest.mark.parametrize("token", [b"", b"0", b"0\x80", b"\x30\x84\xff\xff\xff\xff\x06", b"0" * 100, bytes(70_000)])
def test_what_is_no_token_is_rejected(token: bytes, tsa: Authority, note: bytes) -> None:
    with pytest.raises(TrustError) as caught:
        timestamps.attested_time(token, note, [tsa.root])
    assert caught.value.code in {"envelope-malformed", "cap-exceeded"}


def test_a_token_over_another_hash_is_rejected(tsa: Authority, note: bytes, tmp_path: Path) -> None:
    (tmp_path / "sig").write_bytes(timestamps.stamped(note))
    order = ["ts", "-query", "-data", tmp_path / "sig", "-sha512", "-cert", "-out", tmp_path / "query"]
    refused(tsa.stamp(openssl(*order, out=tmp_path / "query")), note, [tsa.root], "unknown-schema")


def test_the_accuracy_of_an_authority_is_added(note: bytes, tmp_path: Path) -> None:
    vague = authority(tmp_path / "vague", accuracy=3600)
    earliest = datetime.now(UTC) + timedelta(seconds=3590)
    token = vague.stamp(timestamps.query(note))
    assert datetime.fromisoformat(timestamps.attested_time(token, note, [vague.root])) > earliest


def test_a_foreign_line_under_the_same_name_lends_no_date(tsa: Authority, key: keys.PrivateKey, note: bytes) -> None:
    """A thief of the key puts the dated signature of an old checkpoint below a new one."""
    old_line = note[note.index(b"\n\n") + 2 :]
    new = checkpoint.make(ORIGIN, 6, bytes(range(32)), key)
    token = tsa.stamp(timestamps.query(note))
    refused(token, new + old_line, [tsa.root], "bad-signature")
    refused(token, new + old_line, [tsa.root], "bad-signature", public=key.public_key)


def test_a_second_key_under_the_same_name_is_told_apart_by_its_public_key(
    tsa: Authority, key: keys.PrivateKey, note: bytes
) -> None:
    second = keys.PrivateKey.generate()
    line = checkpoint.make(ORIGIN, 5, bytes(range(32)), second)
    both = note + line[line.index(b"\n\n") + 2 :]
    token = tsa.stamp(timestamps.query(both, second.public_key))
    assert timestamps.attested_time(token, both, [tsa.root], second.public_key)
    refused(token, both, [tsa.root], "bad-signature", public=key.public_key)
    refused(token, both, [tsa.root], "bad-signature")


def test_a_held_checkpoint_gets_the_time_of_its_token(tsa: Authority, key: keys.PrivateKey, note: bytes) -> None:
    token = tsa.stamp(timestamps.query(note))
    held = Anchor(ORIGIN, 5, bytes(range(32)), note, None, "kept/checkpoint")
    other = keys.PrivateKey.generate().public_key
    dated = timestamps.dated(held, token, [tsa.root], [other, key.public_key])
    assert dated == replace(held, seen=timestamps.attested_time(token, note, [tsa.root]), dated_by="time stamp")
    with pytest.raises(TrustError, match="no trusted key"):
        timestamps.dated(held, token, [tsa.root], [other])


def test_a_stamped_signature_dates_no_other_tree(tsa: Authority, key: keys.PrivateKey, note: bytes) -> None:
    """Under a rewritten tree stands the old, stamped signature: the token fits it, but nobody signed that tree."""
    forged = note.replace(b"\n5\n", b"\n6\n", 1)
    token = tsa.stamp(timestamps.query(note))
    with pytest.raises(TrustError, match="no trusted key"):
        timestamps.dated(Anchor(ORIGIN, 6, bytes(32), forged, None, "x"), token, [tsa.root], [key.public_key])


def test_certificates_must_be_given_and_readable(tsa: Authority, note: bytes) -> None:
    token = tsa.stamp(timestamps.query(note))
    with pytest.raises(ConfigError, match="none given"):
        timestamps.attested_time(token, note, [])
    with pytest.raises(InputError, match="certificate"):
        timestamps.attested_time(token, note, [b"-----BEGIN nonsense"])
    with pytest.raises(ConfigError, match="root"):
        timestamps.attested_time(token, note, [(tsa.folder / "tsa.pem").read_bytes()])


def test_a_missing_client_is_said_with_its_remedy(tsa: Authority, note: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    with pytest.raises(ConfigError, match="rfc3161-client: not installed") as caught:
        timestamps.attested_time(b"", note, [tsa.root])
    assert caught.value.hint == "pip install 'provstore[evidence]'"


def refused(token: bytes, note: bytes, roots: list[bytes], code: str, *, public: bytes | None = None) -> None:
    with pytest.raises(TrustError) as caught:
        timestamps.attested_time(token, note, roots, public)
    assert caught.value.code == code
