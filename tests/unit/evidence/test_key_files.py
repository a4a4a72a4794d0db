"""Key files: private to their owner, encrypted by default, never overwritten, and refused when planted."""

from __future__ import annotations

import base64
import errno
import itertools
import json
import os
import random
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import cryptography_vectors
import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from provstore.errors import ConfigError, InputError, NotUnderstoodError, TrustError
from provstore.evidence import foreign_keys, key_documents, key_files, keys
from provstore.evidence.key_files import INTERACTIVE, MODERATE
from tests.integer_ed25519 import NON_CANONICAL, SMALL_ORDER, outside_the_main_subgroup

SEED = 20260802
WORD = b"correct horse \xff\x00 battery"
VECTORS = Path(cryptography_vectors.__file__).parent / "asymmetric"


def never():
    raise AssertionError("asked for a passphrase")


def asked():
    return WORD


def saved(path, passphrase=None, cost=INTERACTIVE):
    key = keys.PrivateKey.generate()
    key_files.save(path, key, passphrase, cost=cost)
    return key


def members(path):
    return json.loads(path.read_bytes())


def planted(path, **changes):
    """Return a copy of a key file with other members, canonical and with mode 0600."""
    other = path.with_name("planted.key")
    other.write_bytes(orjson.dumps({**members(path), **changes}, option=orjson.OPT_SORT_KEYS) + b"\n")
    other.chmod(0o600)
    return other


def written(path, data):
    path.write_bytes(data)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("passphrase", [None, WORD])
def test_a_saved_key_is_loaded_again(tmp_path, passphrase):
    key = saved(tmp_path / "run.key", passphrase)
    loaded = key_files.load(tmp_path / "run.key", asked if passphrase else never)

    assert loaded.public_key == key.public_key
    assert loaded.secret_seed() == key.secret_seed()
    assert key_files.is_encrypted(tmp_path / "run.key") is (passphrase is not None)


def test_without_saying_otherwise_a_guess_costs_256_mib_and_three_passes(tmp_path):
    key_files.save(tmp_path / "run.key", keys.PrivateKey.generate(), WORD)

    assert members(tmp_path / "run.key")["kdf"]["memory"] == 256 * 2**20
    assert members(tmp_path / "run.key")["kdf"]["operations"] == 3
    assert key_files.load(tmp_path / "run.key", asked)


def test_a_key_file_opens_with_nothing_but_argon2id_and_secretbox_as_other_programs_have_them(tmp_path):
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
    from nacl.secret import SecretBox

    key = saved(tmp_path / "run.key", WORD)
    found = members(tmp_path / "run.key")
    derived = Argon2id(
        salt=base64.b64decode(found["kdf"]["salt"][4:]), length=32, lanes=1,
        iterations=found["kdf"]["operations"], memory_cost=found["kdf"]["memory"] // 1024,
    ).derive(WORD)  # fmt: skip
    box = SecretBox(derived)

    assert box.decrypt(base64.b64decode(found["data"][4:]), base64.b64decode(found["nonce"][4:])) == key.secret_seed()


def test_the_file_says_everything_but_the_passphrase(tmp_path):
    key = saved(tmp_path / "run.key", WORD)
    found = members(tmp_path / "run.key")

    assert sorted(found) == ["cipher", "data", "kdf", "keyid", "nonce", "public", "type", "version"]
    assert found["public"] == key.public_key.hex()
    assert found["keyid"] == keys.fingerprint(key.public_key)
    assert key_files.public_of(tmp_path / "run.key") == key.public_key


def test_two_files_of_one_key_and_passphrase_share_neither_salt_nor_nonce(tmp_path):
    key = keys.PrivateKey.generate()
    for name in ("a", "b"):
        key_files.save(tmp_path / name, key, WORD, cost=INTERACTIVE)
    first, second = members(tmp_path / "a"), members(tmp_path / "b")

    assert first["kdf"]["salt"] != second["kdf"]["salt"]
    assert first["nonce"] != second["nonce"]
    assert first["data"] != second["data"]


