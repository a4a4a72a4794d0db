"""Bad input: one clear message a file, the other files used, nothing executed, nothing exhausted."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from provstore.model.dump import INTEGER_COLUMNS
from provstore.sources.flight_recorder import Limits, ReadOptions, read_dumps
from tests.fr_files import GROUPS, Entry, ring, table, write_json, write_pickle

PROTO, STOP = b"\x80\x04", b"."
ROOT = Path(__file__).parents[3]


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def system_call(command: str) -> dict[str, bytes]:
    """Every way in which a pickle can reach code, each with a command that would be seen."""
    argument = text(command)
    return {
        "GLOBAL": b"\x80\x02cposix\nsystem\n" + argument + b"\x85R.",
        "STACK_GLOBAL": PROTO + text("posix") + text("system") + b"\x93" + argument + b"\x85R.",
        "INST": b"(S" + repr(command).encode() + b"\niposix\nsystem\n.",
        "OBJ": b"\x80\x02(cposix\nsystem\n" + argument + b"o.",
        "NEWOBJ": b"\x80\x02cposix\nsystem\n" + argument + b"\x85\x81.",
        "NEWOBJ_EX": PROTO + text("posix") + text("system") + b"\x93" + argument + b"\x85}\x92.",
        "EXT1": b"\x80\x02\x82\x01" + argument + b"\x85R.",
        "EXT2": b"\x80\x02\x83\x01\x00" + argument + b"\x85R.",
        "EXT4": b"\x80\x02\x84\x01\x00\x00\x00" + argument + b"\x85R.",
        "PERSID": b"\x80\x02Ppersistent\n.",
        "BINPERSID": b"\x80\x02" + argument + b"Q.",
        "REDUCE": b"\x80\x02" + text("posix.system") + argument + b"\x85R.",
        "BUILD": b"\x80\x02}" + b"}" + text("__setstate__") + argument + b"sb.",
        "GLOBAL in a dump": b"\x80\x02}" + text("entries") + b"]cposix\nsystem\n" + argument + b"\x85Ras.",
        "eval": b"\x80\x02cbuiltins\neval\n" + text(f"__import__('os').system({command!r})") + b"\x85R.",
    }


def huge(opcode: bytes, size: int) -> bytes:
    return PROTO + opcode + struct.pack("<Q", size) + b"abc" + STOP


def laughs(levels: int = 60) -> bytes:
    """A list of two references to a list of two references to …: a hundred bytes, 2**60 leaves."""
    body = b"]q\x00"
    for level in range(1, levels):
        body += b"0]q" + bytes([level]) + b"(h" + bytes([level - 1]) + b"h" + bytes([level - 1]) + b"e"
    return b"\x80\x02}" + text("entries") + body + b"s."


def deep(opening: bytes, inner: bytes, closing: bytes, levels: int = 200_000) -> bytes:
    return b"\x80\x02}" + text("entries") + opening * levels + inner + closing * levels + b"s."


def with_entries(value: object) -> bytes:
    return pickle.dumps({"version": "2.10", "pg_config": {}, "entries": value}, protocol=4)


def with_ranks(value: object) -> bytes:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": value}}
    return pickle.dumps({"version": "2.10", "pg_config": config, "entries": []}, protocol=4)


def self_containing() -> bytes:
    value: dict[str, object] = {"version": "2.10"}
    value["entries"] = value
    return pickle.dumps(value)


TRAIN_REPLAY = [{"rank": 0, "pg_name": "default", "collective_seq": 1, "op": "all_reduce"}]

BAD_FILES = {
    "empty": (b"", "empty file"),
    "only a protocol": (b"\x80\x02", "cut off"),
    "text": (b"Traceback (most recent call last):", "neither a pickle nor the JSON text of a dump"),
    "zeros": (b"\0" * 100, "neither a pickle nor the JSON text of a dump"),
    "LONG_BINPUT": (b"\x80\x02]r" + struct.pack("<I", 1 << 28) + b".", "memory"),
    "LONG_BINPUT, most": (b"\x80\x02]r\xff\xff\xff\xff.", "memory"),
    "PUT": (b"\x80\x02]p268435456\n.", "memory"),
    "BINUNICODE8": (huge(b"\x8d", 1 << 33), "cut off"),
    "BINBYTES8": (huge(b"\x8e", 1 << 33), "memory"),
    "BYTEARRAY8": (b"\x80\x05" + huge(b"\x96", 1 << 33)[2:], "memory"),
    "FRAME": (huge(b"\x95", 1 << 33), "cut off"),
    "BINUNICODE8, most": (huge(b"\x8d", (1 << 64) - 1), "not a pickle of plain values"),
    "BINBYTES8, most": (huge(b"\x8e", (1 << 63) - 1), "too large"),
    "FRAME, most": (huge(b"\x95", (1 << 64) - 1), "not a pickle of plain values"),
    "deep lists": (deep(b"](", b"", b"e"), "entries[0]: a list of 1 items is not an entry"),
    "deep tuples": (deep(b"(", b"", b"t"), "entries: a tuple of 1 items is not a list"),
    "deep dicts": (deep(b"}" + text("a"), b"N", b"s"), "entries: a dict of 1 items is not a list"),
    "billion laughs": (laughs(), "entries[0]"),
    "self-containing dict": (self_containing(), "entries: a dict of 2 items is not a list"),
    "top-level string": (pickle.dumps("dump"), "not the table of a Flight Recorder dump"),
    "top-level number": (pickle.dumps(10**399), "not the table of a Flight Recorder dump"),
    "other table": (pickle.dumps({"model": {}, "step": 3}), "not the table of a Flight Recorder dump"),
    "entries are text": (with_entries("all_reduce"), "entries: 'all_reduce' is not a list"),
    "entries are numbers": (with_entries([1, 2, 3]), "entries[0]: 1 is not an entry with named fields"),
    "entries are empty": (with_entries([{}]), "entries[0]"),
    "ranks hold code": (with_ranks("__import__('os').system('touch sentinel')"), "is not a list of ranks"),
    "ranks hold code in brackets": (with_ranks("[print(1)]"), "is not a list of ranks"),
    "ranks hold signs": (with_ranks("[0, -1]"), "is not a list of ranks"),
    "ranks hold other digits": (with_ranks("[٠, ١]"), "is not a list of ranks"),
    "ranks hold a negative number": (with_ranks([0, -1]), "between 0 and"),
    "ranks twice": (with_ranks("[0, 1, 1]"), "twice"),
    "rank of 400 digits": (with_ranks("[" + "9" * 400 + "]"), "is not a list of ranks"),
    "rank of 400 digits as a number": (with_ranks([10**399]), "ranks lie between"),
    "pg_config is a list": (pickle.dumps({"pg_config": [1], "entries": []}), "pg_config"),
    "train-replay": (with_entries(TRAIN_REPLAY), "wasmagent-train-replay"),
    "json: train-replay": (json.dumps(TRAIN_REPLAY).encode(), "wasmagent-train-replay"),
    "json: train-replay lines": (json.dumps(TRAIN_REPLAY[0]).encode() + b"\n{}", "wasmagent-train-replay"),
    "json: cut off": (b'{"entries": [{"profiling_name": "nc', "not JSON"),
    "json: deep": (b'{"entries": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not JSON"),
    "json: trailing text": (b'{"entries": []} more', "not JSON"),
    "json: 400 digits": (b'{"entries": [], "pg_config": {"0": [' + b"9" * 400 + b"]}}", "not JSON"),
    "json: entries are a table": (b'{"entries": {}}', "entries: a dict of 0 items is not a list"),
}


def reasons(result) -> dict[str, str]:
    return {item.file: item.reason for item in result.refusals if not item.skipped}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with one good dump, of rank 900."""
    write_pickle(tmp_path / "rank_900", table("2.10", ring(2), {}))
    return tmp_path


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_gets_one_clear_message_and_the_others_are_used(folder, name):
    data, reason = BAD_FILES[name]
    (folder / "rank_1").write_bytes(data)
    result = read_dumps([folder])

    assert [dump.rank for dump in result.dumps] == [900]
    assert set(reasons(result)) == {"rank_1"}
    assert reason in reasons(result)["rank_1"]
    assert len(reasons(result)["rank_1"]) < 500
    (refusal,) = result.refusals
    assert (refusal.rank, refusal.size_bytes) == (1, len(data))


