"""Public keys by the ids that signatures name; after a rotation one id may mean several keys."""

from __future__ import annotations

from collections.abc import Mapping


class KeyRing(dict[str, bytes]):
    """A mapping of key id to public key that also remembers the other keys of an id."""

    def __init__(self) -> None:
        super().__init__()
        self._others: dict[str, list[bytes]] = {}

    def put(self, name: str, public: bytes) -> None:
        """Add a key under an id; the first one is what the mapping gives."""
        first = self.setdefault(name, public)
        others = self._others.setdefault(name, [])
        if public != first and public not in others:
            others.append(public)

    def all_of(self, name: str) -> list[bytes]:
        """Return every key of an id."""
        return [self[name], *self._others.get(name, [])] if name in self else []


def candidates(known: Mapping[str, bytes], name: object) -> list[bytes]:
    """Return the keys that an id may mean."""
    if not isinstance(name, str):
        return []
    if isinstance(known, KeyRing):
        return known.all_of(name)
    return [known[name]] if name in known else []
