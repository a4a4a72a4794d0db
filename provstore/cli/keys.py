"""``provstore keys``: make keys, say whom to trust, replace and revoke keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.api.keys import TrustPlace
    from provstore.model.keys import TrustChange

EXAMPLES = {
    "generate": "Example: provstore keys generate alice",
    "list": "Example: provstore keys list",
    "show": "Example: provstore keys show alice",
    "export": """Examples:

\b
provstore keys export alice --form openssh
provstore keys export alice --form all -o public-keys
provstore keys export --form allowed_signers -o signers""",
    "trust": """Examples:

\b
provstore keys trust alice --role run
provstore keys trust bob.pub --alias bob --role run --runs 'exp-*'
provstore keys trust --expires 2027-01-31""",
    "rotate": "Example: provstore keys rotate alice alice-2027",
    "revoke": "Example: provstore keys revoke bob --since 2026-11-01 --reason 'laptop stolen'",
}

_TRUST_PANEL = "Trust file"
_Trust = Annotated[
    Path | None,
    typer.Option(
        "--trust", metavar="FILE", help="Trust file [default: trust.json among the user's settings]",
        envvar="PROVSTORE_TRUST", show_default=False, rich_help_panel=_TRUST_PANEL,
    ),
]  # fmt: skip
_Pin = Annotated[
    str | None,
    typer.Option(
        metavar="FINGERPRINT", help="Root key of a trust file that is new here, as told by its owner.",
        rich_help_panel=_TRUST_PANEL,
    ),
]  # fmt: skip
_FirstUse = Annotated[
    bool,
    typer.Option(
        "--first-use", help="Believe the root keys of a trust file that is new here.", rich_help_panel=_TRUST_PANEL
    ),
]
_RootKey = Annotated[
    list[str] | None,
    typer.Option(
        "--root-key", metavar="URI", help="Signs the trust file: NAME, file:, env:, fd:, keyring:, cmd:. Repeatable.",
        rich_help_panel=_TRUST_PANEL,
    ),
]  # fmt: skip
_INSECURE_HELP = "Read key and passphrase files that others can read too."
_Insecure = Annotated[bool, typer.Option("--insecure-key-mode", help=_INSECURE_HELP, rich_help_panel=_TRUST_PANEL)]
_InsecureOwn = Annotated[bool, typer.Option("--insecure-key-mode", help=_INSECURE_HELP, show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Make keys, say whom to trust, replace and revoke keys.", no_args_is_help=True, rich_markup_mode=None
    )
    for name, command in (
        ("generate", generate),
        ("list", list_),
        ("show", show),
        ("export", export),
        ("trust", trust),
        ("rotate", rotate),
        ("revoke", revoke),
    ):
        group.command(name, epilog=EXAMPLES[name])(flags(command))
    app.add_typer(group, name="keys")


def generate(
    settings: Globals,
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name among your keys, or a path with a slash.")],
    unencrypted: Annotated[
        bool, typer.Option("--unencrypted", help="No passphrase: whoever reads the file can sign.")
    ] = False,
    insecure_key_mode: _InsecureOwn = False,
) -> None:
    """Make a key pair and print its fingerprint.

    The private key goes to an encrypted file that only you can read, the passphrase comes from a prompt,
    PROVSTORE_KEY_PASSPHRASE or PROVSTORE_KEY_PASSPHRASE_FILE. Exit code: 0 made, 2 there is one already, or no
    passphrase.
    """
    from provstore.api import keys

    made = keys.generate(name, encrypt=not unencrypted, insecure_mode=insecure_key_mode)
    screen = Screen(settings)
    if not settings.json:
        screen.remark(f"private key: {made.path}{'' if made.encrypted else ', NOT encrypted'}")
    screen.show(made.to_dict(), lambda console: print_lines(console, [Line(made.keyid)]))


def list_(settings: Globals, *, file: _Trust = None, pin: _Pin = None, first_use: _FirstUse = False) -> None:
    """List your own keys and those of the trust file.

    Exit code: 0 listed, 1 the trust file does not hold, 2 it was never pinned, 4 it is not understood.
    """
    from provstore.api import keys
    from provstore.cli._key_view import list_lines

    found = keys.listed(_place(file, pin, first_use))

    def draw(console: Console) -> None:
        print_lines(console, list_lines(found, width=console.width))

    Screen(settings).show(found.to_dict(), draw)


def show(
    settings: Globals,
    *,
    who: Annotated[str, typer.Argument(metavar="KEY", help="Name, alias, fingerprint, or file of a public key.")],
    file: _Trust = None,
    pin: _Pin = None,
    first_use: _FirstUse = False,
) -> None:
    """Show one key, what it is trusted for, and its short forms.

    Exit code: 0 shown, 1 the trust file does not hold, 2 no such key, 4 the trust file is not understood.
    """
    from provstore.api import keys
    from provstore.cli._key_view import show_lines

    found = keys.show(who, _place(file, pin, first_use))

    def draw(console: Console) -> None:
        print_lines(console, show_lines(found, width=console.width))

    Screen(settings).show(found.to_dict(), draw)


def export(
    settings: Globals,
    *,
    who: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="As for show; without it, all keys of the trust file as allowed_signers."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="pem, der, openssh, allowed_signers, vkey, minisign, jwk, hex, did-key, a digest, or all.",
        ),
    ] = "openssh",
    folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Where to [default: standard output].")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name inside of forms that have one [default: the key's].")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Your private key, as openssh or pkcs8, for programs that sign.")
    ] = False,
    unencrypted: Annotated[
        bool, typer.Option("--unencrypted", help="With --private: without a passphrase.", show_default=False)
    ] = False,
    insecure_key_mode: _InsecureOwn = False,
    file: _Trust = None,
    pin: _Pin = None,
    first_use: _FirstUse = False,
) -> None:
    """Write a key in forms that others read.

    It is the public key, unless --private is given.
    Exit code: 0 written, 1 the trust file does not hold, 2 no such key or form, or another file is in the way.
    """
    from provstore.api import keys
    from provstore.cli._key_view import export_lines

    place = _place(file, pin, first_use)
    if private:
        if who is None or folder is None:
            raise ConfigError("--private: keys: needs the name of a key, and a folder: -o FOLDER")
        report = keys.export_private(who, form, folder, encrypt=not unencrypted, insecure_mode=insecure_key_mode)
    elif who is None:
        report = keys.export_signers(form, folder, place)
    else:
        report = keys.export(who, form, folder, name=name, place=place)
    screen = Screen(settings)
    if report.text is not None and not settings.json:
        for note in report.notes:
            screen.remark(note)
        screen.show_text(report.text)

    def draw(console: Console) -> None:
        print_lines(console, export_lines(report, width=console.width))

    screen.show(report.to_dict(), draw)


def trust(
    settings: Globals,
    *,
    who: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="Your own key's name, a public key, its file, or an allowed_signers file."),
    ] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="run, rank, log, agent or file [default: run].")
    ] = None,
    runs: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="For which runs, such as 'exp-*' [default: all].")
    ] = None,
    alias: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the key in the trust file.")] = None,
    not_before: Annotated[str | None, typer.Option(metavar="TIME", help="First moment of the key.")] = None,
    not_after: Annotated[str | None, typer.Option(metavar="TIME", help="Last moment of the key.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Last moment of the trust file itself, or never.")
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(metavar="N", help="Root keys that must sign; for a first trust file.", min=1)
    ] = None,
    root_key: _RootKey = None,
    insecure_key_mode: _Insecure = False,
    file: _Trust = None,
    pin: _Pin = None,
    first_use: _FirstUse = False,
) -> None:
    """Trust a key; the first one makes the trust file.

    A trust file is signed by its root keys; the root of the first one is your own key. A key that is listed already
    keeps what no option changes. Exit code: 0 trusted, 1 the trust file or the key does not hold, 2 no such key or
    signer, 4 the trust file is not understood.
    """
    from provstore.api import trusting

    change = trusting.grant(
        who,
        trusting.Grant(role, runs, alias, None, not_before, not_after),
        place=_place(file, pin, first_use),
        signing=trusting.Signing(tuple(root_key or ()), insecure_key_mode),
        expires=expires,
        threshold=threshold,
    )
    _show(settings, change)


def rotate(
    settings: Globals,
    *,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Name, alias or fingerprint of a key of the trust file.")],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The new key; for a root key its private key: a name or a key URI.")
    ],
    alias: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the new key in the trust file.")] = None,
    root_key: _RootKey = None,
    insecure_key_mode: _Insecure = False,
    file: _Trust = None,
    pin: _Pin = None,
    first_use: _FirstUse = False,
) -> None:
    """Put a new key in the place of an old one.

    What the old one signed still holds. A new root key takes effect only signed by the old root and by the new one.
    Exit code: 0 replaced, 1 a rule is broken and the old file stays in force, 2 no such key or signer, 4 the trust
    file is not understood, 6 safe mode is on.
    """
    from provstore.api import control, trusting

    control.require_allowed("keys rotate", settings.store, settings.journal)
    change = trusting.rotate(
        old,
        new,
        place=_place(file, pin, first_use),
        signing=trusting.Signing(tuple(root_key or ()), insecure_key_mode),
        alias=alias,
    )
    _show(settings, change)


def revoke(
    settings: Globals,
    *,
    who: Annotated[str, typer.Argument(metavar="KEY", help="Name, alias or fingerprint of a key of the trust file.")],
    since: Annotated[str, typer.Option(metavar="TIME", help="From when on it may be in other hands.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; for people.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also from a moment on that has not come yet.", show_default=False)
    ] = False,
    root_key: _RootKey = None,
    insecure_key_mode: _Insecure = False,
    file: _Trust = None,
    pin: _Pin = None,
    first_use: _FirstUse = False,
) -> None:
    """Revoke a key from a moment on.

    Its signatures then count only as far as an anchor from before that moment covers them. Exit code: 0 revoked, 1 the
    trust file does not hold, 2 no such key, a root key, revoked already, or a moment in the future, 4 the trust file
    is not understood, 6 safe mode is on.
    """
    from provstore.api import control, trusting

    control.require_allowed("keys revoke", settings.store, settings.journal)
    change = trusting.revoke(
        who,
        since,
        reason,
        place=_place(file, pin, first_use),
        signing=trusting.Signing(tuple(root_key or ()), insecure_key_mode),
        force=force,
    )
    _show(settings, change)


def _place(file: Path | None, pin: str | None, first_use: bool) -> TrustPlace:
    from provstore.api.keys import TrustPlace

    return TrustPlace(file, pin, first_use)


def _show(settings: Globals, change: TrustChange) -> NoReturn:
    """Show a new version of a trust file, and end the command."""
    from provstore.cli._key_view import change_lines

    def draw(console: Console) -> None:
        print_lines(console, change_lines(change, width=console.width))

    Screen(settings).show(change.to_dict(), draw)
