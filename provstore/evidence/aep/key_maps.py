"""Files of agents' public keys: one JSON object, key id to public key.

Malformed files are refused as a whole, with every fault of theirs: a key that is left out looks like one that is not
known.
"""

from __future__ import annotations

import json
from pathlib import Path

from provstore.errors import InputError, ProvstoreError
from provstore.evidence import bounded_files, public_forms
from provstore.model import canonical

MAX_BYTES = 1 << 20
_SHOWN_FAULTS = 5


def read(path: Path) -> dict[str, bytes]:
    """Return the public keys in a file by their ids.

    Args:
        path: A JSON object; each value is a public key as text: 64 hexadecimal digits, or another form that tells it.

    Raises:
        InputError: The file cannot be read, is no such object, repeats an id, or holds something that is no public key.
        NotUnderstoodError: It is larger or deeper than is looked at.
        TrustError: A key is not safe to trust.
    """
    thing = f"{path}: agent keys"
    data = bounded_files.read(path, MAX_BYTES, thing)
    if public_forms.is_public(data):
        raise InputError(f"{thing}: is one public key, and its id is not given", hint="give it as --agent-key ID=FILE")
    canonical.require_shape(data, max_bytes=MAX_BYTES, thing=thing)
    try:
        said = json.loads(data, object_pairs_hook=canonical.without_repetition)
    except InputError as error:
        raise InputError(f"{thing}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{thing}: no JSON: {str(error)[:80]}") from error
    if not isinstance(said, dict) or not said:
        raise InputError(f"{thing}: is no JSON object of key id to public key, with one key at least")
    return _keys(said, thing)


def _keys(said: dict[str, object], thing: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    faults: list[ProvstoreError] = []
    for name, text in said.items():
        place = f"{thing}: {name[:60]!a}"
        try:
            if not name:
                raise InputError(f"{place}: is no key id")
            if not isinstance(text, str):
                raise InputError(f"{place}: is no text with a public key")
            found[name] = public_forms.read_public(text, place)
        except ProvstoreError as error:
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        more = [f"{thing}: {len(faults) - _SHOWN_FAULTS} more faults"] if len(faults) > _SHOWN_FAULTS else []
        raise InputError("\n".join([*map(str, faults[:_SHOWN_FAULTS]), *more]))
    return found
