"""Ed25519 keys: signing, checking, fingerprints, and which public keys may be trusted at all.

PyNaCl does the arithmetic, never OpenSSL: OpenSSL takes any message for a public key of small order.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import NoReturn, Protocol, final

from provstore.errors import ConfigError, ProvstoreError, StoreError, TrustError

PUBLIC_BYTES = 32
SEED_BYTES = 32
SIGNATURE_BYTES = 64

_CAUSE_CHARACTERS = 200
_WIRE_PREFIX = b"\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"


class Signer(Protocol):
    """Whatever can sign: a key in memory, a key management service, a hardware module."""

    @property
    def public_key(self) -> bytes:
        """The public key: 32 bytes."""

    def sign(self, message: bytes) -> bytes:
        """Return the plain Ed25519 signature over ``message``: 64 bytes."""


@final
class PrivateKey:
    """A private key in memory that shows its fingerprint and nothing else.

    It cannot be copied, pickled or printed. Python cannot wipe memory: the bytes stay until the process ends.
    """

    __slots__ = ("_public", "_secret")

    _public: bytes
    _secret: bytes

    def __init__(self) -> None:
        raise TypeError("PrivateKey: made by generate() or from_seed()")

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("PrivateKey: no subclass is allowed: it could show what this one hides")

    @staticmethod
    def generate() -> PrivateKey:
        """Return a new key from the system's random numbers."""
        return PrivateKey.from_seed(secrets.token_bytes(SEED_BYTES))

    @staticmethod
    def from_seed(seed: bytes) -> PrivateKey:
        """Return the key of a seed of 32 bytes.

        Raises:
            TrustError: Not 32 bytes; the text holds none of them.
        """
        if not isinstance(seed, bytes) or len(seed) != SEED_BYTES:
            # A traceback keeps the arguments of its frames.
            del seed
            raise TrustError(f"key: seed: not {SEED_BYTES} bytes", code="untrusted-key")
        from nacl.bindings import crypto_sign_seed_keypair

        key = object.__new__(PrivateKey)
        key._public, key._secret = crypto_sign_seed_keypair(seed)
        return key

    @property
    def public_key(self) -> bytes:
        """The public key: 32 bytes."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """Return the plain Ed25519 signature over ``message``: 64 bytes.

        Raises:
            TypeError: The message is not bytes.
        """
        if not isinstance(message, bytes):
            raise TypeError("PrivateKey: sign: the message is not bytes")
        from nacl.bindings import crypto_sign

        return crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    def secret_seed(self) -> bytes:
        """Return the 32 bytes that make this key, for whoever writes a key file."""
        return self._secret[:SEED_BYTES]

    def __repr__(self) -> str:
        return f"PrivateKey({fingerprint(self._public)})"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("PrivateKey: copy: a private key is neither copied nor pickled")

    __copy__ = __deepcopy__ = __getstate__ = __setstate__ = __reduce__ = __reduce_ex__ = _refuse


def fingerprint(public: bytes) -> str:
    """Return the key id: ``SHA256:`` and the base64 digest of the OpenSSH wire form, without padding."""
    digest = hashlib.sha256(_WIRE_PREFIX + public).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def wire_form(public: bytes) -> bytes:
    """Return the OpenSSH wire form: the name of the algorithm and the key, each behind its length."""
    return _WIRE_PREFIX + public


def require_public(public: bytes, place: str) -> bytes:
    """Return ``public`` if it is a canonical point of the main subgroup and not of small order.

    Args:
        public: What was read as a public key.
        place: Where it was read, for the text of the error.

    Raises:
        TrustError: It is not such a key, with code ``untrusted-key``.
    """
    if not isinstance(public, bytes) or len(public) != PUBLIC_BYTES:
        raise TrustError(f"{place}: public key: not {PUBLIC_BYTES} bytes", code="untrusted-key")
    from nacl.bindings import crypto_core_ed25519_is_valid_point

    if not crypto_core_ed25519_is_valid_point(public):
        raise TrustError(
            f"{place}: public key: {public.hex()} is of small order, not canonical, or no point of the main subgroup",
            code="untrusted-key",
        )
    return public


def require_signer(signer: object, place: str) -> None:
    """Refuse what cannot sign; the message shows its type only, as it might be a secret.

    Raises:
        ConfigError: It is no :class:`Signer`.
        StoreError: It cannot say which key it has.
    """
    try:
        public = getattr(signer, "public_key", None)
    except ProvstoreError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {str(error)[:_CAUSE_CHARACTERS]}"
        raise StoreError(f"{place}: {type(signer).__name__} does not give its public key: {said}") from error
    if not (isinstance(public, bytes) and callable(getattr(signer, "sign", None))):
        said = f"a {type(signer).__name__} is no signer: it needs public_key (32 bytes) and sign(message)"
        hint = "provstore.evidence.key_uris.open_signer opens a key by its name, file or URI"
        raise ConfigError(f"{place}: {said}", hint=hint)


def is_signed(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether ``signature`` over ``message`` holds for ``public``; False for anything malformed."""
    if not all(isinstance(part, bytes) for part in (public, message, signature)):
        return False
    if len(public) != PUBLIC_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    try:
        crypto_sign_open(signature + message, public)
    except BadSignatureError:
        return False
    return True


def signed(signer: Signer, message: bytes) -> bytes:
    """Return the signature of ``signer`` over ``message``, checked before it is handed on.

    Raises:
        StoreError: The signer failed.
        TrustError: The signer's public key is not usable, or its signature does not hold.
    """
    public = require_public(signer.public_key, "signer")
    try:
        signature = signer.sign(message)
    except ProvstoreError:
        raise
    except Exception as error:
        # Whoever wrote the signer chose what it raises: a key service, a hardware module, a user's class.
        said = f"{type(error).__name__}: {str(error)[:_CAUSE_CHARACTERS]}"
        place = f"signer: {type(signer).__name__} {fingerprint(public)}"
        raise StoreError(f"{place}: the signer failed: {said}") from error
    if not is_signed(public, message, signature):
        raise TrustError(f"signer: {fingerprint(public)}: the signature it made does not hold", code="bad-signature")
    return signature
