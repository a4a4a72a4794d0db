"""Keys of the user and of the trust file: made, listed, shown, and written for other programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from provstore import config
from provstore.errors import ConfigError, InputError, ProvstoreError
from provstore.evidence import key_files, key_uris, public_forms
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust import file as trust_file
from provstore.evidence.trust import signers, state
from provstore.evidence.trust.keys import Trust, TrustedKey
from provstore.model.keys import KeyExport, KeyList, KeyMade, KeyRow, KeyShown, TrustFacts

ALL = "all"
SIGNERS = "allowed_signers"
FORMS = tuple(public_forms.FORMS)

_ENDINGS = {"openssh": "pub", "minisign": "minisign.pub", "jwk": "jwk.json"}
_PRIVATE_ENDINGS = {"openssh": "openssh", "pkcs8": "pkcs8.pem"}
_UNFIT = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class TrustPlace:
    """Which trust file is meant, and what makes it believed for the first time."""

    file: str | Path | None = None
    pin: str | None = None
    first_use: bool = False

    @property
    def path(self) -> Path:
        """Where it is."""
        return config.trust_file(self.file)

    def load(self) -> Trust | None:
        """Return the trust it states; ``None`` where there is no file, unless one was asked for."""
        given = self.file or self.pin or self.first_use
        return (
            trust_file.load(self.path, pin=self.pin, first_use=self.first_use) if given or self.path.exists() else None
        )


def generate(name: str, *, encrypt: bool = True, insecure_mode: bool = False) -> KeyMade:
    """Make a key pair: an encrypted file in the user's directory of keys, which only its owner can read.

    Args:
        name: A name there, or a path.
        encrypt: Ask for a passphrase (``PROVSTORE_KEY_PASSPHRASE``, ``…_FILE``, or the terminal).
        insecure_mode: Also read a passphrase file that others can read.

    Raises:
        ConfigError: There is such a file already, the name does not do, or no passphrase is to be had.
    """
    path = key_uris.key_path(name)
    if path.exists() or path.is_symlink():
        raise ConfigError(
            f"{path}: key file: there is one already; a private key is never overwritten",
            hint=f"choose another name; provstore keys rotate {path.stem} NEW then puts that one in its place",
        )
    what = f"the new key {name}"
    secret = key_uris.passphrase(what, confirm=True, insecure_mode=insecure_mode) if encrypt else None
    key = PrivateKey.generate()
    key_files.save(path, key, secret)
    return KeyMade(fingerprint(key.public_key), str(path), key.public_key.hex(), encrypt)


def listed(place: TrustPlace | None = None) -> KeyList:
    """Return the user's own keys and those of the trust file.

    Raises:
        ProvstoreError: The trust file does not hold; see :func:`provstore.evidence.trust.file.load`.
    """
    held = (place or TrustPlace()).load()
    notes: list[str] = []
    own = {fingerprint(public): (path, public) for path, public in own_keys(notes.append)}
    rows = [_own(row, own) for row in trusted_rows(held)] if held else []
    shown = {row.keyid for row in rows}
    mine = [_own(KeyRow(keyid, public=public.hex()), own) for keyid, (_, public) in own.items() if keyid not in shown]
    return KeyList((*mine, *rows), facts(held) if held else None, tuple(notes))


def show(who: str, place: TrustPlace | None = None) -> KeyShown:
    """Return one key in the forms of one line that other programs know.

    Args:
        who: Name of an own key, alias or fingerprint in the trust file, or a file with a public key.
        place: The trust file.

    Raises:
        ConfigError: No such key.
    """
    row, public = _named(who, place or TrustPlace())
    if not public:
        return KeyShown(row)
    written = {form: writer(public, name=_name(row)) for form, writer in public_forms.FORMS.items() if form != "der"}
    return KeyShown(row, {form: data.decode().rstrip("\n") for form, data in written.items() if data.count(b"\n") == 1})


def export(
    who: str, form: str, folder: str | Path | None = None, *, name: str | None = None, place: TrustPlace | None = None
) -> KeyExport:
    """Write a public key as files that other programs read; a file of other content is never overwritten.

    Args:
        who: As for :func:`show`.
        form: One of :data:`FORMS`, or ``all``.
        folder: Where to, made if it is not there; None gives one form of text as the answer.
        name: Name inside of the forms that have one (comment, principal, vkey); the key's own name when None.
        place: The trust file.

    Raises:
        ConfigError: Unknown form or key, a form that needs a folder, or a file of other content is in the way.
    """
    forms = _forms(form)
    if folder is None:
        _require_text(form)
    row, public = _named(who, place or TrustPlace())
    if not public:
        raise ConfigError(f"{row.keyid}: export: its algorithm {row.alg} is not known here")
    contents = {one: public_forms.FORMS[one](public, name=name or _name(row)) for one in forms}
    if folder is None:
        return KeyExport((), text=contents[form].decode())
    stem = _stem(row)
    paths = {one: Path(folder) / f"{stem}.{_ENDINGS.get(one, one)}" for one in forms}
    return KeyExport(tuple((one, _written(path, contents[one])) for one, path in paths.items()))


def export_signers(form: str = SIGNERS, folder: str | Path | None = None, place: TrustPlace | None = None) -> KeyExport:
    """Write ``allowed_signers`` and ``revoked_keys`` of the whole trust file, as ``ssh-keygen -Y verify`` reads them.

    Args:
        form: Only ``allowed_signers`` has room for several keys.
        folder: Where to; None gives the allowed_signers file as the answer.
        place: The trust file.

    Raises:
        ConfigError: Another form.
        InputError: There is no trust file.
    """
    if form != SIGNERS:
        raise ConfigError(f"{form}: form: it holds one key, so a key must be named; all keys go into {SIGNERS}")
    held = required(place or TrustPlace())
    lines = {SIGNERS: signers.export_lines(held), "revoked_keys": signers.revoked_lines(held)}
    limited = [key.alias or key.keyid for key in held.keys if key.runs != "*"]
    notes = (f"an {SIGNERS} file knows no runs: {', '.join(limited)} would be trusted for all of them",)
    if folder is None:
        return KeyExport((), lines[SIGNERS].decode(), notes if limited else ())
    files = tuple((name, _written(Path(folder) / name, data, replace_it=True)) for name, data in lines.items())
    return KeyExport(files, notes=notes if limited else ())


def export_private(
    name: str, form: str, folder: str | Path, *, encrypt: bool = True, insecure_mode: bool = False
) -> KeyExport:
    """Write the private key of the user's own for a program that signs by itself, to a file only its owner can read.

    Args:
        name: Name among the own keys, or a path.
        form: ``openssh``, which keeps the passphrase of the key, or ``pkcs8``, which is never encrypted.
        folder: Where to; made with mode 0700 if it is not there.
        encrypt: False agrees to a file without a passphrase.
        insecure_mode: Also read a key file that others can read.

    Raises:
        ConfigError: Unknown form, a file of that name, or encryption that the form does not have.
        InputError: No such key, or a wrong passphrase.
    """
    if form not in key_files.EXPORT_FORMS:
        raise ConfigError(f"{form}: private form: not known; known are {', '.join(key_files.EXPORT_FORMS)}")
    if encrypt and form == "pkcs8":
        raise ConfigError(f"{form}: private form: it is never encrypted", hint="--unencrypted writes it all the same")
    path, secrets = key_uris.key_path(name), list[bytes]()

    def ask() -> bytes:
        secrets.append(key_uris.passphrase(f"the key {name}", insecure_mode=insecure_mode))
        return secrets[0]

    key = key_uris.open_signer(name, insecure_mode=insecure_mode, ask=ask)
    if encrypt and not secrets:
        secrets.append(key_uris.passphrase(f"the exported key {name}", confirm=True, insecure_mode=insecure_mode))
    file = Path(folder) / f"{path.stem}.{_PRIVATE_ENDINGS[form]}"
    key_files.export(file, key, form, secrets[0] if encrypt else None)
    return KeyExport(((form, str(file)),), notes=("this is a private key: whoever has it signs in your name",))


def required(place: TrustPlace) -> Trust:
    """Return the trust of a file that must be there.

    Raises:
        ProvstoreError: It is not there, or does not hold.
    """
    return trust_file.load(place.path, pin=place.pin, first_use=place.first_use)


def own_keys(note: Callable[[str], object]) -> Iterator[tuple[Path, bytes]]:
    """Yield file and public key of the user's own keys, by name; what cannot be read is noted."""
    for path in sorted(config.keys_directory().glob(f"*{key_uris.KEY_SUFFIX}")):
        try:
            yield path, key_files.public_of(path)
        except ProvstoreError as error:
            note(str(error))


