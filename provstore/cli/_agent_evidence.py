"""How ``provstore verify`` shows files of agent evidence: each axis by itself, then what is wrong with which record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from provstore.cli._screen import Line, Screen, print_lines, worst
from provstore.cli._text import counted, folded
from provstore.errors import ConfigError

if TYPE_CHECKING:
    from provstore.api.verifying_agents import AgentAnswer
    from provstore.model.aep import Axis, RecordVerdict

_GOOD = {"pass", "valid", "intact"}
_BAD = {"fail", "invalid", "binding-mismatch", "broken"}
_SHOWN = 20


def are_agent_files(paths: Sequence[Path]) -> bool:
    """Return whether all paths are files of agent evidence.

    Raises:
        ConfigError: Some are, and some are not.
    """
    from provstore.api.verifying_agents import is_agent_file

    found = [is_agent_file(path) for path in paths]
    if any(found) and not all(found):
        raise ConfigError(
            "verify: files of agent evidence and other evidence in one call", hint="verify each kind by itself"
        )
    return all(found)


def show(
    screen: Screen,
    paths: Sequence[Path],
    *,
    keys: Sequence[str],
    public_keys: Sequence[Path],
    trust_file: Path | None,
    pin: str | None,
    first_use: bool,
    at: str | None,
    check_legacy: bool,
) -> NoReturn:
    """Verify files of agent evidence, show what was found, and end the command."""
    from provstore.api import verifying_agents

    answers = verifying_agents.verify_agent_files(
        *paths,
        keys=keys,
        public_keys=public_keys,
        trust_file=trust_file,
        pin=pin,
        first_use=first_use,
        at=at,
        check_legacy=check_legacy,
    )
    code = worst(one.exit_code for one in answers)

    def draw(console: Console) -> None:
        for answer in answers:
            print_lines(console, lines(answer, width=console.width, verbose=screen.settings.verbose))

    body = {"schema": verifying_agents.SCHEMA, "answers": [one.to_dict() for one in answers], "exit_code": code}
    screen.show(body, draw, code)


def lines(answer: AgentAnswer, *, width: int, verbose: bool = False) -> Iterator[Line]:
    """Yield the file, what each axis says of how many records, and every record of which something is to be said."""
    verdict = answer.verdict
    head = f"{answer.path}: {verdict.kind}, {counted(len(verdict.records), 'record')}"
    yield from (Line(text, "bold") for text in folded(head, width))
    for name in ("structural", "semantic", "authenticity"):
        counts = Counter(_said(one.axes[name]) for one in verdict.records)
        for (text, style), count in sorted(counts.items(), key=lambda one: -one[1]):
            number = f"{count:,} of {len(verdict.records):,}: " if len(counts) > 1 else ""
            yield from (Line(line, style) for line in folded(f"{number}{text}", width, f"  {name:<14}", " " * 16))
    yield from _chains(answer, width)
    for name, axis in (("container", verdict.container), ("capture", _capture(verdict.records))):
        text, style = _said(axis)
        yield from (Line(line, style) for line in folded(text, width, f"  {name:<14}", " " * 16))
    told = list(_remarks(answer))
    for text in told if verbose else told[:_SHOWN]:
        yield from (Line(line) for line in folded(text, width, "  ", "    "))
    if not verbose and len(told) > _SHOWN:
        yield Line(f"  … {len(told) - _SHOWN:,} more: --verbose lists all", "dim")


def _chains(answer: AgentAnswer, width: int) -> Iterator[Line]:
    """Yield the chain of the whole file, and of each run where the whole is not one."""
    verdict = answer.verdict
    several = len(verdict.chains) > 1 and verdict.chain.status != "intact"
    named = [("whole file", verdict.chain)] if verdict.chain.evaluated or not verdict.chains else []
    named += [(name, axis) for name, axis in verdict.chains.items()] if several or not named else []
    for name, axis in named[:_SHOWN]:
        text, style = _said(axis)
        if axis.evaluated and axis.reason:
            text = f"{text}: {axis.reason}{_absent(axis) if axis.status == 'partial' else ''}"
        where = f"{name}: " if len(named) > 1 else ""
        yield from (Line(line, style) for line in folded(f"{where}{text}", width, f"  {'chain':<14}", " " * 16))
    if len(named) > _SHOWN:
        yield Line(f"  {'chain':<14}… {len(named) - _SHOWN:,} more: --json lists all", "dim")


def _absent(axis: Axis) -> str:
    """Return at which places of its scope a chain has no link."""
    places = axis.details.get("absent")
    if not isinstance(places, list) or not places:
        return ""
    more = ", …" if len(places) > _SHOWN else ""
    return f" (at {', '.join(map(str, places[:_SHOWN]))}{more})"


def _said(axis: Axis) -> tuple[str, str]:
    """Return what an axis says, with the key and scheme of a signature, and its style."""
    style = "green" if axis.status in _GOOD else "red" if axis.status in _BAD else "yellow" if axis.evaluated else "dim"
    text = str(axis.status) if axis.evaluated else f"not evaluated: {axis.reason}"
    named = [str(axis.details[name]) for name in ("keyid", "scheme") if name in axis.details]
    legacy = axis.details.get("legacy")
    if isinstance(legacy, dict):
        named.append(f"checked: {_word(legacy.get('verified'))}")
    if axis.details.get("canonical_variant") not in (None, "verbatim"):
        named.append(f"canonical form: {axis.details['canonical_variant']}")
    if "looks-like" in axis.details:
        named.append(f"looks like {axis.details['looks-like']}")
    return f"{text} ({', '.join(named)})" if named else text, style


def _word(value: object) -> str:
    return {True: "holds", False: "does not hold"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _capture(records: Sequence[RecordVerdict]) -> Axis:
    from provstore.evidence.aep.judging import NO_WITNESS

    return records[0].axes["capture"] if records else NO_WITNESS


def _remarks(answer: AgentAnswer) -> Iterator[str]:
    for one in answer.verdict.records:
        where = f"record {one.index}" + (f" of {one.run_id}" if one.run_id is not None else "")
        for code in one.findings:
            yield f"{where}: {code}"
        # What is wrong with the structure stands among the problems, with its place in the file.
        for name in ("semantic", "authenticity"):
            axis = one.axes[name]
            if axis.status in _BAD and axis.reason:
                yield f"{where}: {name}: {axis.reason}"
    yield from _hints(answer)
    yield from answer.verdict.problems


def _hints(answer: AgentAnswer) -> Iterator[str]:
    """Yield what would tell more, once a file."""
    axes = [one.axes["authenticity"] for one in answer.verdict.records]
    if any(axis.reason == "unknown-key" for axis in axes):
        yield (
            "unknown-key: --agent-key ID=FILE names its public key; "
            "provstore keys trust FILE --alias ID --role agent keeps it"
        )
    if any(axis.status == "unsupported-legacy" and "legacy" not in axis.details for axis in axes):
        yield "a retired signature is never accepted; --check-legacy tells whether it holds"
