"""Private keys in files: provstore's own encrypted format, PKCS#8 and OpenSSH; what is written is never overwritten.

Errors leave here without the frames below, because those hold passphrases and key bytes.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from provstore.errors import ConfigError, InputError, ProvstoreError, TrustError
from provstore.evidence import foreign_keys, key_documents, whole_files
from provstore.evidence.foreign_keys import OPENSSH, ForeignKey
from provstore.evidence.key_documents import INTERACTIVE, MODERATE, SENSITIVE, Cost, KeyDocument, Lock
from provstore.evidence.keys import PrivateKey, fingerprint

__all__ = [
    "INTERACTIVE", "MODERATE", "SENSITIVE", "Cost", "all_of", "export", "guarded_bytes", "is_encrypted", "load",
    "opened", "public_of", "save", "shielded",
]  # fmt: skip

Result = TypeVar("Result")

KEY_FILE = "key file"
"""What :func:`guarded_bytes` reads: a file of this kind may turn out to hold a public key."""
MAX_FILE_BYTES = 65_535
BCRYPT_ROUNDS = 24
EXPORT_FORMS = ("pkcs8", "openssh")

# RFC 8410, section 7: version 0, Ed25519, the seed in two octet strings.
_PKCS8_PREFIX = bytes.fromhex("302e020100300506032b657004220420")


def save(path: Path, key: PrivateKey, passphrase: bytes | None, *, cost: Cost = MODERATE) -> None:
    """Write a private key in provstore's own format to a new file that only its owner can read.

    Args:
        path: The file; its missing directories are made with mode 0700.
        key: The key.
        passphrase: Encrypts it; None leaves it readable for whoever reads the file.
        cost: What one guess of the passphrase costs.

    Raises:
        ConfigError: The file exists, the passphrase is empty, or the system refuses.
    """
    if passphrase == b"":
        raise ConfigError(f"{path}: key file: the passphrase is empty")
    _require_absent(path)
    _create(path, shielded(lambda: _sealed(key, passphrase, cost)))


def export(path: Path, key: PrivateKey, form: str, passphrase: bytes | None = None) -> None:
    """Write a private key for foreign tools to a new file that only its owner can read.

    Args:
        path: The file; its missing directories are made with mode 0700.
        key: The key.
        form: ``pkcs8`` (version 1, PEM, never encrypted) or ``openssh``.
        passphrase: Encrypts the OpenSSH form.

    Raises:
        ConfigError: Unknown form, a passphrase for PKCS#8, the file exists, or the package bcrypt is missing.
    """
    if form not in EXPORT_FORMS:
        raise ConfigError(f"{form}: private form: not known; known are {', '.join(EXPORT_FORMS)}")
    if form == "pkcs8" and passphrase is not None:
        raise ConfigError(
            f"{path}: PKCS#8: not written encrypted: the library derives with too few rounds",
            hint="encrypt it with openssl pkcs8 -topk8 -scrypt",
        )
    if passphrase == b"":
        raise ConfigError(f"{path}: key file: the passphrase is empty")
    _require_absent(path)
    write = (lambda: _pkcs8_pem(key)) if form == "pkcs8" else (lambda: _openssh_text(key, passphrase, str(path)))
    _create(path, shielded(write))


def load(path: Path, passphrase: Callable[[], bytes], *, insecure_mode: bool = False) -> PrivateKey:
    """Return the private key of a file in any of the three formats.

    Args:
        path: The file.
        passphrase: Called once, only when the file is encrypted.
        insecure_mode: Also read a file that others can read.

    Raises:
        InputError: Missing, readable for others, malformed, too costly, not Ed25519, or a wrong passphrase.
        TrustError: The public key or key id in the file is not that of its private key.
    """
    return shielded(lambda: opened(guarded_bytes(path, KEY_FILE, insecure_mode=insecure_mode), str(path), passphrase))


def public_of(path: Path) -> bytes:
    """Return the public key of a private-key file without its passphrase.

    Raises:
        InputError: As for :func:`load`, and for encrypted PKCS#8, which does not say it in clear.
    """
    return shielded(lambda: _public_of(path))


def is_encrypted(path: Path) -> bool:
    """Return whether a private-key file needs a passphrase.

    Raises:
        InputError: As for :func:`load`.
    """
    return shielded(lambda: _has_lock(_parsed(guarded_bytes(path, KEY_FILE, insecure_mode=True), str(path))))


def opened(data: bytes, place: str, passphrase: Callable[[], bytes]) -> PrivateKey:
    """Return the private key of the content of a key file, for callers below :func:`shielded`; see :func:`load`."""
    found = _parsed(data, place)
    secret = passphrase() if _has_lock(found) else None
    seed = _unsealed(found, secret, place) if isinstance(found, KeyDocument) else _from_foreign(found, secret, place)
    if seed is None:
        reason = "the file is damaged" if secret is None else "wrong passphrase, or the file is damaged"
        raise InputError(f"{place}: key file: {reason}")
    key = PrivateKey.from_seed(seed)
    if found.public not in {None, key.public_key}:
        raise TrustError(
            f"{place}: key file: its public key is not that of its private key, {fingerprint(key.public_key)}",
            code="keyid-mismatch",
        )
    return key


def shielded(call: Callable[[], Result]) -> Result:
    """Return what ``call`` returns; a deliberate error leaves without the frames it came through: they hold secrets."""
    try:
        return call()
    except ProvstoreError as error:
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    raise failure


def guarded_bytes(path: Path, what: str, *, insecure_mode: bool = False) -> bytes:
    """Return the content of a secret file that only its owner can read.

    Raises:
        InputError: Missing, not a regular file, too large, its mode lets others read or write it, or it is a public
            key.
    """
    try:
        # Without O_NONBLOCK a planted pipe would hang the reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {what}: {getattr(error, 'strerror', None) or error}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: {what}: not a regular file")
        data = all_of(descriptor)
    except OSError as error:
        raise InputError(f"{path}: {what}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if what == KEY_FILE and _is_public(data):
        raise InputError(
            f"{path}: {what}: this is a public key, which signs nothing",
            hint="give its private key: provstore keys list shows yours",
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 and not insecure_mode:
        raise InputError(
            f"{path}: {what}: mode {mode:04o} lets others at it", hint="chmod 600 it, or pass --insecure-key-mode"
        )
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{path}: {what}: more than {MAX_FILE_BYTES} bytes")
    return data


def _is_public(data: bytes) -> bool:
    from provstore.evidence import public_forms

    # A private key in JSON or PEM is told apart by its first bytes or its label, before anything is decoded.
    return b"PRIVATE KEY" not in data and b"provstore-private-key" not in data and public_forms.is_public(data)


def all_of(descriptor: int) -> bytes:
    """Return what a descriptor gives until its end, or one byte more than a key file has."""
    data = b""
    while len(data) <= MAX_FILE_BYTES and (piece := os.read(descriptor, MAX_FILE_BYTES + 1 - len(data))):
        data += piece
    return data


def _parsed(data: bytes, place: str) -> ForeignKey | KeyDocument:
    return foreign_keys.parse(data, place) or key_documents.parse(data, place)


def _has_lock(found: ForeignKey | KeyDocument) -> bool:
    return found.is_encrypted if isinstance(found, ForeignKey) else found.lock is not None


def _public_of(path: Path) -> bytes:
    data = guarded_bytes(path, KEY_FILE, insecure_mode=True)
    found = _parsed(data, str(path))
    if found.public is not None:
        return found.public
    if _has_lock(found):
        raise InputError(f"{path}: key file: encrypted PKCS#8 tells its public key only with the passphrase")
    return opened(data, str(path), lambda: b"").public_key


def _sealed(key: PrivateKey, passphrase: bytes | None, cost: Cost) -> bytes:
    from nacl.bindings import crypto_secretbox

    if passphrase is None:
        return key_documents.encode(KeyDocument(key.public_key, key.secret_seed(), None))
    salt, nonce = secrets.token_bytes(key_documents.SALT_BYTES), secrets.token_bytes(key_documents.NONCE_BYTES)
    box = crypto_secretbox(key.secret_seed(), nonce, _derived(passphrase, salt, cost, "key"))
    return key_documents.encode(KeyDocument(key.public_key, box, Lock(cost, salt, nonce)))


def _unsealed(found: KeyDocument, passphrase: bytes | None, place: str) -> bytes | None:
    from nacl.bindings import crypto_secretbox_open
    from nacl.exceptions import CryptoError

    if found.lock is None or passphrase is None:
        return found.data
    try:
        key = _derived(passphrase, found.lock.salt, found.lock.cost, place)
        return crypto_secretbox_open(found.data, found.lock.nonce, key)
    except CryptoError:
        return None


def _derived(passphrase: bytes, salt: bytes, cost: Cost, place: str) -> bytes:
    from nacl.bindings import crypto_pwhash_alg, crypto_pwhash_ALG_ARGON2ID13
    from nacl.exceptions import CryptoError

    try:
        return crypto_pwhash_alg(32, passphrase, salt, cost.operations, cost.memory, crypto_pwhash_ALG_ARGON2ID13)
    except (CryptoError, MemoryError) as error:
        needed = cost.memory // 2**20
        raise ConfigError(f"{place}: passphrase: deriving the key needs {needed} MiB of memory") from error


def _from_foreign(found: ForeignKey, passphrase: bytes | None, place: str) -> bytes | None:
    """Return the seed of a key in a foreign format, None when it cannot be opened."""
    from cryptography.exceptions import InternalError, InvalidTag, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_ssh_private_key

    if found.kind == OPENSSH and found.is_encrypted:
        _require_bcrypt(place)
    key: object
    try:
        if found.kind == OPENSSH:
            key = load_ssh_private_key(_pem(b"OPENSSH PRIVATE KEY", found.body), passphrase)
        else:
            key = load_der_private_key(found.body, passphrase)
    except (ValueError, TypeError, OverflowError, InvalidTag, InternalError):
        # InternalError: OpenSSL refuses a parameter that the library did not expect.
        return None
    except UnsupportedAlgorithm as error:
        raise InputError(f"{place}: key file: encrypted in a way that is not supported") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{place}: key file: not an Ed25519 key")
    return key.private_bytes_raw()


def _require_bcrypt(place: str) -> None:
    if importlib.util.find_spec("bcrypt") is None:
        raise ConfigError(
            f"{place}: OpenSSH: an encrypted key of this format needs the package bcrypt",
            hint="pip install 'provstore[evidence]'",
        )


def _pem(label: bytes, body: bytes) -> bytes:
    import base64

    text = base64.b64encode(body)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN " + label + b"-----", *lines, b"-----END " + label + b"-----", b""])


def _pkcs8_pem(key: PrivateKey) -> bytes:
    return _pem(b"PRIVATE KEY", _PKCS8_PREFIX + key.secret_seed())


def _openssh_text(key: PrivateKey, passphrase: bytes | None, place: str) -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        _require_bcrypt(place)
        form = serialization.PrivateFormat.OpenSSH.encryption_builder()
        encryption = form.kdf_rounds(BCRYPT_ROUNDS).build(passphrase)
    return Ed25519PrivateKey.from_private_bytes(key.secret_seed()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, encryption
    )


def _require_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise ConfigError(f"{path}: key file: exists already, and is never overwritten")


def _create(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600, or leave none."""
    try:
        for directory in reversed([parent for parent in path.parents if not parent.exists()]):
            directory.mkdir(mode=0o700, exist_ok=True)
        whole_files.create(path, data, 0o600)
    except FileExistsError as error:
        raise ConfigError(f"{path}: key file: exists already, and is never overwritten") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: key file: {getattr(error, 'strerror', None) or error}") from error
