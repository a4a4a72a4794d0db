"""Small files beside a journal that begin with the digest of the rest: one that is not whole is as none."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sealed(body: bytes) -> bytes:
    """Return the content of the file that holds ``body``."""
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def read(path: Path, most_bytes: int) -> bytes | None:
    """Return what a file holds; ``None`` when there is none, it is no file, too large, or not whole.

    Raises:
        OSError: It cannot be read.
    """
    if not path.is_file() or path.stat().st_size > most_bytes:
        return None
    digest, _, body = path.read_bytes().partition(b"\n")
    return body if hashlib.sha256(body).hexdigest().encode() == digest else None
