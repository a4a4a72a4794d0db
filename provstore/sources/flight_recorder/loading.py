"""Bytes of a dump → plain values. No global is ever resolved, so nothing in a file can be executed."""

from __future__ import annotations

import io
import pickle  # noqa: S403 (only the subclass below is used; it resolves nothing)
from pickle import UnpicklingError

from provstore.sources.flight_recorder.bounds import has_memory_limit
from provstore.sources.flight_recorder.faults import Refused, shown

_PEEK_BYTES = 1 << 16


class _PlainValues(pickle.Unpickler):
    """Unpickler of lists, dicts, tuples, strings, numbers, booleans and ``None``."""

    def find_class(self, module_name: str, global_name: str, /) -> object:
        name = shown(f"{module_name}.{global_name}")
        raise Refused(f"the pickle asks for the global {name}; a dump needs none: nothing was loaded or run")

    def persistent_load(self, pid: object, /) -> object:
        raise Refused(f"the pickle asks for the external object {shown(pid)}; a dump needs none")


def load_pickle(data: bytes) -> tuple[object, int]:
    """Return the first value of a pickle, and how many bytes follow it.

    Raises:
        Refused: Not a whole pickle, or one that needs more than plain values.
    """
    if not has_memory_limit:
        _scan(data)
    # A bare BytesIO has no peek, which makes the unpickler three times slower.
    stream = io.BufferedReader(io.BytesIO(data), _PEEK_BYTES)  # type: ignore[arg-type]
    try:
        value = _PlainValues(stream).load()
    except (Refused, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 (bad pickles raise a dozen unrelated types)
        raise Refused(_pickle_reason(error, data)) from error
    return value, len(data) - stream.tell()


def _pickle_reason(error: Exception, data: bytes) -> str:
    if isinstance(error, EOFError) or "truncated" in str(error):
        return f"cut off: the pickle does not end within the file's {len(data)} bytes"
    if isinstance(error, RecursionError):
        return "nested too deeply for a dump"
    kind = "" if isinstance(error, UnpicklingError) else f"{type(error).__name__}: "
    return f"not a pickle of plain values: {kind}{str(error)[:200]}"


_PLAIN_OPCODES = frozenset(
    "PROTO FRAME STOP MARK POP POP_MARK DUP MEMOIZE PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET NONE NEWTRUE NEWFALSE "
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 STRING "
    "BINSTRING SHORT_BINSTRING EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT "
    "SETITEM SETITEMS".split()
)
_MEMO_OPCODES = frozenset({"PUT", "LONG_BINPUT"})


def _scan(data: bytes) -> None:
    """Refuse lengths beyond the file and huge memo indexes, where no address-space limit would stop them."""
    import pickletools

    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name not in _PLAIN_OPCODES:
                raise Refused(f"the pickle uses {opcode.name} {shown(argument)}; a dump needs plain values only")
            if opcode.name in _MEMO_OPCODES and int(argument) > len(data):
                raise Refused(f"the pickle asks for a memo of {argument} places, more than the file has bytes")
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 (as above)
        raise Refused(_pickle_reason(error, data)) from error


def load_json(data: bytes) -> object:
    """Return the value of a JSON text.

    Raises:
        Refused: Not JSON, or nested too deeply.
    """
    import orjson

    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        first = data.lstrip()[: 1 << 16].split(b"\n", 1)[0]
        if b'"collective_seq"' in first and b'"pg_name"' in first:
            raise Refused("events of wasmagent-train-replay, not a Flight Recorder dump", foreign=True) from error
        raise Refused(f"not JSON: {str(error)[:200]}") from error
