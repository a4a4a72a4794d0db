"""Which frame of a stack is the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from provstore.model.dump import Frame

_TORCH = re.compile(
    r"(^|/)(site|dist)-packages/torch/|(^|/)torch/(distributed|nn|_dynamo|_inductor|autograd|optim|utils)/"
)
_STANDARD_LIBRARY = re.compile(r"(^|/)lib(64)?/python\d[\d.]*/(?!(site|dist)-packages/)|^<frozen ")


def user_frame(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame outside torch and the standard library, else the outermost; None for no frames."""
    for frame in stack:
        path = frame.filename.replace("\\", "/")
        if path and not _TORCH.search(path) and not _STANDARD_LIBRARY.search(path):
            return frame
    return stack[-1] if stack else None


def source_line(frame: Frame | None) -> str | None:
    """Return ``file:line function`` of a frame."""
    return None if frame is None else f"{frame.filename}:{frame.line} {frame.name}"