def test_an_encrypted_file_holds_the_seed_in_no_spelling(tmp_path):
    key = saved(tmp_path / "run.key", WORD)
    text = (tmp_path / "run.key").read_bytes()
    seed = key.secret_seed()

    assert all(form not in text for form in (seed, seed.hex().encode(), base64.b64encode(seed)[:40], WORD))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_file_is_its_owner_s_alone_and_so_are_the_directories_made_for_it(tmp_path, umask):
    before = os.umask(umask)
    try:
        saved(tmp_path / "a" / "b" / "run.key")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a" / "b" / "run.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def existing(kind, path):
    {
        "file": lambda: path.write_bytes(b"precious"),
        "empty": path.touch,
        "directory": path.mkdir,
        "link": lambda: path.symlink_to(path.with_name("target")),
        "pipe": lambda: os.mkfifo(path),
    }[kind]()


@pytest.mark.parametrize("kind", ["file", "empty", "directory", "link", "pipe"])
def test_what_exists_is_never_overwritten(tmp_path, kind):
    path = tmp_path / "run.key"
    existing(kind, path)
    key = keys.PrivateKey.generate()
    for write in (
        lambda: key_files.save(path, key, None),
        lambda: key_files.export(path, key, "pkcs8"),
        lambda: key_files.export(path, key, "openssh"),
    ):
        with pytest.raises(ConfigError, match="exists already, and is never overwritten") as caught:
            write()
        assert caught.value.exit_code == 2

    assert not (tmp_path / "target").exists()
    if kind == "file":
        assert path.read_bytes() == b"precious"


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr(key_files, "_require_absent", lambda path: path.write_bytes(b"precious"))
    with pytest.raises(ConfigError, match="exists already"):
        saved(tmp_path / "run.key")

    assert (tmp_path / "run.key").read_bytes() == b"precious"


def test_a_disk_that_is_full_leaves_no_half_of_a_key(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path; from provstore.evidence import key_files, keys; import signal;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); key = keys.PrivateKey.generate();"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "key_files.save(Path(sys.argv[1]), key, None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run.key"], capture_output=True, text=True, check=False
    )

    assert "ConfigError" in ended.stderr
    assert os.strerror(errno.EFBIG) in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_nobody_may_write_is_a_clear_message(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="key file: "):
        saved(tmp_path / "file" / "run.key")
    with pytest.raises(ConfigError, match="key file: "):
        saved(tmp_path / ("n" * 300))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o610, 0o602, 0o777])
def test_a_key_that_others_can_reach_is_refused_and_the_message_names_the_mode(tmp_path, mode):
    path = tmp_path / "run.key"
    key = saved(path)
    path.chmod(mode)
    with pytest.raises(InputError, match=f"mode 0{mode:o} lets others at it") as caught:
        key_files.load(path, never)

    assert caught.value.exit_code == 2
    assert "--insecure-key-mode" in caught.value.hint
    assert key_files.load(path, never, insecure_mode=True).public_key == key.public_key


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_key_that_only_its_owner_can_reach_is_read(tmp_path, mode):
    key = saved(tmp_path / "run.key")
    (tmp_path / "run.key").chmod(mode)

    assert key_files.load(tmp_path / "run.key", never).public_key == key.public_key


def test_a_link_to_a_private_file_is_followed_and_the_mode_is_that_of_the_file(tmp_path):
    key = saved(tmp_path / "run.key")
    (tmp_path / "link").symlink_to(tmp_path / "run.key")
    assert key_files.load(tmp_path / "link", never).public_key == key.public_key
    (tmp_path / "run.key").chmod(0o644)

    with pytest.raises(InputError, match="0644"):
        key_files.load(tmp_path / "link", never)


@pytest.mark.parametrize("place", ["missing", "directory", "pipe", "loop", "nul\0name", "long"])
def test_what_is_no_readable_file_is_a_clear_message_and_never_a_wait(tmp_path, place):
    path = tmp_path / ("x" * 300 if place == "long" else place)
    if place == "directory":
        path.mkdir()
    if place == "pipe":
        os.mkfifo(path, 0o600)
    if place == "loop":
        path.symlink_to(path)
    with pytest.raises(InputError, match="key file: "):
        key_files.load(path, never)