def trusted_rows(held: Trust) -> list[KeyRow]:
    """Return the keys of a trust file, root keys first."""
    rows: dict[str, KeyRow] = {}
    for key in (*held.root, *held.keys):
        row, before = trusted_row(key, held), rows.get(key.keyid)
        rows[key.keyid] = (
            replace(row, roles=(*before.roles, *row.roles), alias=row.alias or before.alias) if before else row
        )
    return sorted(rows.values(), key=lambda row: ("root" not in row.roles, row.alias or "", row.keyid))


def trusted_row(key: TrustedKey, held: Trust) -> KeyRow:
    """Return a key of a trust file as a row."""
    revocation = held.revocation(key.keyid)
    return KeyRow(
        keyid=key.keyid,
        alias=key.alias,
        roles=(key.role,),
        runs=key.runs,
        status=key.status,
        not_before=key.not_before,
        not_after=key.not_after,
        revoked_since=revocation.since if revocation else None,
        revoked_because=revocation.reason if revocation else None,
        alg=key.alg,
        public=key.public.hex(),
    )


def facts(held: Trust) -> TrustFacts:
    """Return what a trust file is, beside its keys."""
    root = tuple(sorted(key.keyid for key in held.root))
    return TrustFacts(held.source, held.version, held.expires, held.threshold, root, held.first_use)


