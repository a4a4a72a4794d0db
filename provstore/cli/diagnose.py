"""``provstore diagnose``: which rank and which call, from a folder of dumps or from a stored run."""

from __future__ import annotations

import enum
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from provstore import config, errors
from provstore.cli._choices import rank_map
from provstore.cli._diagnosis_view import diagnosis_lines
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines
from provstore.cli._stores import hinting, opened
from provstore.cli._text import counted

if TYPE_CHECKING:
    from provstore.model.finding import Diagnosis

CODES = {
    "healthy": errors.EXIT_OK,
    "findings": errors.EXIT_NO,
    "undecided": errors.EXIT_UNDECIDED,
    "error": errors.EXIT_USAGE,
}
"""Status of a diagnosis → exit code."""


SPELLED = {"choose with --run and --attempt": "choose with run:ID and --attempt N"}
"""Words of the API's hints → how they are given here."""


class Question(enum.StrEnum):
    """What a diagnosis can be about."""

    HANG = "hang"
    NAN = "nan"
    SLOW = "slow"


EXAMPLES = """Examples:

\b
provstore diagnose dumps/
provstore diagnose run:my-job --about nan"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(diagnose))


def diagnose(
    settings: Globals,
    *,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH|run:ID...",
            help="Dumps or folders of dumps; run:ID is a stored run [default: the only stored run].",
            show_default=False,
        ),
    ] = None,
    about: Annotated[
        Question | None, typer.Option(help="The question [default: all of them].", show_default=False)
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", help="Attempt of a stored run.", min=0, show_default=False)
    ] = None,
    save: Annotated[
        bool, typer.Option("--save", help="Store the findings of a stored run as facts.", show_default=False)
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="Look into subfolders too.", show_default=False)
    ] = False,
    rank_regex: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="How a file name tells the rank: one group named rank.", show_default=False),
    ] = None,
    rank_map_file: Annotated[
        Path | None,
        typer.Option("--rank-map", metavar="FILE", help="JSON object: file name to rank.", show_default=False),
    ] = None,
) -> None:
    """Name the rank and call behind a hang, a mismatch or a NaN.

    Exit code: 0 healthy, 1 findings, 3 cannot decide, 2 no usable evidence.
    """
    from provstore import api

    screen = Screen(settings)
    targets = what or []
    question = about.value if about else None
    stored = _stored_run(targets)
    _check(settings, targets, stored, save=save, attempt=attempt)
    if targets and stored is None:
        with screen.progress("reading") as progress:
            diagnosis = api.diagnose(
                *targets,
                about=question,
                recursive=recursive,
                rank_regex=rank_regex,
                rank_map=rank_map(rank_map_file),
                progress=progress,
            )
    else:
        with (
            hinting(SPELLED),
            opened(settings, read_only=not save) as store,
        ):
            diagnosis = store.diagnose(run=stored, attempt=attempt, about=question, save=save)
    show(screen, diagnosis, saved=len(diagnosis.findings) if save else None)


def show(screen: Screen, diagnosis: Diagnosis, *, saved: int | None = None) -> None:
    """Show a diagnosis, and how much of it was saved, and end the command with the code of its status."""
    diagnosis = _or_error(diagnosis)

    def draw(console: Console) -> None:
        print_lines(console, diagnosis_lines(diagnosis, width=console.width, verbose=screen.settings.verbose))
        if saved is not None:
            print_lines(console, [Line(f"\nsaved: {counted(saved, 'finding')}", "dim")])

    screen.show(diagnosis.to_dict(), draw, CODES[diagnosis.status])


def _or_error(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis; its status is ``error`` when every file was refused: nothing is left to decide on."""
    is_empty = diagnosis.status == "undecided" and not diagnosis.coverage.get("ranks_seen", True)
    return replace(diagnosis, status="error") if is_empty else diagnosis


def _check(settings: Globals, targets: list[str], stored: str | None, *, save: bool, attempt: int | None) -> None:
    """Refuse what does not fit together before anything is read."""
    if targets and stored is None and (save or attempt is not None):
        raise errors.ConfigError("diagnose: --save and --attempt: of a stored run only", hint="provstore ingest first")
    directory = config.embedded_directory(config.store_uri(settings.store))
    if not targets and directory is not None and not directory.exists():
        raise errors.ConfigError(
            f"diagnose: no dumps are given, and there is no store at {directory}", hint="provstore diagnose FOLDER"
        )


def _stored_run(targets: list[str]) -> str | None:
    if len(targets) != 1 or Path(targets[0]).exists():
        return None
    if targets[0].startswith("run:"):
        return targets[0].removeprefix("run:")
    raise errors.InputError(f"{targets[0]}: no such file or folder", hint=f"run:{targets[0]} asks for a stored run")
