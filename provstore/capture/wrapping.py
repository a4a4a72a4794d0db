"""Functions of torch with others around them, which see what passes through and are taken off again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Wrapping:
    """Functions of one class or module, from ``wrap`` to ``unwrap``."""

    def __init__(self, owner: Any, around: Mapping[str, Callable[[Any], Any]]) -> None:
        """Prepare.

        Args:
            owner: The class or module.
            around: By name of a function, what makes of it the one that takes its place; names it lacks are left out.
        """
        self._owner = owner
        self._around = around
        self._held: dict[str, Any] = {}
        self._ours: dict[str, Any] = {}

    @property
    def is_on(self) -> bool:
        """Whether they are wrapped now."""
        return bool(self._held)

    def wrap(self) -> None:
        """Put the others in their place."""
        for name, make in self._around.items():
            # As the owner holds it: what getattr gives of a class has lost how it is bound to an object.
            held = vars(self._owner).get(name)
            if held is not None and name not in self._held:
                self._held[name] = held
                self._ours[name] = make(getattr(self._owner, name))
                setattr(self._owner, name, self._ours[name])

    def unwrap(self) -> None:
        """Leave them as they were, but for those that somebody else has wrapped since."""
        for name, held in self._held.items():
            if vars(self._owner).get(name) is self._ours[name]:
                setattr(self._owner, name, held)
        self._held.clear()
