"""Worker process: reads dumps under limits, one a request; run as a plain script in a fresh interpreter.

Requests come on standard input, one JSON object a line. A reply on standard output is two 8-byte little-endian lengths,
a JSON header and raw column bytes; never a pickle.
"""

import os
import sys
from types import ModuleType


def _adopt_packages() -> None:
    """Let sibling modules be imported without running any package's ``__init__``: a worker must start in no time."""
    place = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib costs a tenth of the start)
    for name in ("provstore.sources.flight_recorder", "provstore.sources", "provstore"):
        package = ModuleType(name)
        package.__path__ = [place]
        sys.modules[name] = package
        place = os.path.dirname(place)  # noqa: PTH120


def main() -> None:
    """Answer requests until standard input closes, or until the process has grown too much to be used again."""
    import gc
    import json

    from provstore.sources.flight_recorder.bounds import confine, has_grown
    from provstore.sources.flight_recorder.reading import answer

    gc.disable()
    confine()
    replies = sys.stdout.buffer
    for line in sys.stdin.buffer:
        header, body = answer(json.loads(line))
        header["retire"] = has_grown()
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        replies.write(len(text).to_bytes(8, "little") + len(body).to_bytes(8, "little"))
        replies.write(text)
        replies.write(body)
        replies.flush()
        if header["retire"]:
            break


if __name__ == "__main__":
    _adopt_packages()
    sys.path.extend(sys.argv[1:])
    main()
