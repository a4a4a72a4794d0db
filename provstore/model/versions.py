"""Versions of our own file formats, stated as ``provstore-capture/1`` or as a number: which are known here."""

from __future__ import annotations

from provstore.errors import NotUnderstoodError

_SHOWN = 60


def is_known(stated: object, known: str | int, place: str = "") -> bool:
    """Return whether a format is the one that is known here; ``False`` for what is another format, or none.

    Args:
        stated: What stands in the file.
        known: A name with its version, or a number.
        place: Which file, and what it is, for the error.

    Raises:
        NotUnderstoodError: It is that format in another version.
    """
    if type(stated) is type(known) and stated == known:
        return True
    if isinstance(known, int):
        is_other_version = type(stated) is int
    else:
        is_other_version = isinstance(stated, str) and stated.startswith(known.rpartition("/")[0] + "/")
    if is_other_version:
        raise unknown(stated, known, place)
    return False


def unknown(stated: object, known: str | int, place: str = "", member: str = "schema") -> NotUnderstoodError:
    """Return the error for what states another version than the one that is known here; see :func:`is_known`.

    Args:
        stated: What stands in the file.
        known: What is known.
        place: Which file, and what it is.
        member: The name that it stands under there.
    """
    shown = f"{stated[:_SHOWN]!a}" if isinstance(stated, str) else f"{stated!a:.{_SHOWN}}"
    where = f"{place}: " if place else ""
    return NotUnderstoodError(f"{where}{member}: {shown} is not known; known is {known}")
