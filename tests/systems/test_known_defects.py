"""What recorders of training can get wrong is not wrong here: real ranks are recorded, and real commands are asked."""

from __future__ import annotations

import ast
import base64
import hashlib
import importlib.util
import json
import math
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import agent_records
import captures
import pytest

from provstore.api.recording import record
from provstore.errors import ConfigError
from provstore.evidence.keys import PrivateKey
from provstore.evidence.recording import detectors, signals
from provstore.evidence.recording.policy import compile_recording_policy
from provstore.ingest import recording
from provstore.journal import Journal
from provstore.model.recording import AnomalySignal, RiskContext

if importlib.util.find_spec("torch") is None:  # the project is tested without torch, too
    pytest.skip("needs the capture extra", allow_module_level=True)

import defects_job as job

from provstore.capture.content.digest import tensor_digest
from provstore.capture.content.shortfall import UnsupportedDtypeError

torch = job.torch
ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus" / "fr-gloo"
TRACE, LAUNCHER = "463ac35c9f6413ad48485a3953bb6124", "agent-run-7/action-2"
RUNS = ("plain", "again", "flipped", "deep", "spiky")
SEED = secrets.token_bytes(32)
WITH_KEY = ("--key", "env:RUN_KEY")
ESC = "\x1b"


@dataclass(frozen=True)
class Recorded:
    """A store with everything that the ranks left, and where that lies."""

    folder: Path
    store: Path

    def actions(self, run: str) -> list[Any]:
        with Journal.open(self.store / "journal", writable=False) as journal:
            return list(recording.actions(journal, run, 0))

    def bundles(self, run: str) -> list[recording.StoredBundle]:
        with Journal.open(self.store / "journal", writable=False) as journal:
            return recording.stored_bundles(journal, run)

    def agent_records(self, run: str) -> list[dict[str, Any]]:
        with Journal.open(self.store / "journal", writable=False) as journal:
            stored = [recording.agent_record(journal, one) for one in recording.stored_bundles(journal, run)]
        return [json.loads(one) for one in stored if one is not None]

    def escalations(self, run: str) -> list[dict[str, Any]]:
        with Journal.open(self.store / "journal", writable=False) as journal:
            return list(recording.escalations(journal, run, 0))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Four real ranks, recorded, and what they left taken in and signed."""
    folder = tmp_path_factory.mktemp("defects")
    environment = {**os.environ, "PROVSTORE_TRACE_ID": TRACE, "PROVSTORE_PARENT_ACTION": LAUNCHER}
    subprocess.run([sys.executable, job.__file__, folder], check=True, timeout=300, env=environment)
    record([folder / run for run in RUNS], store=f"embedded:{folder / 's'}", signer=PrivateKey.from_seed(SEED))
    return Recorded(folder, folder / "s")


def key_text() -> str:
    """The private key as another program writes it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return (
        Ed25519PrivateKey.from_private_bytes(SEED)
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


def provstore(
    store: Path, *arguments: str | Path, columns: int = 100, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as a user would."""
    command = [sys.executable, "-m", "provstore", *map(str, arguments), "--store", f"embedded:{store}"]
    surroundings = {
        **os.environ, "COLUMNS": str(columns), "PROVSTORE_TRUST": str(store / "none.json"), "RUN_KEY": key_text(),
    }  # fmt: skip
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**surroundings, **environment}
    )


def asked(store: Path, tool: str, **arguments: Any) -> dict[str, Any]:
    done = provstore(store, "agent-query", "--tool", tool, "--args", json.dumps(arguments))
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@cache
def exported(store: Path, folder: Path, run: str) -> Path:
    """All agent records of a run, those of single actions too, as the command writes them."""
    done = provstore(
        store, "evidence", "export", run, "--format", "aep-jsonl", "--per-action", "-o", folder / f"export-{run}",
        *WITH_KEY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / f"export-{run}"


def lines_of(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        yield from (json.loads(line) for line in file.read_bytes().splitlines())


# --- modes, labels and content


def test_an_ordinary_job_is_not_recorded_in_full(recorded: Recorded) -> None:
    found = Counter((one.op, one.policy_mode, one.mode) for one in recorded.actions("plain"))

    assert {mode for _, mode, _ in found} == {"delta", "validation"}
    assert found == {("all_reduce", "delta", "delta"): 4 * 12 + 2 * 6, ("barrier", "validation", "validation"): 4 * 6}


def test_an_action_is_not_suspicious_for_being_recorded_in_full(recorded: Recorded) -> None:
    said = asked(recorded.store, "list_suspicious_actions", run="deep")

    assert {one.mode for one in recorded.actions("deep")} == {"full"}
    assert [(one["rank"], one["step"]) for one in said["actions"]] == [(job.CHANGED_RANK, job.CHANGED_STEP)]


def test_a_healthy_run_has_no_suspicious_action(recorded: Recorded) -> None:
    assert asked(recorded.store, "list_suspicious_actions", run="plain")["total"] == 0


def test_no_label_stands_without_its_content(recorded: Recorded, tmp_path: Path) -> None:
    bare = shutil.copytree(recorded.folder / "deep", tmp_path / "bare")
    for file in bare.glob("snap-*"):
        file.unlink()
    report = record([bare], store=f"embedded:{tmp_path / 's'}")
    found = Recorded(bare, tmp_path / "s").actions("deep")

    assert {(one.policy_mode, one.mode) for one in found} == {("full", "delta")}
    assert all(one.shortfall for one in found)
    assert len(report.problems) == 2 * len(found)


def test_every_action_in_full_has_snapshots_of_both_sides_that_are_its_bytes(recorded: Recorded) -> None:
    with Journal.open(recorded.store / "journal", writable=False) as journal:
        (bundle,) = recording.stored_bundles(journal, "deep")
        held = {}
        for row in recording.table(journal, bundle, "snapshots-index"):
            data = recording.blob(journal, bundle, row["blob"])[row["offset"] :][: row["bytes"]]
            held[row["action"], row["side"]] = captures.tensor_digest(row["dtype"], row["shape"], data)
    found = recorded.actions("deep")

    assert len(found) == 20
    assert held == {
        (one.action_id, side): digest
        for one in found
        for side, digest in (("in", one.digest_in), ("out", one.digest_out))
    }


def test_dumps_of_torch_are_recorded_without_a_claim_of_content(recorded: Recorded, tmp_path: Path) -> None:
    record([recorded.folder / "dumps"], "dumped", epoch=3, store=f"embedded:{tmp_path / 's'}")
    found = Recorded(tmp_path, tmp_path / "s").actions("dumped")

    assert len(found) > 100
    assert {(one.mode, one.policy_mode, one.shortfall) for one in found} == {
        ("validation", "delta", ("no-tensor-access",)),
        ("validation", "validation", ()),
    }
    assert all(one.digest_in is None and one.delta_ref is None for one in found)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("name", ["many_ops", "healthy_3d", "nan"])
def test_stored_dumps_never_become_more_than_validation(tmp_path: Path, name: str) -> None:
    record([CORPUS / name], name, epoch=0, store=f"embedded:{tmp_path / 's'}")
    found = Recorded(tmp_path, tmp_path / "s")

    assert {one.mode for one in found.actions(name)} == {"validation"}
    assert {one.record["recording_mode"] for one in found.bundles(name)} == {"validation"}


def test_the_floor_of_modes_has_an_effect(recorded: Recorded, tmp_path: Path) -> None:
    record([recorded.folder / "plain"], store=f"embedded:{tmp_path / 's'}", mode_floor="full")
    found = Recorded(tmp_path, tmp_path / "s").actions("plain")

    assert {one.policy_mode for one in found} == {"full"}
    assert {one.policy_mode for one in recorded.actions("deep")} == {"full"}


# --- digests


def test_a_gradient_of_5000_elements_that_differs_at_2000_has_another_digest() -> None:
    gradient = torch.randn(5_000)
    changed = gradient.clone()
    changed[2_000] += 1e-3

    assert tensor_digest(torch, gradient) != tensor_digest(torch, changed)
    assert tensor_digest(torch, gradient) == tensor_digest(torch, gradient.clone())


def test_whole_numbers_that_are_one_float_have_two_digests() -> None:
    one, other = (torch.tensor([value]) for value in (16_777_216, 16_777_217))

    assert torch.equal(one.float(), other.float())
    assert tensor_digest(torch, one) != tensor_digest(torch, other)


def test_type_and_shape_are_part_of_a_digest() -> None:
    value = torch.arange(8, dtype=torch.int32)
    alike = [value, value.view(2, 4), value.view(torch.float32), value.view(torch.int64)]

    assert len({tensor_digest(torch, one) for one in alike}) == 4


def test_a_tensor_without_a_digest_is_an_error_and_not_nothing() -> None:
    with pytest.raises(UnsupportedDtypeError):
        tensor_digest(torch, torch.empty(3, device="meta"))


def test_the_recorded_digest_is_that_of_the_bytes_that_went_in(recorded: Recorded) -> None:
    """The job corrupts data, not labels: the changed gradient is made again, and its bytes are hashed by hand."""
    seed = 100 * job.CHANGED_STEP + job.CHANGED_RANK
    gradient = torch.randn(job.ELEMENTS, generator=torch.Generator().manual_seed(seed))
    expected = {"plain": gradient.numpy().tobytes()}
    gradient[job.CHANGED_AT] += 0.5
    expected["flipped"] = gradient.numpy().tobytes()
    for run, data in expected.items():
        first = next(
            one for one in recorded.actions(run) if (one.rank, one.step) == (job.CHANGED_RANK, job.CHANGED_STEP)
        )
        assert first.digest_in == captures.tensor_digest("float32", [job.ELEMENTS], data)


# --- escalation


def test_an_escalation_deepens_what_comes_and_relabels_nothing(recorded: Recorded) -> None:
    found = [one for one in recorded.actions("spiky") if one.rank == 0]
    modes = {one.step: one.mode for one in found}

    assert {modes[step] for step in range(job.LOSS_STEP - 3)} == {"delta"}
    assert {modes[step] for step in range(job.LOSS_STEP + 2, job.NORM_STEP)} == {"full"}
    assert all(one.policy_reason != "local mutation, low risk" for one in found if one.mode == "full")


def test_a_spike_of_the_loss_opens_one_escalation_at_its_step(recorded: Recorded) -> None:
    opened = [one for one in recorded.escalations("spiky") if one["event"] == "opened"]

    assert {(one["trigger"], one["opened_step"]) for one in opened} == {("loss-spike", job.LOSS_STEP)}
    assert sorted(one["rank"] for one in opened) == [0, 1, 2, 3]


def test_a_spike_of_the_gradient_norm_is_a_trigger_of_its_own(recorded: Recorded) -> None:
    extended = [one for one in recorded.escalations("spiky") if one["event"] == "extended"]

    assert {tuple(one["evidence"]) for one in extended} == {("extended-by:grad-norm",)}


def test_an_xid_in_the_kernel_log_orders_a_deeper_recording(recorded: Recorded, tmp_path: Path) -> None:
    capture = shutil.copytree(recorded.folder / "plain", tmp_path / "capture")
    log = tmp_path / "kern.log"
    log.write_text("[    1.0] nothing\n")
    arguments = ("watch", "--directory", capture, "--kernel-log", log, "--once")
    before = provstore(recorded.store, *arguments)
    with log.open("a") as file:
        file.write("[999999999.5] NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n")
    after = provstore(recorded.store, *arguments)
    ordered = json.loads((capture / "control.json").read_text())["escalations"]

    assert before.returncode in {0, 3}
    assert after.returncode == 1, after.stdout + after.stderr
    assert [(one["trigger"], one["rule"]) for one in ordered] == [("xid", "P1")]


def test_a_score_that_is_no_number_is_refused_and_fires_nothing() -> None:
    with pytest.raises(ConfigError):
        AnomalySignal("detector", math.nan)
    with pytest.raises(ConfigError):
        signals.score(math.nan, 6.0)
    forced = object.__new__(AnomalySignal)
    object.__setattr__(forced, "source", "detector")
    object.__setattr__(forced, "score", math.nan)
    context = RiskContext(side_effect_class="mutate-local")

    assert compile_recording_policy(context, None, forced).mode == "delta"


def test_there_is_one_class_of_anomaly_signals() -> None:
    defined = [
        (path.name, node.name)
        for path in (ROOT / "provstore").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and "anomaly" in node.name.lower()
    ]

    assert defined == [("recording.py", "AnomalySignal")]


def test_a_leap_out_of_values_without_any_variance_escalates() -> None:
    loss = detectors.LossSpike()
    for _ in range(40):
        loss.update(2.0)
    found = loss.update(50.0)

    assert found is not None
    assert found.is_firing
    assert found.signal.score > 0.8


def test_scores_tell_small_distances_from_large_ones() -> None:
    scores = [signals.score(z, 6.0) for z in (0.0, 1.0, 3.0, 6.0, 6.1, 12.0, 1e9)]

    assert scores == sorted(set(scores))
    assert [one > 0.8 for one in scores] == [False] * 4 + [True] * 3
    assert scores[5] == pytest.approx(0.9)


# --- bundles, records, signatures


def test_record_writes_a_bundle_for_every_epoch(recorded: Recorded) -> None:
    assert [one.epoch for one in recorded.bundles("plain")] == [0, 1]
    assert [one.record["actions"]["count"] for one in recorded.bundles("plain")] == [42, 42]
    assert all(one.link is not None and one.link["aep"] for one in recorded.bundles("plain"))


@pytest.mark.parametrize("run", ["plain", "spiky"])
def test_every_emitted_record_fits_the_published_schema(recorded: Recorded, run: str) -> None:
    protocol, jsonschema = pytest.importorskip("wasmagent_protocol"), pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(protocol.get_schema("aep-record"))
    found = [*lines_of(exported(recorded.store, recorded.folder, run)), *recorded.agent_records(run)]

    assert sum(len(one["actions"]) for one in found) > len(recorded.actions(run))
    assert [error.message for one in found for error in checker.iter_errors(one)] == []


def test_the_trace_id_of_the_environment_arrives_in_the_record(recorded: Recorded) -> None:
    found = recorded.agent_records("plain")

    assert [one["trace_id"] for one in found] == [TRACE, TRACE]
    assert all(f"aep://{LAUNCHER}" in {ref["uri"] for ref in one["input_refs"]} for one in found)


def test_signatures_are_dsse_and_verify_without_any_of_this_code(recorded: Recorded) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(SEED).public_key()
    found = [*recorded.agent_records("plain"), *lines_of(exported(recorded.store, recorded.folder, "plain"))]
    for one in found:
        envelope = one["dsse_envelope"]
        body = base64.b64decode(envelope["payload"], validate=True)
        public.verify(
            base64.b64decode(envelope["signatures"][0]["sig"], validate=True),
            agent_records.pae(envelope["payloadType"], body),
        )
        inline = {name: value for name, value in one.items() if name not in {"signature", "dsse_envelope"}}
        assert json.loads(body)["predicate"] == inline


def verified(folder: Path, records: list[dict[str, Any]], recorded: Recorded) -> dict[str, Any]:
    """Give records to the command, with the key; return its answer."""
    file = folder / "records.jsonl"
    file.write_bytes(b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in records))
    name = records[0]["signature"]["key_id"]
    public = PrivateKey.from_seed(SEED).public_key.hex()
    done = provstore(recorded.store, "verify", file, "--agent-key", f"{name}={public}", "--json")
    answer: dict[str, Any] = json.loads(done.stdout)["answers"][0]
    return answer


def statuses(answer: dict[str, Any]) -> list[str]:
    return [one["axes"]["authenticity"].get("status", "not evaluated") for one in answer["records"]]


def test_what_is_exported_is_valid_and_chained(recorded: Recorded, tmp_path: Path) -> None:
    answer = verified(tmp_path, recorded.agent_records("plain"), recorded)

    assert statuses(answer) == ["valid", "valid"]
    assert answer["chain"]["status"] == "intact"


@pytest.mark.parametrize(("member", "value"), [("alg", "rsa"), ("key_id", "somebody-else")])
def test_algorithm_and_key_of_a_signature_do_not_change_unseen(
    recorded: Recorded, tmp_path: Path, member: str, value: str
) -> None:
    records = recorded.agent_records("plain")
    untouched = statuses(verified(tmp_path, records, recorded))
    records[1]["signature"][member] = value
    answer = verified(tmp_path, records, recorded)

    assert untouched == ["valid", "valid"]
    assert statuses(answer)[0] == "valid"
    assert statuses(answer)[1] != "valid" or "signature-copy-differs" in json.dumps(answer["records"][1])


def test_a_member_that_nobody_knows_is_kept_and_covered_by_the_signature(recorded: Recorded, tmp_path: Path) -> None:
    records = recorded.agent_records("plain")
    records[0]["x_unknown"] = "1"

    assert statuses(verified(tmp_path, records, recorded)) == ["binding-mismatch", "valid"]


def test_an_epoch_is_chained_to_the_one_before_it(recorded: Recorded, tmp_path: Path) -> None:
    first, second = recorded.agent_records("plain")
    unsigned = {name: value for name, value in first.items() if name not in {"signature", "dsse_envelope"}}

    assert first["prev_record_hash"] is None
    assert second["prev_record_hash"] == hashlib.sha256(agent_records.canon(unsigned)).hexdigest()
    assert verified(tmp_path, [second, first], recorded)["chain"]["status"] != "intact"


def test_an_empty_object_is_no_bundle_and_no_record(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("epoch-0.json", "records.aep.jsonl"):
        (tmp_path / name).write_text("{}")
        for command in ("verify", "ingest", "record"):
            more = ("--run", "x", "--epoch", "0") if command == "record" else ()
            done = provstore(tmp_path / "s", command, tmp_path / name, *more)
            assert done.returncode in {1, 2}, (command, done.stdout)
            assert "Traceback" not in done.stderr


def test_there_is_no_negative_epoch(recorded: Recorded, tmp_path: Path) -> None:
    done = provstore(tmp_path / "s", "record", recorded.folder / "dumps", "--run", "x", "--epoch", "-1")

    assert done.returncode == 2
    assert "epoch" in done.stderr
    assert not (tmp_path / "s").exists()


# --- secrets and output


def test_no_key_is_taken_from_the_command_line(recorded: Recorded, tmp_path: Path) -> None:
    for given in (SEED.hex(), base64.b64encode(SEED).decode(), f"hex:{SEED.hex()}"):
        for command in (("record", recorded.folder / "plain"), ("seal",)):
            done = provstore(tmp_path / "s", *command, "--key", given)
            assert done.returncode == 2, done.stdout
            assert given not in done.stdout + done.stderr


def test_a_signature_is_never_wrapped_or_coloured(recorded: Recorded, tmp_path: Path) -> None:
    capture = recorded.folder / "plain"
    provstore(tmp_path / "s", "record", capture)
    sealed = provstore(tmp_path / "s", "seal", *WITH_KEY, columns=40, FORCE_COLOR="1")
    raw = provstore(tmp_path / "s", "evidence", "show", "epoch:plain:0", "--raw", columns=40, FORCE_COLOR="1")
    signature = json.loads(raw.stdout)["signatures"][0]["sig"]
    signed = [line for line in sealed.stdout.splitlines() if line.lstrip().startswith("— ")]

    assert len(signature) == 88
    assert ESC not in raw.stdout
    assert len(signed) == 1
    assert len(base64.b64decode(signed[0].split()[-1], validate=True)) == 4 + 64
    assert ESC not in signed[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("evidence", "list", "--json"),
        ("evidence", "show", "epoch:plain:0", "--json"),
        ("diff", "plain", "flipped", "--json"),
        ("verify", "plain", "--json", "--source", "journal", "--no-keep-anchor"),
        ("agent-query", "--tool", "summarize_epoch", "--args", '{"run":"plain","epoch":0}'),
    ],
    ids=lambda one: one[0] + one[1],
)
def test_output_for_machines_is_neither_wrapped_nor_coloured(recorded: Recorded, arguments: tuple[str, ...]) -> None:
    if "verify" in arguments:
        arguments = (*arguments, "--public-key", str(public_key(recorded.folder)))
    narrow, wide = (
        provstore(recorded.store, *arguments, columns=columns, FORCE_COLOR="1").stdout for columns in (20, 300)
    )

    assert ESC not in narrow
    assert json.loads(narrow).keys() == json.loads(wide).keys()
    assert [len(line) for line in narrow.splitlines()] == [len(line) for line in wide.splitlines()]


def public_key(folder: Path) -> Path:
    """The public key of the run as another program writes it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    file = folder / "run.pub"
    file.write_bytes(
        Ed25519PrivateKey.from_private_bytes(SEED)
        .public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    return file


def test_names_that_look_like_markup_crash_nothing_and_colour_nothing(recorded: Recorded, tmp_path: Path) -> None:
    name = f"[/red]{ESC}[31m[bold]"
    capture = shutil.copytree(recorded.folder / "plain", tmp_path / "capture")
    store = tmp_path / "s"
    first = provstore(store, "record", capture, "--run", name, "--json")
    outputs = [first, provstore(store, "record", capture, "--run", name)]
    outputs.append(provstore(store, "seal", *WITH_KEY))
    outputs += [provstore(store, *one) for one in (
        ("evidence", "list"),
        ("evidence", "list", name),
        ("evidence", "show", f"epoch:{name}:0"),
        ("evidence", "show", name),
        ("diff", name, "[/red]"),
        ("trace", name),
        ("query", name),
        ("agent-query", "--tool", "summarize_epoch", "--args", json.dumps({"run": name, "epoch": 0})),
        ("agent-query", "--tool", name, "--args", name),
    )]  # fmt: skip

    assert [one.returncode for one in outputs] == [0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 0, 2]
    assert not any(ESC in one.stdout + one.stderr for one in outputs)
    assert not any("Traceback" in one.stderr for one in outputs)
    assert "[/red]" in outputs[3].stdout


# --- safe mode, groups, differences


def test_safe_mode_holds_in_other_processes_until_it_is_ended(recorded: Recorded, tmp_path: Path) -> None:
    store = tmp_path / "s"
    provstore(store, "record", recorded.folder / "plain")
    provstore(store, "admin", "safe-mode", "on", "--reason", "a disk is copied")
    refused = provstore(store, "record", recorded.folder / "again")
    listed = provstore(store, "evidence", "list")
    provstore(store, "admin", "resume")
    allowed = provstore(store, "record", recorded.folder / "again")

    assert refused.returncode == 6
    assert "a disk is copied" in refused.stderr
    assert listed.returncode == 0
    assert allowed.returncode == 0


def test_a_group_of_some_ranks_makes_no_rank_missing(recorded: Recorded) -> None:
    groups = {one.group: set() for one in recorded.actions("plain")}
    for one in recorded.actions("plain"):
        groups[one.group].add(one.rank)

    assert sorted(map(sorted, groups.values())) == [[0, 1], [0, 1, 2, 3]]
    assert [one.missing_ranks for one in recorded.bundles("plain")] == [[], []]
    assert asked(recorded.store, "summarize_epoch", run="plain", epoch=0)["missing_ranks"] == []


def test_what_one_rank_alone_cannot_show_is_found_among_the_ranks(recorded: Recorded, tmp_path: Path) -> None:
    capture = shutil.copytree(recorded.folder / "plain", tmp_path / "capture")
    file = capture / "capture-rank3.jsonl"
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    last = [line for line in lines if line["t"] == "call" and line["op"] == "all_reduce"][-1]
    last["out"] = "sha256:" + "0" * 64
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    record([capture], store=f"embedded:{tmp_path / 's'}")
    said = asked(tmp_path / "s", "list_suspicious_actions", run="plain")

    assert [(one["rank"], one["seq"], one["code"]) for one in said["actions"]] == [
        (3, last["seq"], "replica-disagreement")
    ]


def differences(recorded: Recorded, a: str, b: str) -> tuple[int, dict[str, Any]]:
    done = provstore(recorded.store, "diff", a, b, "--json", "--unverified")
    assert done.returncode in {0, 1, 3}, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_two_equal_runs_have_no_first_difference_and_that_is_null(recorded: Recorded) -> None:
    code, said = differences(recorded, "plain", "again")

    assert code == 0
    assert said["first_divergence"] is None
    assert said["coverage"]["different"] == 0
    assert said["coverage"]["equal"] == 2 * (4 * 12 + 2 * 6)


def test_a_difference_is_seen_in_digests_and_the_comparison_goes_on_after_it(recorded: Recorded) -> None:
    code, said = differences(recorded, "plain", "flipped")
    first = said["first_divergence"]

    assert code == 1
    assert (first["step"], first["ranks"], first["kind"]) == (job.CHANGED_STEP, [job.CHANGED_RANK], "input-digest")
    assert said["differences"] == {"input-digest": 2, "output-digest": 2 * 4}
    assert said["coverage"]["compared"] == said["coverage"]["equal"] + said["coverage"]["different"]


def test_how_much_is_equal_is_told_beside_how_much_was_compared(recorded: Recorded) -> None:
    shown = provstore(recorded.store, "diff", "plain", "flipped", "--unverified").stdout

    assert "110 of 120 digests equal, 10 different" in shown


def test_a_step_is_the_step_of_the_program_and_not_a_sequence_number(recorded: Recorded) -> None:
    found = recorded.actions("flipped")

    assert {one.step for one in found} == set(range(job.STEPS))
    assert any(one.seq != one.step for one in found)


# --- what is promised


def commands_of(*group: str) -> list[str]:
    """The commands that the help of a group lists; nothing for a command."""
    shown = subprocess.run(
        [sys.executable, "-m", "provstore", *group, "--help"], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "100"},
    ).stdout  # fmt: skip
    _, found, listed = shown.partition("\nCommands:\n")
    return re.findall(r"^  ([a-z][a-z-]*)  ", listed, re.MULTILINE) if found else []


def named_commands(page: str) -> list[str]:
    """What stands after the name of the program in the code of a page."""
    blocks = re.findall(r"^```.*?^```$", page, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`provstore((?: [a-z][a-z-]*)+)", page)
    lines = re.findall(r"^(?:\$ )?provstore((?: [a-z][a-z-]*)+)", "\n".join(blocks), re.MULTILINE)
    return [*spans, *lines]


def test_every_command_that_a_page_names_exists() -> None:
    known = {name: commands_of(name) for name in commands_of()}
    unknown, seen = [], []
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for words in named_commands(page.read_text("utf-8")):
            seen.append(words)
            first, *rest = words.split()
            if first not in known or (rest and known[first] and rest[0] not in known[first]):
                unknown.append((page.name, words))

    assert {"record", "diff", "export", "replay", "evidence", "admin"} <= known.keys()
    assert len(seen) > 50
    assert unknown == []


def test_an_id_that_is_not_there_is_an_error_and_no_empty_answer(recorded: Recorded) -> None:
    commands = [
        ("evidence", "list", "nobody"),
        ("evidence", "show", "epoch:nobody:0"),
        ("diff", "nobody", "plain"),
        ("verify", "run:nobody", "--no-keep-anchor"),
        ("agent-query", "--tool", "summarize_epoch", "--args", '{"run":"nobody","epoch":0}'),
        ("replay", "--run", "plain", "--epoch", "7"),
    ]

    assert {provstore(recorded.store, *one).returncode for one in commands} == {2}
