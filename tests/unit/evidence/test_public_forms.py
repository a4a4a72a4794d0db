"""Public keys are written as other programs read them, and read strictly in every one of those forms."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import random
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from provstore.errors import ConfigError, InputError, ProvstoreError, TrustError
from provstore.evidence import key_files, keys, public_forms
from provstore.evidence.public_forms import DIGESTS, FORMS, read_public
from tests.integer_ed25519 import NON_CANONICAL, SMALL_ORDER, outside_the_main_subgroup

SEED = 20260803
GOLDEN = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
TELLING = [name for name in FORMS if name not in DIGESTS]


def form(kind, public=GOLDEN, /, **more):
    return FORMS[kind](public, **more)


def fresh(count=10):
    return [keys.PrivateKey.generate().public_key for _ in range(count)]


# The three published ids of the golden key.


def test_the_golden_key_has_its_three_ids():
    assert form("fingerprint") == b"SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg\n"
    assert form("spki-sha256") == b"a050837d85070582ccf7394b0988847cc312cb88259b894899f6f239cf1791a5\n"
    assert form("securesystemslib-id") == b"63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9\n"


def test_ids_are_those_that_openssl_and_securesystemslib_compute():
    from securesystemslib.signer import SSlibKey

    for public in fresh():
        reference = Ed25519PublicKey.from_public_bytes(public)
        der = subprocess.run(
            ["openssl", "pkey", "-pubin", "-outform", "DER"], input=form("pem", public), capture_output=True, check=True
        ).stdout

        assert form("spki-sha256", public).decode().strip() == hashlib.sha256(der).hexdigest()
        assert form("securesystemslib-id", public).decode().strip() == SSlibKey.from_crypto(reference).keyid


# Each form as another program has it.


def test_pem_and_der_are_those_of_cryptography_and_openssl():
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    for public in fresh():
        reference = Ed25519PublicKey.from_public_bytes(public)

        assert form("pem", public) == reference.public_bytes(serialization.Encoding.PEM, spki)
        assert form("der", public) == reference.public_bytes(serialization.Encoding.DER, spki)
        assert form("der", public).hex().startswith("302a300506032b6570032100")
        assert len(form("der", public)) == 44
        for flags, data in ((), form("pem", public)), (("-inform", "DER"), form("der", public)):
            shown = subprocess.run(
                ["openssl", "pkey", "-pubin", *flags, "-text", "-noout"], input=data, capture_output=True, check=True
            ).stdout
            assert shown.startswith(b"ED25519 Public-Key:")
            assert bytes.fromhex("".join(shown.decode().split("pub:")[1].split()).replace(":", "")) == public


def test_the_openssh_line_is_that_of_cryptography_and_ssh_keygen_reads_it(tmp_path):
    for public in fresh(4):
        reference = Ed25519PublicKey.from_public_bytes(public)
        line = form("openssh", public, name="me@example.org")
        (tmp_path / "key.pub").write_bytes(line)
        listed = subprocess.run(
            ["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, check=True
        ).stdout

        assert line.rsplit(b" ", 1)[0] == reference.public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        assert listed.split()[1].decode() == keys.fingerprint(public)
        assert listed.split()[2] == b"me@example.org"


def test_openssl_checks_a_signature_with_the_pem_form(tmp_path):
    key = keys.PrivateKey.generate()
    (tmp_path / "pub.pem").write_bytes(form("pem", key.public_key))
    (tmp_path / "message").write_bytes(b"any message")
    (tmp_path / "sig").write_bytes(key.sign(b"any message"))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "pub.pem", "-rawin", "-in", "message"]

    assert subprocess.run([*command, "-sigfile", "sig"], cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "message").write_bytes(b"any messagf")
    assert subprocess.run([*command, "-sigfile", "sig"], cwd=tmp_path, check=False).returncode != 0


def ssh_verifies(tmp_path, line, *, principal="provstore", namespace="provstore", at="20260615120000Z"):
    (tmp_path / "allowed").write_bytes(line)
    command = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", principal, "-n", namespace,
               "-O", f"verify-time={at}", "-s", "message.sig"]  # fmt: skip
    with (tmp_path / "message").open("rb") as message:
        return subprocess.run(command, stdin=message, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.fixture
def ssh_signed(tmp_path):
    """Sign a message by ssh-keygen and return the public key."""
    key = keys.PrivateKey.generate()
    key_files.export(tmp_path / "key", key, "openssh")
    (tmp_path / "message").write_bytes(b"any message")
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", "key", "-n", "provstore", "message"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    return key.public_key


def test_ssh_keygen_trusts_a_key_by_its_allowed_signers_line_and_only_as_the_line_says(tmp_path, ssh_signed):
    line = form("allowed_signers", ssh_signed)

    assert line.startswith(b'provstore namespaces="provstore" ssh-ed25519 ')
    assert ssh_verifies(tmp_path, line)
    assert not ssh_verifies(tmp_path, line, principal="somebody")
    assert not ssh_verifies(tmp_path, form("allowed_signers", keys.PrivateKey.generate().public_key))
    assert not ssh_verifies(tmp_path, form("allowed_signers", ssh_signed, namespaces=("git", "file")))
    assert ssh_verifies(tmp_path, form("allowed_signers", ssh_signed, name="me@x.org", namespaces=("git", "provstore")),
                        principal="me@x.org")  # fmt: skip


def test_ssh_keygen_keeps_to_the_first_and_the_last_moment_of_the_line(tmp_path, ssh_signed):
    line = form(
        "allowed_signers", ssh_signed, valid_after="2026-06-01T00:00:00Z", valid_before="2026-07-01T00:00:00.5Z"
    )

    assert b'valid-after="20260601000000Z",valid-before="20260701000000Z"' in line
    assert ssh_verifies(tmp_path, line)
    assert not ssh_verifies(tmp_path, line, at="20260531235959Z")
    assert not ssh_verifies(tmp_path, line, at="20260701000001Z")


def test_the_minisign_form_is_read_by_another_implementation_of_minisign():
    import minisign as reference

    for public in fresh():
        read = reference.PublicKey.from_bytes(form("minisign", public))

        assert base64.b64decode(read.to_base64())[10:] == public
        assert bytes(read).split(b"\n")[:2] == form("minisign", public).split(b"\n")[:2]


def test_the_verifier_key_is_go_s_own_example_and_that_of_its_checksum_database():
    """From the documentation of golang.org/x/mod/sumdb/note, and the key that the go command has built in."""
    for published in (
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8",
    ):
        public = read_public(published, "go")

        assert form("vkey", public, name=published.split("+")[0]).decode().strip() == published


def test_the_jwk_is_the_example_of_rfc_8037():
    """RFC 8037, appendix A.2; the key is the first of RFC 8032, section 7.1."""
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    expected = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}

    assert json.loads(form("jwk", public)) == expected
    assert read_public(json.dumps(expected, indent=2), "rfc") == public


def test_the_did_key_is_the_published_one_of_the_all_zero_seed():
    """The first of the did:key test vectors for Ed25519 (W3C CCG)."""
    public = keys.PrivateKey.from_seed(bytes(32)).public_key
    published = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"

    assert form("did-key", public).decode().strip() == published
    assert read_public(published, "did") == public


# Reading.


@pytest.mark.parametrize("name", TELLING)
def test_every_form_that_tells_a_key_is_read_again(name):
    for public in [GOLDEN, *fresh(20)]:
        data = form(name, public)

        assert read_public(data, name) == public
        if name != "der":
            assert read_public(data.decode(), name) == public
            assert read_public(b"\n " + data.rstrip() + b"\r\n\n", name) == public
            assert read_public(data.replace(b"\n", b"\r\n"), name) == public


@pytest.mark.parametrize("public", [*sorted({*SMALL_ORDER, *NON_CANONICAL}), *outside_the_main_subgroup(7)],
                         ids=bytes.hex)  # fmt: skip
def test_a_key_that_nobody_may_trust_is_refused_in_every_form(public):
    for name in TELLING:
        with pytest.raises(TrustError, match="small order") as caught:
            read_public(form(name, public), name)
        assert caught.value.code == "untrusted-key"


def test_a_fingerprint_is_no_key():
    with pytest.raises(InputError, match="names a key and does not tell it"):
        read_public(form("fingerprint"), "here")


def private_texts(tmp_path):
    key = keys.PrivateKey.generate()
    key_files.save(tmp_path / "own", key, None)
    key_files.export(tmp_path / "pem", key, "pkcs8")
    key_files.export(tmp_path / "ssh", key, "openssh")
    jwk = {**json.loads(form("jwk", key.public_key)), "d": base64.urlsafe_b64encode(key.secret_seed()).decode()}
    files = [(tmp_path / name).read_bytes() for name in ("own", "pem", "ssh")]
    return key, [*files, json.dumps(jwk).encode()]


def test_a_private_key_is_refused_by_name_and_not_repeated(tmp_path):
    key, texts = private_texts(tmp_path)
    for text in texts:
        with pytest.raises(InputError, match="this is a private key") as caught:
            read_public(text, "here")
        assert base64.b64encode(key.secret_seed()).decode()[:20] not in str(caught.value)


def test_secret_keys_of_minisign_and_signify_are_refused_by_name(tmp_path):
    for command in (
        ["signify-openbsd", "-G", "-n", "-p", "signify.pub", "-s", "signify.sec"],
        ["minisign", "-G", "-W", "-p", "minisign.pub", "-s", "minisign.sec"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for name in ("signify", "minisign"):
        with pytest.raises(InputError, match="private key"):
            read_public((tmp_path / f"{name}.sec").read_bytes(), name)
        text = (tmp_path / f"{name}.pub").read_text()
        assert read_public(text, name) == base64.b64decode(text.split("\n")[1])[10:]
    assert read_public(text.split("\n")[1], "bare") == read_public(text, "minisign")


def test_keys_by_ssh_keygen_openssl_minisign_and_signify_are_read(tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "a b", "-f", tmp_path / "ssh"], check=True)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", tmp_path / "pem"], check=True)
    pem = subprocess.run(
        ["openssl", "pkey", "-in", tmp_path / "pem", "-pubout"], capture_output=True, check=True
    ).stdout
    line = (tmp_path / "ssh.pub").read_bytes()

    assert read_public(pem, "openssl") == serialization.load_pem_public_key(pem).public_bytes_raw()
    assert read_public(line, "ssh") == serialization.load_ssh_public_key(line).public_bytes_raw()
    for options in (b"a,b@c ", b'a,b@c namespaces="a,b c" ', b'"a b" valid-after="20260101Z",namespaces="x" '):
        assert read_public(b"# a comment\n\n" + options + line, "ssh") == read_public(line, "ssh")


def wire(kind, *fields):
    return b"".join(len(field).to_bytes(4, "big") + field for field in (kind, *fields))


def other_keys():
    """Return public keys of other kinds, in PEM and OpenSSH form."""
    made = [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1()),
            ed448.Ed448PrivateKey.generate(), x25519.X25519PrivateKey.generate()]  # fmt: skip
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    texts = [key.public_key().public_bytes(serialization.Encoding.PEM, spki) for key in made]
    texts += [key.public_key().public_bytes(serialization.Encoding.DER, spki) for key in made]
    ssh = serialization.PublicFormat.OpenSSH
    texts += [key.public_key().public_bytes(serialization.Encoding.OpenSSH, ssh) for key in made[:2]]
    return texts


def test_keys_of_other_kinds_are_refused():
    for text in other_keys():
        with pytest.raises(InputError):
            read_public(text, "here")


def b64(data):
    return base64.b64encode(data).decode()


BLOB = b64(wire(b"ssh-ed25519", GOLDEN))
SK = "sk-ssh-ed25519@openssh.com"
OTHER_NOTE = b"a\n\2" + GOLDEN
X = base64.urlsafe_b64encode(GOLDEN).decode().rstrip("=")


def loose(text):
    """Return base64 with another last digit that decodes to the same bytes."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    body = text.rstrip("=")
    digits = digits.replace("-_", "+/") if "+" in text or "/" in text else digits
    return body[:-1] + digits[digits.index(body[-1]) + 1] + text[len(body) :]


