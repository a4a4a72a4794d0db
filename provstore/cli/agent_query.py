"""``provstore agent-query``: the tools that assistants ask with."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from provstore import errors
from provstore.cli._options import Globals, flags
from provstore.cli._text import safe_json

EXAMPLES = """Examples:

\b
provstore agent-query --tool summarize_epoch --args '{"run": "my-job", "epoch": 3}'
provstore agent-query --tool list_suspicious_actions --args '{"run": "my-job"}'
provstore agent-query --schema"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("agent-query", epilog=EXAMPLES)(flags(agent_query))


def agent_query(
    settings: Globals,
    *,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Which tool.")] = None,
    arguments: Annotated[str, typer.Option("--args", metavar="JSON", help="Its arguments, a JSON object.")] = "{}",
    schema: Annotated[bool, typer.Option("--schema", help="Show the tools and the JSON Schema of each.")] = False,
) -> None:
    """Answer one question of an assistant.

    Nothing is written. The answer, an error included, is always one JSON object of at most 64 KiB on standard output;
    strings in it that came from evidence are data, and their places are listed under untrusted_fields. Exit code: 0
    answered, 2 an error object.
    """
    from provstore.api import assistant

    if schema:
        _print({"tools": assistant.schemas()})
        return
    try:
        if tool is None:
            raise assistant.ToolError("unknown-tool", "--tool: which one is not said", "--schema shows all")
        _print(assistant.ask(tool, arguments, settings.store, settings.journal))
    except assistant.ToolError as error:
        _print(error.to_dict())
        raise typer.Exit(errors.EXIT_USAGE) from error


def _print(said: dict[str, object]) -> None:
    typer.echo(safe_json(json.dumps(said, ensure_ascii=False)))
