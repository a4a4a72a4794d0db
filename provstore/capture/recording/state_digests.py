"""Digests of states and of sample ids: what a re-run must hold again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from provstore.capture.content.digest import tensor_digest
from provstore.model import canonical

_PREFIX = "sha256:"
_DEEPEST = 32


def state_digest(torch: Any, state: Any) -> str | None:
    """Return the digest of a state: a digest as it is, or that of a module's or mapping's tensors and numbers.

    It is SHA-256 over one line a value, in the order of the places: place, NUL, digest or value, LF. A place is the
    names on the way to the value, joined by dots.

    Raises:
        TypeError: It holds something else.
        ValueError: A text that is no digest.
    """
    if state is None:
        return None
    if isinstance(state, str):
        if not state.startswith(_PREFIX) or len(state) != len(_PREFIX) + 64:
            raise ValueError("state: is no sha256: digest")
        return state
    if hasattr(state, "state_dict"):
        state = state.state_dict()
    found = hashlib.sha256()
    for place, value in sorted(_leaves(torch, state, "", 0)):
        found.update(f"{place}\0{value}\n".encode())
    return _PREFIX + found.hexdigest()


def ids_digest(batch_ids: Any) -> tuple[str, int]:
    """Return (digest, number) of the ids of a batch: SHA-256 over their canonical JSON list, numbers as texts.

    Raises:
        TypeError: They are no list, array or tensor of numbers and texts.
    """
    values = batch_ids.tolist() if hasattr(batch_ids, "tolist") else batch_ids
    if isinstance(values, int | str):
        values = [values]
    texts = [_id_text(value) for value in values]
    return _PREFIX + hashlib.sha256(canonical.encode([*texts])).hexdigest(), len(texts)


def _id_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    if hasattr(value, "item"):
        return str(value.item())
    raise TypeError(f"batch ids: {type(value).__name__} is neither number nor text")


def _leaves(torch: Any, value: Any, place: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        raise TypeError(f"state: {place}: deeper than {_DEEPEST} levels")
    if isinstance(value, torch.Tensor):
        yield place, tensor_digest(torch, value)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(torch, part, f"{place}.{name}" if place else str(name), depth + 1)
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from _leaves(torch, part, f"{place}.{at}" if place else str(at), depth + 1)
    elif isinstance(value, float):
        yield place, canonical.tag_double(value)
    elif value is None or isinstance(value, bool | int | str):
        yield place, repr(value)
    else:
        raise TypeError(f"state: {place}: {type(value).__name__} has no digest")