MALFORMED = {
    "nothing": "",
    "blank": " \n\t ",
    "a comment only": "# a key\n",
    "63 digits": GOLDEN.hex()[:-1],
    "66 digits": GOLDEN.hex() + "00",
    "digits with a blank": GOLDEN.hex()[:32] + " " + GOLDEN.hex()[32:],
    "digits with 0x": "0x" + GOLDEN.hex(),
    "digits with colons": GOLDEN.hex(":"),
    "full-width digits": "".join(chr(ord(digit) + 0xFEE0) for digit in GOLDEN.hex()),
    "two keys in hexadecimal": GOLDEN.hex() + "\n" + GOLDEN.hex(),
    "raw bytes": GOLDEN,
    "a byte order mark": "\ufeff" + GOLDEN.hex(),
    "a NUL": GOLDEN.hex() + "\0",
    "UTF-16": GOLDEN.hex().encode("utf-16"),
    "a lone surrogate": "\ud800" + GOLDEN.hex(),
    "PEM twice": form("pem").decode() * 2,
    "PEM with a header": form("pem").decode().replace("KEY-----\n", "KEY-----\nX: y\n\n", 1),
    "PEM of another label": form("pem").decode().replace("PUBLIC KEY", "CERTIFICATE"),
    "PEM with other labels": form("pem").decode().replace("END PUBLIC", "END OTHER"),
    "PEM with text before": "text\n" + form("pem").decode(),
    "PEM with text behind": form("pem").decode() + "text\n",
    "PEM without end": form("pem").decode().split("-----END")[0],
    "PEM of a longer key": "-----BEGIN PUBLIC KEY-----\n" + b64(form("der") + b"\0") + "\n-----END PUBLIC KEY-----\n",
    "PEM of a shorter key": "-----BEGIN PUBLIC KEY-----\n" + b64(form("der")[:-1]) + "\n-----END PUBLIC KEY-----\n",
    "PEM with loose ends": "-----BEGIN PUBLIC KEY-----\n" + loose(b64(form("der"))) + "\n-----END PUBLIC KEY-----\n",
    "DER cut": form("der")[:-1],
    "DER extended": form("der") + b"\0",
    "DER with a line end": form("der") + b"\n",
    "DER with unused bits": bytes.fromhex("302a300506032b6570032101") + GOLDEN,
    "DER with parameters": bytes.fromhex("302c300706032b65700500032100") + GOLDEN,
    "DER with a long length": bytes.fromhex("30812a300506032b6570032100") + GOLDEN,
    "X25519 DER": bytes.fromhex("302a300506032b656e032100") + GOLDEN,
    "OpenSSH of another type": f"ssh-rsa {BLOB}",
    "OpenSSH with a type that lies": f"ssh-ed25519 {b64(wire(b'ssh-ed448', GOLDEN))}",
    "OpenSSH of a security key": f"{SK} {b64(wire(SK.encode(), GOLDEN, b'ssh:'))}",
    "OpenSSH with more inside": f"ssh-ed25519 {b64(wire(b'ssh-ed25519', GOLDEN, b''))}",
    "OpenSSH with a longer key": f"ssh-ed25519 {b64(wire(b'ssh-ed25519', GOLDEN + b'x'))}",
    "OpenSSH with a shorter key": f"ssh-ed25519 {b64(wire(b'ssh-ed25519', GOLDEN[:-1]))}",
    "OpenSSH without key": "ssh-ed25519",
    "OpenSSH with loose ends": f"ssh-ed25519 {loose(BLOB)}",
    "OpenSSH with a key far behind": f"a b c ssh-ed25519 {BLOB}",
    "OpenSSH twice": f"ssh-ed25519 {BLOB}\nssh-ed25519 {BLOB}",
    "OpenSSH certificate": f"ssh-ed25519-cert-v01@openssh.com {BLOB}",
    "a certificate authority": f"* cert-authority ssh-ed25519 {BLOB}",
    "a certificate authority among others": f'* cert-authority,namespaces="x" ssh-ed25519 {BLOB}',
    "vkey of another algorithm": f"a+{hashlib.sha256(OTHER_NOTE).hexdigest()[:8]}+{b64(OTHER_NOTE[2:])}",
    "vkey without key": "a+00000000+",
    "vkey without name": form("vkey").decode().strip()[9:],
    "vkey with loose ends": loose(form("vkey").decode().strip() + "="),
    "minisign with another algorithm": b64(b"ED" + bytes(8) + GOLDEN),
    "minisign cut": "untrusted comment: x\n" + b64(b"Ed" + bytes(8) + GOLDEN[:-1]),
    "minisign without key": "untrusted comment: x",
    "minisign with three lines": form("minisign").decode() + "more",
    "a minisign signature": "untrusted comment: x\n" + b64(b"ED" + bytes(72)),
    "a bare base64 key": b64(GOLDEN),
    "JWK not JSON": "{",
    "JWK list": "[]",
    "JWK with a key twice": f'{{"kty":"OKP","crv":"Ed25519","x":"{X}","x":"{X}"}}',
    "JWK of another curve": f'{{"kty":"OKP","crv":"X25519","x":"{X}"}}',
    "JWK of another type": f'{{"kty":"EC","crv":"Ed25519","x":"{X}"}}',
    "JWK with another algorithm": f'{{"kty":"OKP","crv":"Ed25519","alg":"HS256","x":"{X}"}}',
    "JWK with an odd algorithm": f'{{"kty":"OKP","crv":"Ed25519","alg":[],"x":"{X}"}}',
    "JWK without x": '{"kty":"OKP","crv":"Ed25519"}',
    "JWK with a number": '{"kty":"OKP","crv":"Ed25519","x":7}',
    "JWK with padding": f'{{"kty":"OKP","crv":"Ed25519","x":"{X}="}}',
    "JWK with the other alphabet": f'{{"kty":"OKP","crv":"Ed25519","x":"{b64(GOLDEN).rstrip("=")}"}}',
    "JWK with loose ends": f'{{"kty":"OKP","crv":"Ed25519","x":"{loose(X)}"}}',
    "JWK too short": f'{{"kty":"OKP","crv":"Ed25519","x":"{X[:-4]}"}}',
    "JWK with a non-ASCII x": '{"kty":"OKP","crv":"Ed25519","x":"é"}',
    "JWK with a huge number": '{"kty":' + "9" * 5000 + "}",
    "a deep JWK": '{"a":' * 30_000,
    "a key set": f'{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{X}"}}]}}',
    "did:key of another curve": "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169",
    "did:key with a fragment": form("did-key").decode().strip() + "#z6Mk",
    "did:key with a wrong digit": form("did-key").decode().strip()[:-1] + "0",
    "did:key with a leading one": form("did-key").decode().strip().replace(":z", ":z1"),
    "did:key cut": form("did-key").decode().strip()[:-1],
    "did:web": "did:web:example.org",
    "too large": "# " + "x" * 70_000,
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_not_exactly_one_of_the_forms_is_refused_with_a_deliberate_error(name):
    with pytest.raises(ProvstoreError, match=r"^some\.pub: ") as caught:
        read_public(MALFORMED[name], "some.pub")
    assert caught.value.exit_code in {1, 2, 4}
    assert GOLDEN.hex() not in str(caught.value)


def test_a_verifier_key_whose_hash_is_of_another_name_or_key_is_refused():
    name, stated, text = form("vkey", name="log.example").decode().strip().split("+", 2)
    other = FORMS["vkey"](keys.PrivateKey.generate().public_key, name="log.example").decode().strip().split("+", 2)[2]
    for changed in (f"log.exampl+{stated}+{text}", f"{name}+00000000+{text}", f"{name}+{stated}+{other}"):
        with pytest.raises(TrustError, match="the stated hash is not that of name and key") as caught:
            read_public(changed, "here")
        assert caught.value.code == "keyid-mismatch"


@pytest.mark.parametrize("name", TELLING)
def test_no_changed_bit_of_a_form_gives_the_same_key_by_a_second_spelling_of_what_matters(name):
    """A flipped bit ends in another key, a refusal, or a change of what is only a comment, a name or an option."""
    data, kept = form(name), 0
    for place, bit in itertools.product(range(len(data)), range(8)):
        changed = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        try:
            public = read_public(changed, "here")
        except ProvstoreError:
            continue
        kept += public == GOLDEN
        if public == GOLDEN and name in {"pem", "der", "did-key", "vkey"}:
            assert changed.split() == data.split(), changed

    if name == "hex":
        # The case of the six letters is free.
        assert kept <= sum(chr(byte).isalpha() for byte in data) + 8


def test_bytes_of_any_kind_are_refused_with_a_deliberate_error():
    chance = random.Random(SEED)
    starts = [b"", b"{", b"-----BEGIN PUBLIC KEY-----\n", b"untrusted comment: x\n", b"ssh-ed25519 ", b"did:key:z6Mk",
              b"a+00000000+", public_forms.SPKI_PREFIX, b"0*", b"RW"]  # fmt: skip
    for start, size, ascii_only in itertools.product(starts, (0, 1, 31, 54, 300), (True, False)):
        noise = chance.randbytes(size)
        noise = base64.b64encode(noise)[:size] if ascii_only else noise
        with pytest.raises(ProvstoreError):
            read_public(start + noise, "here")


def test_a_text_of_64_kib_is_read_and_one_byte_more_is_not():
    key = form("hex").decode()
    comment = "#" + "x" * (65_535 - len(key) - 2) + "\n"

    assert read_public(comment + key, "here") == GOLDEN
    with pytest.raises(InputError, match="more than 65535 bytes"):
        read_public("#" + comment + key, "here")


# Names.


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "a b",
        "a\tb",
        "a\nb",
        "a\0b",
        "a\x1bb",
        "a\u00a0b",
        "a\u2028b",
        "a\x85b",
        "\ud800",
        "x" * 1025,
        " a",
        "a\n",
    ],
)
@pytest.mark.parametrize("where", ["vkey", "openssh", "allowed_signers"])
def test_a_name_that_would_break_its_line_is_refused(where, name):
    with pytest.raises(ConfigError, match="empty, or with a blank or sign that has a meaning of its own"):
        FORMS[where](GOLDEN, name=name)