@pytest.mark.parametrize("name", system_call(""))
def test_no_payload_is_ever_executed(folder, name):
    sentinel = folder / "executed"
    (folder / "rank_1").write_bytes(system_call(f"touch {sentinel}")[name])
    result = read_dumps([folder])

    assert not sentinel.exists()
    assert set(reasons(result)) == {"rank_1"}
    assert [dump.rank for dump in result.dumps] == [900]


def test_the_payloads_would_be_executed_by_a_plain_load(tmp_path):
    """The sentinel of the test above proves something only if it can appear."""
    sentinel = tmp_path / "executed"
    reached = []
    for name, payload in system_call(f"touch {sentinel}").items():
        sentinel.unlink(missing_ok=True)
        subprocess.run(
            [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)"],
            input=payload,
            capture_output=True,
            check=False,
        )
        if sentinel.exists():
            reached.append(name)

    assert {"GLOBAL", "STACK_GLOBAL", "INST", "GLOBAL in a dump", "eval"} <= set(reached)


def test_a_refused_global_is_named(folder):
    (folder / "rank_1").write_bytes(system_call("true")["STACK_GLOBAL"])

    assert "asks for the global 'posix.system'" in reasons(read_dumps([folder]))["rank_1"]


def test_ten_million_ranks_are_refused(folder):
    (folder / "rank_1").write_bytes(with_ranks("[" + "7, " * 9_999_999 + "7]"))
    result = read_dumps([folder])

    assert "no group has more than 1048576 ranks" in reasons(result)["rank_1"]
    assert [dump.rank for dump in result.dumps] == [900]


