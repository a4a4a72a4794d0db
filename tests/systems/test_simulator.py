"""The simulator's own files keep to the format's rules, so that what is tested with them is tested on dumps."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from simulator import VERSIONS, Fault, Scenario, Shape3D, Style, simulate
from simulator.program import numel
from simulator.sampling import LAYOUT_NAMES, draw

ENTRY_KEYS = {
    "none": "pg_id seq_id profiling_name time_created_us input_sizes output_sizes state retired frames",
    "1.4": "record_id pg_id seq_id op_id profiling_name time_created_ns input_sizes output_sizes state "
    "time_discovered_started_ns time_discovered_completed_ns retired frames",
    "2.1": "record_id pg_id process_group collective_seq_id p2p_seq_id op_id profiling_name time_created_ns "
    "input_sizes input_dtypes output_sizes output_dtypes state time_discovered_started_ns "
    "time_discovered_completed_ns retired is_p2p frames",
}


class _NoGlobals(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}: a dump needs no global")


def _load(path: Path) -> Any:
    return _NoGlobals(io.BytesIO(path.read_bytes())).load()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_the_fields_of_its_time_and_no_pickle_needs_a_global(version: str, tmp_path: Path) -> None:
    outcome = simulate(Scenario("ddp", Shape3D(2, steps=2), style=Style(version=version)))
    dump = _load(outcome.write(tmp_path)[0])
    entries = dump if version == "none" else dump["entries"]
    expected = set(ENTRY_KEYS.get(version, ENTRY_KEYS["2.1"]).split())
    if version in ("2.4", "2.9", "2.10"):
        expected |= {"timeout_ms"}
    if version in ("2.9", "2.10"):
        expected |= {"thread_id", "thread_name"}
    assert {frozenset(entry) for entry in entries} == {frozenset(expected)}
    assert version == "none" or dump["version"] == version


@pytest.mark.parametrize("layout", LAYOUT_NAMES)
def test_a_job_without_fault_ends_and_its_members_agree_in_every_call(layout: str) -> None:
    outcome = simulate(draw(layout, "none", 1))
    calls: dict[tuple[int, int, str], list[tuple[str, int]]] = defaultdict(list)
    for recording in outcome.recordings:
        for entry in recording.entries:
            if not entry.is_p2p and "all_to_all" not in entry.name:
                size = numel(entry.ins) if entry.ins else 0
                inner = f"{entry.op_id} {entry.name.endswith('coalesced')}" if layout == "coalesced" else ""
                calls[entry.group.key, entry.seq, inner].append((entry.name, size))
    assert not outcome.truth.hangs
    assert all(len(set(rows)) == 1 for rows in calls.values())
    assert all(len(rows) == len(outcome.job.groups[key].ranks) for (key, _, _), rows in calls.items())


@pytest.mark.parametrize("layout", ["megatron", "megatron_batched", "context"])
def test_every_send_has_its_receive_in_a_job_without_fault(layout: str) -> None:
    outcome = simulate(draw(layout, "none", 2))
    sent: dict[tuple[int, int, int], int] = defaultdict(int)
    for recording in outcome.recordings:
        for entry in recording.entries:
            words = entry.name.removeprefix("nccl:").split()
            if words[0] == "send":
                source, target = map(int, words[1].split("->"))
                sent[entry.group.key, source, target] += 1
            elif words[0] == "recv":
                target, source = map(int, words[1].split("<-"))
                sent[entry.group.key, source, target] -= 1
    assert sent
    assert set(sent.values()) == {0}


def test_record_ids_count_up_and_a_small_buffer_keeps_the_newest(tmp_path: Path) -> None:
    outcome = simulate(Scenario("fsdp", Shape3D(2), buffer=10))
    for path in outcome.write(tmp_path):
        ids = [entry["record_id"] for entry in _load(path)["entries"]]
        assert ids == list(range(ids[0], ids[0] + 10))
        assert ids[0] > 0


def test_equal_stacks_are_one_object_as_torch_writes_them(tmp_path: Path) -> None:
    dump = _load(simulate(Scenario("ddp", Shape3D(2))).write(tmp_path)[0])
    stacks = [entry["frames"] for entry in dump["entries"]]
    assert len({id(stack) for stack in stacks}) == len({json.dumps(stack) for stack in stacks})


def test_gloo_hides_transfers_but_counts_them_and_says_little_about_groups(tmp_path: Path) -> None:
    outcome = simulate(Scenario("megatron", Shape3D(4, tp=2, pp=2, backend="gloo")))
    dump = _load(outcome.write(tmp_path)[1])
    names = {entry["profiling_name"] for entry in dump["entries"]}
    pipeline = [row for row in outcome.recordings[1].statuses if row.group.desc.startswith("PIPELINE")]
    assert dump["pg_config"] == {"": {"name": "", "desc": "", "ranks": "[]"}}
    assert not any("send" in name or "recv" in name for name in names)
    assert {entry["state"] for entry in dump["entries"]} == {"scheduled"}
    assert pipeline[0].enqueued > 0


def test_json_keeps_the_differences_that_torch_makes(tmp_path: Path) -> None:
    outcome = simulate(Scenario("ddp", Shape3D(2), style=Style(form="json")))
    dump = json.loads(outcome.write(tmp_path)[0].read_text())
    entry = dump["entries"][0]
    assert dump["pg_status"]["0"]["last_enqueued_collective"].isdecimal()
    assert "frames" not in entry
    assert entry["time_discovered_started_ns"] == 0
    assert entry["process_group"] == ["0", "default_pg"]


def test_a_stuck_host_leaves_its_peers_waiting_in_a_call_it_never_made() -> None:
    outcome = simulate(Scenario("ddp", Shape3D(4), faults=(Fault("stuck", 2),)))
    last = {recording.rank: recording.entries[-1] for recording in outcome.recordings}
    assert outcome.truth.culprits == {2}
    assert last[2].state == "completed"
    assert all(last[rank].state == "scheduled" and last[rank].seq > last[2].seq for rank in (0, 1, 3))


def test_a_device_that_stops_lets_its_peers_finish_the_call() -> None:
    outcome = simulate(Scenario("hsdp", Shape3D(8, shard=4), faults=(Fault("device", 5),)))
    ((group, number),) = outcome.truth.instances
    states = {
        recording.rank: entry.state
        for recording in outcome.recordings
        for entry in recording.entries
        if (entry.group.name, entry.seq) == (group, number)
    }
    assert states.pop(5) == "scheduled"
    assert set(states.values()) == {"completed"}


@pytest.mark.parametrize("cycle", [2, 3, 4])
def test_calls_in_a_circle_hang_and_the_same_calls_in_order_do_not(cycle: int) -> None:
    size = Shape3D(6)
    assert simulate(Scenario("ring_of_pairs", size, cycle=cycle)).truth.hangs
    assert not simulate(Scenario("ring_of_pairs", size)).truth.hangs


def test_equal_scenarios_give_equal_bytes(tmp_path: Path) -> None:
    scenario = draw("megatron", "skip", 3)
    first = [path.read_bytes() for path in simulate(scenario).write(tmp_path / "a")]
    second = [path.read_bytes() for path in simulate(scenario).write(tmp_path / "b")]
    assert first == second


def test_a_call_is_noticed_never_before_it_ended() -> None:
    outcome = simulate(Scenario("fsdp", Shape3D(4), seed=random.Random(3).randrange(100)))
    ends = {(call.kernel.rank, call.created): call.kernel.ended for calls in outcome.run.calls for call in calls}
    for recording in outcome.recordings:
        for entry in recording.entries:
            assert entry.completed_ns is not None
            assert entry.completed_ns >= (ends[recording.rank, entry.created_ns] or 0)
