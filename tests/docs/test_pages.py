"""Every command in the docs still gives what the page shows; links lead somewhere; made pages are current."""

import re
import subprocess
import sys
from pathlib import Path

import console
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
PLACE = re.compile(r"\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if console.blocks(page)], ids=of)
def test_the_commands_of_a_page_give_what_the_page_shows(page):
    with console.scratch_folder(page) as folder:
        for block in console.blocks(page):
            for command in console.commands(block):
                real = console.output(command, folder)
                assert console.fits(command.expected, real), f"$ {command.text}\n{real}"


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON.search(page.read_text(encoding="utf-8"))], ids=of)
def test_the_python_of_a_page_runs(page):
    with console.scratch_folder(page) as folder:
        (folder / "dumps").symlink_to(ROOT / "provstore" / "samples" / "hang")
        for code in PYTHON.findall(page.read_text(encoding="utf-8")):
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=folder, env=console.environment(folder), capture_output=True,
                text=True, check=False, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_link_of_a_page_leads_to_a_file(page):
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]

    assert [target for target in targets if not (page.parent / target).exists()] == []


def headings(page):
    """Names by which the headings of a page can be linked to, as GitHub and most others make them."""
    found = HEADING.findall(
        re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_link_into_a_page_leads_to_a_heading(page):
    links = [found for found in PLACE.findall(page.read_text(encoding="utf-8")) if "://" not in found[0]]

    assert [link for link in links if link[1] not in headings(page.parent / link[0] if link[0] else page)] == []


def test_the_generated_pages_are_current():
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_reference.py", "--check"], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("source", sorted((ROOT / "docs" / "pictures").glob("*.dot")), ids=of)
def test_a_picture_shows_every_box_of_its_source(source):
    boxes = re.findall(r'^\s*(\w+) \[label="([^"\\]+)', source.read_text(encoding="utf-8"), re.MULTILINE)
    drawn = source.with_suffix(".svg").read_text(encoding="utf-8")

    assert boxes
    assert [label for _, label in boxes if f">{label}<" not in drawn] == []
