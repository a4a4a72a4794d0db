"""Whose signatures count for commands that use evidence and do not judge it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from provstore import config
from provstore.cli._options import Globals
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.api.believing import Belief

_PANEL = "Verification"
Trust = Annotated[
    Path | None,
    typer.Option(
        "--trust",
        metavar="FILE",
        help="Trust file [default: PROVSTORE_TRUST, else yours].",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
PublicKey = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="A public key that counts, instead of a trust file. Repeatable.", rich_help_panel=_PANEL
    ),
]
AnchorPath = Annotated[
    list[Path] | None,
    typer.Option(metavar="PATH", help="A checkpoint kept elsewhere, or a folder of them.", rich_help_panel=_PANEL),
]
Unverified = Annotated[
    bool,
    typer.Option("--unverified", help="Go on although the evidence does not hold; all output says so."),
]


def belief_of(
    settings: Globals, trust: Path | None, public_keys: list[Path] | None, anchors: list[Path] | None
) -> Belief | None:
    """Return what is believed; None where nothing was given and the user has no trust file.

    Raises:
        ConfigError: What was given is no trust.
    """
    from provstore.api.believing import belief

    uri = config.store_uri(settings.store)
    own = [config.embedded_directory(uri), config.journal_directory(uri, settings.journal)]
    try:
        return belief(
            public_keys=public_keys or (),
            trust_file=trust,
            anchors=anchors or (),
            outside=[place for place in own if place is not None],
        )
    except ConfigError:
        if trust is None and not public_keys and not anchors:
            return None
        raise
