"""Functions of the recorder that fail on demand."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

ROOMS = (
    "provstore.capture.recording",
    "provstore.capture.content",
    "provstore.evidence.recording",
    "provstore.evidence.content",
)
SHARED = (
    "provstore.capture.collective_calls",
    "provstore.capture.job_facts",
    "provstore.capture.live_calls",
    "provstore.evidence.whole_files",
)
NET = {"provstore.capture.recording.guard"}
"""What catches the others' faults cannot fail itself."""


class Faults:
    """Every function of the recorder, each behind a wrapper that fails while it is the one that shall."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.called: set[str] = set()
        self.hit: set[str] = set()
        self._failing: str | None = None
        for module in modules():
            self._wrap_functions(module)
            for kind in vars(module).values() if module.__name__.startswith("provstore.capture") else ():
                if isinstance(kind, type) and kind.__module__ == module.__name__:
                    self._wrap_methods(kind)

    def begin(self, name: str) -> None:
        self._failing = name

    def end(self) -> None:
        self._failing = None

    def take_called(self) -> list[str]:
        """Return which functions were called since this was asked last."""
        called, self.called = sorted(self.called), set()
        return called

    def _failing_form(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        self.names.append(name)

        @functools.wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            self.called.add(name)
            if self._failing == name:
                self.hit.add(name)
                raise RuntimeError(f"a test lets {name} fail")
            return function(*arguments, **options)

        return wrapper

    def _wrap_functions(self, module: types.ModuleType) -> None:
        for name, function in list(vars(module).items()):
            if isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                wrapper = self._failing_form(f"{module.__name__}.{name}", function)
                for user in list(sys.modules.values()):
                    if getattr(user, "__name__", "").startswith("provstore"):
                        for alias, value in list(vars(user).items()):
                            if value is function:
                                setattr(user, alias, wrapper)

    def _wrap_methods(self, kind: type) -> None:
        for name, method in list(vars(kind).items()):
            # What Python itself needs of a class is no function of the recorder.
            if isinstance(method, types.FunctionType) and not name.startswith("__"):
                setattr(kind, name, self._failing_form(f"{kind.__module__}.{kind.__qualname__}.{name}", method))


def modules() -> Iterator[types.ModuleType]:
    for room in ROOMS:
        package = importlib.import_module(room)
        for found in pkgutil.iter_modules(package.__path__, f"{room}."):
            if found.name not in NET:
                yield importlib.import_module(found.name)
    for name in SHARED:
        yield importlib.import_module(name)
