"""What a caller states, before it becomes a record: mistakes are named, other libraries' numbers become plain ones."""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from provstore.errors import ConfigError, InputError
from provstore.model import canonical
from provstore.model.evidence import AgreedDigest, Observation, Scalar

KEPT = "kept are text, integers of 64 bits, floats, booleans and None"
_COUNTED = "integer from 0 to 2**53 - 1"
_SURROGATE = "holds a lone surrogate, which is no Unicode text"
_HEX = re.compile(r"[0-9a-f]{64}")
_SHOWN = 40


def scope(run: object, attempt: object) -> tuple[str, int]:
    """Return run and attempt that records can be kept for.

    Raises:
        ConfigError: The run has no name, or one is of another type or out of range.
    """
    if not isinstance(run, str):
        raise ConfigError(f"record: run: {_a(run)} is no text")
    if not run:
        raise ConfigError("record: run: is empty; that is where imported documents stand")
    if not _is_unicode(run):
        raise ConfigError(f"record: run: {_SURROGATE}")
    number = _integer(attempt)
    if number is None or not 0 <= number <= canonical.MAX_INTEGER:
        raise ConfigError(f"{run}: attempt: {shown(attempt)} is no {_COUNTED}")
    return str.__str__(run), number


def statements(items: Any, run: str) -> list[Observation | AgreedDigest]:
    """Return what is stated, with plain numbers; the values of observations are looked at when they are spelled.

    Raises:
        ConfigError: It is no list.
        InputError: It is empty, or one of them cannot become a record.
    """
    if isinstance(items, Observation | AgreedDigest):
        raise ConfigError(f"{run}: records: a single {type(items).__name__} is no list: put it into brackets")
    try:
        walked = iter(items)
    except TypeError as error:
        raise ConfigError(f"{run}: records: {_a(items)} is no list of Observation and AgreedDigest") from error
    given = [item if _is_plain(item) else _plain(item, place(run, at, item)) for at, item in enumerate(walked)]
    if not given:
        raise InputError(f"{run}: records: there are none to keep")
    return given


def place(run: str, at: int, item: object) -> str:
    """Return how messages name an item: its run, its index in the call, and its name where it has one."""
    name = getattr(item, "name", "") if isinstance(item, Observation | AgreedDigest) else ""
    return f"{run}: item {at}" + (f", {name[:_SHOWN]!a}" if isinstance(name, str) and name else "")


def scalar(value: object) -> Scalar:
    """Return the plain text, integer, float or boolean that equals a value.

    Numbers of other libraries are known by the number protocols, their booleans by the buffer protocol.

    Raises:
        InputError: None does; the message begins with what the value is.
    """
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if (whole := _integer(value)) is not None:
        if not canonical.INT64_MIN <= whole <= canonical.INT64_MAX:
            raise InputError(f"an integer of {whole.bit_length()} bits does not fit; {KEPT}")
        return whole
    if isinstance(value, numbers.Real):
        return _double(value)
    if (truth := _truth(value)) is not None:
        return truth
    raise InputError(f"{_a(value)} cannot be kept; {KEPT}")


def unspellable(item: Observation | AgreedDigest) -> str | None:
    """Return which text of an item is no Unicode text, or nothing."""
    if not _is_unicode(item.name):
        return f"name: {_SURROGATE}"
    for name, value in item.values.items() if isinstance(item, Observation) else ():
        if isinstance(name, str) and not (_is_unicode(name) and _is_unicode(value)):
            return f"value {name[:_SHOWN]!a}: {_SURROGATE}"
    return None


def shown(value: object) -> str:
    """Return a wrong value for a message: short, and never what cannot be spelled."""
    if isinstance(value, int) and not -(10**30) < value < 10**30:
        return f"an integer of {int(value).bit_length()} bits"
    if value is None or isinstance(value, str | int | float):
        return f"{value!a}"[:_SHOWN]
    return _a(value)


