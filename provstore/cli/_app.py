"""The tree of commands, and the one place that turns errors into exit codes."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from provstore import __version__, errors, rooms
from provstore.cli._options import Globals, flags
from provstore.cli._text import printable, printable_block

PROGRAM = "provstore"
_VERSION = "--version"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of an error that names no file: files of the store are named, so it is standard output."""


def build(first: str | None = None) -> typer.Typer:
    """Return the root command with everything that the files of this room add to it.

    Args:
        first: The first argument. If it is a command, no other is loaded: together they take longer than most answers.
            Of ``--version``, which asks for none, one is loaded, because a tree without a command is none.
    """
    app = typer.Typer(
        name=PROGRAM,
        help="Where did this tensor come from, and which rank hangs: provenance of distributed PyTorch training.",
        epilog="Example: provstore diagnose DUMP_FOLDER",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(flags(_root, on_root=True))
    names = {name.replace("_", "-"): name for name in rooms.names("cli")}
    if first == _VERSION:
        names = dict([min(names.items())])
    for name in (first,) if first in names else names:
        rooms.load("cli", name).add_to(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing but the exit code of a bug is left to Python."""
    if sys.stderr is None:  # closed by the caller
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lasts as long as the process
    if sys.stdout is None:
        return _report(errors.StoreError("standard output: it is closed"), verbose=False)
    # A file name on Linux may be no text at all; it must not stop the answer.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = build(*arguments[:1])(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else errors.EXIT_OK
    except BrokenPipeError:
        quiet_broken_pipe()
        return errors.EXIT_OK
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last stop: a bug, too, ends in one line
        is_full = isinstance(error, OSError) and error.filename is None and error.errno in _FULL
        return _report(output_lost(error) if is_full else error, verbose="--verbose" in arguments)


def quiet_broken_pipe() -> None:
    """Let the interpreter flush into nothing at exit: the reader has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def output_lost(error: BaseException) -> errors.StoreError:
    """Return the error for an answer that could not be written, and let the interpreter not try again at exit."""
    quiet_broken_pipe()
    reason = error.strerror if isinstance(error, OSError) else error
    return errors.StoreError(f"standard output: it cannot be written: {reason}")


def _report(error: BaseException, *, verbose: bool) -> int:
    if isinstance(error, errors.ProvstoreError):
        _complain(str(error), error.hint)
        return error.exit_code
    if isinstance(error, TyperException):
        if type(error).__name__ == "NoArgsIsHelpError":  # typer does not export it; its message is the help itself
            print(error.format_message(), file=sys.stderr)  # noqa: T201
            return errors.EXIT_USAGE
        _complain(error.format_message(), _usage_hint(error))
        return errors.EXIT_USAGE
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        _complain("interrupted: what was accepted so far is kept; the same command completes it")
        return errors.EXIT_INTERRUPTED
    if isinstance(error, OSError) and error.filename is not None:
        _complain(f"{os.fsdecode(error.filename)}: {error.strerror}")
        return errors.EXIT_USAGE
    if _is_out_of_memory(error):
        _complain("out of memory: it could not be finished")
        return errors.EXIT_NOT_UNDERSTOOD
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    _complain(f"internal error: {type(error).__name__}: {error}", None if verbose else "--verbose shows where")
    return errors.EXIT_USAGE


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, also where it did while a library was being loaded or a module compiled."""
    if isinstance(error, SyntaxError):  # what the interpreter says of a sound file that it has no room to compile
        return (error.filename or "").startswith(str(Path(__file__).parents[1]))
    while_loading = isinstance(error, ImportError) and "failed to map segment" in str(error)
    untold = isinstance(error, SystemError) and "exception set" in str(error)  # nothing was left for the exception
    return isinstance(error, MemoryError) or while_loading or untold


def _complain(message: str, hint: str | None = None) -> None:
    print(f"{PROGRAM}: {printable_block(message)}", file=sys.stderr)  # noqa: T201 - works when rich cannot be imported
    if hint:
        print(f"hint: {printable(hint)}", file=sys.stderr)  # noqa: T201


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit(errors.EXIT_OK)


def _usage_hint(error: TyperException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"'{context.command_path} --help' shows how" if context is not None else None


def _root(
    settings: Globals,
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option(_VERSION, help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    context.obj = settings
