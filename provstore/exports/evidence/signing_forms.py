"""Signatures over a whole export in forms that need the private key: SSH, minisign, signify and in-toto.

One list of digests, ``SHA256SUMS``, stands for all files, so that each form signs once, a small file, and a file that
is missing shows too. The list has BSD's form, which ``sha256sum -c``, ``shasum -c`` and ``signify -C`` read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence import intoto_link, keys, minisign, public_forms, sshsig, whole_files
from provstore.exports.evidence import INSTRUCTIONS

SSHSIG, MINISIGN, SIGNIFY, IN_TOTO = "sshsig", "minisign", "signify", "in-toto"
FORMS = (SSHSIG, MINISIGN, SIGNIFY, IN_TOTO)
SUMS = "SHA256SUMS"
PRINCIPAL = "provstore"
"""Name of the signer in the line of ``allowed_signers`` that is exported; it has no meaning beyond."""

_SSHSIG_FILE, _ALLOWED = f"{SUMS}.sshsig", "allowed_signers"
_MINISIGN_FILE, _MINISIGN_KEY = f"{SUMS}.minisig", "minisign.pub"
_SIGNIFY_FILE, _SIGNIFY_KEY = f"{SUMS}.sig", "signify.pub"
_IN_TOTO_KEY = "in-toto.pem"
# Written here, or about the export rather than part of it. Proofs stand by themselves: they lead to the checkpoint.
_BESIDE = (
    SUMS,
    _SSHSIG_FILE,
    _ALLOWED,
    _MINISIGN_FILE,
    _MINISIGN_KEY,
    _SIGNIFY_FILE,
    _SIGNIFY_KEY,
    _IN_TOTO_KEY,
    intoto_link.LAYOUT_FILE,
    INSTRUCTIONS,
)
# Nothing that a list of digests, a rule of in-toto or a shell could read as more than a name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_PROOFS = ("record-*.json", "record-*.tlog-proof")
_CHECK_SUMS = f"sha256sum --check --strict --quiet {SUMS}"


@dataclass(frozen=True, slots=True)
class SignedForm:
    """One form of signature: its files, and how the program that it is for checks them."""

    form: str
    files: Mapping[str, bytes]
    """Contents by file name, without ``SHA256SUMS``."""
    tool: str
    """Program that checks it."""
    title: str
    commands: str
    """Ends with status 0 when signature and files hold, run in the folder of the export."""


def require_forms(forms: Collection[str]) -> None:
    """Check which forms are asked for.

    Raises:
        ConfigError: One is unknown, none is named, or signify is asked for together with others.
    """
    unknown = sorted(set(forms) - set(FORMS))
    if unknown or not forms:
        raise ConfigError(f"{', '.join(unknown) or 'none'}: form: not known; known are {', '.join(FORMS)}")
    if SIGNIFY in forms and len(set(forms)) > 1:
        raise ConfigError(
            "signify: form: needs a key that signs nothing else", hint="ask for it alone, with a key of role file"
        )


def digests_of(directory: Path) -> dict[str, str]:
    """Return the SHA-256 in hex digits of every file of an export that its signatures stand for, by name.

    Raises:
        InputError: The directory cannot be read, holds nothing to sign, or something that no export has.
    """
    found = {}
    try:
        for path in sorted(directory.iterdir()):
            if path.is_symlink() or not path.is_file() or not _NAME.fullmatch(path.name):
                raise InputError(f"{directory}: signing: {path.name!a}: an export has no such file")
            if not _is_beside(path):
                found[path.name] = _digest(path)
    except OSError as error:
        raise InputError(f"{directory}: signing: {error.strerror}") from error
    if not found:
        raise InputError(f"{directory}: signing: there are no files of an export")
    return found


def signing_forms(
    digests: Mapping[str, str], forms: Collection[str], signer: keys.Signer, roles: Collection[str]
) -> tuple[SignedForm, ...]:
    """Return the signatures over an export, each with its public key.

    Args:
        digests: SHA-256 in hex digits of each file, by name.
        forms: Some of ``FORMS``; signify only alone.
        signer: The key; for signify one that signs nothing but files.
        roles: Roles that the trust file gives this key; none if it is not listed.

    Raises:
        ConfigError: A form is unknown, or the forms do not go together.
        TrustError: The key may not be used for this form, or its signature does not hold.
    """
    require_forms(forms)
    if SIGNIFY not in forms and minisign.FILE_ROLE in roles:
        raise TrustError(
            f"signing: key {keys.fingerprint(signer.public_key)}: has role {minisign.FILE_ROLE} and signs nothing else",
            code="untrusted-key",
        )
    makers: Mapping[str, Callable[[], SignedForm]] = {
        SSHSIG: lambda: _sshsig(sums(digests), signer),
        MINISIGN: lambda: _minisign(sums(digests), signer, len(digests)),
        SIGNIFY: lambda: _signify(sums(digests), signer, roles),
        IN_TOTO: lambda: _in_toto(digests, signer),
    }
    return tuple(makers[form]() for form in FORMS if form in forms)


def write_signing_forms(
    directory: Path, forms: Collection[str], signer: keys.Signer, roles: Collection[str]
) -> tuple[SignedForm, ...]:
    """Sign the export in ``directory`` and write ``SHA256SUMS``, signatures and public keys into it.

    Each file appears whole or not at all. Takes the arguments of :func:`signing_forms`, and raises what it raises.

    Raises:
        InputError: The directory cannot be read or written, or holds nothing to sign.
    """
    require_forms(forms)
    digests = digests_of(directory)
    made = signing_forms(digests, forms, signer, roles)
    try:
        whole_files.write(directory / SUMS, sums(digests), 0o644)
        for one in made:
            for name, content in one.files.items():
                whole_files.write(directory / name, content, 0o644)
    except OSError as error:
        raise InputError(f"{directory}: signing: {error.strerror}") from error
    return made


def sums(digests: Mapping[str, str]) -> bytes:
    """Return the content of ``SHA256SUMS``."""
    return "".join(f"SHA256 ({name}) = {digest}\n" for name, digest in sorted(digests.items())).encode("ascii")


def _sshsig(listed: bytes, signer: keys.Signer) -> SignedForm:
    public = signer.public_key
    return SignedForm(
        form=SSHSIG,
        files={
            _SSHSIG_FILE: sshsig.sign(listed, signer),
            _ALLOWED: public_forms.allowed_signers(public, PRINCIPAL, namespaces=(sshsig.NAMESPACE,)),
        },
        tool="ssh-keygen",
        title=f"Signature over all files, key {keys.fingerprint(public)}: ssh-keygen 8.1 or newer",
        commands=(
            f"ssh-keygen -Y verify -f {_ALLOWED} -I {PRINCIPAL} -n {sshsig.NAMESPACE} -s {_SSHSIG_FILE} < {SUMS} &&\n"
            f"{_CHECK_SUMS}"
        ),
    )


def _minisign(listed: bytes, signer: keys.Signer, count: int) -> SignedForm:
    public = signer.public_key
    return SignedForm(
        form=MINISIGN,
        files={
            _MINISIGN_FILE: minisign.sign(listed, signer, f"provstore evidence, {count} files"),
            _MINISIGN_KEY: minisign.public_file(public),
        },
        tool="minisign",
        title=f"Signature over all files, key {keys.fingerprint(public)}: minisign 0.10 or newer",
        commands=f"minisign -V -H -p {_MINISIGN_KEY} -m {SUMS} &&\n{_CHECK_SUMS}",
    )


def _signify(listed: bytes, signer: keys.Signer, roles: Collection[str]) -> SignedForm:
    public = signer.public_key
    return SignedForm(
        form=SIGNIFY,
        files={
            _SIGNIFY_FILE: minisign.sign_raw(listed, signer, roles, _SIGNIFY_KEY),
            _SIGNIFY_KEY: minisign.public_file(public),
        },
        tool="signify-openbsd",
        title=f"Signature over all files, key {keys.fingerprint(public)}: signify (Debian: signify-openbsd)",
        commands=f"signify-openbsd -V -p {_SIGNIFY_KEY} -x {_SIGNIFY_FILE} -m {SUMS} &&\n{_CHECK_SUMS}",
    )


def _in_toto(digests: Mapping[str, str], signer: keys.Signer) -> SignedForm:
    public = signer.public_key
    return SignedForm(
        form=IN_TOTO,
        files={
            intoto_link.LAYOUT_FILE: intoto_link.layout(digests, (*_BESIDE, *_PROOFS), signer),
            intoto_link.link_file(public): intoto_link.link(digests, signer),
            _IN_TOTO_KEY: public_forms.FORMS["pem"](public),
        },
        tool="in-toto-verify",
        title=f"Link and layout over all files, key {keys.fingerprint(public)}: in-toto 3.1 (pip install in-toto)",
        commands=f"in-toto-verify --layout {intoto_link.LAYOUT_FILE} --verification-keys {_IN_TOTO_KEY}",
    )


def _is_beside(path: Path) -> bool:
    return path.name in _BESIDE or path.suffix == ".link" or any(path.match(pattern) for pattern in _PROOFS)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