def test_a_name_with_a_plus_is_refused_where_a_plus_ends_it():
    with pytest.raises(ConfigError, match="key name"):
        FORMS["vkey"](GOLDEN, name="a+b")


@pytest.mark.parametrize("principal", ["*", "a,b", "!a", "a?", '"a"', "a\\b", "#a", "*@example.org"])
def test_a_principal_that_would_stand_for_others_is_refused(principal):
    with pytest.raises(ConfigError, match="principal"):
        FORMS["allowed_signers"](GOLDEN, name=principal)


@pytest.mark.parametrize("namespaces", [(), ("",), ("a,b",), ("a b",), ('a"',), ("provstore", "*"), ("a\n",)])
def test_namespaces_that_would_mean_others_or_all_are_refused(namespaces):
    with pytest.raises(ConfigError, match="namespace"):
        FORMS["allowed_signers"](GOLDEN, namespaces=namespaces)


@pytest.mark.parametrize(
    "moment", ["", "20260101", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", '2026-01-01T00:00:00Z"']
)
def test_a_moment_that_is_none_is_refused(moment):
    for option in ("valid_after", "valid_before"):
        with pytest.raises(InputError):
            FORMS["allowed_signers"](GOLDEN, **{option: moment})


def test_every_writer_takes_a_name_and_ends_its_text_with_a_line_end():
    for name, writer in FORMS.items():
        data = writer(GOLDEN, name="log.example")

        assert data.endswith(b"\n") or name == "der"
