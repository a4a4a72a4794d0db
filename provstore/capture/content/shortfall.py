"""What keeps a piece of content from being recorded; none of it reaches training."""

from __future__ import annotations

from provstore.model.recording import UNSUPPORTED_DTYPE


class ShortfallError(Exception):
    """Less can be recorded of an action than is demanded.

    Args:
        message: ``thing: place: reason``.
        reason: One of ``model.recording.SHORTFALLS``.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnsupportedDtypeError(ShortfallError):
    """The bytes or values of a tensor cannot be read: its dtype, layout or class has no dense elements here."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=UNSUPPORTED_DTYPE)
