"""Which key signs: the one that is named, else ``PROVSTORE_KEY``, else the only key there is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from provstore import config
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.evidence.keys import PrivateKey

KEY = "PROVSTORE_KEY"
KEY_HELP = "Key that signs: a name, file:, env:, fd:, keyring: or cmd: [default: PROVSTORE_KEY, else the only key]."


def signer(given: str | None) -> PrivateKey:
    """Return the private key that signs.

    Raises:
        ConfigError: None is named and there is not exactly one, or the URI names nothing.
        InputError: The file is no key.
    """
    from provstore.evidence.key_uris import KEY_SUFFIX, open_signer

    uri = given or os.environ.get(KEY)
    if uri:
        return open_signer(uri)
    directory = config.keys_directory()
    names = sorted(path.stem for path in directory.glob(f"*{KEY_SUFFIX}")) if directory.is_dir() else []
    if len(names) == 1:
        return open_signer(names[0])
    if not names:
        raise ConfigError(f"{directory}: keys: there is none", hint="provstore keys generate NAME makes one")
    raise ConfigError(f"{directory}: keys: there are {len(names)}: {', '.join(names)}", hint="choose with --key NAME")


def unlisted(key: PrivateKey) -> str | None:
    """Return a remark when the user's own trust file does not list a key; ``None`` when it does, or there is none."""
    from provstore.errors import ProvstoreError
    from provstore.evidence import keys, trust

    path = config.trust_file()
    if not path.exists():
        return None
    try:
        listed = trust.read(path).trust.key(keys.fingerprint(key.public_key))
    except (ProvstoreError, OSError):
        # Whoever verifies is told what is wrong with the file.
        return None
    if listed is not None:
        return None
    name = keys.fingerprint(key.public_key)
    return f"{path} does not list {name}: provstore verify will not trust this signature before provstore keys trust"