def test_a_file_larger_than_any_key_is_refused_unread(tmp_path):
    path = written(tmp_path / "run.key", b"")
    os.truncate(path, 2**40)
    with pytest.raises(InputError, match="more than 65535 bytes"):
        key_files.load(path, never)


@pytest.mark.parametrize("guess", [b"", b"wrong", WORD + b"x", WORD[:-1], WORD.upper()])
def test_a_wrong_passphrase_is_one_sentence(tmp_path, guess):
    saved(tmp_path / "run.key", WORD)
    with pytest.raises(InputError, match="wrong passphrase, or the file is damaged") as caught:
        key_files.load(tmp_path / "run.key", lambda: guess)
    assert caught.value.exit_code == 2


def test_an_empty_passphrase_encrypts_nothing(tmp_path):
    for write in (
        lambda: key_files.save(tmp_path / "k", keys.PrivateKey.generate(), b""),
        lambda: key_files.export(tmp_path / "k", keys.PrivateKey.generate(), "openssh", b""),
    ):
        with pytest.raises(ConfigError, match="the passphrase is empty"):
            write()
    assert list(tmp_path.iterdir()) == []


GIB = 2**30


@pytest.mark.parametrize(
    ("memory", "operations"),
    [
        (INTERACTIVE.memory - 1, 3), (0, 3), (-1, 3), (GIB + 1, 3), (8 * GIB, 3), (2**53 - 1, 3),
        (MODERATE.memory, 1), (MODERATE.memory, 0), (MODERATE.memory, 5), (MODERATE.memory, 2**32),
        (MODERATE.memory, -3),
        ("268435456", 3), (None, 3), (True, 3), (MODERATE.memory, True), (MODERATE.memory, [3]),
    ],
)  # fmt: skip
def test_a_derivation_that_is_too_cheap_or_too_costly_is_refused_before_it_begins(tmp_path, memory, operations):
    saved(tmp_path / "run.key", WORD)
    kdf = members(tmp_path / "run.key")["kdf"]
    path = planted(tmp_path / "run.key", kdf={**kdf, "memory": memory, "operations": operations})
    with pytest.raises(InputError, match=r"argon2id: .* is not \d+ to \d+"):
        key_files.load(path, never)


@pytest.mark.parametrize(
    "cost", [INTERACTIVE, key_files.Cost(2, INTERACTIVE.memory + 1024), key_files.Cost(4, INTERACTIVE.memory)]
)
def test_a_derivation_at_its_bounds_is_read(tmp_path, cost):
    key = saved(tmp_path / "run.key", WORD, cost)

    assert key_files.load(tmp_path / "run.key", asked).public_key == key.public_key


def test_the_highest_cost_is_within_the_bounds_and_one_above_is_not():
    most = {"memory": GIB, "name": "argon2id", "operations": 4, "salt": "b64:" + base64.b64encode(bytes(16)).decode()}
    public = keys.PrivateKey.generate().public_key
    document = {
        "cipher": "xsalsa20-poly1305", "data": "b64:" + base64.b64encode(bytes(48)).decode(), "kdf": most,
        "keyid": keys.fingerprint(public), "nonce": "b64:" + base64.b64encode(bytes(24)).decode(),
        "public": public.hex(), "type": "provstore-private-key", "version": 1,
    }  # fmt: skip

    assert key_documents.parse(orjson.dumps(document), "x").lock.cost == key_files.SENSITIVE
    for name in ("memory", "operations"):
        with pytest.raises(InputError):
            key_documents.parse(orjson.dumps({**document, "kdf": {**most, name: most[name] + 1}}), "x")


def test_a_stated_public_key_or_id_that_is_not_the_key_s_own_is_refused(tmp_path):
    key, other = saved(tmp_path / "run.key", WORD), keys.PrivateKey.generate().public_key
    own, stranger = keys.fingerprint(key.public_key), keys.fingerprint(other)
    for changes in (
        {"keyid": stranger}, {"keyid": own[:-1]}, {"keyid": own + "="}, {"keyid": None}, {"keyid": ""},
        {"public": other.hex()},
    ):  # fmt: skip
        with pytest.raises(TrustError, match=r"the stated key id .* is not that of the public key") as caught:
            key_files.load(planted(tmp_path / "run.key", **changes), never)
        assert caught.value.code == "keyid-mismatch"
    with pytest.raises(TrustError, match="its public key is not that of its private key") as caught:
        key_files.load(planted(tmp_path / "run.key", public=other.hex(), keyid=stranger), asked)
    assert caught.value.code == "keyid-mismatch"


