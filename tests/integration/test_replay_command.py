"""A recorded job of real ranks is planned, recomputed, run again from the plan, and compared."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from documented import SCHEMAS, strict

import provstore
from provstore.cli._app import run as command_line
from provstore.evidence.aep import schema
from provstore.evidence.keys import PrivateKey

if importlib.util.find_spec("torch") is None:  # the project is tested without torch, too
    pytest.skip("needs the capture extra", allow_module_level=True)

JOB = Path(__file__).with_name("replay_job.py")
STEPS = 4


@dataclass
class Recorded:
    """Runs of one deterministic job: ``a``; ``d`` has another seed; ``b`` and ``c`` begin at epoch 2 of ``a``."""

    folder: Path
    capsys: pytest.CaptureFixture[str] | None = None

    def __call__(self, *words: object, store: Path | None = None) -> tuple[int, dict]:
        uri = f"embedded:{store or self.folder / 'store'}"
        code = command_line(["--json", "--store", uri, *map(str, words)])
        said = self.capsys.readouterr()
        if not said.out.strip():
            return code, {"error": said.err}
        answer = json.loads(said.out)
        jsonschema.validate(answer, strict(json.loads((SCHEMAS / f"{words[0]}.json").read_text(encoding="utf-8"))))
        return code, answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("replay")
    jobs(found, [found, "a", "--floor", "full"], [found, "d", "--floor", "delta", "--seed", 8])
    store = f"embedded:{found / 'store'}"
    assert command_line(["--quiet", "--store", store, "record", str(found / "a"), str(found / "d")]) == 0
    plan = found / "plan"
    words = ["replay", "--run", "a", "--epoch", "2", "--execute", "--emit", str(plan)]
    assert command_line(["--quiet", "--store", store, *words]) == 0
    states = ["--from", 2, found / "a-1.pt", plan / "rng-rank0.json", plan / "rng-rank1.json"]
    jobs(found, [found, "b", "--floor", "full", *states], [found, "c", "--floor", "full", "--skip", "2:2", *states])
    assert command_line(["--quiet", "--store", store, "record", str(found / "b"), str(found / "c")]) == 0
    return found


def jobs(folder: Path, *runs: list[object]) -> None:
    words = [word for run in runs for word in ("+", *map(str, run))][1:]
    subprocess.run([sys.executable, JOB, *words], check=True, timeout=300, cwd=folder, stderr=subprocess.PIPE)


@pytest.fixture
def recorded(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Recorded:
    for name in ("PROVSTORE_TRUST", "PROVSTORE_STORE", "PROVSTORE_JOURNAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return Recorded(folder, capsys)


def test_everything_to_run_an_epoch_again_is_recorded(recorded: Recorded) -> None:
    code, said = recorded("replay", "--run", "a", "--epoch", 2, "--checkpoint", recorded.folder / "a-1.pt")
    assert (code, said["plan"]["verdict"], said["plan"]["catch_up_steps"]) == (0, "exact-possible", 0)
    assert {item["state"] for item in said["plan"]["items"]} == {"present"}
    assert said["plan"]["steps"] == [2 * STEPS, 3 * STEPS - 1]
    (sampler,) = [item for item in said["plan"]["items"] if item["name"] == "sampler"]
    assert sampler["detail"] == "sines@1, drawn by Order"
    assert sampler["parts"]["1"] == "Order: seed 100, epoch 2, shard 1 of 2, shuffle true, batch size 8"


def test_every_collective_of_the_epoch_is_recomputed_bit_for_bit(recorded: Recorded) -> None:
    code, said = recorded("replay", "--run", "a", "--epoch", 2, "--execute")
    assert code == 0
    assert [(one["op"], one["verdict"], one["order"]) for one in said["executed"]] == [
        ("all_reduce", "exact", "gloo-ring")
    ] * (4 * STEPS)


def test_one_exact_collective_is_no_replay_of_the_epoch(recorded: Recorded, tmp_path: Path) -> None:
    emitted = tmp_path / "out"
    words = ("replay", "--run", "a", "--epoch", 2, "--execute", "--instance", "gloo/0@0-1/40", "--emit", emitted)
    code, said = recorded(*words)
    assert (code, len(said["executed"]), said["collectives"]) == (0, 1, 4 * STEPS)
    assert not (emitted / "replay-evidence.json").exists()
    assert any("1 of 16 collectives" in note for note in said["notes"])


def test_a_run_from_the_plan_reproduces_every_stored_anchor(recorded: Recorded) -> None:
    code, said = recorded("replay", "--run", "a", "--epoch", 2, "--against", "b")
    assert (code, said["anchors"]["equal"], said["anchors"]["compared"]) == (0, True, 2 * STEPS)
    assert said["anchors"]["not_probed"] == 0


def test_a_run_that_leaves_out_a_batch_is_a_fork_and_its_first_step_that_differs_is_named(
    recorded: Recorded, tmp_path: Path
) -> None:
    skips = tmp_path / "skips.json"
    skips.write_text('[{"epoch": 2, "batch": 2, "reason": "asked for"}]')
    emitted = tmp_path / "out"
    code, said = recorded(
        "replay", "--run", "a", "--epoch", 2, "--against", "c", "--skip", skips, "--emit", emitted,
        "--fork-reason", "experiment",
    )  # fmt: skip
    assert (code, said["plan"]["is_fork"]) == (1, True)
    assert said["plan"]["added_skips"][0]["reason"] == "asked for"
    assert said["anchors"]["first_difference"]["step"] == 2 * STEPS + 2
    documents = {path.stem: json.loads(path.read_text()) for path in emitted.glob("*.json")}
    assert documents["fork"]["fork_reason"] == "experiment"
    assert documents["checkpoint-evidence"]["fork_of"] == documents["fork"]["source_checkpoint_id"]
    assert "replay-evidence" not in documents, "a fork is no replay"


def test_documents_of_a_replay_fit_their_schemas_and_their_digests_are_records_of_the_run(recorded: Recorded) -> None:
    import hashlib

    from provstore.journal import Journal

    plan = recorded.folder / "plan"
    with Journal.open(recorded.folder / "store" / "journal", writable=False) as journal:
        lines = b"\n".join(one.line for one in journal.evidence("a", 0).records())
    for kind in ("checkpoint-evidence", "replay-evidence"):
        data = (plan / f"{kind}.json").read_bytes()
        assert schema.errors(kind, json.loads(data)) in ([], None)
        assert hashlib.sha256(data).hexdigest().encode() in lines


def test_equal_runs_have_no_difference_although_one_began_later(recorded: Recorded) -> None:
    code, said = recorded("diff", "a", "b")
    assert (code, said["first_divergence"], said["epochs"]) == (0, None, [2])
    assert said["coverage"]["equal"] == said["coverage"]["compared"] > 2 * 4 * STEPS


def test_the_first_call_that_differs_is_named_with_what_was_equal_before_it(recorded: Recorded) -> None:
    code, said = recorded("diff", "a", "c", "--epoch", 2)
    first, last = said["first_divergence"], said["last_equal"]
    assert (code, first["kind"], first["step"]) == (1, "sequence-missing", 2 * STEPS + 2)
    assert last["step"] == 2 * STEPS + 1


def test_another_seed_is_told_from_a_fault(recorded: Recorded) -> None:
    code, said = recorded("diff", "a", "d")
    assert code == 1
    assert said["reading"].startswith("data, seed or initial state")
    assert said["anchors"]["first_difference"]["step"] == 0


def test_what_is_not_stored_is_an_error_that_lists_what_is(recorded: Recorded) -> None:
    for words, listed in (
        (("--run", "a", "--epoch", 9), "0, 1, 2"),
        (("--run", "nobody", "--epoch", 0), "a, b, c, d"),
        (("--run", "a", "--epoch", 1, "--attempt", 3), "stored are 0"),
        (("--run", "a", "--epoch", 1, "--rank", 7), "rank 7"),
        (("--run", "a", "--epoch", 1, "--execute", "--instance", "gloo/x/1"), "no such collective"),
    ):
        code, said = recorded("replay", *words)
        assert code == 2
        assert listed in said["error"]


def test_the_actions_of_a_rank_come_in_pages(recorded: Recorded) -> None:
    _, first = recorded("replay", "--run", "a", "--epoch", 2, "--rank", 1, "--limit", 3)
    _, next_ = recorded("replay", "--run", "a", "--epoch", 2, "--rank", 1, "--limit", 3, "--offset", 3)
    assert [one["rank"] for one in (*first["actions"], *next_["actions"])] == [1] * 6
    assert first["more_actions"] is True
    assert len({one["action_id"] for one in (*first["actions"], *next_["actions"])}) == 6


def test_a_lost_random_state_makes_the_plan_approximate_and_is_named(recorded: Recorded, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(recorded.folder / "store", store)
    state = json.loads((recorded.folder / "plan" / "plan.json").read_text())
    digest = next(item for item in state["items"] if item["name"] == "rng")["parts"]["1"]
    (lost,) = store.rglob(f"*{digest.removeprefix('sha256:')}*")
    lost.unlink()
    code, said = recorded("replay", "--run", "a", "--epoch", 2, store=store)
    assert (code, said["plan"]["verdict"]) == (3, "approximate")
    (reason,) = said["plan"]["reasons"]
    assert "rng: missing" in reason
    assert digest in reason


def test_the_last_closed_attempt_is_taken_and_one_that_was_cut_off_cannot_be_exact(
    recorded: Recorded, tmp_path: Path
) -> None:
    store, cut = tmp_path / "store", tmp_path / "a"
    shutil.copytree(recorded.folder / "store", store)
    shutil.copytree(recorded.folder / "a", cut)
    for path in cut.glob("*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        ends = [at for at, line in enumerate(lines) if line.startswith('{"t":"epoch-end"')]
        path.write_text("".join(lines[: ends[2]]))
    uri = f"embedded:{store}"
    assert command_line(["--quiet", "--store", uri, "record", str(cut), "--attempt", "1"]) in (0, 3)
    recorded.capsys.readouterr()
    code, said = recorded("replay", "--run", "a", "--epoch", 2, store=store)
    assert (code, said["plan"]["attempt"]) == (0, 0)
    code, said = recorded("replay", "--run", "a", "--epoch", 1, store=store)
    assert (code, said["plan"]["attempt"]) == (0, 1)
    code, said = recorded("replay", "--run", "a", "--epoch", 2, "--attempt", 1, store=store)
    assert (code, said["plan"]["verdict"]) == (3, "approximate")
    assert any("closed" in reason for reason in said["plan"]["reasons"])


@pytest.fixture
def signed(recorded: Recorded, tmp_path: Path) -> tuple[Path, Path]:
    """Return a copy of the store that is signed, and the public key."""
    store, public, key = tmp_path / "signed", tmp_path / "key.hex", PrivateKey.generate()
    shutil.copytree(recorded.folder / "store", store)
    public.write_text(key.public_key.hex())
    with provstore.open(f"embedded:{store}", read_only=False) as opened:
        opened.seal(run="a", signer=key, close="finished")
    return store, public


def test_signed_evidence_is_verified_before_it_is_used(recorded: Recorded, signed: tuple[Path, Path]) -> None:
    store, public = signed
    code, said = recorded("replay", "--run", "a", "--epoch", 2, "--public-key", public, store=store)
    assert (code, said["unverified"]) == (0, False)
    assert said["verification"]["verdict"] in ("pass", "limited")


def test_evidence_that_does_not_hold_is_refused_unless_that_is_asked_for_and_said(
    recorded: Recorded, signed: tuple[Path, Path], tmp_path: Path
) -> None:
    store, _ = signed
    other = tmp_path / "other.hex"
    other.write_text(PrivateKey.generate().public_key.hex())
    words = ("replay", "--run", "a", "--epoch", 2, "--public-key", other)
    code, said = recorded(*words, store=store)
    assert code == 1
    assert "--unverified" in said["error"]
    emitted = tmp_path / "out"
    code, said = recorded(*words, "--unverified", "--emit", emitted, store=store)
    assert (code, said["unverified"], said["verification"]["unverified"]) == (0, True, True)
    assert json.loads((emitted / "plan.json").read_text())["unverified"] is True
    assert (emitted / "restore.py").read_text().startswith("# UNVERIFIED")
    assert not (emitted / "checkpoint-evidence.json").exists()


def test_a_changed_record_is_never_planned_with(recorded: Recorded, signed: tuple[Path, Path]) -> None:
    store, public = signed
    (segment,) = store.rglob("*.pvj")
    data = bytearray(segment.read_bytes())
    data[data.index(b'"action_id":"gloo/0@0-1/40/0') + 22] ^= 1
    segment.write_bytes(data)
    code, said = recorded("replay", "--run", "a", "--epoch", 2, "--public-key", public, store=store)
    assert code in (1, 7)
    assert "plan" not in said


def test_safe_mode_refuses_to_recompute_and_still_plans(recorded: Recorded, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(recorded.folder / "store", store)
    uri = f"embedded:{store}"
    assert command_line(["--quiet", "--store", uri, "admin", "safe-mode", "on", "--reason", "look"]) == 0
    recorded.capsys.readouterr()
    assert recorded("replay", "--run", "a", "--epoch", 2, "--execute", store=store)[0] == 6
    assert recorded("replay", "--run", "a", "--epoch", 2, store=store)[0] == 0
