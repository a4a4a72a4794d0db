"""Fuzzes one parser of untrusted bytes, guided by coverage: ``fuzz_one.py TARGET CORPUS [libFuzzer options]``.

The corpus folder is filled with good seeds first. An exception that is no deliberate refusal, or an answer that
contradicts the parser's own promise, ends the run with a failure and leaves the input behind.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import atheris

MORE_MEMORY_BYTES = 400 * 1024 * 1024
"""Address space beyond what the process has at its start; hostile lengths must become a refusal."""


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.path.insert(0, str(Path(__file__).parent))
    name, corpus, options = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    with atheris.instrument_imports(include=["provstore"]):
        import fuzz_targets

        target = fuzz_targets.TARGETS[name]()
    for at, data in enumerate(target.seeds):
        (corpus / f"seed-{at}").write_bytes(data)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