@pytest.mark.parametrize(
    "public", [*sorted({*SMALL_ORDER, *NON_CANONICAL}), *outside_the_main_subgroup(3)], ids=bytes.hex
)
def test_a_file_with_a_public_key_that_nobody_may_trust_is_refused(tmp_path, public):
    saved(tmp_path / "run.key")
    path = planted(tmp_path / "run.key", public=public.hex(), keyid=keys.fingerprint(public))
    for read in (lambda: key_files.load(path, never), lambda: key_files.public_of(path)):
        with pytest.raises(TrustError, match="of small order"):
            read()


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, True, [1]])
def test_a_version_that_is_not_known_is_not_understood(tmp_path, version):
    saved(tmp_path / "run.key")
    with pytest.raises(NotUnderstoodError, match="is not known") as caught:
        key_files.load(planted(tmp_path / "run.key", version=version), never)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1}, {"type": "provstore-public-key"}, {"cipher": None}, {"nonce": None}, {"kdf": None},
        {"cipher": "none"}, {"cipher": ["xsalsa20-poly1305"]}, {"kdf": []}, {"kdf": {}}, {"kdf": "argon2id"},
        {"data": "b64:"}, {"data": "AAAA"}, {"data": None}, {"data": {"b64": ""}}, {"nonce": "b64:AAAA"},
        {"public": ""}, {"public": None}, {"public": "zz" * 32}, {"public": " " + "00" * 32}, {"public": 7},
    ],
)  # fmt: skip
def test_a_member_that_is_not_as_the_format_says_is_refused(tmp_path, changes):
    saved(tmp_path / "run.key", WORD)
    with pytest.raises((InputError, TrustError)):
        key_files.load(planted(tmp_path / "run.key", **changes), never)


@pytest.mark.parametrize("name", ["cipher", "data", "kdf", "keyid", "nonce", "public", "type", "version"])
def test_a_file_without_one_of_its_members_is_refused(tmp_path, name):
    saved(tmp_path / "run.key", WORD)
    left = {key: value for key, value in members(tmp_path / "run.key").items() if key != name}
    with pytest.raises((InputError, NotUnderstoodError)):
        key_files.load(written(tmp_path / "other", orjson.dumps(left, option=orjson.OPT_SORT_KEYS)), never)


def test_no_changed_bit_and_no_cut_of_an_encrypted_file_gives_a_key(tmp_path):
    """A file opens to its own key or not at all; what follows a changed salt is a wrong passphrase."""
    saved(tmp_path / "run.key", WORD)
    data = (tmp_path / "run.key").read_bytes()
    chance = random.Random(SEED)
    changed = [data[:length] for length in range(len(data) - 1)]
    changed += [data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
                for place, bit in itertools.product(range(len(data) - 1), range(8))]  # fmt: skip
    derived = 0
    for text in changed:
        try:
            document = key_documents.parse(text, "x")
        except (InputError, TrustError):
            continue
        # Only a change of salt, nonce, cost or data gets this far; deriving is dear, so a sample of those is opened.
        derived += 1
        if chance.random() < 0.04:
            path = written(tmp_path / "changed", text)
            with pytest.raises((InputError, ConfigError)):
                key_files.load(path, asked)
        assert document.public == key_files.public_of(tmp_path / "run.key")

    assert derived > 100


def test_one_amount_of_memory_has_one_spelling(tmp_path):
    """argon2 takes KiB: 268435457 bytes would derive the key that 268435456 do."""
    saved(tmp_path / "run.key", WORD)
    text = (tmp_path / "run.key").read_bytes()
    memory = json.loads(text)["kdf"]["memory"]
    changed = text.replace(b"%d" % memory, b"%d" % (memory + 1))
    assert changed != text
    with pytest.raises(InputError, match="whole number of KiB"):
        key_documents.parse(changed, "x")


