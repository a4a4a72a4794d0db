"""``provstore demo``: the main job on shipped dumps of a real job, or on a job that hangs right now."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from provstore.cli._options import Globals, flags
from provstore.cli._screen import Screen
from provstore.cli._text import printable_block
from provstore.errors import ConfigError, InputError

SAMPLES = Path(__file__).parents[1] / "samples"
"""Dumps that real jobs left; see ``provstore/samples``."""

LIVE_SECONDS = 120.0

PASSPHRASE = "PROVSTORE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
DEMO_PASSPHRASE = "only for this demonstration"  # noqa: S105 - of a key that is gone when the command ends
_UNSET = ("PROVSTORE_KEY", "PROVSTORE_TRUST", "PROVSTORE_ANCHORS", "PROVSTORE_KEY_PASSPHRASE_FILE", PASSPHRASE)

EXAMPLES = """Examples:

\b
provstore demo
provstore demo --live --fault stuck --keep dumps
provstore demo --live --fault corrupt"""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the story."""

    says: str
    arguments: tuple[str, ...]
    tampers: bool = False
    """True where somebody changes the graph past the journal instead."""
    is_told: bool = False
    """True where the answer is that of ``list_suspicious_actions``, which is then told in plain words."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EXAMPLES)(flags(demo))


def demo(
    settings: Globals,
    *,
    live: Annotated[bool, typer.Option("--live", help="Run 4 gloo processes with a fault (needs torch).")] = False,
    fault: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Fault of the live job; an unknown one lists all [default: stuck]."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the live job leaves its dumps, to be kept.")
    ] = None,
) -> None:
    """Show the main job, from dumps to an answer.

    It works in a temporary store. Exit code: 0 shown, 2 an unknown fault or no torch for --live.
    """
    if not live and (fault is not None or keep is not None):
        raise ConfigError("demo: --fault and --keep: of a live job only", hint="add --live")
    screen = Screen(settings)
    with tempfile.TemporaryDirectory(prefix="provstore-demo-") as scratch:
        if live:
            steps, truth = _live_steps(screen, keep or Path(scratch) / "dumps", fault or "stuck")
        else:
            steps, truth = list(_shipped_steps()), None
        store = f"embedded:{Path(scratch) / 'store'}"
        with _own_settings(Path(scratch)):
            shown = [_play(step, store, settings) for step in steps]
    screen.remark(truth or "\nNow yours: provstore diagnose FOLDER_OF_DUMPS")
    if live:
        screen.remark(f"kept: {keep}" if keep else "the dumps are removed now; --keep DIR keeps them")
    if settings.json:
        answer = {"schema": "provstore-demo/1", "truth": truth, "steps": shown}
        screen.show(answer, lambda _: None)


def _shipped_steps() -> Iterator[Step]:
    hang, healthy = _shown(SAMPLES / "hang"), _shown(SAMPLES / "healthy")
    yield Step("A job of 4 ranks hung. Which rank, in which call, and how do we know?", ("diagnose", hang))
    yield Step("Keep its dumps, and those of a healthy run, in one store.", ("ingest", hang, healthy))
    yield Step(
        "Where does what rank 2 got out of its third collective come from? All ranks meet in one graph.",
        ("trace", "tensor:2:3:out", "--run", "healthy", "--group", "default"),
    )
    yield Step(
        "Every call becomes an action on record. A dump holds no values, and the record says so.",
        ("record", hang, "--run", "hang", "--epoch", "0"),
    )
    yield Step(
        "Which ranks are behind the others, in which process group?",
        ("query", "collectives/lagging_ranks", "--param", "run=hang"),
    )
    yield Step("Is the graph what its journal says? Both survive the dumps.", ("store", "check"))
    yield Step(
        "Make a key, encrypted on disk; the evidence shall hold up when somebody doubts it.",
        ("keys", "generate", "demo"),
    )
    yield Step("Say whose signatures count.", ("keys", "trust", "demo"))
    yield Step("Sign what was ingested, and that nothing follows.", ("seal", "hang", "--close", "aborted"))
    yield Step("Verify it. The checkpoint becomes the anchor of the next verification.", ("verify", "hang"))
    yield Step(
        "Somebody who can write to the graph makes the call that hung look completed, in plain Cypher.", (), True
    )
    yield Step("Verify again: which fact was touched, and who had signed it?", ("verify", "hang"))
    yield Step("The journal is the evidence, the graph is made anew from it.", ("store", "rebuild"))
    yield Step("And now everything holds, up to the anchor.", ("verify", "hang"))


def _live_steps(screen: Screen, directory: Path, fault: str) -> tuple[list[Step], str]:
    from provstore.capture.live import FAULTS, run_job

    if fault not in FAULTS:
        raise ConfigError(f"{fault}: fault of the live job: not known; known are {', '.join(FAULTS)}")
    if util.find_spec("torch") is None:
        raise ConfigError("torch: not installed: demo --live runs a training job", hint="pip install torch")
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory}: not empty: the live job needs a new folder")
    screen.remark(f"running 4 gloo processes with the fault {fault}: up to a minute or so …")
    job = run_job(directory, fault, timeout=LIVE_SECONDS)
    if not any(job.directory.iterdir()):
        screen.remark(job.log)
        raise InputError(f"live job: {fault}: left no dump within {LIVE_SECONDS:.0f} s")
    dumps = str(job.directory)
    where = "" if job.truth.rank is None else f" on rank {job.truth.rank}"
    told = f"built in: {fault}{where}: it {job.truth.fault.says}"
    if job.capture is not None:
        return list(_recorded_steps(dumps, str(job.capture), f"live-{fault}")), told
    steps = [
        Step("What the processes left behind, read and kept.", ("ingest", dumps)),
        Step("Which rank, in which call, and how do we know?", ("diagnose", dumps)),
        Step(
            "Which ranks are behind the others?",
            ("query", "collectives/lagging_ranks", "--param", f"run=live-{fault}"),
        ),
    ]
    return steps, told


def _recorded_steps(dumps: str, capture: str, run: str) -> Iterator[Step]:
    """Yield the story of a job that ended well, and whose calls hold one that should not be trusted."""
    yield Step("No rank hung, and no call failed: the dumps show nothing.", ("diagnose", dumps))
    yield Step("They are kept: the graph knows which call comes from which.", ("ingest", dumps))
    yield Step("Make a key, encrypted on disk.", ("keys", "generate", "demo"))
    yield Step("Say whose signatures count.", ("keys", "trust", "demo"))
    yield Step(
        "The job was recorded, too: values, digests and bytes of each call. Take them in, and sign them.",
        ("record", capture, "--run", run, "--key", "demo"),
    )
    question = orjson.dumps({"run": run}).decode()
    yield Step(
        "Which calls are suspicious, and what came after them?",
        ("agent-query", "--tool", "list_suspicious_actions", "--args", question),
        is_told=True,
    )
    yield Step(
        "Is what each rank got what the inputs of all ranks give?",
        ("replay", "--run", run, "--epoch", "0", "--execute"),
    )
    yield Step("Has anything been changed since it was recorded?", ("verify", run))


def _play(step: Step, store: str, settings: Globals) -> dict[str, object]:
    """Run one step as the command line would, and return what it gave."""
    from provstore.cli._app import run

    if step.tampers:
        return _tamper(step, store, settings)
    os.environ[PASSPHRASE] = DEMO_PASSPHRASE
    command = shlex.join(("provstore", *step.arguments))
    own = ("--store", store, *(["--no-color"] if settings.no_color else []), *(["--quiet"] if settings.quiet else []))
    if settings.json:
        with contextlib.redirect_stdout(io.StringIO()) as captured:
            code = run([*own, "--json", *step.arguments])
        return {"says": step.says, "command": command, "exit_code": code, "answer": orjson.loads(captured.getvalue())}
    typer.secho(f"\n# {step.says}", fg="cyan", color=False if settings.no_color else None)
    typer.secho(f"$ {command}", bold=True, color=False if settings.no_color else None)
    if not step.is_told:
        run([*own, *step.arguments])
        return {}
    with contextlib.redirect_stdout(io.StringIO()) as captured:
        run([*own, *step.arguments])
    typer.echo(captured.getvalue(), nl=False)
    for line in _in_words(orjson.loads(captured.getvalue())):
        typer.echo(line)
    return {}


def _in_words(answer: dict[str, Any]) -> Iterator[str]:
    """Yield what ``list_suspicious_actions`` found, as the demo tells it."""
    found, total = answer.get("actions", []), answer.get("coverage", {}).get("actions", 0)
    yield f"\nsuspicious: {len(found)} of {total} actions; affected after them: {answer.get('affected', 0)}"
    for one in found:
        yield f"  {one['code']}, score {one['score']:.2f}: {printable_block(one['reason'])}"


def _tamper(step: Step, store: str, settings: Globals) -> dict[str, object]:
    """Change one fact of the graph past the journal."""
    from provstore import api, rooms
    from provstore.cypher import query

    with api.open(store, read_only=True) as opened:
        calls = opened.query("collectives/last_call_per_rank", run="hang").rows
    iri = next(str(row["iri"]) for row in calls if row["rank"] == 0)
    change = query("demo/claim_completion")
    graph = rooms.load("stores", "embedded").connect(store.removeprefix("embedded:"), writable=True)
    with contextlib.closing(graph):
        graph.alter(change, {"iri": iri})
    command = change.text.replace("$iri", f"'{iri}'")
    if not settings.json:
        typer.secho(f"\n# {step.says}", fg="cyan", color=False if settings.no_color else None)
        typer.secho(command, bold=True, color=False if settings.no_color else None)
    return {"says": step.says, "command": command, "exit_code": 0, "answer": {}}


@contextlib.contextmanager
def _own_settings(scratch: Path) -> Iterator[None]:
    """Keep keys, trust and anchors of the story out of the user's own."""
    names = ("PROVSTORE_CONFIG_HOME", "PROVSTORE_STATE_HOME", *_UNSET)
    before = {name: os.environ.get(name) for name in names}
    for name in _UNSET:
        os.environ.pop(name, None)
    os.environ["PROVSTORE_CONFIG_HOME"] = str(scratch / "config")
    os.environ["PROVSTORE_STATE_HOME"] = str(scratch / "state")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)
