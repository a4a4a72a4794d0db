"""Bytes of a dump → plain values. No global is ever resolved, so nothing in a file can be executed."""

from __future__ import annotations

import pickle
from pickle import UnpicklingError

from provstore.sources.flight_recorder.bounds import has_memory_limit
from provstore.sources.flight_recorder.faults import Refused, shown


class _Source:
    """Bytes as a file whose ``peek`` shows all of them: the unpickler then works in place, without a copy."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def peek(self, _: int) -> memoryview:
        return memoryview(self._data)[self.at :]

    def read(self, size: int) -> bytes:
        start, self.at = self.at, min(self.at + size, len(self._data))
        return self._data[start : self.at]

    def readline(self) -> bytes:
        end = self._data.find(b"\n", self.at) + 1
        return self.read((end or len(self._data)) - self.at)


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
    source = _Source(data)
    try:
        value = _PlainValues(source).load()
    except (Refused, MemoryError):
        raise
    except Exception as error:
        raise Refused(_pickle_reason(error, data)) from error
    return value, len(data) - source.at


def _pickle_reason(error: Exception, data: bytes) -> str:
    if isinstance(error, EOFError) or "truncated" in str(error):
        return f"cut off: the pickle does not end within the file's {len(data)} bytes"
    if isinstance(error, RecursionError):
        return "nested too deeply for a dump"
    kind = "" if isinstance(error, UnpicklingError) else f"{type(error).__name__}: "
    return f"not a pickle of plain values: {kind}{str(error)[:200]}"


_MEMO_OPCODES = frozenset({"PUT", "LONG_BINPUT"})


def _scan(data: bytes) -> None:
    """Refuse lengths beyond the file and huge memo indexes, where no address-space limit would stop them."""
    import io
    import pickletools

    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name in _MEMO_OPCODES and int(argument or 0) > len(data):
                raise Refused(f"the pickle asks for a memo of {argument} places, more than the file has bytes")
    except Refused:
        raise
    except Exception as error:
        raise Refused(_pickle_reason(error, data)) from error


def load_json(data: bytes) -> object:
    """Return the value of a JSON text.

    Raises:
        Refused: Not JSON, or nested too deeply.
    """
    import orjson

    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        first = data.lstrip()[: 1 << 16].split(b"\n", 1)[0]
        if b'"collective_seq"' in first and b'"pg_name"' in first:
            raise Refused("events of wasmagent-train-replay, not a Flight Recorder dump", foreign=True) from error
        raise Refused(f"not JSON: {str(error)[:200]}") from error
