"""``provstore verify`` in a process that may grow by so many MiB only: ``limited_verify.py MIB ARGUMENT…``.

Running out of memory while a library is mapped or a module compiled is the interpreter's own affair: a child
verifies first, without a limit, and says which modules that takes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

_NAME_MODULES = """
import sys
from provstore.cli import main
try:
    main()
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def _modules_of(arguments: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as anchors:
        environment = {**os.environ, "PROVSTORE_ANCHORS": anchors}
        command = [sys.executable, "-c", _NAME_MODULES, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return [name for name in done.stderr.split("\n") if name and " " not in name and name != "__main__"]


def main() -> None:
    most_mib, arguments = float(sys.argv[1]), ["verify", *sys.argv[2:]]
    for name in _modules_of(arguments):
        with contextlib.suppress(ImportError):  # a library may enter names there that no file stands for
            importlib.import_module(name)
    from provstore.cli import main as run

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(most_mib * 1024 * 1024)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    run(arguments)


if __name__ == "__main__":
    main()
