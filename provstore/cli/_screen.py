"""Where answers appear: results on standard output, remarks and progress on standard error."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, Protocol, TextIO

import orjson
import typer
from rich.console import Console

from provstore import errors
from provstore.cli._options import Globals
from provstore.cli._text import printable, printable_block, safe_json, spelled_controls

Draw = Callable[[Console], None]


class Progress(Protocol):
    """What long work calls to tell how far it is."""

    def __call__(self, done: int, total: int, what: str = ..., /) -> None:
        """Show that ``done`` of ``total`` steps of ``what`` are done."""


_PRECEDENCE = (
    errors.EXIT_ROLLBACK,
    errors.EXIT_NO,
    errors.EXIT_STORE,
    errors.EXIT_NOT_UNDERSTOOD,
    errors.EXIT_USAGE,
    errors.EXIT_UNDECIDED,
)
_UNWRAPPED = 1_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the terminal and its style."""

    text: str
    style: str = ""


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Print lines that were already cut to the console's width."""
    for line in lines:
        console.print(line.text, style=line.style or None, soft_wrap=True)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code that stands for several: 5 over 1 over 7 over 4 over 2 over 3 over 0."""
    given = set(codes)
    return next((code for code in _PRECEDENCE if code in given), errors.EXIT_OK)


class Screen:
    """The terminal, file or pipe that a command talks to."""

    def __init__(self, settings: Globals) -> None:
        self.settings = settings
        self.out = _console(settings, stderr=False)
        self.err = _console(settings, stderr=True)

    def show(
        self, answer: Mapping[str, object], draw: Draw, code: int = errors.EXIT_OK, *, as_json: bool = False
    ) -> NoReturn:
        """Show a command's answer, as JSON or drawn, and end the command with ``code``."""
        if self.settings.json or as_json:
            self._write(json_text(answer) + "\n", code)
        self._guarded(lambda: draw(self.out), code)
        raise typer.Exit(code)

    def show_text(self, text: str, code: int = errors.EXIT_OK) -> NoReturn:
        """Show a text that is the answer itself, such as an exported document; byte for byte but on a terminal."""
        whole = text if text.endswith("\n") else text + "\n"
        self._guarded(lambda: Output().write(whole), code)
        raise typer.Exit(code)

    def stream_text(self, act: Callable[[TextIO], object], code: int = errors.EXIT_OK) -> NoReturn:
        """Let ``act`` write a document to standard output, and end the command with ``code``."""
        self._guarded(lambda: act(Output()), code)  # type: ignore[arg-type]
        raise typer.Exit(code)

    def remark(self, text: str) -> None:
        """Say something beside the answer, on standard error."""
        if not self.settings.quiet:
            self.err.print(printable_block(text), soft_wrap=True)

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress | None]:
        """Give a callback that moves a bar on a terminal; None where there is none."""
        if self.settings.quiet or not self.err.is_terminal:
            yield None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bar(*columns, console=self.err, transient=True) as bar:
            task = bar.add_task(what, total=None)

            def move(done: int, total: int, now: str = what, /) -> None:
                bar.update(task, completed=done, total=total, description=printable(now))

            yield move

    def _write(self, text: str, code: int) -> NoReturn:
        self._guarded(lambda: sys.stdout.write(text), code)
        raise typer.Exit(code)

    def _guarded(self, act: Callable[[], object], code: int) -> None:
        try:
            with _writing():
                act()
                sys.stdout.flush()
        except (BrokenPipeError, SystemExit):
            # The reader closed the pipe on purpose, which rich turns into an exit; the answer's code still counts.
            from provstore.cli._app import quiet_broken_pipe

            quiet_broken_pipe()
            raise typer.Exit(code) from None


class Output(io.TextIOBase):
    """Standard output for documents: on a terminal, control characters are spelled as JSON and PROV-N spell them."""

    def write(self, text: str) -> int:
        """Write a piece of a document."""
        with _writing():
            sys.stdout.write(spelled_controls(text) if sys.stdout.isatty() else text)
        return len(text)


@contextmanager
def _writing() -> Iterator[None]:
    """Tell a full disk behind standard output apart from any other."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        from provstore.cli._app import output_lost

        raise output_lost(error) from error


def json_text(answer: Mapping[str, object]) -> str:
    """Return ``answer`` as indented JSON; NaN becomes null."""
    try:
        return safe_json(orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())
    except TypeError:
        # orjson refuses lone surrogates and integers above 64 bits: the standard library writes both.
        import json

        return json.dumps(answer, indent=2)


def _console(settings: Globals, *, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    # A pipe gets one line a fact, however long; a terminal gets lines that fit.
    wraps = stderr or stream.isatty() or "COLUMNS" in os.environ
    width = None if wraps else _UNWRAPPED
    return Console(
        stderr=stderr, markup=False, highlight=False, emoji=False, no_color=settings.no_color or None, width=width
    )
