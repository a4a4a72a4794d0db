"""``provstore doctor``: whether this environment has what the commands need."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata, util

import typer
from rich.console import Console

from provstore import config, errors
from provstore.cli._options import Globals, flags
from provstore.cli._screen import Line, Screen, print_lines, worst
from provstore.cli._stores import opened
from provstore.cli._text import printable

GOOD, NOTE, BAD = "ok", "note", "bad"
_STYLE = {GOOD: "green", NOTE: "yellow", BAD: "bold red"}

_LIBRARIES = ("typer", "rich", "orjson", "numpy", "pyarrow", "pandas", "kglite", "neo4j", "prov")
_BUFFER_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""How many calls the recorder keeps, by the newer and the older name; torch prefers the newer."""
_RECORDER_SETTINGS = (
    *_BUFFER_SIZES,
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_INCLUDE_STACK_TRACE",
    "TORCH_INCLUDE_ONLY_ACTIVE",
    "TORCH_NCCL_ENABLE_TIMING",
)
_NO = ("0", "n", "no", "f", "false")
"""What torch takes for no."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: str
    """``ok``, ``note`` or ``bad``."""
    detail: str
    code: int = errors.EXIT_OK


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: provstore doctor")(flags(doctor))


def doctor(settings: Globals) -> None:
    """Check that this environment has what the commands need.

    It looks at Python, the libraries, the memory limit, the store, and what the environment tells the Flight
    Recorder. Exit code: 0 nothing is missing, 2 something is, 7 the store is unavailable.
    """
    checks = [*_interpreter(), *_libraries(), *_name_clash(), _torch(), _memory_limit(), _store(settings), *_recorder()]
    code = worst(check.code for check in checks)

    def draw(console: Console) -> None:
        width = max(len(check.name) for check in checks)
        print_lines(
            console,
            (
                Line(f"{check.status:<5} {check.name:<{width}}  {printable(check.detail)}", _STYLE[check.status])
                for check in checks
            ),
        )

    answer = {"schema": "provstore-doctor/1", "ok": code == errors.EXIT_OK, "checks": [asdict(one) for one in checks]}
    Screen(settings).show(answer, draw, code)


def _interpreter() -> Iterator[Check]:
    yield Check("python", GOOD, f"{platform.python_version()} at {sys.executable}")
    yield Check("system", GOOD, f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")


def _libraries() -> Iterator[Check]:
    for name in _LIBRARIES:
        version = _version(name)
        if version is None:
            yield Check(name, BAD, f"not installed: pip install {name}", errors.EXIT_USAGE)
        else:
            yield Check(name, GOOD, version)


def _torch() -> Check:
    version = _version("torch")
    if version is None:
        return Check("torch", NOTE, "not installed; only dumping a live job needs it: pip install torch")
    return Check("torch", GOOD, version)


def _memory_limit() -> Check:
    if util.find_spec("resource") is None or sys.platform == "darwin":
        return Check("memory limit", NOTE, "this system cannot cap a reader's memory; files are scanned first instead")
    return Check("memory limit", GOOD, "readers of untrusted files run under a memory cap")


def _name_clash() -> Iterator[Check]:
    version = _version("provstore-api")
    if version is not None:
        yield Check(
            "provstore-api",
            BAD,
            f"{version} is installed too and has an import package of the same name: pip uninstall provstore-api",
            errors.EXIT_USAGE,
        )


def _store(settings: Globals) -> Check:
    try:
        directory = config.embedded_directory(config.store_uri(settings.store))
    except errors.ConfigError as error:
        return Check("store", BAD, f"{error}; {error.hint}" if error.hint else str(error), error.exit_code)
    if directory is not None and not directory.exists():
        return Check("store", NOTE, f"{directory}: none yet; provstore ingest PATH creates one")
    try:
        with opened(settings) as store:
            return Check("store", GOOD, store.uri)
    except errors.ConfigError as error:
        return Check("store", NOTE, str(error))
    except errors.ProvstoreError as error:
        return Check("store", BAD, str(error), error.exit_code)


def _recorder() -> Iterator[Check]:
    for name in _RECORDER_SETTINGS:
        if name in os.environ:
            yield _setting(name, os.environ[name])
    if not any(name in os.environ for name in _BUFFER_SIZES) and not _records_by_default(_version("torch")):
        yield Check(_BUFFER_SIZES[0], NOTE, "not set; before torch 2.11 the recorder is then off: set it to 2000")


def _setting(name: str, value: str) -> Check:
    if name in _BUFFER_SIZES and value.strip() == "0":
        newer = _BUFFER_SIZES[0]
        if name != newer and os.environ.get(newer, "0").strip() != "0":
            return Check(name, NOTE, f"0: {newer} overrides it, but a torch that knows only this name records nothing")
        return Check(name, NOTE, "0: the recorder is off, no dump will hold a call: set it to 2000")
    if name == "TORCH_INCLUDE_STACK_TRACE" and value.strip().lower() in _NO:
        return Check(name, NOTE, f"{value}: stacks are off, dumps will not say where in the code a call was made")
    return Check(name, GOOD, value)


def _records_by_default(torch: str | None) -> bool:
    """Return whether this version of torch records without being told to: 2.11 and newer do."""
    parts = re.match(r"(\d+)\.(\d+)", torch or "")
    return parts is not None and (int(parts[1]), int(parts[2])) >= (2, 11)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