def keyid_of(who: str, held: Trust | None) -> str | None:
    """Return the fingerprint that a fingerprint, an alias or the name of an own key means.

    Raises:
        ConfigError: It means several keys.
    """
    listed_keys = (*held.root, *held.keys) if held else ()
    meant = {key.keyid for key in listed_keys if who in {key.keyid, key.alias}}
    meant |= {
        fingerprint(public) for path, public in own_keys(lambda _: None) if who in {path.stem, fingerprint(public)}
    }
    if len(meant) > 1:
        raise ConfigError(f"{who}: keys: several keys have this name: {', '.join(sorted(meant))}")
    return next(iter(meant), None)


def read_public_file(path: Path) -> bytes:
    """Return the content of a file with public keys.

    Raises:
        InputError: Not a regular file, too large, or unreadable.
    """
    try:
        data, _ = state.read_file(path, signers.MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path}: public key: {error.strerror}") from error
    return data


def _named(who: str, place: TrustPlace) -> tuple[KeyRow, bytes]:
    """Return the row of a key and its public key; empty when its algorithm is unknown."""
    held = place.load()
    keyid = keyid_of(who, held)
    own = {fingerprint(public): (path, public) for path, public in own_keys(lambda _: None)}
    rows = {row.keyid: row for row in trusted_rows(held)} if held else {}
    if keyid is not None:
        row = _own(rows.get(keyid, KeyRow(keyid)), own)
        row = row if row.public else replace(row, public=own[keyid][1].hex())
        return row, bytes.fromhex(row.public) if row.alg == "ed25519" else b""
    path = Path(who)
    if not path.is_file():
        raise ConfigError(
            f"{who}: keys: no own key, no key of the trust file, and no file", hint="provstore keys list shows them"
        )
    public = public_forms.read_public(read_public_file(path), who)
    found = rows.get(fingerprint(public), KeyRow(fingerprint(public), public=public.hex()))
    return _own(found, own), public


def _own(row: KeyRow, own: dict[str, tuple[Path, bytes]]) -> KeyRow:
    """Return a row with what the user's own key file adds."""
    if row.keyid not in own:
        return row
    path, _ = own[row.keyid]
    try:
        encrypted: bool | None = key_files.is_encrypted(path)
    except ProvstoreError:
        encrypted = None
    return replace(row, name=path.stem, encrypted=encrypted)


def _forms(form: str) -> tuple[str, ...]:
    if form not in {*FORMS, ALL}:
        raise ConfigError(f"{form}: form: not known; known are {', '.join((*FORMS, ALL))}")
    return FORMS if form == ALL else (form,)


def _require_text(form: str) -> None:
    if form in {ALL, "der"}:
        raise ConfigError(f"{form}: form: standard output takes one form of text", hint="-o FOLDER writes files")


def _stem(row: KeyRow) -> str:
    """Return a file name for a key: names from a trust file are never used as they stand."""
    return _UNFIT.sub("_", row.name or row.alias or row.keyid[7:15]).lstrip(".")[:60] or "key"


def _name(row: KeyRow) -> str:
    name = row.name or row.alias or ""
    return name if re.fullmatch(r"[A-Za-z0-9._@-]+", name) else public_forms.DEFAULT_NAME


def _written(path: Path, data: bytes, *, replace_it: bool = False) -> str:
    if not replace_it and (path.exists() or path.is_symlink()):
        if path.is_file() and path.read_bytes() == data:
            return str(path)
        raise ConfigError(f"{path}: export: there is another file of this name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path.parent}: export: {error.strerror}") from error
    state.write_atomically(path, data, 0o644)
    return str(path)
