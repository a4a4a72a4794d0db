"""Makes the reference pages and pictures from the code; ``--check`` only says which are out of date."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from provstore import cypher  # noqa: E402 - the checkout beside this script is meant, installed or not
from provstore.model import agent_codes, block, codes, evidence_codes, schema, signal_codes  # noqa: E402

DOCS = ROOT / "docs"
_MADE = "<!-- Made by scripts/make_reference.py: edit the code, not this page. -->"
_MODULES = ("dump", "block", "finding", "trace", "report", "prov", "evidence", "verification")
_COMMANDS = (
    "demo", "ingest", "trace", "diagnose", "query", "export", "store info", "store check", "store rebuild", "doctor",
    "record", "replay", "diff", "seal", "verify", "evidence list", "evidence show", "evidence export",
    "evidence import", "join",
    "keys generate", "keys list", "keys show", "keys export", "keys trust", "keys rotate", "keys revoke",
)  # fmt: skip
_SHOWN_ONLY = ("agent-query", "watch", "admin safe-mode", "admin escalate", "admin deescalate")
"""Commands whose answers state their shape themselves, or are one line."""

_SAME_ANSWER = {"evidence import": "ingest"}


def pages() -> dict[Path, Callable[[], str]]:
    """Return what makes each generated page."""
    return {
        DOCS / "reference" / "protocol.md": protocol,
        DOCS / "reference" / "findings.md": findings,
        DOCS / "reference" / "queries.md": queries,
        DOCS / "reference" / "cli.md": command_line,
        DOCS / "adr" / "README.md": decisions,
    }


def protocol() -> str:
    """Return the page of every property, relation and record field."""
    lines = ["# Records and properties", "", _MADE, "", "What the graph, the journal and the results are made of.", ""]
    lines += ["## Nodes", "", "| base label | unique key |", "|---|---|"]
    lines += [f"| `{label}` | `{key}` |" for label, key in block.UNIQUE_KEY.items()]
    lines += ["", "## Properties", "", "| name | type | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {kind} | {_cell(meaning)} |" for name, (kind, meaning) in sorted(schema.PROPERTIES.items())
    ]
    lines += ["", "## Properties of evidence", "", "| name | type | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {kind} | {_cell(meaning)} |"
        for name, (kind, meaning) in sorted(schema.EVIDENCE_PROPERTIES.items())
    ]
    lines += ["", "## Relationships", "", "All point from effect to cause.", ""]
    for title, types in (
        ("Captured", block.CAPTURED_RELATIONS),
        ("Structure of imported documents", block.STRUCTURE_RELATIONS),
        ("Derived", block.DERIVED_RELATIONS),
    ):
        lines += [f"- {title}: {', '.join(f'`{one}`' for one in types)}"]
    for module in _MODULES:
        lines += ["", *_module_page(module)]
    recording = (ROOT / "scripts" / "protocol_recording.md").read_text(encoding="utf-8")
    return "\n".join(lines) + "\n\n" + recording


def findings() -> str:
    """Return the page of all finding codes, and of the reasons for none."""
    intro = (
        "What a diagnosis can say, by stable code. The `code` of a finding is written as in the headings below; its "
        "`class`, and the codes of what stays open, have underscores instead of hyphens."
    )
    lines = ["# Findings", "", _MADE, "", intro, ""]
    for title, where, registry in (
        ("Judgements", "class", codes.FINDINGS),
        ("Judgements on recorded actions", "class", codes.ACTION_FINDINGS),
        ("Reasons why something stays open", "undecided[].code", codes.REASONS),
    ):
        lines += [f"## {title}", ""]
        for code in registry:
            spelled = f"In answers: `{where}` `{code.name.replace('-', '_')}`."
            lines += [f"### {code.name}", "", f"**{code.title}** ({code.severity}). {code.meaning} {spelled}", ""]
            lines += [f"What to do: {code.what_to_do}", ""]
    for title, where, registry in (
        (
            "Verification",
            "In answers of `provstore verify`: `findings[].code`, as spelled here.",
            evidence_codes.EVIDENCE,
        ),
        ("Agent records", "In answers about agent evidence, as spelled here.", agent_codes.AGENT),
        (
            "Sources of signals",
            "In answers of `provstore watch` (`problems[].code`) and `provstore record` (`signals[].findings[].code`).",
            signal_codes.SIGNALS,
        ),
    ):
        lines += [f"## {title}", "", where, ""]
        for code in registry:
            lines += [f"### {code.name}", "", f"**{code.title}** ({code.severity}). {code.meaning}", ""]
            lines += [f"What to do: {code.what_to_do}", ""]
    return "\n".join(lines)


def queries() -> str:
    """Return the page of the shipped queries."""
    lines = ["# Shipped queries", "", _MADE, "", "Each is a file below `cypher/`.", ""]
    for topic in dict.fromkeys(name.rpartition("/")[0] for name in cypher.names("read")):
        lines += [f"## {topic}", "", "| query | parameters | answers | columns |", "|---|---|---|---|"]
        for name in cypher.names(topic):
            one = cypher.query(name)
            cells = (name.rpartition("/")[2], ", ".join(one.params), one.summary, ", ".join(one.returns))
            lines += ["| " + " | ".join(map(_cell, cells)) + " |"]
        lines += [""]
    return "\n".join(lines)


def command_line() -> str:
    """Return the page of all commands: help text, exit codes, JSON schema."""
    lines = [(ROOT / "scripts" / "cli_page_head.md").read_text(encoding="utf-8").rstrip().replace("{made}", _MADE), ""]
    for command in _COMMANDS:
        lines += [f"## provstore {command}", "", "```text", help_text(command).rstrip(), "```", ""]
        written = DOCS / "reference" / "schemas" / f"{_SAME_ANSWER.get(command, command).replace(' ', '-')}.json"
        shape = json.loads(written.read_text(encoding="utf-8"))
        lines += [f"`--json`: {shape['title']} ([schema](schemas/{written.name})).", ""]
        lines += ["| key | type | meaning |", "|---|---|---|", *_shape_rows(shape, ""), ""]
    for command in _SHOWN_ONLY:
        lines += [f"## provstore {command}", "", "```text", help_text(command).rstrip(), "```", ""]
    return "\n".join(lines)


def help_text(command: str) -> str:
    """Return what ``--help`` shows for a command at 80 columns."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVSTORE_")}
    return subprocess.run(
        [sys.executable, "-m", "provstore", *command.split(), "--help"], capture_output=True, text=True, check=True,
        cwd=ROOT, env={**environment, "COLUMNS": "80", "TERM": "dumb"},
    ).stdout  # fmt: skip