def test_a_dump_that_is_cut_anywhere_is_refused(tmp_path):
    whole = pickle.dumps(table("2.10", ring(1), {}), protocol=2)
    for size in range(len(whole)):
        (tmp_path / f"rank_{size}").write_bytes(whole[:size])
    write_pickle(tmp_path / "rank_5000", table("2.10", ring(1), {}))
    result = read_dumps([tmp_path])

    assert [dump.rank for dump in result.dumps] == [5000]
    assert len(reasons(result)) == len(whole)
    assert all("cut off" in reason or "empty" in reason or "neither" in reason for reason in reasons(result).values())


def test_a_flipped_bit_is_refused_or_gives_data_within_the_schema(tmp_path):
    """Bit flips: refused, or data within the schema."""
    whole = pickle.dumps(table("2.10", ring(3), {}), protocol=2)
    chosen = random.Random(7)
    for rank in range(400):
        flipped = bytearray(whole)
        flipped[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
        (tmp_path / f"rank_{rank}").write_bytes(flipped)
    result = read_dumps([tmp_path])

    assert len(result.dumps) + len(reasons(result)) == 400
    for dump in result.dumps:
        for name in INTEGER_COLUMNS:
            assert min(getattr(dump.calls, name), default=0) >= -1
        assert max(dump.calls.state, default=0) <= 2
        assert max(dump.calls.signature, default=-1) < len(dump.signatures)
        assert max(dump.calls.stack, default=-1) < len(dump.stacks)
        assert len(dump.calls) + len(dump.quarantined) <= dump.entry_count
        json.dumps([[group.name, group.ranks] for group in dump.groups]).encode("utf-8")


def test_trailing_bytes_are_a_warning(folder):
    path = folder / "rank_900"
    path.write_bytes(path.read_bytes() + b"rest of an older file")
    result = read_dumps([folder])

    assert reasons(result) == {}
    assert result.dumps[0].warnings == ("21 bytes follow the pickle: ignored",)
    assert len(result.dumps[0].calls) == 2


BAD_ENTRIES = {
    "more elements than 64 bits count": ({"input_sizes": [[2**62, 2**62]]}, "input_sizes", "more than 2**62 elements"),
    "many tensors of too many elements": ({"output_sizes": [[2**31, 2**31], [1]]}, "output_sizes", "2**62 elements"),
    "not a table": (7, "", "is not an entry"),
    "no name": ({"profiling_name": None}, "profiling_name", "missing"),
    "empty name": ({"profiling_name": ""}, "profiling_name", "missing or empty"),
    "name of bytes": ({"profiling_name": b"nccl:x"}, "profiling_name", "not made of plain values"),
    "long name": ({"profiling_name": "x" * 70_000}, "profiling_name", "70000 characters"),
    "half a character": ({"profiling_name": "nccl:\ud800"}, "profiling_name", "surrogate"),
    "unknown state": ({"state": "done"}, "state", "'done' is not scheduled"),
    "state in a tuple": ({"state": (("scheduled",),)}, "state", "not made of plain values"),
    "retired is text": ({"retired": "yes"}, "retired", "not true or false"),
    "negative seq": ({"collective_seq_id": -1}, "collective_seq_id", "-1 is not a non-negative"),
    "seq is true": ({"collective_seq_id": True}, "collective_seq_id", "True is not an integer"),
    "seq is missing": ({"collective_seq_id": None}, "seq_id", "missing"),
    "seq of 400 digits": ({"collective_seq_id": 10**399}, "collective_seq_id", "more than 30 digits"),
    "seq beyond 64 bits": ({"collective_seq_id": 1 << 63}, "collective_seq_id", "64-bit"),
    "record_id is missing": ({"record_id": None}, "record_id", "some entries only"),
    "record_id is a fraction": ({"record_id": 1.0}, "record_id", "1.0 is not an integer"),
    "time is text": ({"time_created_ns": "now"}, "time_created_ns", "'now' is not an integer"),
    "negative size": ({"input_sizes": [[-1, 4]]}, "input_sizes", "[-1, 4] is not a list of non-negative integers"),
    "size is text": ({"input_sizes": [["4"]]}, "input_sizes", "['4'] is not a list of non-negative integers"),
    "sizes are flat": ({"output_sizes": [4, 4]}, "output_sizes", "[4, 4] is not a list of shapes"),
    "too many dimensions": ({"input_sizes": [[1] * 65]}, "input_sizes", "65 dimensions, more than 64"),
    "too many shapes": ({"input_sizes": [[1]] * 65_537}, "input_sizes", "65537 shapes, more than 65536"),
    "dtype is a number": ({"input_dtypes": [6]}, "input_dtypes", "is not a list"),
    "group is a number": ({"process_group": 3}, "process_group", "3 is not a name and a description"),
    "group of three": ({"process_group": ("a", "b", "c")}, "process_group", "is not a name and a description"),
    "no group at all": ({"process_group": None, "pg_id": None}, "process_group", "missing, and pg_id too"),
    "negative pg_id": ({"pg_id": -3}, "pg_id", "-3 is not a non-negative"),
    "frames are a table": ({"frames": {}}, "frames", "a dict of 0 items is not a list"),
    "frame is text": ({"frames": ["train.py:7"]}, "frames", "'train.py:7' is not a frame"),
    "frame without line": ({"frames": [{"name": "f", "filename": "f.py"}]}, "frames.line", "None is not a line"),
    "too many frames": (
        {"frames": [{"name": "f", "filename": "f.py", "line": 1}] * 1001},
        "frames",
        "a list of 1001 items is not a list of at most 1000 frames",
    ),
    "duration is text": ({"duration_ms": "1 ms"}, "duration_ms", "'1 ms' is not a number"),
    "duration is infinite": ({"duration_ms": float("inf")}, "duration_ms", "inf is not a finite time"),
    "timeout is negative": ({"timeout_ms": -5}, "timeout_ms", "-5 is not a non-negative"),
}


@pytest.mark.parametrize("name", BAD_ENTRIES)
def test_a_bad_entry_is_set_aside_and_the_others_are_used(tmp_path, name):
    changes, field, reason = BAD_ENTRIES[name]
    value = table("2.10", ring(9))
    row = value["entries"][4]
    value["entries"][4] = row | changes if isinstance(changes, dict) else changes
    (tmp_path / "rank_0").write_bytes(pickle.dumps(value, protocol=4))
    (dump,) = read_dumps([tmp_path]).dumps

    assert list(dump.calls.seq) == [1, 2, 3, 4, 6, 7, 8, 9]
    assert dump.entry_count == 9
    (bad,) = dump.quarantined
    assert (bad.index, bad.field) == (4, field)
    assert reason in bad.reason
    assert 0 < len(bad.raw.encode()) <= 4096


def test_a_group_whose_every_entry_is_bad_does_not_cost_the_others(tmp_path):
    value = table("2.10", ring(3))
    odd = dict(value["entries"][1]) | {"process_group": ("7", "odd"), "pg_id": 7}
    # The group is known by then: element types are looked at later.
    value["entries"][1] = odd | {"output_dtypes": [3]}
    write_pickle(tmp_path / "rank_0", value)
    (dump,) = read_dumps([tmp_path]).dumps

    assert list(dump.calls.seq) == [1, 3]
    assert [bad.index for bad in dump.quarantined] == [1]


def test_the_raw_value_of_a_bad_entry_is_kept(tmp_path):
    value = table("2.10", ring(2))
    value["entries"][1]["state"] = "paused"
    write_pickle(tmp_path / "rank_0", value)
    (dump,) = read_dumps([tmp_path]).dumps

    raw = json.loads(dump.quarantined[0].raw)
    assert raw["state"] == "paused"
    assert raw["process_group"] == ["0", "default_pg"]


@pytest.mark.parametrize("depth", [50, 5_000])
def test_a_deep_or_branching_value_in_one_entry_is_bounded(tmp_path, depth):
    nested: object = "end"
    for _ in range(depth):
        nested = [nested, nested] if depth < 100 else [nested]
    value = table("2.10", ring(3))
    value["entries"][1]["state"] = nested
    value["entries"][2]["note"] = nested
    sys.setrecursionlimit(60_000)
    try:
        data = pickle._dumps(value)  # the one in Python: that in C goes as deep as the release of Python allows
    finally:
        sys.setrecursionlimit(1_000)
    (tmp_path / "rank_0").write_bytes(data)
    result = read_dumps([tmp_path])

    (dump,) = result.dumps
    assert list(dump.calls.seq) == [1, 3]
    assert len(dump.quarantined[0].raw) <= 4096
    assert any("unknown keys" in warning for warning in dump.warnings)


def test_a_frame_with_deep_further_keys_is_not_walked(tmp_path):
    nested: object = "end"
    for _ in range(40):
        nested = {"a": nested, "b": nested}
    value = table("2.10", ring(2000))
    for row in value["entries"]:
        row["frames"] = [{"name": "f", "filename": "f.py", "line": 1, "locals": nested}]
    write_pickle(tmp_path / "rank_0", value)
    (dump,) = read_dumps([tmp_path]).dumps

    assert len(dump.calls) == 2000
    assert len(dump.stacks) == 1


def test_many_bad_entries_refuse_the_file(tmp_path):
    entries = [{"profiling_name": 1}] * 30_000
    (tmp_path / "rank_0").write_bytes(with_entries(entries))
    result = read_dumps([tmp_path])

    assert "entries[0].profiling_name: 1 is not a string" in reasons(result)["rank_0"]


def test_bad_entries_of_a_json_dump_are_set_aside_too(tmp_path):
    value = table("2.10", ring(3))
    value["entries"][1]["op_id"] = -4
    write_json(tmp_path / "rank_0.json", value)
    (dump,) = read_dumps([tmp_path]).dumps

    assert list(dump.calls.seq) == [1, 3]
    assert dump.quarantined[0].field == "op_id"


LIMITS = Limits(entries=5, frames=2, shapes=3, dimensions=2, string_bytes=100, groups=2)


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({"input_sizes": [[1]] * 3}, True),
        ({"input_sizes": [[1]] * 4}, False),
        ({"input_sizes": [[1, 1]]}, True),
        ({"input_sizes": [[1, 1, 1]]}, False),
        ({"profiling_name": "n:" + "x" * 98}, True),
        ({"profiling_name": "n:" + "x" * 99}, False),
        ({"frames": [{"name": "f", "filename": "f.py", "line": 1}] * 2}, True),
        ({"frames": [{"name": "f", "filename": "f.py", "line": 1}] * 3}, False),
    ],
)
def test_a_cap_holds_at_its_edge(tmp_path, changes, is_kept):
    value = table("2.10", ring(2), {})
    value["entries"][1] |= changes
    write_pickle(tmp_path / "rank_0", value)
    (dump,) = read_dumps([tmp_path], ReadOptions(limits=LIMITS)).dumps

    assert len(dump.calls) == (2 if is_kept else 1)


