"""The page of records explains every member that a real recording has: its lines, records, tables and agent records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from signed_captures import signed_capture

from provstore.api import control
from provstore.api.evidence_export import opened
from provstore.api.recording import record
from provstore.evidence import recorded_shapes
from provstore.evidence.keys import PrivateKey
from provstore.exports.evidence.agent_records import AgentExportOptions
from provstore.ingest import recording
from provstore.journal import Journal
from provstore.model import recording as modes

PAGES = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (PAGES / "protocol.md").read_text(encoding="utf-8")
EVERY_RECORD = frozenset(("schema", "kind", "run", "attempt", "rank", "n", "at"))
NAMED_VALUE = frozenset(("n", "t", "v"))
COUNTED = frozenset(("count", "name"))

Members = Iterator[tuple[str, str, frozenset[str]]]
"""Kind, path within it, members there."""


def section(title: str, level: str = "###") -> str:
    return re.split(r"\n##+ ", PAGE.split(f"\n{level} {title}\n", 1)[1], maxsplit=1)[0]


def named(text: str) -> set[str]:
    return set(re.findall(r"`\"?([A-Za-z0-9_]+)\"?`", text)) | set(re.findall(r'"([a-z0-9_]+)"', text))


def row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))


def walked(kind: str, said: Any, path: str = "") -> Members:
    if isinstance(said, dict):
        yield kind, path, frozenset(said)
        for name, value in said.items():
            yield from walked(kind, value, f"{path}.{name}")
    elif isinstance(said, list):
        for value in said:
            yield from walked(kind, value, path)


def of_lines(directory: Path) -> Members:
    for path in directory.glob("capture-rank*.jsonl"):
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            yield from walked(line["t"], {name: value for name, value in line.items() if name != "t"})


def of_journal(directory: Path) -> Iterator[tuple[str, Members]]:
    with Journal.open(directory, writable=False) as journal:
        for scope in journal.scopes():
            for line in journal.evidence(*scope).lines():
                said = json.loads(line)
                yield "record", walked(said["kind"], said)
            for bundle in recording.stored_bundles(journal, *scope):
                for role in {blob["role"] for blob in bundle.record["blobs"]} - {"snapshot"}:
                    for one in recording.table(journal, bundle, role):
                        yield "table", walked(role, one)
                data = recording.agent_record(journal, bundle)
                if data is not None:
                    yield "agent", walked("agent record", json.loads(data))


def unexplained_lines(members: Members) -> set[str]:
    whole = section("Capture directory", "##") + section("Settings of a header", "##")
    common = {"at_ns", "epoch", "step"}
    return {
        f"{kind}{path}: {name}"
        for kind, path, names in members
        for name in names - common - named(whole if path else row(whole, kind))
    }


def unexplained_records(directory: Path) -> set[str]:
    format_page = (PAGES / "evidence-format.md").read_text(encoding="utf-8")
    found = set()
    for what, members in of_journal(directory):
        for kind, path, names in members:
            if names in (NAMED_VALUE, COUNTED, frozenset(("n", "v"))):
                continue
            if what == "record":
                text = section(kind) if kind in recorded_shapes.OWN else format_page
                known = named(text) | (EVERY_RECORD if not path else set())
            elif what == "table":
                tables = section("Tables")
                known = named(row(tables, kind)) | {"rank", "epoch", "step", "at"}
                # What stands in these rows is told of the lines of a capture file that they were.
                if kind in ("headers", "checkpoints"):
                    known |= named(section("Capture directory", "##")) | named(section("Settings of a header", "##"))
            else:
                known = named(section("Agent records")) | named(section("action"))
            found |= {f"{kind}{path}: {name}" for name in names - known}
    return found


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return signed_capture(tmp_path_factory.mktemp("by-hand")).journal


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of one rank, recorded in full with all that a program can tell; its capture, and the store beside it."""
    torch = pytest.importorskip("torch")
    dist = torch.distributed
    from provstore import capture

    place = tmp_path_factory.mktemp("live")
    dist.init_process_group("gloo", init_method=f"file://{place / 'meet'}", rank=0, world_size=1)
    try:
        model = torch.nn.Linear(2, 1)
        data = torch.utils.data.DataLoader(list(range(4)), batch_size=2, shuffle=True)
        with capture.evidence("live", place / "capture", mode_floor=modes.FULL) as recorder:
            recorder.begin_epoch(0)
            recorder.sampler(data, dataset="numbers@1")
            for step in range(2):
                recorder.data([step])
                model(torch.ones(1, 2)).sum().backward()
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
                recorder.step(step, loss=1.0, grad_norm=1.0, parameters=model)
            torch.save(model.state_dict(), place / "state.pt")
            recorder.checkpoint(place / "state.pt", model.state_dict())
            control.escalate(place / "capture", "run", "to see the order")
            recorder.step(2, loss=1.0)
    finally:
        dist.destroy_process_group()
    key = PrivateKey.generate()
    record([place / "capture"], store=f"embedded:{place / 'store'}", signer=key)
    with opened(f"embedded:{place / 'store'}") as evidence:
        evidence.exported_agents(place / "lines", options=AgentExportOptions(per_action=True), signer=key)
        evidence.exported_agents(place / "bundle", options=AgentExportOptions("aep-bundle"))
    return place


def test_every_member_of_records_and_tables_made_by_hand_is_explained(by_hand: Path) -> None:
    assert unexplained_records(by_hand) == set()


def test_every_member_of_a_live_capture_is_explained(live: Path) -> None:
    kinds = {kind for kind, path, _ in of_lines(live / "capture") if not path}
    assert {"header", "step", "call", "data", "sampler", "rng", "anchor", "checkpoint", "snap"} <= kinds
    assert unexplained_lines(of_lines(live / "capture")) == set()


def test_every_member_of_what_is_stored_of_a_live_job_is_explained(live: Path) -> None:
    assert unexplained_records(live / "store" / "journal") == set()


def test_every_member_of_exported_agent_records_is_explained(live: Path) -> None:
    known = named(section("Agent records")) | named(section("action"))
    lines = [json.loads(line) for path in (live / "lines").rglob("*.jsonl") for line in path.read_text().splitlines()]
    bundles = [json.loads(path.read_text()) for path in (live / "bundle").rglob("*.json")]
    assert any("manifest" in one for one in bundles)
    assert any("first" in line["training"] for line in lines)
    found = {
        f"{path}: {name}"
        for line in (*lines, *(one for one in bundles if "manifest" in one))
        for _, path, names in walked("", line)
        if names not in (NAMED_VALUE, COUNTED)
        for name in names - known
    }
    assert found == set()
