"""Runs the ``console`` blocks of a page, in order, in one scratch folder, and compares or rewrites what they show.

A line that starts with ``$ `` is a command, and lines with ``> `` right below continue it; the lines below it are what
it prints (both streams). In what is expected, ``…`` stands for any text within a line, a line that is only ``…`` for
any lines. As a script, with ``--write`` and pages, it puts the real output into them; what still fits is kept.

A block that names a file behind its language, as in `` ```py check.py ``, is that file in the scratch folder. The home
of the user is an empty folder, and what would be typed at the prompt for a passphrase stands in the environment.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```\w+ ([\w.-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 120


@dataclass(frozen=True)
class Command:
    text: str
    expected: str


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(block):
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0] += "\n" + line[2:]
        else:
            found[-1][1].append(line)
    return [Command(text, "\n".join(lines).rstrip()) for text, lines in found]


@contextlib.contextmanager
def scratch_folder(page):
    with tempfile.TemporaryDirectory(prefix="provstore-docs-") as whole:
        folder = Path(whole) / "work"
        for made in (folder, Path(whole) / "home"):
            made.mkdir()
        for name in ("provstore", "notebooks", "cypher"):
            (folder / name).symlink_to(ROOT / name)
        for name, content in FILE.findall(page.read_text(encoding="utf-8")):
            (folder / name).write_text(content, encoding="utf-8")
        yield folder


def environment(folder):
    left_out = ("PROVSTORE_", "TORCH_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {
        **kept,
        "COLUMNS": "80",
        "HOME": str(folder.parent / "home"),
        "NO_COLOR": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PROVSTORE_KEY_PASSPHRASE": "of these pages",
    }


def output(command, folder):
    done = subprocess.run(
        ["bash", "-c", command.text], cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, timeout=SECONDS,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()).rstrip()


def fits(expected, real):
    lines = [
        ".*(?:\n.*)*" if line.strip() == "…" else re.escape(line).replace("…", ".*") for line in expected.splitlines()
    ]
    return re.fullmatch("\n".join(lines), real) is not None


def rewritten(page):
    text = page.read_text(encoding="utf-8")
    with scratch_folder(page) as folder:
        for block in blocks(page):
            shown = []
            for command in commands(block):
                real = output(command, folder)
                kept = command.expected if command.expected and fits(command.expected, real) else real
                shown += ["$ " + command.text.replace("\n", "\n> "), *([kept] if kept else [])]
            text = text.replace(f"```console\n{block}```", "```console\n" + "\n".join(shown) + "\n```", 1)
    return text


if __name__ == "__main__":
    for name in sys.argv[2:] if sys.argv[1:2] == ["--write"] else sys.exit(__doc__):
        Path(name).write_text(rewritten(Path(name)), encoding="utf-8")
