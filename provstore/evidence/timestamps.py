"""Time stamps (RFC 3161) over a checkpoint: a third party's word that the checkpoint existed at some time.

Asking needs nothing but the query made here and any HTTP client; reading needs the optional ``rfc3161-client``. Nothing
here opens a connection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import checkpoint, keys
from provstore.evidence.anchors import Anchor

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

_MOST_BYTES = 64 * 1024
_SHA256_OID = "2.16.840.1.101.3.4.2.1"
# TimeStampReq in DER: version 1; SHA-256 of what is stamped; no policy, no nonce; with the authority's certificate.
_QUERY_HEAD = bytes.fromhex("3039020101 3031300d060960864801650304020105000420")
_QUERY_TAIL = bytes.fromhex("0101ff")
# PKIStatusInfo: granted.
_GRANTED = bytes.fromhex("3003020100")


def query(note: bytes, public: bytes | None = None) -> bytes:
    """Return the request file for a time-stamping authority over the signature of a checkpoint.

    It is sent as ``application/timestamp-query``, for example by ``curl --data-binary``.

    Args:
        note: The checkpoint, verbatim.
        public: Whose signature, when more than one stands under the checkpoint's name.
    """
    return _QUERY_HEAD + hashlib.sha256(stamped(note, public)).digest() + _QUERY_TAIL


def stamped(note: bytes, public: bytes | None = None) -> bytes:
    """Return the 64 bytes of a checkpoint's own signature, whose SHA-256 is what a token covers.

    Raises:
        TrustError: No such signature, or several, of which only one can be the right one: a line that nobody checks
            must not lend its date to the others.
    """
    found = checkpoint.parse(note)
    if public is not None and not checkpoint.check(found, public):
        raise TrustError(f"time stamp: checkpoint {found.origin}: not signed by this key", code="bad-signature")
    wanted = None if public is None else checkpoint.key_hash(found.origin, public)
    own = [
        signature
        for name, key_hash, signature in found.signatures
        if name == found.origin and len(signature) == keys.SIGNATURE_BYTES and wanted in {None, key_hash}
    ]
    if len(own) != 1:
        raise TrustError(
            f"time stamp: checkpoint {found.origin}: {len(own)} signatures of its own, not one", code="bad-signature"
        )
    return own[0]


def attested_time(token: bytes, note: bytes, roots: Sequence[bytes], public: bytes | None = None) -> str:
    """Return the time before which the checkpoint existed, by the word of a trusted authority.

    The checkpoint's signature itself must be verified by the caller.

    Args:
        token: The authority's response, or the bare token out of it (DER).
        note: The checkpoint, verbatim.
        roots: Certificates of the authorities that are trusted, PEM or DER.
        public: Whose signature was stamped, when more than one stands under the checkpoint's name.

    Returns:
        ISO 8601 in UTC, whole seconds, rounded up; the authority's stated accuracy is added.

    Raises:
        ConfigError: ``rfc3161-client`` is not installed, or no certificate was given.
        InputError: A certificate cannot be read.
        TrustError: The token is malformed, is by nobody who is trusted, or is about something else.
    """
    try:
        from rfc3161_client import VerificationError, VerifierBuilder
    except ImportError as error:
        raise ConfigError(
            "time stamp: rfc3161-client: not installed", hint="pip install 'provstore[evidence]'"
        ) from error
    signature = stamped(note, public)
    response = _response(token)
    trusted = _certificates(roots)
    verifier = VerifierBuilder(
        roots=[one for one in trusted if one.issuer == one.subject],
        intermediates=[one for one in trusted if one.issuer != one.subject],
    )
    try:
        if response.tst_info.message_imprint.hash_algorithm.dotted_string != _SHA256_OID:
            raise TrustError("time stamp: token: not over SHA-256", code="unknown-schema")
        verifier.build().verify(response, hashlib.sha256(signature).digest())
    except VerificationError as error:
        raise TrustError(f"time stamp: token: {error}", code="bad-signature") from error
    except ValueError as error:
        raise TrustError(f"time stamp: token: {error}", code="envelope-malformed") from error
    return _latest(response)


def dated(anchor: Anchor, token: bytes, roots: Sequence[bytes], publics: Iterable[bytes]) -> Anchor:
    """Return an anchor with the time by which an authority had seen it.

    Args:
        anchor: A checkpoint that is held, of unknown age.
        token: The authority's response about it.
        roots: Certificates of the authorities that are trusted, PEM or DER.
        publics: Keys that may have signed the checkpoint: a token dates a signature, and only through it a tree.

    Raises:
        ConfigError: ``rfc3161-client`` is not installed, or no certificate was given.
        TrustError: None of the keys signed the checkpoint, or the token does not hold for it.
    """
    found = checkpoint.parse(anchor.note)
    public = next((one for one in publics if checkpoint.check(found, one)), None)
    if public is None:
        raise TrustError(f"{anchor.source}: time stamp: no trusted key signed this checkpoint", code="untrusted-key")
    moment = attested_time(token, anchor.note, roots, public)
    return replace(anchor, seen=moment, dated_by="time stamp")


def _latest(response: TimeStampResponse) -> str:
    moment: datetime = response.tst_info.gen_time
    accuracy = response.tst_info.accuracy
    if accuracy is not None:
        moment += timedelta(
            seconds=accuracy.seconds or 0, milliseconds=accuracy.millis or 0, microseconds=accuracy.micros or 0
        )
    if moment.microsecond:
        moment += timedelta(microseconds=1_000_000 - moment.microsecond)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _response(token: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response

    if len(token) > _MOST_BYTES:
        raise TrustError(f"time stamp: token: longer than {_MOST_BYTES} bytes", code="cap-exceeded")
    whole = token
    if _is_bare(token):
        whole = _sequence(_GRANTED + token)
    try:
        return decode_timestamp_response(whole)
    except ValueError as error:
        raise TrustError(f"time stamp: token: not a response in DER: {error}", code="envelope-malformed") from error


def _is_bare(token: bytes) -> bool:
    """Return whether these bytes are a token without the response around it: then its type comes first."""
    if len(token) < 8 or token[0] != 0x30:
        return False
    head = 2 if token[1] < 0x80 else 2 + (token[1] & 0x7F)
    return token[head : head + 1] == b"\x06"


def _sequence(content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((0x30, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((0x30, 0x80 | len(length))) + length + content


def _certificates(roots: Sequence[bytes]) -> list[Certificate]:
    from cryptography import x509

    if not roots:
        raise ConfigError("time stamp: certificates: none given of an authority that is trusted")
    found: list[Certificate] = []
    for content in roots:
        try:
            if b"-----BEGIN" in content:
                found += x509.load_pem_x509_certificates(content)
            else:
                found.append(x509.load_der_x509_certificate(content))
        except ValueError as error:
            raise InputError(f"time stamp: certificate: {error}") from error
    if not any(one.issuer == one.subject for one in found):
        raise ConfigError("time stamp: certificates: none of them is a root (issued by itself)")
    return found
