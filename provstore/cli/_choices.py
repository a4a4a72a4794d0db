"""Values given on the command line, turned into what the API takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from provstore.errors import ConfigError, InputError


def one_of(given: str, known: Iterable[str], thing: str) -> str:
    """Return ``given`` if it is one of the known words.

    Raises:
        ConfigError: It is none of them.
    """
    words = tuple(known)
    if given not in words:
        raise ConfigError(f"{thing}: {given}: not known; known are {', '.join(words)}")
    return given


def rank_map(file: Path | None) -> dict[str, int] | None:
    """Return the map from file name to rank that ``file`` holds as a JSON object.

    Raises:
        InputError: The file cannot be read, or is not an object of whole numbers.
    """
    if file is None:
        return None
    try:
        value = orjson.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file}: rank map: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise InputError(f"{file}: rank map: line {error.lineno}: {error.msg}") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}: rank map: not a JSON object of file name to rank")
    for name, rank in value.items():
        if type(rank) is not int or rank < 0:
            raise InputError(f"{file}: rank map: {name}: {rank!r} is not a rank")
    return value


def parameters(given: Iterable[str]) -> dict[str, object]:
    """Return ``key=value`` texts as parameters; a value that reads as JSON is that value, else it is text.

    Raises:
        ConfigError: A text has no ``=``, or a key comes twice.
    """
    found: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ConfigError(f"{text}: --param: not of the form key=value")
        if name in found:
            raise ConfigError(f"{name}: --param: given twice")
        try:
            found[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            found[name] = value
    return found
