"""A private key shows nothing but its fingerprint; a public key that anybody could sign for is refused."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import logging
import os
import pickle
import subprocess
import traceback

import nacl.bindings
import pytest

from provstore.errors import TrustError
from provstore.evidence import keys
from tests.cost import how_many_times
from tests.integer_ed25519 import NON_CANONICAL, SMALL_ORDER, off_the_curve, outside_the_main_subgroup

GOLDEN = bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")


def test_the_golden_key_has_the_fingerprint_that_was_published_with_it():
    assert keys.fingerprint(GOLDEN) == "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg"


def test_the_fingerprint_is_the_one_that_ssh_keygen_prints(tmp_path):
    for number in range(5):
        path = tmp_path / f"key{number}"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "c", "-f", path], check=True)
        listed = subprocess.run(["ssh-keygen", "-l", "-f", path], check=True, capture_output=True, text=True).stdout
        import base64

        public = base64.b64decode(path.with_suffix(".pub").read_text().split()[1])[-32:]

        assert keys.fingerprint(public) == listed.split()[1]


def test_there_are_14_spellings_of_small_order_and_24_that_are_not_canonical_and_4_are_both():
    assert len(set(SMALL_ORDER)) == 14
    assert len(set(NON_CANONICAL)) == 24
    assert len(set(SMALL_ORDER) & set(NON_CANONICAL)) == 4


@pytest.mark.parametrize("public", sorted({*SMALL_ORDER, *NON_CANONICAL}), ids=bytes.hex)
def test_a_public_key_of_small_order_or_in_a_second_spelling_is_refused(public):
    with pytest.raises(TrustError, match=r"^trust\.json: public key: [0-9a-f]{64} is of small order") as caught:
        keys.require_public(public, "trust.json")
    assert caught.value.code == "untrusted-key"


@pytest.mark.parametrize("public", outside_the_main_subgroup(28), ids=bytes.hex)
def test_a_public_key_outside_the_main_subgroup_is_refused(public):
    with pytest.raises(TrustError):
        keys.require_public(public, "here")


@pytest.mark.parametrize("public", off_the_curve(8), ids=bytes.hex)
def test_bytes_that_are_no_point_are_no_public_key(public):
    with pytest.raises(TrustError):
        keys.require_public(public, "here")


@pytest.mark.parametrize("public", [b"", b"\1", GOLDEN[:31], GOLDEN + b"\0", GOLDEN * 2, None, GOLDEN.hex(), 7])
def test_what_is_not_32_bytes_is_no_public_key(public):
    with pytest.raises(TrustError, match="not 32 bytes"):
        keys.require_public(public, "here")


def test_2000_fresh_keys_are_accepted_and_all_different():
    accepted = {keys.require_public(keys.PrivateKey.generate().public_key, "here") for _ in range(2000)}

    assert len(accepted) == 2000


def test_a_signature_by_cryptography_is_the_same_64_bytes():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for length in (0, 1, 32, 700, 65_536):
        seed, message = os.urandom(32), os.urandom(length)
        key = keys.PrivateKey.from_seed(seed)

        assert key.sign(message) == Ed25519PrivateKey.from_private_bytes(seed).sign(message)
        assert keys.is_signed(key.public_key, message, key.sign(message))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("wrong", [None, "", "x" * 32, 5, [], bytearray(64), memoryview(bytes(64)), b""])
def test_malformed_input_of_a_check_is_no_signature_and_no_exception(position, wrong):
    key = keys.PrivateKey.generate()
    arguments = [key.public_key, b"message", key.sign(b"message")]
    arguments[position] = wrong

    assert keys.is_signed(*arguments) is False


def test_bytes_that_moved_between_signature_and_message_or_behind_the_key_are_no_signature():
    """The library checks signature and message as one string, so their border is ours to guard."""
    key = keys.PrivateKey.generate()
    public, message, signature = key.public_key, b"message", key.sign(b"message")

    assert not keys.is_signed(public, signature[63:] + message, signature[:63])
    assert not keys.is_signed(public, signature + message, b"")
    assert not keys.is_signed(public, message[1:], signature + message[:1])
    assert not keys.is_signed(public, b"", signature + message)
    assert not keys.is_signed(public + b"\0", message, signature)
    assert not keys.is_signed(public * 2, message, signature)


def spellings(seed):
    """Return the forms in which 32 bytes could leak: raw, hex, decimal, base64, and Python's own."""
    import base64

    return [
        seed.hex(),
        seed.hex().upper(),
        base64.b64encode(seed).decode()[:40],
        base64.urlsafe_b64encode(seed).decode()[:40],
        repr(seed)[2:-1],
        repr(bytearray(seed)),
        str(list(seed))[1:-1],
        str(int.from_bytes(seed, "big")),
        str(int.from_bytes(seed, "little")),
        seed.decode("latin-1"),
    ]


def assert_hides(shown, seed):
    assert [form for form in spellings(seed) if form in shown] == []


@pytest.fixture
def secret():
    return os.urandom(32)


def test_a_private_key_is_shown_as_its_fingerprint(secret, caplog, capsys):
    key = keys.PrivateKey.from_seed(secret)
    expected = f"PrivateKey({keys.fingerprint(key.public_key)})"
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("x").warning("signing with %s %r", key, [key])
    print(key, [key], {"key": key}, (key,))

    assert repr(key) == str(key) == f"{key}" == format(key) == "%s" % key == expected  # noqa: UP031
    assert_hides(caplog.text + capsys.readouterr().out, secret)


