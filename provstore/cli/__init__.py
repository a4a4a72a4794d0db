"""The command line: each file without a leading underscore is one command or group of commands."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    from provstore.cli._app import run

    code = run(sys.argv[1:] if arguments is None else arguments)
    # What is left ends with the process: to look through it for cycles first would only take time.
    gc.freeze()
    sys.exit(code)
