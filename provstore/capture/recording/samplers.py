"""What a loader or sampler states of the order of its samples; nothing is iterated, and no random number is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provstore.capture.fail_open import tried

_MOST_NESTED = 4
"""A loader holds a batch sampler, which holds a sampler; who wraps these once more is followed as well."""
_MAX_TEXT = 200
_COUNTS = {"seed": "seed", "shard_epoch": "epoch", "shards": "num_replicas", "shard": "rank"}
"""Member of the line → attribute, as ``torch.utils.data.DistributedSampler`` names it."""
_FLAGS = ("shuffle", "drop_last", "replacement")


def sampler_facts(given: Any, dataset: str | None = None) -> dict[str, Any]:
    """Return kind, seed, epoch, shards and sizes of a loader, a batch sampler or a sampler, as far as they are stated.

    Args:
        given: Of torch, or anything with attributes of the same names.
        dataset: Name and version of the data set, as its user knows it.
    """
    layers = _layers(given)
    innermost = layers[-1]
    found: dict[str, Any] = {"kind": _kind(innermost)}
    if len(layers) > 1:
        found["within"] = [_kind(one) for one in layers[:-1]]
    for name, attribute in _COUNTS.items():
        found[name] = _first(layers[::-1], attribute, _count)
    for name in _FLAGS:
        found[name] = _first(layers[::-1], name, _flag)
    # A loader with a batch sampler has no size of its own.
    found["batch_size"] = _first(layers, "batch_size", _count)
    found["workers"] = _first(layers, "num_workers", _count)
    if found["seed"] is None:
        found["seed"] = _first(layers[::-1], "generator", _seed)
    data = _first(layers, "dataset", _itself)
    if data is None:
        data = _first(layers[::-1], "data_source", _itself)
    if data is not None:
        found["dataset_kind"], found["dataset_length"] = _kind(data), _length(data)
    found["samples"] = _length(innermost)
    if dataset is not None:
        found["dataset"] = str(dataset)[:_MAX_TEXT]
    return {name: value for name, value in found.items() if value is not None}


def _layers(given: Any) -> list[Any]:
    """Return a loader, what it holds, and so on to the sampler that chooses single samples."""
    layers = [given]
    while len(layers) < _MOST_NESTED:
        # Without automatic batches a loader has no batch sampler, and its sampler chooses.
        inner = _read(layers[-1], "batch_sampler")
        if inner is None:
            inner = _read(layers[-1], "sampler")
        if inner is None or any(inner is one for one in layers):
            break
        layers.append(inner)
    return layers


def _read(one: Any, name: str) -> Any:
    """Return an attribute; nothing where there is none, or where reading it fails."""
    value, _ = tried(lambda: getattr(one, name, None))
    return value


def _first(layers: list[Any], name: str, of: Callable[[Any], Any]) -> Any:
    """Return what the first layer that states an attribute says."""
    return next((found for one in layers if (found := of(_read(one, name))) is not None), None)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _flag(value: Any) -> bool | None:
    return value if type(value) is bool else None


def _itself(value: Any) -> Any:
    return value


def _seed(generator: Any) -> int | None:
    """Return what a generator began with; asking for it draws nothing."""
    ask = _read(generator, "initial_seed")
    value, _ = tried(ask) if callable(ask) else (None, None)
    return _count(value)


def _length(one: Any) -> int | None:
    value, _ = tried(lambda: len(one))
    return value


def _kind(one: Any) -> str:
    return type(one).__name__[:_MAX_TEXT]