def decisions() -> str:
    """Return the list of decision records."""
    lines = ["# Decisions", "", _MADE, ""]
    lines += [
        "Why the project is built as it is: context, decision, consequences. A later one replaces an earlier one.",
        "",
    ]
    for page in sorted((DOCS / "adr").glob("[0-9]*.md")):
        title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines += [f"- [{title}]({page.name})"]
    return "\n".join(lines) + "\n"


def draw_pictures() -> None:
    """Draw every ``docs/pictures/*.dot`` as SVG."""
    if shutil.which("dot") is None:
        print("pictures: left as they are: Graphviz (dot) is not installed")
        return
    for source in sorted((DOCS / "pictures").glob("*.dot")):
        subprocess.run(["dot", "-Tsvg", "-o", source.with_suffix(".svg"), source], check=True)


def _module_page(module: str) -> Iterator[str]:
    tree = ast.parse((ROOT / "provstore" / "model" / f"{module}.py").read_text(encoding="utf-8"))
    yield f"## {module}"
    yield ""
    yield (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
    for record in tree.body:
        if isinstance(record, ast.ClassDef) and not record.name.startswith("_"):
            fields = list(_fields(record))
            if fields:
                yield from ("", f"### {record.name}", "", _paragraph(ast.get_docstring(record)), "")
                yield from ("| field | type | meaning |", "|---|---|---|")
                yield from (f"| `{name}` | `{_cell(kind)}` | {_cell(meaning)} |" for name, kind, meaning in fields)


def _fields(record: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for at, part in enumerate(record.body):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and not part.target.id.startswith("_"):
            after = record.body[at + 1] if at + 1 < len(record.body) else None
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            meaning = after.value.value if documented else ""  # type: ignore[union-attr]
            yield part.target.id, ast.unparse(part.annotation), str(meaning)


def _shape_rows(shape: dict[str, Any], path: str) -> Iterator[str]:
    for name, part in shape.get("properties", {}).items():
        inner = part.get("items", part)
        place = f"{path}{name}{'[]' if 'items' in part else ''}"
        yield f"| `{place}` | {_cell(_type_text(part))} | {_cell(part.get('description', ''))} |"
        yield from _shape_rows(inner, f"{place}.")


def _type_text(part: dict[str, Any]) -> str:
    if "enum" in part:
        return " / ".join(f"`{one}`" for one in part["enum"])
    if "const" in part:
        return f"`{part['const']}`"
    kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
    return " or ".join(f"array of {_type_text(part['items'])}" if kind == "array" else kind for kind in kinds)


def _paragraph(text: str | None) -> str:
    return (text or "").split("\n\nArgs:")[0].replace("\n\n", " ").replace("\n", " ").replace("``", "`")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write all pages, or with ``--check`` return 1 and name those that differ."""
    stale = []
    for path, make in pages().items():
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    if "--check" not in arguments:
        draw_pictures()
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)}: out of date: `make docs` writes it anew")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