def test_bytes_of_any_kind_are_refused_with_a_deliberate_error(tmp_path):
    chance = random.Random(SEED)
    begins = [b"", b"{", b'{"type":"provstore-private-key"', b"0", b"0\x82", b"-----BEGIN PRIVATE KEY-----\n",
              b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"openssh-key-v1\0", b"\xef\xbb\xbf{}", b"[" * 99]  # fmt: skip
    for start in begins:
        for size in (0, 1, 40, 700):
            path = written(tmp_path / "any", start + chance.randbytes(size))
            with pytest.raises((InputError, TrustError, NotUnderstoodError)):
                key_files.load(path, never)


# Foreign formats.


def generated(*arguments):
    """Return what openssl prints."""
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


def seed_of(pem, password=None):
    return serialization.load_pem_private_key(pem, password).private_bytes_raw()


def test_a_plain_pkcs8_key_by_openssl_is_read(tmp_path):
    pem = generated("genpkey", "-algorithm", "ed25519")
    for data in (
        pem,
        pem.replace(b"\n", b"\r\n"),
        b"\n" + pem + b"\n\n",
        base64.b64decode(b"".join(pem.split(b"\n")[1:-2])),
    ):
        path = written(tmp_path / "key.pem", data)

        assert key_files.load(path, never).secret_seed() == seed_of(pem)
        assert key_files.public_of(path) == keys.PrivateKey.from_seed(seed_of(pem)).public_key
        assert not key_files.is_encrypted(path)


@pytest.mark.parametrize(
    "way",
    [
        ("-scrypt",), ("-scrypt", "-scrypt_N", "4096"), ("-v2", "aes-256-cbc", "-iter", "600000"),
        ("-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA512"), ("-v2", "aes-256-cbc"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_encrypted_pkcs8_key_by_openssl_is_read(tmp_path, way):
    pem = generated("genpkey", "-algorithm", "ed25519")
    plain = written(tmp_path / "plain.pem", pem)
    path = written(
        tmp_path / "key.pem", generated("pkcs8", "-topk8", "-in", str(plain), "-passout", "pass:open sesame", *way)
    )

    assert key_files.load(path, lambda: b"open sesame").secret_seed() == seed_of(pem)
    assert key_files.is_encrypted(path)
    with pytest.raises(InputError, match="wrong passphrase"):
        key_files.load(path, lambda: b"open")
    with pytest.raises(InputError, match="only with the passphrase"):
        key_files.public_of(path)


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("Ed25519/ed25519-pkcs8.pem", None), ("Ed25519/ed25519-pkcs8.der", None),
        ("Ed25519/ed25519-pkcs8-enc.pem", b"password"), ("Ed25519/ed25519-pkcs8-enc.der", b"password"),
        ("PKCS8/ed25519-scrypt.pem", b"hunter42"), ("OpenSSH/ed25519-nopsw.key", None),
        ("OpenSSH/ed25519-psw.key", b"password"), ("OpenSSH/ed25519-aesgcm-psw.key", b"password"),
    ],
)  # fmt: skip
def test_published_key_files_give_the_key_that_another_library_reads(tmp_path, name, password):
    data = (VECTORS / name).read_bytes()
    load = {
        ".pem": serialization.load_pem_private_key, ".der": serialization.load_der_private_key,
        ".key": serialization.load_ssh_private_key,
    }[Path(name).suffix]  # fmt: skip
    key = key_files.load(written(tmp_path / "key", data), (lambda: password) if password else never)

    assert key.secret_seed() == load(data, password).private_bytes_raw()


def others():
    """Return every published private key that is not an Ed25519 key of a supported form."""
    good = {"ed25519-scrypt.pem", "ed25519-nopsw.key", "ed25519-psw.key", "ed25519-aesgcm-psw.key"}
    listed = [*(VECTORS / "PKCS8").iterdir(), *(VECTORS / "OpenSSH").glob("*.key")]
    return sorted(path for path in listed if path.name not in good)


@pytest.mark.parametrize("path", others(), ids=lambda path: path.name)
def test_published_keys_of_other_kinds_and_broken_ones_are_refused_in_words(tmp_path, path):
    copy = written(tmp_path / "key", path.read_bytes())
    for guess in (b"foobar", b"password", b"123456", b"baz", b"asdf"):
        with pytest.raises(InputError, match="key: key file: "):
            key_files.load(copy, lambda guess=guess: guess)


def test_an_rsa_key_inside_encrypted_pkcs8_is_refused(tmp_path):
    data = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    with pytest.raises(InputError, match="not an Ed25519 key"):
        key_files.load(written(tmp_path / "key", data), lambda: b"x")


@pytest.mark.parametrize("passphrase", ["", "open sesame"])
def test_a_key_by_ssh_keygen_is_read(tmp_path, passphrase):
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "c", "-f", path], check=True)
    public = serialization.load_ssh_public_key(path.with_suffix(".pub").read_bytes()).public_bytes_raw()
    key = key_files.load(path, passphrase.encode if passphrase else never)

    assert key.public_key == public == key_files.public_of(path)
    assert keys.is_signed(public, b"message", key.sign(b"message"))
    if passphrase:
        with pytest.raises(InputError, match="wrong passphrase"):
            key_files.load(path, lambda: b"other")