def _is_plain(item: Any) -> bool:
    """Return whether an item needs no second look; this is asked of every record."""
    return (
        type(item) is Observation
        and type(item.name) is str
        and item.name != ""
        and (type(item.values) is dict or isinstance(item.values, Mapping))
        and (item.rank is None or (type(item.rank) is int and 0 <= item.rank <= canonical.MAX_INTEGER))
        and (item.step is None or (type(item.step) is int and 0 <= item.step <= canonical.MAX_INTEGER))
        and (
            item.at_ns is None or (type(item.at_ns) is int and canonical.INT64_MIN <= item.at_ns <= canonical.INT64_MAX)
        )
    )


def _plain(item: object, where: str) -> Observation | AgreedDigest:
    if not isinstance(item, Observation | AgreedDigest):
        raise InputError(f"{where}: {_a(item)} is neither an Observation nor an AgreedDigest")
    if not isinstance(item.name, str):
        raise InputError(f"{where}: name: {_a(item.name)} is no text")
    if not item.name:
        raise InputError(f"{where}: name: is empty")
    name, step = str.__str__(item.name), _count(item.step, f"{where}: step")
    at_ns = None if item.at_ns is None else _time(item.at_ns, f"{where}: at_ns")
    rank = _count(item.rank, f"{where}: rank")
    if isinstance(item, Observation):
        if not isinstance(item.values, Mapping):
            raise InputError(f"{where}: values: {_a(item.values)} is no mapping of names to values")
        return replace(item, name=name, rank=rank, step=step, at_ns=at_ns)
    if rank is None:
        raise InputError(f"{where}: rank: None is no {_COUNTED}")
    if not isinstance(item.sha256, str) or not _HEX.fullmatch(item.sha256):
        raise InputError(f"{where}: sha256: needs 64 hex digits in lower case")
    ranks = _ranks(item.ranks, f"{where}: ranks")
    return replace(item, name=name, rank=rank, ranks=ranks, step=step, at_ns=at_ns)


def _ranks(given: Any, where: str) -> tuple[int, ...]:
    try:
        walked = list(given)
    except TypeError as error:
        raise InputError(f"{where}: {_a(given)} is no list of ranks") from error
    found: dict[int, None] = {}
    for one in walked:
        rank = _count(one, where)
        if rank is None:
            raise InputError(f"{where}: None is no {_COUNTED}")
        if rank in found:
            raise InputError(f"{where}: {rank} stands there twice")
        found[rank] = None
    return tuple(found)


def _count(value: object, where: str) -> int | None:
    if value is None:
        return None
    number = _integer(value)
    if number is None or not 0 <= number <= canonical.MAX_INTEGER:
        raise InputError(f"{where}: {shown(value)} is no {_COUNTED}")
    return number


def _time(value: object, where: str) -> int:
    number = _integer(value)
    if number is None or not canonical.INT64_MIN <= number <= canonical.INT64_MAX:
        raise InputError(f"{where}: {shown(value)} is no integer of 64 bits")
    return number


def _integer(value: object) -> int | None:
    """Return the plain integer that equals a value, if it is one; booleans are none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    try:
        return int(operator.index(value))
    except TypeError:
        return None


def _double(value: Any) -> float:
    try:
        number = float(value)
        exact = number == value or value != value  # noqa: PLR0124 - a NaN of any library equals nothing
    except (ArithmeticError, TypeError, ValueError):
        exact = False
    if not exact:
        raise InputError(f"{_a(value)} that no double equals cannot be kept; {KEPT}")
    return number


def _truth(value: Any) -> bool | None:
    """Return the one boolean in the memory of a value, where that is what it holds."""
    try:
        memory = memoryview(value)
    except TypeError:
        return None
    return bool(memory[()]) if memory.ndim == 0 and memory.format == "?" else None


def _is_unicode(value: object) -> bool:
    """Return False for text with a lone surrogate."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _a(value: object) -> str:
    """Return a type with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
