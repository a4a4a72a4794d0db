"""Spelling of qualified names: in each bundle a prefix that resolves there to the name's own namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from provstore.model.prov import Bundle, QName


class Scope:
    """The prefixes in force in the document or in one bundle of it, and those a writer has to add.

    Args:
        head: The document's or the bundle's own declarations.
        parent: The scope of the document, for a bundle.
        built_in: Prefixes that need no declaration and cannot be declared otherwise.
        is_prefix: Whether the format can write a prefix.
        is_bare: Whether the format can write a local part without prefix.
    """

    def __init__(
        self,
        head: Bundle,
        parent: Scope | None,
        built_in: Mapping[str, str],
        is_prefix: Callable[[str], bool],
        is_bare: Callable[[str], bool],
    ) -> None:
        self.prefixes: dict[str, str] = {}
        self.default = head.default
        self._parent = parent
        self._built_in = built_in
        self._is_prefix = is_prefix
        self._is_bare = is_bare
        self._chosen: dict[tuple[str, str], str] = {}
        for prefix, namespace in head.namespaces:
            if is_prefix(prefix) and prefix not in built_in:
                self.prefixes.setdefault(prefix, namespace)

    def prefix_for(self, name: QName) -> str | None:
        """Return the prefix to write ``name`` with, ``None`` for a bare local part; declares one if there is none."""
        if not name.prefix and self.effective_default == name.namespace and self._is_bare(name.local):
            return None
        key = (name.prefix, name.namespace)
        chosen = self._chosen.get(key)
        if chosen is None:
            chosen = self._chosen[key] = self._choose(name)
        return chosen

    @property
    def effective_default(self) -> str | None:
        """The default namespace in force here."""
        return self.default if self.default is not None or self._parent is None else self._parent.default

    def resolve(self, prefix: str) -> str | None:
        """Return the namespace that ``prefix`` stands for here."""
        found = self._built_in.get(prefix) or self.prefixes.get(prefix)
        return found if found is not None or self._parent is None else self._parent.resolve(prefix)

    def _choose(self, name: QName) -> str:
        if name.prefix and self.resolve(name.prefix) == name.namespace:
            return name.prefix
        known = (self._built_in, self.prefixes, self._parent.prefixes if self._parent else {})
        for prefix in (prefix for prefixes in known for prefix in prefixes):
            if self.resolve(prefix) == name.namespace:
                return prefix
        return self.declare(name.prefix if self._is_prefix(name.prefix) else "ns", name.namespace)

    def declare(self, wanted: str, namespace: str) -> str:
        """Declare ``namespace`` here under ``wanted`` or the next free ``wanted_N``, and return that prefix."""
        prefix, count = wanted, 0
        while self.resolve(prefix) is not None:
            count += 1
            prefix = f"{wanted}_{count}"
        self.prefixes[prefix] = namespace
        return prefix
