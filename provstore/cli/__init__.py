"""The command line: each file without a leading underscore is one command or group of commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    from provstore.cli._app import run

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
