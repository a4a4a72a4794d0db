"""Options that every command takes, before or after the command's name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_type_hints

import typer

_PANEL = "Every command"
_DEFAULT_STORE = "embedded:.provstore"


@dataclass(frozen=True, slots=True)
class Globals:
    """What the options of every command say; ``None`` and False mean: not given here."""

    store: Annotated[
        str | None,
        typer.Option(
            help=f"Which store: embedded:FOLDER, memory:, neo4j://HOST, … [default: {_DEFAULT_STORE}]",
            envvar="PROVSTORE_STORE",
            metavar="URI",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    journal: Annotated[
        str | None,
        typer.Option(
            help="Folder of the journal [default: beside an embedded store, else .provstore/journal]",
            envvar="PROVSTORE_JOURNAL",
            metavar="FOLDER",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Answer in JSON.", rich_help_panel=_PANEL, show_default=False)
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress, no remarks.", rich_help_panel=_PANEL, show_default=False)
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show everything.", rich_help_panel=_PANEL, show_default=False)
    ] = False
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colours.", rich_help_panel=_PANEL, show_default=False)
    ] = False

    def over(self, outer: Globals | None) -> Globals:
        """Return these options, completed by those given before the command's name."""
        if outer is None:
            return self
        return Globals(
            **{field.name: getattr(self, field.name) or getattr(outer, field.name) for field in fields(self)}
        )


def flags(command: Callable[..., Any], *, on_root: bool = False) -> Callable[..., Any]:
    """Return ``command`` with the options of every command added; it gets them as its first argument.

    Args:
        command: Takes a ``Globals`` first, then its own typer parameters, among them a ``typer.Context`` on the root.
        on_root: The options stand before the command's name.
    """
    own = list(inspect.signature(command).parameters.values())[1:]
    hints = get_type_hints(command, include_extras=True)
    common = _common()
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [part.replace(annotation=hints[part.name], kind=keyword) for part in own]
    parameters += [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=common[field.name])
        for field in fields(Globals)
    ]
    if not on_root:
        parameters.append(inspect.Parameter("_context", keyword, annotation=typer.Context))

    def wrapped(**given: Any) -> Any:
        context = None if on_root else given.pop("_context")
        settings = Globals(**{field.name: given.pop(field.name) for field in fields(Globals)})
        try:
            return command(settings.over(context.obj if context else None), **given)
        except KeyboardInterrupt:
            raise typer.Abort from None

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {}
    return wrapped


@cache
def _common() -> dict[str, Any]:
    """Return the annotations of the options of every command."""
    return get_type_hints(Globals, include_extras=True)