def test_an_encrypted_openssh_key_without_bcrypt_names_the_package_and_a_plain_one_needs_none(tmp_path, monkeypatch):
    path, plain = tmp_path / "key", tmp_path / "plain"
    for place, word in ((path, "open sesame"), (plain, "")):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", word, "-C", "c", "-f", place], check=True)
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    for call in (
        lambda: key_files.load(path, lambda: b"open sesame"),
        lambda: key_files.export(tmp_path / "new", keys.PrivateKey.generate(), "openssh", b"word"),
    ):
        with pytest.raises(ConfigError, match="needs the package bcrypt") as caught:
            call()
        assert caught.value.hint == "pip install 'provstore[evidence]'"

    assert key_files.load(plain, never)
    assert not (tmp_path / "new").exists()


def openssh_blob(path):
    text = path.read_bytes().split(b"\n")
    return base64.b64decode(b"".join(line for line in text if line and not line.startswith(b"-----")))


def openssh_text(blob):
    return b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64.b64encode(blob) + b"\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.mark.parametrize("rounds", [0, 257, 2**31, 2**32 - 1])
def test_an_openssh_key_that_would_take_hours_is_refused_at_once(tmp_path, rounds):
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "word", "-a", "16", "-C", "c", "-f", path], check=True)
    blob = openssh_blob(path)
    marked = (24).to_bytes(4, "big") + (16).to_bytes(4, "big")
    at = blob.index(marked) + 8 + 16
    assert blob[at : at + 4] == (16).to_bytes(4, "big")
    slow = written(tmp_path / "slow", openssh_text(blob[:at] + rounds.to_bytes(4, "big") + blob[at + 4 :]))
    with pytest.raises(InputError, match=f"bcrypt: {rounds} rounds are not 1 to 256"):
        key_files.load(slow, never)


def der(tag, *parts):
    body = b"".join(parts)
    length = bytes([len(body)]) if len(body) < 128 else bytes([0x81, len(body)])
    return bytes([tag]) + length + body


def integer(value):
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def encrypted_pkcs8(derivation, *parameters):
    """Return EncryptedPrivateKeyInfo with a derivation of our choice (RFC 8018) around 64 bytes of noise."""
    identifiers = {"pbkdf2": "2a864886f70d01050c", "scrypt": "2b06010401da47040b"}
    kdf = der(0x30, der(6, bytes.fromhex(identifiers[derivation])), der(0x30, der(4, bytes(8)), *parameters))
    cipher = der(0x30, der(6, bytes.fromhex("60864801650304012a")), der(4, bytes(16)))
    return der(0x30, der(0x30, der(6, bytes.fromhex("2a864886f70d01050d")), der(0x30, kdf, cipher)), der(4, bytes(64)))


