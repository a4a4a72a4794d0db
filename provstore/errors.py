"""Every deliberate error, grouped by who can put it right, with its exit code."""

from __future__ import annotations

EXIT_OK = 0
EXIT_NO = 1
EXIT_USAGE = 2
EXIT_UNDECIDED = 3
EXIT_NOT_UNDERSTOOD = 4
EXIT_ROLLBACK = 5
EXIT_SAFE_MODE = 6
EXIT_STORE = 7
EXIT_INTERRUPTED = 130

_NOT_UNDERSTOOD = frozenset(("unknown-schema", "cap-exceeded"))
"""Codes of what nobody here can judge: it is no fault, and no proof."""


class ProvstoreError(Exception):
    """A deliberate error: its text names the thing, the place and the reason, in that order.

    Args:
        message: ``thing: place: reason``.
        hint: What to do next; given only when it is sure to help.
    """

    exit_code = EXIT_USAGE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InputError(ProvstoreError):
    """The input cannot be used: another file, or a corrected one, puts it right."""


class NotUnderstoodError(InputError):
    """The input has a schema or version that nobody here knows, or it hit a cap."""

    exit_code = EXIT_NOT_UNDERSTOOD


class ConfigError(ProvstoreError):
    """The caller asked for something that does not exist or does not fit together."""


class TrustError(ProvstoreError):
    """A signature, key, proof or signed document does not hold, or cannot be judged: treat it as altered.

    Args:
        message: ``thing: place: reason``.
        code: Name in the registry of finding codes, such as ``bad-signature``.
        hint: What to do next.
    """

    exit_code = EXIT_NO

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        if code in _NOT_UNDERSTOOD:
            self.exit_code = EXIT_NOT_UNDERSTOOD


class StoreError(ProvstoreError):
    """The store or the journal is unavailable, locked, full or damaged: the operator puts it right."""

    exit_code = EXIT_STORE


class SafeModeError(ProvstoreError):
    """Safe mode is on: nothing is written, run or contacted until the operator who switched it on ends it."""

    exit_code = EXIT_SAFE_MODE


class IncompleteError(ProvstoreError):
    """The answer was cut although the caller asked for a whole one."""

    exit_code = EXIT_UNDECIDED
