"""Names of file formats with their version, such as ``provstore-capture/1``: which are known here."""

from __future__ import annotations

from provstore.errors import NotUnderstoodError

_SHOWN = 60


def is_known(stated: object, known: str) -> bool:
    """Return whether a format is the one that is known here; ``False`` for what is another format, or none.

    Raises:
        NotUnderstoodError: It is that format in another version.
    """
    if stated == known:
        return True
    if isinstance(stated, str) and stated.startswith(known.rpartition("/")[0] + "/"):
        raise NotUnderstoodError(f"schema: {stated[:_SHOWN]!a} is not known; known is {known}")
    return False
