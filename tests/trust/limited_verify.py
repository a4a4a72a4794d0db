"""``provstore verify`` in a process that may grow by so many MiB only: ``limited_verify.py MIB ARGUMENT…``."""

from __future__ import annotations

import importlib
import resource
import sys
from pathlib import Path

LIBRARIES = ("numpy", "nacl.bindings", "kglite", "pandas", "orjson", "pyarrow", "provstore.cli.verify")
"""What a verification loads: running out of memory while a library is mapped is the library's own affair."""


def main() -> None:
    for name in (*LIBRARIES, "provstore.api.verifying"):
        importlib.import_module(name)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(float(sys.argv[1]) * 1024 * 1024)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.argv = ["provstore", "verify", *sys.argv[2:]]
    from provstore.cli import main as run

    sys.exit(run())


if __name__ == "__main__":
    main()
