"""Keys and trust as the commands about them tell: public parts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from provstore.model.display import table


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key: of the user's own, of the trust file, or both."""

    keyid: str
    """OpenSSH fingerprint."""
    name: str | None = None
    """Name of the user's own key file; ``None`` when the private key is not here."""
    alias: str | None = None
    """Name in the trust file."""
    roles: tuple[str, ...] = ()
    """What the trust file lists it for."""
    runs: str | None = None
    """Pattern of the runs it is trusted for."""
    status: str | None = None
    """``active``, ``retired`` or ``revoked``; ``None`` when the trust file does not list it."""
    not_before: str | None = None
    not_after: str | None = None
    revoked_since: str | None = None
    revoked_because: str | None = None
    alg: str = "ed25519"
    public: str = ""
    """In hexadecimal."""
    encrypted: bool | None = None
    """Whether the user's own key file asks for a passphrase."""


@dataclass(frozen=True, slots=True)
class TrustFacts:
    """What a trust file is, beside its keys."""

    path: str
    version: int
    expires: str | None
    threshold: int
    """How many root keys sign the next version."""
    root: tuple[str, ...]
    """Fingerprints of the root keys."""
    first_use: bool
    """Nobody vouched for the root keys: they were believed because they came first."""


@dataclass(frozen=True, slots=True)
class KeyMade:
    """A new key."""

    keyid: str
    path: str
    public: str
    """In hexadecimal."""
    encrypted: bool

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"schema": "provstore-keys-generate/1", **asdict(self)}


@dataclass(frozen=True, slots=True)
class KeyList:
    """The user's own keys and those of the trust file."""

    keys: tuple[KeyRow, ...]
    trust: TrustFacts | None
    """``None`` when there is no trust file."""
    notes: tuple[str, ...] = ()
    """What could not be listed, and why."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"schema": "provstore-keys-list/1", **asdict(self)}

    def _repr_html_(self) -> str:
        """Return the keys as a table."""
        rows = [(one.name or one.alias, one.keyid, ", ".join(one.roles), one.runs, one.status) for one in self.keys]
        return table("Keys", ("name", "key id", "roles", "runs", "status"), rows, self.notes)


@dataclass(frozen=True, slots=True)
class KeyShown:
    """One key in the forms that other programs know."""

    key: KeyRow
    forms: Mapping[str, str] = field(default_factory=dict)
    """Name of the form → text of one line."""

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {"schema": "provstore-keys-show/1", "key": asdict(self.key), "forms": dict(self.forms)}


@dataclass(frozen=True, slots=True)
class KeyExport:
    """Files that were written."""

    files: tuple[tuple[str, str], ...]
    """(form, path)."""
    text: str | None = None
    """The one form that was asked for, when no folder was given."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        files = [{"form": form, "path": path} for form, path in self.files]
        return {"schema": "provstore-keys-export/1", "files": files, "text": self.text, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class TrustChange:
    """A new version of a trust file."""

    action: str
    """``created``, ``trusted``, ``extended``, ``rotated`` or ``revoked``."""
    trust: TrustFacts
    keys: tuple[KeyRow, ...]
    """The keys that it is about, as they are listed now."""
    signed_by: tuple[str, ...]
    """Fingerprints of the root keys that signed."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        command = {"rotated": "rotate", "revoked": "revoke"}.get(self.action, "trust")
        return {"schema": f"provstore-keys-{command}/1", **asdict(self)}
