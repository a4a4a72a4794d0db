"""How a command opens its store; the only place that asks for a password."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from provstore import config, errors
from provstore.cli._options import Globals

if TYPE_CHECKING:
    from provstore.api import Store

USER, PASSWORD = "PROVSTORE_NEO4J_USER", "PROVSTORE_NEO4J_PASSWORD"


def opened(settings: Globals, *, read_only: bool = True) -> Store:
    """Open the store that the options name.

    A server whose user is set but not its password gets one from a prompt; nothing takes it from the command line.
    """
    from provstore import api

    ask_password(config.store_uri(settings.store))
    return api.open(settings.store, journal=settings.journal, read_only=read_only)


@contextmanager
def hinting(spelled: Mapping[str, str]) -> Iterator[None]:
    """Put into the hints of the API how this command spells ``--run`` and its like: what is said → what to say."""
    try:
        yield
    except errors.InputError as error:
        for said, meant in spelled.items():
            error.hint = error.hint and error.hint.replace(said, meant)
        raise


def ask_password(uri: str) -> None:
    """Ask for the password of a server on a terminal, and keep it in this process' environment."""
    is_server = uri.startswith(("neo4j", "bolt"))
    is_asked = is_server and os.environ.get(USER) and not os.environ.get(PASSWORD)
    if is_asked and sys.stdin is not None and sys.stdin.isatty():
        os.environ[PASSWORD] = getpass.getpass(f"Password of {os.environ[USER]} at {uri}: ", stream=sys.stderr)
