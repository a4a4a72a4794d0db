"""States of the random number generators of this process, as one blob, and back; reading them draws nothing."""

from __future__ import annotations

import hashlib
import random
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from provstore.errors import ConfigError
from provstore.model.canonical import bytes_of, encode, tag_double, tagged_double, text_of

SCHEMA = "provstore-rng-state/1"
PYTHON, NUMPY, TORCH = "python", "numpy", "torch"
_WORDS = struct.Struct("<625I")
_NUMPY_ALGORITHM = "MT19937"
_CUDA = "cuda"
_ONE_DEVICE = frozenset({"mps"})
"""Kinds whose generator is asked without saying of which device."""


def rng_blob(torch: Any) -> tuple[bytes, list[str]]:
    """Return the states of Python, numpy where it is loaded, torch's CPU and its devices, and whose they are.

    The blob is canonical JSON: state words as base64 of little-endian bytes, never a pickle. The state of a GPU is its
    seed and how far it came, both of which torch holds on the host: no device is asked.
    """
    states: dict[str, Any] = {PYTHON: _python_state(), TORCH: text_of(_bytes_of(torch.get_rng_state()))}
    numpy = sys.modules.get(NUMPY)
    if numpy is not None:
        states[NUMPY] = _numpy_state(numpy)
    for kind, module in _accelerators(torch):
        for index in range(module.device_count()):
            state = module.get_rng_state(*([index] if kind not in _ONE_DEVICE else []))
            states[f"{kind}:{index}"] = text_of(_bytes_of(state))
    return encode({"schema": SCHEMA, "states": states}), sorted(states)


class RngAnchor:
    """The digest of the states, asked at every step: found anew only where one has moved since."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._seen: tuple[Any, ...] | None = None
        self._digest = ""

    def digest(self) -> str:
        """Return what :func:`digest_of` says of :func:`rng_blob` now."""
        now = self._states()
        if now is None or now != self._seen:
            self._digest = digest_of(rng_blob(self._torch)[0])
            self._seen = now
        return self._digest

    def _states(self) -> tuple[Any, ...] | None:
        """Return what tells states apart; ``None`` where a device has some, too, or numpy is not loaded."""
        numpy = sys.modules.get(NUMPY)
        if numpy is None or any(True for _ in _accelerators(self._torch)):
            return None
        name, words, *rest = numpy.random.get_state()
        return random.getstate(), name, words.tobytes(), rest, _bytes_of(self._torch.get_rng_state())


def digest_of(blob: bytes) -> str:
    """Return the digest of a blob, as anchors hold it."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def restore_rng(blob: bytes, torch: Any) -> list[str]:
    """Set the generators of this process to the states of a blob; return which were set.

    Raises:
        ConfigError: No such blob, or a generator that it names is missing here.
    """
    try:
        said = orjson.loads(blob)
        if said["schema"] != SCHEMA:
            raise ValueError("another schema")
        for name, state in said["states"].items():
            _restore(name, state, torch)
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise ConfigError(f"rng state: blob: {type(error).__name__}: {error}") from error
    return sorted(said["states"])


def _python_state() -> dict[str, Any]:
    version, words, spare = random.getstate()
    return {
        "version": version,
        "words": text_of(_WORDS.pack(*words)),
        "spare": None if spare is None else tag_double(spare),
    }


def _numpy_state(numpy: Any) -> dict[str, Any]:
    name, keys, position, has_spare, spare = numpy.random.get_state()
    return {
        "algorithm": str(name),
        "words": text_of(keys.astype("<u4").tobytes()),
        "position": int(position),
        "has_spare": int(has_spare),
        "spare": tag_double(float(spare)),
    }


def _accelerators(torch: Any) -> Iterator[tuple[str, Any]]:
    """Give name and module of each kind of accelerator that this process has begun to use and that has generators."""
    found = torch.accelerator.current_accelerator(check_available=True)
    for kind in dict.fromkeys((_CUDA, _CUDA if found is None else str(found.type))):
        module = torch.get_device_module(kind)
        is_begun = getattr(module, "is_initialized", lambda: True)
        if hasattr(module, "get_rng_state") and module.is_available() and is_begun():
            yield kind, module


def _bytes_of(state: Any) -> bytes:
    return bytes(state.numpy().tobytes()) if NUMPY in sys.modules else bytes(state.tolist())


def _restore(name: str, state: Mapping[str, Any] | str, torch: Any) -> None:
    if isinstance(state, str):
        words = torch.frombuffer(bytearray(bytes_of(state)), dtype=torch.uint8)
        if name == TORCH:
            torch.set_rng_state(words)
        else:
            _restore_device(name, words, torch)
    elif name == PYTHON:
        spare = state["spare"]
        words = _WORDS.unpack(bytes_of(state["words"]))
        random.setstate((state["version"], words, None if spare is None else tagged_double(spare)))
    elif name == NUMPY:
        numpy = sys.modules.get(NUMPY)
        if numpy is None:
            raise ConfigError("rng state: numpy: is not loaded here: import it first")
        keys = numpy.frombuffer(bytes_of(state["words"]), dtype="<u4").astype(numpy.uint32)
        spare_value = tagged_double(state["spare"])
        numpy.random.set_state((_NUMPY_ALGORITHM, keys, state["position"], state["has_spare"], spare_value))
    else:
        raise ConfigError(f"rng state: {name!r}: is no generator")


def _restore_device(name: str, words: Any, torch: Any) -> None:
    kind, _, index = name.partition(":")
    module: Any = getattr(torch, kind, None)
    if not hasattr(module, "set_rng_state") or not module.is_available() or int(index) >= module.device_count():
        raise ConfigError(f"rng state: {name!r}: no such device is here")
    module.set_rng_state(words, *([int(index)] if kind not in _ONE_DEVICE else []))
