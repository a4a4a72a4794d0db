"""Which frame of a stack is the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from provstore.model.dump import Frame

_TORCH = re.compile(
    r"(^|/)(site|dist)-packages/torch/|(^|/)torch/(distributed|nn|_dynamo|_inductor|autograd|optim|utils)/"
)
_RECORDER = re.compile(r"(^|/)provstore/capture/")
"""Methods of torch that a recorder has wrapped are called through its own."""
_STANDARD_LIBRARY = re.compile(r"(^|/)lib(64)?/python\d[\d.]*/(?!(site|dist)-packages/)|^<frozen ")


def user_frame(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame outside torch, its recorder and the standard library, else the outermost.

    Returns:
        ``None`` for no frames.
    """
    for frame in stack:
        path = frame.filename.replace("\\", "/")
        if path and not any(known.search(path) for known in (_TORCH, _RECORDER, _STANDARD_LIBRARY)):
            return frame
    return stack[-1] if stack else None


def source_line(frame: Frame | None) -> str | None:
    """Return ``file:line function`` of a frame."""
    return None if frame is None else f"{frame.filename}:{frame.line} {frame.name}"
