"""How keys and changes of a trust file read on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from provstore.cli._screen import Line
from provstore.cli._text import counted, folded, printable

if TYPE_CHECKING:
    from provstore.model.keys import KeyExport, KeyList, KeyRow, KeyShown, TrustChange, TrustFacts

_STYLE = {"active": "green", "retired": "dim", "revoked": "bold red"}
_DID = {
    "created": "made, version {version}",
    "trusted": "version {version}",
    "extended": "version {version}",
    "rotated": "version {version}: the key was replaced",
    "revoked": "version {version}: the key is revoked",
}


def list_lines(keys: KeyList, *, width: int) -> Iterator[Line]:
    """Yield every key with what it is trusted for, and which trust file says so."""
    if not keys.keys:
        yield Line("no keys: provstore keys generate NAME makes one", "yellow")
    for row in keys.keys:
        yield from _row(row, width)
    yield Line("")
    if keys.trust is None:
        yield Line("no trust file: provstore keys trust NAME --role run makes one", "dim")
    else:
        yield from trust_lines(keys.trust, width)
    for note in keys.notes:
        yield from _folded(note, width, "yellow")


def show_lines(shown: KeyShown, *, width: int) -> Iterator[Line]:
    """Yield one key, then the forms other programs know; these are never broken into lines."""
    yield from _row(shown.key, width)
    broad = max(map(len, shown.forms), default=0)
    for form, text in shown.forms.items():
        yield Line(f"  {form:<{broad}}  {printable(text)}")


def export_lines(report: KeyExport, *, width: int) -> Iterator[Line]:
    """Yield the files that were written."""
    for form, path in report.files:
        yield from _folded(f"{form}: {path}", width)
    for note in report.notes:
        yield from _folded(note, width, "yellow")


def change_lines(change: TrustChange, *, width: int) -> Iterator[Line]:
    """Yield what a new version of a trust file says about the keys that were meant."""
    yield from _folded(
        f"{change.trust.path}: {_DID[change.action].format(version=change.trust.version)}", width, "bold"
    )
    for row in change.keys:
        yield from _row(row, width)
    yield Line(f"signed by {', '.join(change.signed_by)}", "dim")
    if change.action == "created":
        yield from _folded("give whoever verifies this fingerprint by another way, for --pin:", width)
        yield from (Line(f"  {keyid}", "bold") for keyid in change.trust.root)
    elif change.trust.expires:
        yield Line(f"holds until {change.trust.expires}", "dim")
    for note in change.notes:
        yield from _folded(note, width, "yellow")


def trust_lines(trust: TrustFacts, width: int) -> Iterator[Line]:
    """Yield which trust file it is and who decides about it."""
    until = f", until {trust.expires}" if trust.expires else ""
    yield from _folded(f"trust file: {trust.path}, version {trust.version}{until}", width, "dim")
    if len(trust.root) > 1:
        yield Line(f"{trust.threshold} of {counted(len(trust.root), 'root key')} sign its next version", "dim")
    if trust.first_use:
        yield from _folded(
            "its root keys were believed on first use: nobody has vouched for them", width, "bold yellow"
        )


def _row(row: KeyRow, width: int) -> Iterator[Line]:
    name = row.name or row.alias or "(no name)"
    names = name if row.alias in {None, name} else f"{name} ({row.alias})"
    yield from _folded(f"{names}  {row.keyid}", width, _STYLE.get(row.status or "", ""))
    yield from (Line(line) for line in folded("; ".join(_facts(row)), width, "  ", "  "))


def _facts(row: KeyRow) -> Iterable[str]:
    if row.name is not None:
        yield {True: "private key here, encrypted", False: "private key here, NOT encrypted", None: "private key here"}[
            row.encrypted
        ]
    if not row.roles:
        yield "not in the trust file"
        return
    scope = [role for role in row.roles if role != "root"]
    runs = "all runs" if row.runs == "*" else f"runs {row.runs}"
    yield " and ".join([*(["root"] if "root" in row.roles else []), *(f"{role} for {runs}" for role in scope)])
    if row.alg != "ed25519":
        yield f"algorithm {row.alg} is not known here: never used"
    if row.not_before or row.not_after:
        yield f"from {row.not_before or 'the beginning'} to {row.not_after or 'no end'}"
    if row.status != "active":
        since = f" since {row.revoked_since}: {row.revoked_because}" if row.revoked_since else ""
        yield f"{row.status}{since}"


def _folded(text: str, width: int, style: str = "") -> Iterator[Line]:
    yield from (Line(line, style) for line in folded(text, width, "", "  "))
