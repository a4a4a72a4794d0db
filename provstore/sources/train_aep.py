"""Files of ``train-aep/v0.1``: actions of one training epoch as another recorder wrote them, in JSON or CBOR.

Its digests see the first 4,096 bytes of a float32 copy and no type or shape, its ``step`` is a sequence number, and
``full`` is a label without content. All of it is kept as claimed, and nothing is compared with what is recorded here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from provstore.errors import ConfigError, InputError
from provstore.model import canonical
from provstore.model.legacy import LegacyAction, LegacyEpoch

FORMAT = "train-aep"
SCHEMA = "train-aep/v0.1"
READER_VERSION = "1"
COLLISION = "action-id-collision"
MODES = ("validation", "delta", "full")
MAX_BYTES = 256 * 1024 * 1024
MAX_ACTIONS = 10_000_000
MAX_FAULTS = 20

_JSON = re.compile(rb'"schema_version"\s*:\s*"train-aep/')
_CBOR = b"schema_version"
_CBOR_MAPS = range(0xA0, 0xC0)
_SELF_DESCRIBED = b"\xd9\xd9\xf7"
_TEXTS = ("action_id", "collective_type", "recording_mode")
_NUMBERS = ("rank", "step", "timestamp_ns")
_MAY_BE_NULL = ("tensor_input_digest", "tensor_output_digest", "causal_chain_id", "parent_action_id")
_MEMBERS = (*_TEXTS, *_NUMBERS, *_MAY_BE_NULL, "delta_stats")
_LARGEST = 2**63 - 1


def recognises(head: bytes) -> bool:
    """Return whether a file with these first bytes is meant as ``train-aep``."""
    return _CBOR in head if _is_cbor(head) else _JSON.search(head) is not None


def read(path: Path) -> LegacyEpoch:
    """Return what a file states.

    Raises:
        InputError: It is no such file, or a member is missing or has another type: the message names it.
        ConfigError: It is CBOR, and the extra ``cbor`` is not installed.
    """
    name = str(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{name}: {FORMAT}: larger than {MAX_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {FORMAT}: cannot be read: {error.strerror or error}") from error
    form = "cbor" if _is_cbor(data) else "json"
    value = _cbor(data, name) if form == "cbor" else _json(data, name)
    return _epoch(value, form, data, name)


def _epoch(value: object, form: str, data: bytes, name: str) -> LegacyEpoch:
    if not isinstance(value, dict):
        raise InputError(f"{name}: {FORMAT}: no object")
    version = value.get("schema_version")
    if version != SCHEMA:
        said = "missing" if "schema_version" not in value else f"{str(version)[:40]!a}, which is not {SCHEMA}"
        raise InputError(f"{name}: schema_version: {said}")
    faults = list(_head_faults(value))
    given = value.get("actions")
    listed = given if isinstance(given, list) else []
    for index, one in enumerate(listed):
        faults += [f"actions[{index}]{fault}" for fault in _action_faults(one)]
        if len(faults) > MAX_FAULTS:
            break
    if faults:
        more = f"\n{name}: and more" if len(faults) > MAX_FAULTS else ""
        raise InputError("\n".join(f"{name}: {fault}" for fault in faults[:MAX_FAULTS]) + more)
    actions = tuple(_actions(listed))
    digest = hashlib.sha256(data).hexdigest()
    run, epoch = str(value["run_id"]), int(value["epoch"])
    is_signed = value.get("signature") is not None
    return LegacyEpoch(run, epoch, form, digest, len(data), is_signed, actions, tuple(_warnings(value, actions)))


def _head_faults(value: Mapping[str, Any]) -> Iterator[str]:
    for name in ("run_id", "epoch", "actions"):
        if name not in value:
            yield f"{name}: missing"
    run, epoch, actions = value.get("run_id", "x"), value.get("epoch", 0), value.get("actions", [])
    if not isinstance(run, str) or not run:
        yield f"run_id: {_shown(run)} is no name"
    if type(epoch) is not int or not 0 <= epoch <= _LARGEST:
        yield f"epoch: {_shown(epoch)} is no number from 0"
    if not isinstance(actions, list):
        yield f"actions: {_shown(actions)} is no list"
    elif not actions and isinstance(value.get("actions"), list):
        yield "actions: the list is empty, so that nothing is stated"
    elif len(actions) > MAX_ACTIONS:
        yield f"actions: {len(actions)} are more than {MAX_ACTIONS}"


def _action_faults(one: object) -> Iterator[str]:
    if not isinstance(one, dict):
        yield f": {_shown(one)} is no object"
        return
    yield from (f".{name}: missing" for name in _MEMBERS if name not in one)
    for name in _TEXTS:
        if name in one and not (isinstance(one[name], str) and one[name]):
            yield f".{name}: {_shown(one[name])} is no text"
    for name in _NUMBERS:
        if name in one and not (type(one[name]) is int and 0 <= one[name] <= _LARGEST):
            yield f".{name}: {_shown(one[name])} is no number from 0"
    for name in _MAY_BE_NULL:
        if one.get(name) is not None and not isinstance(one[name], str):
            yield f".{name}: {_shown(one[name])} is no text"
    if isinstance(one.get("recording_mode"), str) and one["recording_mode"] not in MODES:
        yield f".recording_mode: {_shown(one['recording_mode'])} is none of {', '.join(MODES)}"
    if not isinstance(one.get("delta_stats"), dict | None):
        yield f".delta_stats: {_shown(one['delta_stats'])} is no object"


def _actions(listed: list[dict[str, Any]]) -> Iterator[LegacyAction]:
    seen: dict[str, int] = {}
    for one in listed:
        name = one["action_id"]
        ordinal = seen[name] = seen.get(name, -1) + 1
        stated = {member: _exact(one[member]) for member in _MEMBERS}
        digest = hashlib.sha256(json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        statistics = one["delta_stats"]
        yield LegacyAction(
            name,
            ordinal,
            one["rank"],
            one["step"],
            one["collective_type"],
            one["recording_mode"],
            one["tensor_input_digest"],
            one["tensor_output_digest"],
            None if statistics is None else json.dumps(_exact(statistics), sort_keys=True),
            one["timestamp_ns"],
            one["causal_chain_id"],
            one["parent_action_id"],
            digest,
        )


def _warnings(value: Mapping[str, Any], actions: tuple[LegacyAction, ...]) -> Iterator[str]:
    twice = [one for one in actions if one.ordinal]
    if twice:
        ids = sorted({one.action_id for one in twice})
        shown = ", ".join(ids[:3]) + (", …" if len(ids) > 3 else "")
        yield f"{COLLISION}: ids of more than one action, which are all kept: {shown}"
    claims = sum(one.claimed_mode != MODES[0] for one in actions)
    if claims:
        yield f"{claims} of {len(actions)} actions claim more than validation, and the format holds no content of them"
    if value.get("signature") is not None:
        yield "its signature is unsupported-legacy: the format signs neither algorithm nor key"
    known = {"schema_version", "run_id", "epoch", "actions", "signature"}
    others = sorted(str(name) for name in value if name not in known)
    if others:
        yield f"members that the format does not know: {', '.join(others)[:200]}"


def _exact(value: object) -> object:
    """Return a value as JSON that keeps every number: floats by their bits, whatever form they came in."""
    if isinstance(value, float):
        return canonical.tag_double(value) if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, dict):
        return {str(name): _exact(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_exact(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)


def _json(data: bytes, name: str) -> object:
    if not data.strip():
        raise InputError(f"{name}: {FORMAT}: the file is empty")
    try:
        text = data.decode()
        value: object = json.loads(text, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: {FORMAT}: byte {error.start}: not UTF-8") from error
    except json.JSONDecodeError as error:
        place = len(error.doc[: error.pos].encode())
        if not data.lstrip().startswith((b"{", b"[")):
            reason = "text of a console, not JSON: write the file itself instead of what the command printed"
        elif error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            reason = f"byte {place}: the file is cut off"
        else:
            reason = f"byte {place}: {error.msg}"
        raise InputError(f"{name}: {FORMAT}: {reason}") from error
    except RecursionError as error:
        raise InputError(f"{name}: {FORMAT}: nests too deep") from error
    except ValueError as error:
        raise InputError(f"{name}: {FORMAT}: {error}") from error
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:40]!a} comes twice in one object")
    return found


def _cbor(data: bytes, name: str) -> object:
    try:
        import cbor2
    except ImportError as error:
        hint = "pip install 'provstore[cbor]'"
        raise ConfigError(f"{name}: {FORMAT}: it is CBOR, and cbor2 is not installed", hint=hint) from error
    import io

    stream = io.BytesIO(data)
    try:
        value: object = cbor2.CBORDecoder(stream).decode()
    except (cbor2.CBORDecodeError, RecursionError, ValueError, TypeError, OverflowError) as error:
        is_short = isinstance(error, cbor2.CBORDecodeEOF)
        reason = f"byte {len(data)}: the file is cut off" if is_short else f"no CBOR: {str(error)[:200]}"
        raise InputError(f"{name}: {FORMAT}: {reason}") from error
    if stream.tell() != len(data):
        raise InputError(f"{name}: {FORMAT}: byte {stream.tell()}: something stands behind the value")
    return value


def _is_cbor(head: bytes) -> bool:
    head = head.removeprefix(_SELF_DESCRIBED)
    return bool(head) and head[0] in _CBOR_MAPS


def _shown(value: object) -> str:
    return ascii(value)[:60]