@pytest.mark.parametrize(
    "data",
    [
        encrypted_pkcs8("pbkdf2", integer(10_000_001)),
        encrypted_pkcs8("pbkdf2", integer(2**31 - 1)),
        encrypted_pkcs8("pbkdf2", integer(0)),
        encrypted_pkcs8("pbkdf2"),
        encrypted_pkcs8("scrypt", integer(2**18), integer(8), integer(2)),
        encrypted_pkcs8("scrypt", integer(2**23), integer(8), integer(1)),
        encrypted_pkcs8("scrypt", integer(2**14), integer(8), integer(2**20)),
        encrypted_pkcs8("scrypt", integer(2**40), integer(0), integer(1)),
        encrypted_pkcs8("scrypt", integer(2**14), integer(8)),
    ],
)
def test_a_pkcs8_key_that_would_take_minutes_or_all_memory_is_refused_before_its_derivation(tmp_path, data):
    with pytest.raises(InputError, match=r"rounds are not|ask for more than 256 MiB|derived in an unknown way"):
        key_files.load(written(tmp_path / "key.der", data), never)


def test_the_bounds_of_foreign_derivations_are_inclusive():
    for data in (
        encrypted_pkcs8("pbkdf2", integer(foreign_keys.MAX_PBKDF2_ROUNDS)),
        encrypted_pkcs8("scrypt", integer(2**18), integer(8), integer(1)),
    ):
        assert foreign_keys.parse(data, "x").is_encrypted


def test_no_changed_bit_of_a_foreign_file_ends_in_anything_but_its_key_or_a_deliberate_error(tmp_path):
    chance = random.Random(SEED)
    files = [VECTORS / name for name in ("Ed25519/ed25519-pkcs8.der", "Ed25519/ed25519-pkcs8-enc.der",
                                         "OpenSSH/ed25519-nopsw.key", "PKCS8/ed25519-scrypt.pem")]  # fmt: skip
    opened = refused = 0
    for source in files:
        data = source.read_bytes()
        for bit in chance.sample(range(len(data) * 8), 150):
            text = bytes(byte ^ (1 << bit % 8 if place == bit // 8 else 0) for place, byte in enumerate(data))
            try:
                key_files.load(written(tmp_path / "changed", text), lambda: b"password")
                opened += 1
            except (InputError, TrustError):
                refused += 1
        for length in chance.sample(range(len(data)), 40):
            # What is cut may be the line end behind the last line, and nothing else.
            cut = data[:length]
            if cut.rstrip() != data.rstrip():
                with pytest.raises((InputError, TrustError)):
                    key_files.load(written(tmp_path / "changed", cut), lambda: b"password")

    # An unencrypted seed has no check of its own: another seed is another key.
    assert opened > 60
    assert refused > 200


def test_an_openssh_file_whose_halves_are_of_two_keys_is_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "c", "-f", path], check=True)
    first, second = key_files.load(one, never), key_files.load(two, never)
    # The seed of one key under the public key of the other, wherever that stands.
    blob = openssh_blob(one).replace(first.secret_seed(), second.secret_seed())
    mixed = written(tmp_path / "mixed", openssh_text(blob))
    with pytest.raises(TrustError, match="its public key is not that of its private key") as caught:
        key_files.load(mixed, never)
    assert caught.value.code == "keyid-mismatch"


def test_a_pkcs8_file_of_version_2_with_the_public_key_of_another_gives_no_key(tmp_path):
    """RFC 5958 lets a second public key ride along; whoever trusts it would sign for a key that is not the seed's."""
    seed, other = os.urandom(32), keys.PrivateKey.generate().public_key
    inner = der(4, der(4, seed))
    body = der(0x30, integer(1), der(0x30, der(6, bytes.fromhex("2b6570"))), inner, der(0x81, b"\0" + other))
    with pytest.raises((InputError, TrustError)):
        key_files.load(written(tmp_path / "key.der", body), never)


# Files for foreign tools.


def test_pkcs8_for_foreign_tools_is_version_1_plain_private_and_read_by_openssl(tmp_path):
    key = keys.PrivateKey.generate()
    path = tmp_path / "new" / "key.pem"
    key_files.export(path, key, "pkcs8")
    message = written(tmp_path / "message", b"any message")
    generated("pkeyutl", "-sign", "-inkey", str(path), "-rawin", "-in", str(message), "-out", str(tmp_path / "sig"))
    reference = ed25519.Ed25519PrivateKey.from_private_bytes(key.secret_seed())

    assert path.read_bytes() == reference.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    assert len(base64.b64decode(path.read_bytes().split(b"\n")[1])) == 48
    assert keys.is_signed(key.public_key, b"any message", (tmp_path / "sig").read_bytes())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key_files.load(path, never).public_key == key.public_key