@pytest.mark.parametrize(("count", "is_kept"), [(4, True), (5, True), (6, False)])
def test_the_cap_on_entries_holds_at_its_edge(tmp_path, count, is_kept):
    write_pickle(tmp_path / "rank_0", table("2.10", ring(count), {}))
    result = read_dumps([tmp_path], ReadOptions(limits=LIMITS))

    assert bool(result.dumps) is is_kept


@pytest.mark.parametrize(("more", "is_kept"), [(0, True), (-1, False)])
def test_the_cap_on_the_size_of_a_file_holds_at_its_edge(tmp_path, more, is_kept):
    path = write_pickle(tmp_path / "rank_0", table("2.10", ring(2), {}))
    limits = replace(Limits(), file_bytes=path.stat().st_size + more)
    result = read_dumps([tmp_path], ReadOptions(limits=limits))

    assert bool(result.dumps) is is_kept


@pytest.mark.parametrize(("rank", "is_kept"), [(1048574, True), (1048575, True), (1048576, False)])
def test_the_cap_on_ranks_holds_at_its_edge(tmp_path, rank, is_kept):
    write_pickle(tmp_path / "rank_0", table("2.10", ring(1), {"0": ("default_pg", (0, rank))}))

    assert bool(read_dumps([tmp_path]).dumps) is is_kept


