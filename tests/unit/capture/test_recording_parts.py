"""The parts of the live recorder that need no job: faults, files, order of lines, trace context, orders, states."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, torch_release

import provstore.capture
from provstore.capture.recording import outbox as outboxes
from provstore.capture.recording.alarms import Alarms, escalation_members, left_behind
from provstore.capture.recording.anchors import OrderAnchor
from provstore.capture.recording.capture_file import CaptureFile, line_of
from provstore.capture.recording.guard import Guard
from provstore.capture.recording.job_header import file_facts, without_userinfo
from provstore.capture.recording.outbox import Entry, Outbox
from provstore.capture.recording.trace_context import trace_context
from provstore.errors import ConfigError
from provstore.evidence.recording import orders

needs_torch = pytest.mark.skipif(torch_release() == (0, 0), reason="torch is not installed")


def fail(text: str = "broken") -> None:
    raise ValueError(text)


def test_a_fault_is_caught_counted_logged_five_times_and_written_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written: list[tuple[str, str, int]] = []
    guard = Guard(lambda *fault: written.append(fault))

    with caplog.at_level(logging.WARNING, "provstore.capture"):
        assert [guard.run("a place", fail) for _ in range(40)] == [None] * 40

    assert len(caplog.records) == 5
    assert [count for _, _, count in written] == [1, 2, 3, 4, 5, 8, 16, 32]
    assert written[0][:2] == ("a place", "ValueError: broken")


def test_twenty_faults_in_a_row_at_one_place_leave_identities_only_until_the_next_epoch() -> None:
    guard = Guard(lambda *fault: None)
    for _ in range(19):
        guard.run("a place", fail)
    guard.run("another place", fail)
    assert not guard.identity_only
    guard.run("a place", int)
    for _ in range(19):
        guard.run("a place", fail)
    assert not guard.identity_only, "a success in between begins a new row"

    guard.run("a place", fail)
    assert guard.identity_only
    guard.begin_epoch()
    assert not guard.identity_only


def test_a_fault_that_cannot_be_written_stays_inside() -> None:
    assert Guard(lambda *fault: fail()).run("a place", fail) is None


def test_a_restart_goes_on_in_the_next_file_and_knows_the_one_before(tmp_path: Path) -> None:
    files = [CaptureFile(tmp_path, 3) for _ in range(3)]

    assert [file.path.name for file in files] == [
        "capture-rank3.jsonl", "capture-rank3.1.jsonl", "capture-rank3.2.jsonl",
    ]  # fmt: skip
    assert [file.before() for file in files] == [None, files[0].path, files[1].path]
    for file in files:
        file.close()
        file.close()


def test_a_line_that_does_not_fit_leaves_no_part_of_itself_and_later_ones_are_tried_again(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from provstore.capture.recording.capture_file import CaptureFile\n"
        "file = CaptureFile(Path(sys.argv[1]), 0); file.write([b'first'])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60, resource.RLIM_INFINITY))\n"
        "try: file.write([b'x' * 100, b'y'])\n"
        "except OSError: pass\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "file.write([b'last']); print(file.lost)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert (tmp_path / "capture-rank0.jsonl").read_bytes() == b"first\nlast\n"
    assert done.stdout == "2\n"


def written(file: CaptureFile) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.path.read_text().splitlines()]


def test_lines_keep_their_order_and_get_the_step_that_ends_after_them(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path, 0)
    outbox = Outbox(file)
    outbox.epoch = 4
    slow = Entry(None, needs_step=True, ordinal=outbox.ordinal())
    outbox.add(slow)
    outbox.put({"t": "b", "epoch": None}, needs_step=True)
    outbox.flush()
    assert written(file) == []

    assert outbox.end_step(7) == [0, 0]
    outbox.put({"t": "c"})
    outbox.flush()
    assert written(file) == [], "what comes later waits for what is not finished"
    slow.line = {"t": "a", "epoch": None}
    outbox.flush()

    assert written(file) == [{"t": "a", "epoch": 4, "step": 7}, {"t": "b", "epoch": 4, "step": 7}, {"t": "c"}]
    assert outbox.end_step(8) == []


def test_in_a_hang_lines_are_written_without_what_never_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CaptureFile(tmp_path, 0)
    outbox = Outbox(file)
    outbox.epoch = 0
    monkeypatch.setattr(outboxes, "CONTENT_WAIT_SECONDS", -1.0)
    monkeypatch.setattr(outboxes, "STEP_WAIT_SECONDS", -1.0)
    outbox.add(Entry(None, needs_step=True, unfinished=lambda: {"t": "call", "mode": "validation"}))

    outbox.flush()

    assert written(file) == [{"t": "call", "mode": "validation"}]


@pytest.mark.parametrize(
    ("option", "variable", "carrier", "chosen", "conflicts"),
    [
        (None, None, "", None, ()),
        ("a", "b", "00-c-d-01", "a", ("b", "00-c-d-01")),
        (None, "b", "", "b", ()),
        (None, "c", "00-c-d-01", "c", ()),
        (None, None, "00-c-d-01", "00-c-d-01", ()),
        ("a", "a", "00-a-d-01", "a", ()),
    ],
)
def test_the_first_of_option_variable_and_carrier_is_the_trace_id_and_others_that_differ_are_kept(
    option: str | None, variable: str | None, carrier: str, chosen: str | None, conflicts: tuple[str, ...]
) -> None:
    environment = {"TRACEPARENT": carrier} | ({"PROVSTORE_TRACE_ID": variable} if variable else {})

    found = trace_context(option, environment=environment)

    assert (found.trace_id, found.conflicts) == (chosen, conflicts)


def test_parents_come_from_options_before_the_environment() -> None:
    environment = {"PROVSTORE_PARENT_TRACE_ID": "p", "PROVSTORE_PARENT_ACTION": "run/action"}

    assert trace_context(environment=environment).parent_trace_id == "p"
    assert trace_context(parent_action="x/y", environment=environment).parent_action == "x/y"


def test_orders_are_obeyed_at_the_step_they_name_and_open_escalations_are_found_again(tmp_path: Path) -> None:
    opened: list[Any] = []
    alarms = Alarms(tmp_path, 1, None, opened.append)
    assert alarms.end_step(0, 1.0, None, norm_is_local=False) == []
    orders.give(tmp_path, orders.Order(0, "manual", "rank:1", "P1", 0, "why", "operator", 5, 2))

    (news,) = alarms.end_step(1, 1.0, None, norm_is_local=False)
    alarms.saw_call("0@0-3", is_finite=False)

    assert (news.event, news.scope, news.source) == ("opened", "rank:1", "operator")
    assert [one.scope for one in opened] == ["rank:1", "group:0@0-3"]
    deciding, covering = alarms.in_force(("rank:1", "group:0@0-3"))
    assert deciding is not None
    assert deciding.rule == "P1"
    assert covering == ("operator/esc-0", "rank:1/esc-0")
    file = CaptureFile(tmp_path, 1)
    file.write(line_of("escalation", epoch=2, at_ns=1, **escalation_members(one)) for one in opened)
    file.close()
    found, first = left_behind(file.path)
    assert (found, first) == (opened, 1)


def test_an_order_before_the_first_step_of_a_resumed_job_lasts_its_steps_and_no_restart_begins_it_anew(
    tmp_path: Path,
) -> None:
    orders.give(tmp_path, orders.Order(0, "manual", "run", "P1", 0, "why", "operator", 5, 2))
    file = CaptureFile(tmp_path, 0)
    events: list[tuple[int, str]] = []
    for first in (5000, 5001):
        alarms = Alarms(tmp_path, 0, None, lambda one: None)
        for step in range(first, first + 4):
            events += [(step, one.event) for one in alarms.end_step(step, 1.0, None, norm_is_local=False)]
            file.write([line_of("step", epoch=0, step=step)])
    file.close()

    assert events == [(5000, "opened"), (5002, "closed"), (5001, "opened"), (5002, "closed")]


@pytest.mark.parametrize("text", ["{", '{"schema":"provstore-control/2","orders":[]}'], ids=["torn", "later"])
def test_a_control_file_that_is_broken_or_of_a_later_version_orders_nothing_and_is_said(
    tmp_path: Path, text: str
) -> None:
    alarms = Alarms(tmp_path, 0, None, lambda one: None)
    (tmp_path / orders.FILE).write_text(text)
    faults: list[Any] = []
    guard = Guard(lambda *fault: faults.append(fault))

    guard.run("alarms", lambda: alarms.end_step(0, 1.0, None, norm_is_local=False))

    assert "control file" in faults[0][1]
    assert not alarms.is_escalated
    assert alarms.end_step(1, 1.0, None, norm_is_local=False) == []


def test_the_order_of_calls_begins_anew_with_each_epoch() -> None:
    one, other = OrderAnchor(), OrderAnchor()
    one.add("all_reduce", "0@0-3", 17)
    one.begin_epoch()
    for start, anchor in ((18, one), (0, other)):
        for number in range(3):
            anchor.add("all_reduce", "0@0-3", start + number)
            anchor.add("send", "0@0-3", 5 * start + number, is_point_to_point=True)

    assert one.digest() == other.digest()
    lines = "".join(f"all_reduce\0{'0@0-3'}\0{n}\nsend\0{'0@0-3'}\0{n}\n" for n in range(3))
    assert one.digest() == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def test_calls_in_which_ddp_tells_its_buckets_change_neither_the_order_nor_the_numbers_after_them() -> None:
    early, late = OrderAnchor(), OrderAnchor()
    early.add("all_reduce", "0@0-1", 20)
    early.add("all_reduce", "0@0-1", 21)
    early.add("barrier", "0@0-1", 22)
    late.leave_out("0@0-1", 3)
    late.add("all_reduce", "0@0-1", 4)
    late.leave_out("0@0-1", 5)
    late.leave_out("0@0-1", 6)
    late.add("all_reduce", "0@0-1", 7)
    late.add("barrier", "0@0-1", 8)

    assert late.digest() == early.digest()


def test_addresses_lose_user_and_password_and_files_are_named_with_size_and_digest(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "model.bin").write_bytes(b"abc")

    assert without_userinfo("s3://user:secret@bucket/a@b") == "s3://bucket/a@b"
    assert without_userinfo("/plain/path@2") == "/plain/path@2"
    assert file_facts([tmp_path]) == [
        {
            "path": "inner/model.bin",
            "bytes": 3,
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        }
    ]


def test_switched_off_the_recorder_does_nothing_and_needs_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setenv("PROVSTORE_CAPTURE", "0")
    for options in ({}, {"enabled": False}):
        with provstore.capture.evidence("run", tmp_path / "none", **options) as recorder:
            recorder.begin_epoch(0)
            recorder.data([1])
            recorder.step(0, loss=1.0)
            recorder.rng()
            recorder.gradients(object())
            recorder.modules(object(), outputs=["x"])
            recorder.checkpoint("s3://bucket/x")
        assert recorder.path is None
        monkeypatch.delenv("PROVSTORE_CAPTURE", raising=False)
    assert list(tmp_path.iterdir()) == []


@needs_torch
@pytest.mark.parametrize(
    "options", [{"run": ""}, {"mode_floor": "most"}, {"attempt": -1}, {"classes": {"send": "worse"}}]
)
def test_a_callers_mistake_is_said_before_training_begins(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        provstore.capture.evidence(**{"run": "run", "directory": tmp_path, **options})


@needs_torch
def test_states_of_generators_come_back_from_their_blob() -> None:
    import numpy as np
    import torch

    from provstore.capture.recording.rng_states import digest_of, restore_rng, rng_blob

    def drawn() -> tuple[Any, ...]:
        return random.gauss(0, 1), random.random(), np.random.randn(3).tolist(), torch.rand(3).tolist()

    random.gauss(0, 1)
    np.random.randn()
    blob, names = rng_blob(torch)
    assert rng_blob(torch)[0] == blob, "reading draws nothing"
    first = drawn()

    assert restore_rng(blob, torch) == names == ["numpy", "python", "torch"]
    assert drawn() == first
    assert digest_of(rng_blob(torch)[0]) != digest_of(blob)
    with pytest.raises(ConfigError):
        restore_rng(b"{}", torch)


@needs_torch
def test_a_state_has_the_digest_of_its_tensors_and_numbers_wherever_it_lies() -> None:
    import torch

    from provstore.capture.recording.state_digests import ids_digest, state_digest

    net = torch.nn.Linear(2, 1)
    state = {"weight": net.weight.detach().clone(), "bias": net.bias.detach().clone()}
    assert state_digest(torch, net) == state_digest(torch, state)
    changed = {**state, "bias": state["bias"] + 1}
    assert state_digest(torch, changed) != state_digest(torch, state)
    line = b"a.0\0" + b"f64:0x1.8000000000000p+0" + b"\n"
    assert state_digest(torch, {"a": [1.5]}) == f"sha256:{hashlib.sha256(line).hexdigest()}"
    with pytest.raises(TypeError):
        state_digest(torch, {"a": object()})
    with pytest.raises(ValueError, match="no sha256"):
        state_digest(torch, "abc")
    assert ids_digest(torch.tensor([1, 2])) == ids_digest([1, 2]) == ids_digest(["1", "2"])
    listed = hashlib.sha256(b'["1","2"]').hexdigest()
    assert ids_digest([1, 2]) == (f"sha256:{listed}", 2)


def test_the_package_is_imported_without_torch_and_without_the_recorder() -> None:
    code = (
        "import sys, provstore.capture\n"
        "print([name for name in sys.modules if name.startswith(('torch', 'numpy', 'provstore.capture.recording'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert done.stdout == "[]\n"


def test_a_loss_that_still_requires_its_gradient_is_a_loss_like_any_other() -> None:
    torch = pytest.importorskip("torch")
    from provstore.capture.recording.session import _number

    loss = torch.tensor([2.0, 4.0], requires_grad=True).mean()
    assert _number(loss) == 3.0
    assert loss.requires_grad
    assert _number(None) is None
    assert _number(1) == 1.0


@pytest.mark.parametrize("limits", [5, {"steady_share": 0.1}, "all"])
def test_limits_that_are_none_are_refused_before_anything_is_hooked(tmp_path: Path, limits: object) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ConfigError, match=r"limits: are no provstore\.capture\.content\.limits\.Limits$"):
        provstore.capture.evidence("job", tmp_path / "capture", limits=limits)

    assert not (tmp_path / "capture").exists()