@pytest.mark.parametrize("passphrase", [None, b"open sesame"])
def test_the_openssh_form_is_private_and_read_by_ssh_keygen(tmp_path, passphrase):
    key = keys.PrivateKey.generate()
    key_files.export(tmp_path / "key", key, "openssh", passphrase)
    listed = subprocess.run(
        ["ssh-keygen", "-y", "-P", (passphrase or b"").decode(), "-f", tmp_path / "key"],
        check=True, capture_output=True,
    ).stdout  # fmt: skip

    assert serialization.load_ssh_public_key(listed).public_bytes_raw() == key.public_key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    loaded = key_files.load(tmp_path / "key", (lambda: passphrase) if passphrase else never)
    assert loaded.secret_seed() == key.secret_seed()


def test_pkcs8_is_never_written_encrypted_and_no_other_form_is_known(tmp_path):
    with pytest.raises(ConfigError, match="not written encrypted") as caught:
        key_files.export(tmp_path / "k", keys.PrivateKey.generate(), "pkcs8", WORD)
    assert "scrypt" in caught.value.hint
    for form in ("pkcs1", "PKCS8", "", "pkcs8-v2"):
        with pytest.raises(ConfigError, match="private form: not known"):
            key_files.export(tmp_path / "k", keys.PrivateKey.generate(), form)
    assert list(tmp_path.iterdir()) == []


# What errors show.


def all_text(error):
    """Return the message, the printed traceback and every local variable of every frame of an error and its causes."""
    texts, seen = [], error
    while seen is not None:
        texts += [str(seen), *traceback.format_exception(seen)]
        texts += [repr(frame.f_locals) for frame, _ in list(traceback.walk_tb(seen.__traceback__))[1:]]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(texts)


def failing_loads(tmp_path, seed):
    """Yield loads that fail late, when seed or passphrase have been read."""
    key = keys.PrivateKey.from_seed(seed)
    key_files.save(tmp_path / "own", key, None)
    yield planted(tmp_path / "own", data="b64:" + base64.b64encode(seed).decode() + "="), asked
    yield planted(tmp_path / "own", keyid="SHA256:x"), asked
    other = keys.PrivateKey.generate().public_key
    yield planted(tmp_path / "own", public=other.hex(), keyid=keys.fingerprint(other)), asked
    key_files.save(tmp_path / "sealed", key, WORD[::-1], cost=INTERACTIVE)
    yield tmp_path / "sealed", asked
    key_files.export(tmp_path / "pem", key, "pkcs8")
    yield written(tmp_path / "pem2", (tmp_path / "pem").read_bytes().replace(b"-----END", b"x-----END")), asked
    key_files.export(tmp_path / "ssh", key, "openssh")
    yield written(tmp_path / "ssh2", (tmp_path / "ssh").read_bytes() * 2), asked
    key_files.export(tmp_path / "ssh3", key, "openssh", WORD[::-1])
    yield tmp_path / "ssh3", asked


def test_an_error_while_reading_a_key_shows_neither_key_nor_passphrase_nor_the_frames_that_held_them(tmp_path):
    seed = os.urandom(32)
    forms = [seed.hex(), base64.b64encode(seed).decode()[:40], repr(seed)[2:-1], repr(WORD)[2:-1], WORD.hex()]
    for path, ask in failing_loads(tmp_path, seed):
        with pytest.raises((InputError, TrustError)) as caught:
            key_files.load(path, ask)
        shown = all_text(caught.value)

        assert [form for form in forms if form in shown] == [], path
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


def test_too_little_memory_for_the_derivation_is_said_so(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path; from provstore.evidence import key_files, keys;"
        "key = keys.PrivateKey.generate(); key_files.load;"
        "resource.setrlimit(resource.RLIMIT_AS, (200 * 2**20, 200 * 2**20));"
        "key_files.save(Path(sys.argv[1]), key, b'word')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run.key"], capture_output=True, text=True, check=False
    )

    assert "ConfigError: key: passphrase: deriving the key needs 256 MiB of memory" in ended.stderr
    assert not (tmp_path / "run.key").exists()