def test_a_file_that_keeps_its_reader_busy_is_given_up(folder):
    # A few shared lists that are dear to walk, walked anew for every entry because the timeout differs.
    shapes = [[1] * 64] * 60_000
    rows = [table("2.10", [Entry(record_id=at)])["entries"][0] for at in range(4_000)]
    for at, row in enumerate(rows):
        row |= {"input_sizes": shapes, "timeout_ms": at}
    (folder / "rank_1").write_bytes(with_entries(rows))
    result = read_dumps([folder], ReadOptions(limits=replace(Limits(), seconds=0.5)))

    assert [dump.rank for dump in result.dumps] == [900]
    assert "CPU time" in reasons(result)["rank_1"] or "memory" in reasons(result)["rank_1"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to read the peak from")
def test_hostile_files_leave_the_parent_small(tmp_path):
    """The parent's RSS stays below 300 MB throughout."""
    for rank, (data, _) in enumerate(BAD_FILES.values()):
        (tmp_path / f"rank_{rank}").write_bytes(data)
    write_pickle(tmp_path / "rank_900", table("2.10", ring(2), {}))
    (tmp_path / "rank_800").write_bytes(with_ranks("[" + ", ".join(map(str, range(2_000_000))) + "]"))
    script = (
        "import sys, pathlib\n"
        "from provstore.sources.flight_recorder import read_dumps\n"
        "result = read_dumps([pathlib.Path(sys.argv[1])])\n"
        "peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "print(len(result.dumps), len(result.refusals), *peak)\n"
        "print(sorted({'numpy', 'pandas', 'pyarrow', 'torch'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT
    )
    dumps, refusals, kibibytes = map(int, done.stdout.splitlines()[0].split())

    assert (dumps, refusals) == (1, len(BAD_FILES) + 1)
    assert kibibytes < 300_000
    assert done.stdout.splitlines()[1] == "[]"
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look into")
def test_no_reader_process_is_left_behind(folder):
    (folder / "rank_1").write_bytes(BAD_FILES["LONG_BINPUT"][0])
    before = running_children()
    read_dumps([folder])

    assert running_children() <= before


def running_children():
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if parent == str(os.getpid()) and state != "Z":
                found.add(path.parent.name)
    return found


def test_the_groups_of_a_refused_file_are_not_taken_from_its_neighbours(folder):
    write_pickle(folder / "rank_1", table("2.10", ring(1), GROUPS))
    (folder / "rank_2").write_bytes(b"\x80\x02")
    result = read_dumps([folder])

    assert [dump.groups[0].ranks for dump in result.dumps] == [(0, 1), None]
