"""Every JSON answer has the documented shape: nothing missing, nothing undocumented."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.agent_records import Emitter, lines, record

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
SAMPLES = ROOT / "provstore" / "samples"
TENSOR = ("trace", "tensor:2:3:out", "--run", "healthy", "--group", "default")

ANSWERS = [
    ("ingest", ("ingest", SAMPLES / "hang")),
    ("trace", TENSOR),
    ("trace", (*TENSOR, "--depth", "1")),
    ("trace", (*TENSOR, "--to", "tensor:0:2:in")),
    ("diagnose", ("diagnose", SAMPLES / "hang")),
    ("diagnose", ("diagnose", SAMPLES / "mismatch")),
    ("diagnose", ("diagnose", "run:healthy", "--about", "nan")),
    ("query", ("query", "lagging_ranks", "--param", "run=hang")),
    ("query", ("query", "--list")),
    ("export", ("export", "prov-json", "--run", "hang", "-o", "hang.json")),
    ("export", ("export", "mermaid", "--run", "hang", "-o", "hang.mmd")),
    ("store-info", ("store", "info")),
    ("store-check", ("store", "check")),
    ("store-rebuild", ("store", "rebuild")),
    ("keys-list", ("keys", "list")),
    ("keys-show", ("keys", "show", "tester")),
    ("keys-export", ("keys", "export", "tester", "--form", "all", "-o", "public")),
    ("ingest", ("ingest", SAMPLES / "mismatch", "--seal", "--key", "tester")),
    ("seal", ("seal", "hang", "--close", "aborted", "--key", "tester")),
    ("verify", ("verify",)),
    ("verify", ("verify", "hang", "--source", "journal")),
    ("record", ("record", SAMPLES / "healthy", "--run", "recorded", "--epoch", "3", "--key", "tester")),
    ("record", ("record", SAMPLES / "healthy", "--run", "recorded", "--epoch", "3")),
    ("replay", ("replay", "--run", "recorded", "--epoch", "3")),
    ("record", ("record", SAMPLES / "healthy", "--run", "again", "--epoch", "3", "--key", "tester")),
    ("diff", ("diff", "recorded", "again")),
    ("verify-agents", ("verify", "./agent.jsonl")),
    ("ingest", ("evidence", "import", "agent.jsonl")),
    ("join", ("join",)),
    ("join", ("evidence", "join", "an-unknown-trace")),
    ("evidence-list", ("evidence", "list")),
    ("evidence-list", ("evidence", "list", "recorded", "--mode", "validation")),
    ("evidence-show", ("evidence", "show", "recorded:recorded:3")),
    ("evidence-export-agents", ("evidence", "export", "recorded", "-o", "agents", "--format", "aep-bundle")),
    ("evidence-show", ("evidence", "show", "epoch:hang:0")),
    ("evidence-export", ("evidence", "export", "hang", "-o", "exported")),
    ("keys-generate", ("keys", "generate", "second")),
    ("keys-trust", ("keys", "trust", "second", "--role", "run")),
    ("keys-generate", ("keys", "generate", "third")),
    ("keys-rotate", ("keys", "rotate", "tester", "third")),
    ("keys-revoke", ("keys", "revoke", "second", "--since", "2026-01-01", "--reason", "lost")),
    ("doctor", ("doctor",)),
    ("demo", ("demo",)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("answers")


def answer(folder, arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVSTORE_")}
    environment |= {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    environment["PROVSTORE_KEY_PASSPHRASE"] = "only for this test"
    done = subprocess.run(
        [sys.executable, "-m", "provstore", "--json", *map(str, arguments)], cwd=folder, env=environment, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def strict(schema):
    """Return a copy of ``schema`` in which no object may have a key that is not documented."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: strict(value) for key, value in schema.items()}
    return {**copy, "additionalProperties": False} if "properties" in copy and "required" in copy else copy


@pytest.fixture(scope="module")
def filled(folder):
    answer(folder, ("ingest", SAMPLES / "hang", SAMPLES / "healthy"))
    answer(folder, ("keys", "generate", "tester"))
    answer(folder, ("keys", "trust", "tester"))
    torn = b'{"schema_version":"aep/v0.5","run'
    (folder / "agent.jsonl").write_bytes(lines([Emitter().signed(record()), record(number=1)]) + torn)
    return folder


@pytest.mark.parametrize(("name", "arguments"), ANSWERS, ids=lambda part: part if isinstance(part, str) else None)
def test_an_answer_has_its_documented_shape(filled, name, arguments):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))

    jsonschema.validate(answer(filled, arguments), strict(schema))


def test_an_ingest_with_good_stray_and_broken_files_has_its_documented_shape(tmp_path):
    schema = json.loads((SCHEMAS / "ingest.json").read_text(encoding="utf-8"))
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for path in (SAMPLES / "hang").iterdir():
        (dumps / path.name).write_bytes(path.read_bytes())
    (dumps / "fr_gloo_rank_1").write_bytes((dumps / "fr_gloo_rank_1").read_bytes()[:99])
    (dumps / "notes.txt").write_text("not a dump")

    report = answer(tmp_path, ("ingest", dumps))

    jsonschema.validate(report, strict(schema))
    assert report["counts"] == {"new": 3, "known": 0, "refused": 1, "skipped": 1}


def test_every_command_has_a_schema_and_every_schema_a_command():
    assert {path.stem for path in SCHEMAS.glob("*.json")} == {name for name, _ in ANSWERS}
