"""Files that may have so many bytes and no more: what is longer is refused without being held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from provstore.errors import InputError, NotUnderstoodError, ProvstoreError


def read(
    path: Path, most_bytes: int, thing: str, too_long: Callable[[str], ProvstoreError] = NotUnderstoodError
) -> bytes:
    """Return the bytes of a file.

    Args:
        path: The file.
        most_bytes: How many it may have.
        thing: What messages call it.
        too_long: Makes the error for a longer one from its message.

    Raises:
        InputError: It cannot be read.
        ProvstoreError: It is longer; of the kind that ``too_long`` makes.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise InputError(f"{thing}: cannot be read: {error.strerror}") from error
    if len(data) > most_bytes:
        raise too_long(f"{thing}: more than {most_bytes} bytes")
    return data
