"""Which key signs: the one that is named, else ``PROVSTORE_KEY``, else the only key there is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from provstore import config
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.api.standing import Standing
    from provstore.evidence.keys import PrivateKey

KEY = "PROVSTORE_KEY"
KEY_HELP = "Key that signs: a name, file:, env:, fd:, keyring: or cmd: [default: PROVSTORE_KEY, else the only key]."


INSECURE = typer.Option(
    "--insecure-key-mode", help="Read key and passphrase files that others can read too.", show_default=False
)


def signer(given: str | None, *, insecure_mode: bool = False) -> PrivateKey:
    """Return the private key that signs.

    Raises:
        ConfigError: None is named and there is not exactly one, or the URI names nothing.
        InputError: The file is no key.
    """
    from provstore.evidence.key_uris import open_signer

    return open_signer(given or os.environ.get(KEY) or _only(), insecure_mode=insecure_mode)


def run_signer(given: str | None, *, insecure_mode: bool = False) -> tuple[PrivateKey, Standing]:
    """Return the private key that signs runs, and how the user's trust file sees it.

    Raises:
        ConfigError: As for :func:`signer`, or the trust file revoked the key.
        InputError: The file is no key.
    """
    from provstore.api.standing import standing

    key = signer(given, insecure_mode=insecure_mode)
    found = standing(key.public_key)
    found.require_usable()
    return key, found


def _only() -> str:
    from provstore.evidence.key_uris import KEY_SUFFIX

    directory = config.keys_directory()
    names = sorted(path.stem for path in directory.glob(f"*{KEY_SUFFIX}")) if directory.is_dir() else []
    if len(names) == 1:
        return names[0]
    if not names:
        raise ConfigError(f"{directory}: keys: there is none", hint="provstore keys generate NAME makes one")
    raise ConfigError(f"{directory}: keys: there are {len(names)}: {', '.join(names)}", hint="choose with --key NAME")