def test_a_private_key_has_no_dictionary_and_only_documented_names(secret):
    key = keys.PrivateKey.from_seed(secret)

    assert {name for name in dir(key) if not name.startswith("_")} == {
        "from_seed", "generate", "public_key", "secret_seed", "sign",
    }  # fmt: skip
    for look in (vars, json.dumps, bytes, iter, len, dict, hash_of_format):
        with pytest.raises((TypeError, ValueError)) as caught:
            look(key)
        assert_hides(str(caught.value), secret)


def hash_of_format(key):
    return format(key, ">90")


@pytest.mark.parametrize(
    "copy_it",
    [
        copy.copy,
        copy.deepcopy,
        lambda key: copy.deepcopy({"key": [key]}),
        lambda key: key.__getstate__(),
        lambda key: key.__setstate__({}),
        lambda key: key.__reduce__(),
        lambda key: key.__reduce_ex__(4),
        *(lambda key, protocol=protocol: pickle.dumps(key, protocol) for protocol in range(6)),
    ],
)
def test_a_private_key_is_neither_copied_nor_pickled(copy_it, secret):
    with pytest.raises(TypeError, match="neither copied nor pickled") as caught:
        copy_it(keys.PrivateKey.from_seed(secret))
    assert_hides("".join(traceback.format_exception(caught.value)), secret)


def test_a_private_key_is_made_by_its_two_makers_only_and_has_no_subclass():
    with pytest.raises(TypeError, match=r"generate\(\) or from_seed\(\)"):
        keys.PrivateKey()
    with pytest.raises(TypeError, match="no subclass"):
        type("Leaky", (keys.PrivateKey,), {})


def frames_of(error):
    """Return every local variable of every frame of an error, below the caller's own frame."""
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    return "".join(repr(frame.f_locals) for frame, _ in frames)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_seed_of_wrong_length_is_in_neither_the_message_nor_the_frames_of_the_error(length):
    seed = os.urandom(length)
    with pytest.raises(TrustError, match="not 32 bytes") as caught:
        keys.PrivateKey.from_seed(seed)

    if seed:
        assert_hides(str(caught.value) + frames_of(caught.value), seed)


@pytest.mark.parametrize("seed", [bytearray(32), memoryview(bytes(32)), "x" * 32, list(range(32)), None, 32])
def test_a_seed_that_is_not_bytes_is_refused(seed):
    with pytest.raises(TrustError, match="not 32 bytes"):
        keys.PrivateKey.from_seed(seed)


@pytest.mark.parametrize("message", [None, "text", 7, bytearray(b"x"), ["x"]])
def test_an_error_while_signing_has_no_key_bytes_in_its_frames(message, secret):
    key = keys.PrivateKey.from_seed(secret)
    with pytest.raises(TypeError) as caught:
        key.sign(message)

    assert_hides(str(caught.value) + frames_of(caught.value), secret)


def test_a_key_leaves_no_second_object_with_its_bytes_for_the_collector_to_list():
    secret = os.urandom(32)
    key = keys.PrivateKey.from_seed(secret)
    key.sign(b"message")
    expanded = key._secret
    holders = [holder for holder in gc.get_referrers(expanded) if holder is not key and type(holder) is not dict]

    assert [type(holder).__name__ for holder in holders if type(holder).__name__ not in {"frame", "list"}] == []


class Faulty:
    """A signing device that gives the signature of another message."""

    def __init__(self, answer):
        self._key = keys.PrivateKey.generate()
        self._answer = answer

    @property
    def public_key(self):
        return self._key.public_key

    def sign(self, message):
        return self._answer(self._key, message)


@pytest.mark.parametrize(
    "answer",
    [
        lambda key, message: key.sign(message + b"x"),
        lambda key, message: keys.PrivateKey.generate().sign(message),
        lambda key, message: key.sign(message)[:63],
        lambda key, message: b"",
        lambda key, message: None,
        lambda key, message: key.sign(message).hex(),
    ],
)
def test_a_signature_that_does_not_hold_is_never_handed_on(answer):
    with pytest.raises(TrustError, match="the signature it made does not hold") as caught:
        keys.signed(Faulty(answer), b"message")
    assert caught.value.code == "bad-signature"


def test_a_signer_with_a_public_key_of_small_order_is_refused():
    class Small:
        public_key = SMALL_ORDER[0]

        def sign(self, message):
            return SMALL_ORDER[0] + bytes(32)

    with pytest.raises(TrustError, match="small order"):
        keys.signed(Small(), b"message")


def test_a_good_signer_s_signature_is_handed_on():
    signer = Faulty(lambda key, message: key.sign(message))

    assert keys.is_signed(signer.public_key, b"message", keys.signed(signer, b"message"))


def test_a_key_s_wire_form_hashes_to_its_fingerprint():
    import base64

    digest = hashlib.sha256(keys.wire_form(GOLDEN)).digest()

    assert keys.fingerprint(GOLDEN) == "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def test_signing_and_checking_cost_little_more_than_libsodium_alone():
    key, message = keys.PrivateKey.generate(), os.urandom(700)
    signature = key.sign(message)
    public, secret = nacl.bindings.crypto_sign_keypair()
    signed = nacl.bindings.crypto_sign(message, secret)

    def many(work):
        return lambda: [work() for _ in range(500)]

    signing = how_many_times(many(lambda: key.sign(message)), many(lambda: nacl.bindings.crypto_sign(message, secret)))
    checking = how_many_times(
        many(lambda: keys.is_signed(key.public_key, message, signature)),
        many(lambda: nacl.bindings.crypto_sign_open(signed, public)),
    )

    # A Python call around the library's own work; a second signature or a second parse of the key would be twice.
    assert signing < 1.5
    assert checking < 1.5
