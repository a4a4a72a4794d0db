"""Which files are read, which rank they are of, and what is said about the others."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from provstore.errors import ConfigError, InputError
from provstore.sources.flight_recorder import ReadOptions, read_dumps, recognises
from tests.fr_files import Entry, ring, table, write_groups, write_json, write_pickle, write_sidecar

ANYONE: dict[str, object] = {}
"""No declared groups: fits every rank."""


def dump(path, **more):
    return write_pickle(path, table("2.10", ring(1), ANYONE, **more))


def skipped(result):
    return {item.file: item.reason for item in result.refusals if item.skipped}


def refused(result):
    return {item.file: item.reason for item in result.refusals if not item.skipped}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_3", 3),
        ("comm_lib_trace_rank_12", 12),
        ("rank_0", 0),
        ("_dump_15", 15),
        ("hccl_trace_rank_7", 7),
        ("nccl_trace_rank_container-node02_5", 5),
        ("rank_4.json.pkl", 4),
        ("trace7.bin", 7),
        ("trace-8.pickle", 8),
        ("job-2_rank_1048575", 1048575),
    ],
)
def test_the_last_integer_of_the_name_is_the_rank(tmp_path, name, rank):
    dump(tmp_path / name)

    assert [item.rank for item in read_dumps([tmp_path]).dumps] == [rank]


def test_a_host_in_the_name_is_the_host(tmp_path):
    dump(tmp_path / "nccl_trace_rank_container-node02_5")

    assert read_dumps([tmp_path]).dumps[0].host == "container-node02"


def test_a_rank_expression_overrides_the_rule(tmp_path):
    dump(tmp_path / "r3.host7")
    options = ReadOptions(rank_regex=r"r(?P<rank>\d+)\.(?P<host>\w+)")
    (found,) = read_dumps([tmp_path], options).dumps

    assert (found.rank, found.host) == (3, "host7")


def test_a_rank_map_overrides_every_rule(tmp_path):
    dump(tmp_path / "left")
    dump(tmp_path / "rank_5")
    result = read_dumps([tmp_path], ReadOptions(rank_map={"left": 1, "rank_5": 0}, rank_regex="(?P<rank>[0-9]+)"))

    assert {item.file: item.rank for item in result.dumps} == {"left": 1, "rank_5": 0}


@pytest.mark.parametrize("pattern", ["rank_(", "rank_([0-9]+)"])
def test_a_rank_expression_that_cannot_work_is_the_callers_error(tmp_path, pattern):
    dump(tmp_path / "rank_0")

    with pytest.raises(ConfigError, match="rank expression"):
        read_dumps([tmp_path], ReadOptions(rank_regex=pattern))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("rank_-3", "negative"),
        ("dump", "holds no rank: give one with --rank-regex or --rank-map"),
        ("rank_1048576", "below 1048576"),
        (f"rank_{'9' * 200}", "below 1048576"),
    ],
)
def test_a_dump_without_a_usable_rank_is_refused_by_name(tmp_path, name, reason):
    dump(tmp_path / name)
    dump(tmp_path / "rank_0")
    result = read_dumps([tmp_path])

    assert reason in refused(result)[name]
    assert [item.rank for item in result.dumps] == [0]


def test_a_dump_that_the_rank_expression_does_not_match_is_refused(tmp_path):
    dump(tmp_path / "rank_0")
    dump(tmp_path / "other_1")
    result = read_dumps([tmp_path], ReadOptions(rank_regex=r"rank_(?P<rank>\d+)"))

    assert "does not match" in refused(result)["other_1"]


def test_a_json_twin_is_folded_into_its_pickle(tmp_path):
    dump(tmp_path / "nccl_trace_rank_0")
    write_json(tmp_path / "json" / "rank_0.json", table("2.10", ring(2), ANYONE))
    result = read_dumps([tmp_path])

    assert [(item.file, len(item.calls)) for item in result.dumps] == [("nccl_trace_rank_0", 1)]
    assert "twin of nccl_trace_rank_0" in skipped(result)["json/rank_0.json"]


def test_a_twin_beside_its_pickle_is_folded_too(tmp_path):
    dump(tmp_path / "rank_0.pkl")
    write_json(tmp_path / "rank_0.json", table("2.10", ring(2), ANYONE))

    assert [item.form for item in read_dumps([tmp_path]).dumps] == ["pickle"]


def test_a_twin_takes_the_place_of_a_pickle_that_cannot_be_read(tmp_path):
    whole = dump(tmp_path / "nccl_trace_rank_0").read_bytes()
    (tmp_path / "nccl_trace_rank_0").write_bytes(whole[:-20])
    write_json(tmp_path / "json" / "rank_0.json", table("2.10", ring(2), ANYONE))
    result = read_dumps([tmp_path])

    assert [(item.file, item.rank) for item in result.dumps] == [("json/rank_0.json", 0)]
    assert "in place of nccl_trace_rank_0" in result.dumps[0].warnings[0]
    assert skipped(result) == {}
    assert "cut off" in refused(result)["nccl_trace_rank_0"]


def test_a_twin_of_a_missing_dump_is_not_read(tmp_path):
    dump(tmp_path / "nccl_trace_rank_0")
    write_json(tmp_path / "json" / "rank_1.json", table("2.10", ring(2), ANYONE))
    result = read_dumps([tmp_path])

    assert [item.rank for item in result.dumps] == [0]
    assert "without its dump" in skipped(result)["json/rank_1.json"]


def test_a_folder_of_json_dumps_is_read_when_it_is_given_itself(tmp_path):
    write_json(tmp_path / "json" / "rank_1.json", table("2.10", ring(2), ANYONE))

    assert [item.rank for item in read_dumps([tmp_path / "json"]).dumps] == [1]


def test_the_log_folder_and_text_files_are_never_opened(tmp_path):
    dump(tmp_path / "rank_0")
    for name in ("log/rank_1", "fault_injection.log", "notes.txt", "rank_9.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)  # opening it would hang for ever
    result = read_dumps([tmp_path])

    assert [item.rank for item in result.dumps] == [0]
    assert set(skipped(result)) == {"log/", "fault_injection.log", "notes.txt", "rank_9.log"}


def test_stray_files_are_listed_with_a_reason(tmp_path):
    dump(tmp_path / "rank_0")
    (tmp_path / "truth.json").write_text('{"fault": "none"}')
    (tmp_path / "core.17").write_bytes(b"\x7fELF")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    result = read_dumps([tmp_path])

    assert set(skipped(result)) == {"truth.json", "core.17", ".hidden", "sub/"}
    assert all(skipped(result).values())
    assert refused(result) == {}


def test_a_bad_file_named_like_the_dumps_beside_it_is_refused_and_not_skipped(tmp_path):
    dump(tmp_path / "ours.7")
    (tmp_path / "ours.8").write_bytes(b"")
    (tmp_path / "theirs.9").write_bytes(b"")
    result = read_dumps([tmp_path])

    assert set(refused(result)) == {"ours.8"}
    assert set(skipped(result)) == {"theirs.9"}
    assert [item.rank for item in result.refusals if not item.skipped] == [8]


def test_only_the_given_folder_is_read_unless_asked(tmp_path):
    dump(tmp_path / "rank_0")
    dump(tmp_path / "node1" / "rank_1")
    dump(tmp_path / "node1" / "log" / "rank_2")

    assert [item.file for item in read_dumps([tmp_path]).dumps] == ["rank_0"]
    assert [item.file for item in read_dumps([tmp_path], ReadOptions(recursive=True)).dumps] == [
        "rank_0",
        "node1/rank_1",
    ]


def test_a_loop_of_folders_ends(tmp_path):
    dump(tmp_path / "node1" / "rank_1")
    (tmp_path / "node1" / "again").symlink_to(tmp_path, target_is_directory=True)
    result = read_dumps([tmp_path], ReadOptions(recursive=True))

    assert [item.file for item in result.dumps] == ["node1/rank_1"]
    assert "node1/again" in skipped(result)


def test_links_to_themselves_pipes_devices_and_sockets_are_skipped(tmp_path):
    dump(tmp_path / "rank_0")
    (tmp_path / "rank_1").symlink_to(tmp_path / "rank_1")
    os.mkfifo(tmp_path / "rank_2")
    (tmp_path / "rank_3").symlink_to("/dev/zero")
    (tmp_path / "rank_4").symlink_to(tmp_path / "gone")
    (tmp_path / "rank_5").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "rank_6"))
        result = read_dumps([tmp_path])

    assert [item.rank for item in result.dumps] == [0]
    assert set(skipped(result)) == {"rank_1", "rank_2", "rank_3", "rank_4", "rank_5/", "rank_6"}


def test_a_link_to_a_dump_is_that_dump_and_is_read_once(tmp_path):
    real = dump(tmp_path / "elsewhere" / "rank_2")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "rank_2").symlink_to(real)
    result = read_dumps([folder, real])

    assert [item.rank for item in result.dumps] == [2]
    assert skipped(result) == {"rank_2": "the same file as run/rank_2"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_file_is_refused(tmp_path):
    dump(tmp_path / "rank_0")
    dump(tmp_path / "rank_1").chmod(0)
    result = read_dumps([tmp_path])

    assert "not readable" in refused(result)["rank_1"]


def test_a_file_that_is_given_itself_is_meant_whatever_it_is(tmp_path):
    path = tmp_path / "notes"
    path.write_text("hello")
    result = read_dumps([path])

    assert set(refused(result)) == {"notes"}


def test_files_of_several_folders_are_told_apart(tmp_path):
    dump(tmp_path / "a" / "rank_0")
    dump(tmp_path / "b" / "rank_1")
    result = read_dumps([tmp_path / "a", tmp_path / "b"])

    assert [item.file for item in result.dumps] == ["a/rank_0", "b/rank_1"]


def test_the_name_is_the_base_name_of_the_folder(tmp_path, monkeypatch):
    dump(tmp_path / "night-7" / "rank_0")
    monkeypatch.chdir(tmp_path / "night-7")

    assert read_dumps([tmp_path / "night-7"]).name == "night-7"
    assert read_dumps([Path()]).name == "night-7"
    assert read_dumps([Path("rank_0")]).name == "night-7"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(InputError, match="gone: not readable: No such file"):
        read_dumps([tmp_path / "gone"])


def test_a_folder_without_any_dump_is_an_error_that_names_what_is_there(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")

    with pytest.raises(InputError, match=r"no Flight Recorder dump is there .*notes.txt"):
        read_dumps([tmp_path])


def test_a_folder_with_a_recording_and_no_dump_says_which_command_takes_it(tmp_path):
    (tmp_path / "capture-rank0.jsonl").write_text('{"t":"step","step":41}\n')

    with pytest.raises(InputError, match="no Flight Recorder dump is there") as caught:
        read_dumps([tmp_path])
    assert f"provstore record {tmp_path}" in (caught.value.hint or "")


def test_a_sidecar_without_a_dump_is_listed(tmp_path):
    dump(tmp_path / "rank_0")
    write_groups(tmp_path / "pgs_4.json", {})
    result = read_dumps([tmp_path])

    assert "without a dump of rank 4" in skipped(result)["pgs_4.json"]


def test_a_sidecar_that_says_why_there_is_no_dump_is_quoted_short_and_printable(tmp_path):
    told = "TORCH_FR_BUFFER_SIZE: 0:\x1b[31m the recorder is off\u202e " + "x" * 5000
    sidecar = {"schema": "provstore-fr-sidecar/1", "rank": 0, "errors": [told, "second"]}
    (tmp_path / "fr_meta_rank_0.json").write_text(json.dumps(sidecar))

    with pytest.raises(InputError, match=r"fr_meta_rank_0\.json says why: TORCH_FR_BUFFER_SIZE: 0") as caught:
        read_dumps([tmp_path])
    message = str(caught.value)
    assert "the recorder is off" in message
    assert message.isprintable()
    assert len(message) < 1000 + len(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "[]", '{"errors": 3}', '{"errors": []}', '{"errors": [{}]}'])
def test_a_sidecar_that_says_nothing_usable_is_only_listed(tmp_path, text):
    (tmp_path / "fr_meta_rank_0.json").write_text(text)

    with pytest.raises(InputError, match=r"no Flight Recorder dump is there \(skipped: fr_meta_rank_0.json"):
        read_dumps([tmp_path])


def test_the_capture_helpers_sidecar_goes_before_a_bare_list(tmp_path):
    dump(tmp_path / "rank_0")
    write_groups(tmp_path / "pgs_0.json", {})
    write_sidecar(tmp_path / "fr_meta_rank_0.json", 0, {}, host="here")

    assert read_dumps([tmp_path]).dumps[0].host == "here"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ('{"schema": "other/1", "rank": 0}', "schema"),
        ('{"schema": "provstore-fr-sidecar/1", "rank": 3}', "3 is stated, 0 is expected"),
        ('{"schema": "provstore-fr-sidecar/1", "rank": 0, "world_size": 1099511627776}', "world_size: 1099511627776"),
        ('{"schema": "provstore-fr-sidecar/1", "rank": 0, "world_size": -1}', "world_size: -1"),
        ('{"schema": "provstore-fr-sidecar/1", "rank": 0, "local_rank": 1048576}', "local_rank: 1048576"),
        ('{"schema": "provstore-fr-sidecar/1", "rank": 0, "attempt": 2147483648}', "attempt: 2147483648"),
        ('[{"pg_name": "1", "ranks": [4, 5]}]', "rank 0"),
        ('[{"pg_name": "1", "ranks": "__import__(\'os\')"}]', "not a list of ranks"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_sidecar_is_refused_and_its_dump_is_used(tmp_path, text, reason):
    dump(tmp_path / "rank_0")
    (tmp_path / "pgs_0.json").write_text(text)
    result = read_dumps([tmp_path])

    assert [item.rank for item in result.dumps] == [0]
    assert result.dumps[0].sidecar is None
    assert reason in refused(result)["pgs_0.json"]


def test_an_interruption_leaves_no_reader_process(tmp_path):
    for rank in range(3):
        dump(tmp_path / f"rank_{rank}")

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_dumps([tmp_path], on_progress=interrupt)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("dump reader")] == []


def test_progress_is_told_file_by_file(tmp_path):
    for rank in range(3):
        dump(tmp_path / f"rank_{rank}")
    told = []
    read_dumps([tmp_path], on_progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 3), (2, 3), (3, 3)]


def test_names_that_are_not_text_are_read(tmp_path):
    dump(Path(os.fsdecode(os.fsencode(tmp_path) + b"/rank_\xff_3")))

    assert [(item.rank, item.file) for item in read_dumps([tmp_path]).dumps] == [
        (3, "rank_\N{REPLACEMENT CHARACTER}_3")
    ]


@pytest.mark.parametrize(
    ("head", "name", "answer"),
    [
        (b"\x80\x02}q\x00", "anything", True),
        (b'\n {"comm_lib_version": ""', "anything.json", True),
        (b'{"prefix": {"ex": "http://example.org/"}}', "prov.json", False),
        (b"", "nccl_trace_rank_0", True),
        (b"document\nendDocument", "trace.provn", False),
    ],
)
def test_a_dump_is_recognised_by_its_head_or_by_its_name(head, name, answer):
    assert recognises(head, name) is answer


def test_tensor_records_are_read_beside_the_dumps(tmp_path):
    dump(tmp_path / "rank_2")
    counts = '"seq": 9, "side": "in", "finite": false, "nan_count": 3, "inf_count": 0'
    good = f'{{"schema": "provstore-tensor-record/1", "rank": 2, "group": "0", {counts}}}'
    bad = ['{"schema": "provstore-tensor-record/1", "rank": 3}', "no json", good.replace('"in"', '"up"')]
    (tmp_path / "tensor_rank_2.jsonl").write_text("\n".join([good, *bad, good.replace("9,", "10,")]) + "\n")
    result = read_dumps([tmp_path])

    assert [(item.rank, item.group, item.seq, item.side, item.finite, item.nan_count) for item in result.tensors] == [
        (2, "0", 9, "in", False, 3),
        (2, "0", 10, "in", False, 3),
    ]
    assert refused(result)["tensor_rank_2.jsonl"].startswith("line 2: rank: 2 is expected")
    assert "3 lines set aside, 2 used" in refused(result)["tensor_rank_2.jsonl"]


def test_a_rank_outside_its_own_group_is_an_error_that_names_the_right_rank(tmp_path):
    groups = {"3": ("tp", (4, 5)), "9": ("dp", (1, 5))}
    write_pickle(tmp_path / "rank_7", table("2.10", [Entry(group="3")], groups))
    result = read_dumps([tmp_path])

    reason = refused(result)["rank_7"]
    assert "rank 7 is expected from the file's name" in reason
    assert "[4, 5]" in reason
    assert "it is the dump of rank 5" in reason


def test_a_send_that_another_rank_must_have_recorded_is_an_error(tmp_path):
    groups = {"3": ("pp", (4, 5))}
    write_pickle(tmp_path / "rank_4", table("2.10", [Entry(name="nccl:send 1->0", group="3", is_p2p=True)], groups))
    result = read_dumps([tmp_path])

    assert "it is the dump of rank 5" in refused(result)["rank_4"]


def test_a_send_to_a_position_that_the_group_does_not_have_is_an_error(tmp_path):
    groups = {"3": ("pp", (4, 5))}
    write_pickle(tmp_path / "rank_4", table("2.10", [Entry(name="nccl:send 0->2", group="3", is_p2p=True)], groups))
    result = read_dumps([tmp_path])

    assert "position 2 does not exist: the group has 2 members" in refused(result)["rank_4"]
