"""Watching beside a job: what is seen becomes an order in its capture directory, once, also over restarts."""

from __future__ import annotations

import contextlib
import http.server
import inspect
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from provstore.evidence.recording import orders
from provstore.model import recording, signal_codes

XID = "[    7.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
APPLICATION = "[    8.000000] NVRM: Xid (PCI:0000:af:00): 31, pid=99, name=python, MMU Fault\n"


def digest(value):
    return f"sha256:{value:064x}"


@contextlib.contextmanager
def serving(body):
    """Answer every request with these bytes; yield the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def write(capture, rank, *calls, mode="a", **said):
    """Add calls to a rank's file: (seq, digest of what the rank holds after it), and what else their lines say."""
    lines = [
        {
            "t": "call",
            "op": "all_reduce",
            "group": "pg@0-3",
            "seq": seq,
            "step": seq,
            "out": digest(value),
            "kind": "v1",
            **said,
        }
        for seq, value in calls
    ]
    with (capture / f"capture-rank{rank}.jsonl").open(mode) as file:
        file.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


@pytest.fixture
def capture(tmp_path):
    directory = tmp_path / "capture"
    directory.mkdir()
    import socket

    for rank in range(4):
        header = {
            "t": "header",
            "schema": "provstore-capture/1",
            "run": "job",
            "attempt": 0,
            "rank": rank,
            "host": socket.gethostname(),
            "started_ns": 1_000,
            "device": {"pci_bus_id": ("00000000:3B:00.0", "00000000:AF:00.0")[rank % 2]} if rank < 2 else {},
        }
        (directory / f"capture-rank{rank}.jsonl").write_text(json.dumps(header) + "\n")
    return directory


@pytest.fixture
def look(command, home, capture):
    def call(*arguments):
        answer = command("watch", "--directory", capture, "--once", "--json", *arguments)
        assert answer.err == "", answer
        return answer.code, json.loads(answer.out)

    return call


def test_an_error_of_a_gpu_escalates_its_rank_once_until_the_end_of_the_attempt(look, capture, tmp_path):
    log = tmp_path / "kern.log"
    log.write_text("")
    assert look("--kernel-log", log)[0] == 0
    log.write_text(XID)
    code, said = look("--kernel-log", log)
    assert code == 1
    assert [(one["trigger"], one["scope"], one["steps"]) for one in said["ordered"]] == [("xid", "rank:0", None)]
    assert "fallen off the bus" in orders.read(capture)[0].reason
    assert look("--kernel-log", log)[0] == 0, "another process tells nothing twice"
    with log.open("a") as file:
        file.write(APPLICATION)
    code, said = look("--kernel-log", log)
    assert [(one["scope"], one["steps"]) for one in said["ordered"]] == [("rank:1", 50)]


def test_a_rank_that_holds_other_bytes_than_the_majority_escalates_the_group(look, capture):
    for rank in range(4):
        write(capture, rank, (1, 7), (2, 8 if rank != 2 else 9))
    code, said = look()
    (one,) = said["disagreements"]
    assert (code, one["seq"], one["minority"], one["ranks"]) == (1, 2, [2], [0, 1, 2, 3])
    (order,) = orders.read(capture)
    assert (order.trigger, order.scope, order.from_step) == ("replica-disagreement", "group:pg", 4)
    assert look()[0] == 0


def test_two_ranks_that_disagree_name_nobody(look, capture):
    for rank in range(2):
        write(capture, rank, (1, rank))
    (one,) = look()[1]["disagreements"]
    assert one["minority"] == []


@pytest.mark.parametrize("other", [{"shapes_out": [[2, 4]]}, {"dtypes_out": ["int32"]}])
def test_the_same_bytes_in_another_shape_or_type_are_no_disagreement(look, capture, other):
    form = {"shapes_out": [[8]], "dtypes_out": ["float32"]}
    for rank in range(4):
        write(capture, rank, (1, rank == 1), **(form | other if rank == 1 else form))
    assert look()[0] == 0
    for rank in range(4):
        write(capture, rank, (2, 5 if rank == 1 else 6 + (rank == 3)), **(form | other if rank == 1 else form))
    (one,) = look()[1]["disagreements"]
    assert (one["seq"], one["ranks"], one["minority"]) == (2, [0, 2, 3], [3])


def test_a_line_that_is_still_being_written_waits(look, capture):
    for rank in range(3):
        write(capture, rank, (1, 5))
    with (capture / "capture-rank3.jsonl").open("a") as file:
        file.write('{"t":"call","op":"all_reduce","group":"pg@0-3","seq":1,"out":"sha256:')
    assert look()[0] == 0
    with (capture / "capture-rank3.jsonl").open("a") as file:
        file.write('other","kind":"v1"}\n')
    assert look()[1]["disagreements"][0]["minority"] == [3]


def test_a_hang_in_the_dumps_escalates_its_group(look, capture, samples):
    code, said = look("--dumps", samples / "hang")
    assert code == 1
    assert said["findings"]
    assert said["ordered"][0]["trigger"] == "desync"
    assert look("--dumps", samples / "hang")[0] == 0
    assert look("--dumps", samples / "healthy")[0] == 0


def test_a_source_that_cannot_be_read_is_no_information_and_the_others_are_read(look, capture, tmp_path):
    for rank in range(4):
        write(capture, rank, (1, rank == 3))
    code, said = look("--kernel-log", tmp_path / "gone.log", "--gcm", "false", "--dcgm", "http://127.0.0.1:9/metrics")
    assert {one["source"] for one in said["problems"]} == {"kernel-log", "gcm", "dcgm"}
    assert (code, len(said["ordered"])) == (1, 1)
    assert look("--gcm", "false")[0] == 3


@pytest.mark.parametrize(
    "content",
    [
        random.Random(1).randbytes(3_000_000),
        random.Random(1).randbytes(3_000).replace(b"\n", b""),
        b"\0" * 4096 + b"\n",
        b'{"MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 79, x"}\n',
        b"a poem of no colon\nand no stamp\n",
    ],
    ids=["random bytes", "random bytes without an end of line", "zeros", "the journal as JSON", "a poem"],
)
def test_what_is_no_text_of_a_kernel_log_is_no_information(look, capture, tmp_path, content):
    log = tmp_path / "kern.log"
    log.write_bytes(content)
    for _ in range(2):
        code, said = look("--kernel-log", log)
        (one,) = said["problems"]
        assert (code, one["source"], one["code"]) == (3, "kernel-log", "signal-failed")
        assert str(log) in one["text"]


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"[    0.000000] Linux version 6.1",
        b"usb 1-1: new high-speed USB device\n",
        b"Mar 05 23:33:34 node1 kernel: usb\n",
        b"2026-03-05T23:33:34+00:00 node1 kernel: usb\n",
        b"\0" * 4096 + b"\n[    1.000000] usb 1-1: reset\n",
        b"<6>[    1.000000] caf\xe9\n[    2.000000] usb\n",
    ],
    ids=["a blank line", "an unfinished line", "no stamp", "syslog", "RFC 5424", "zeros after a crash", "Latin-1"],
)
def test_a_kernel_log_that_tells_of_no_error_is_nothing_new(look, capture, tmp_path, content):
    log = tmp_path / "kern.log"
    log.write_bytes(content)
    assert look("--kernel-log", log)[0] == 0


def test_a_problem_of_a_source_is_told_by_its_code_each_time_and_kept_once(command, home, capture):
    for _ in range(3):
        answer = command("watch", "--directory", capture, "--once", "--gcm", "false")
        assert (answer.code, "no information: signal-failed: gcm" in answer.out) == (3, True)
    kept = [json.loads(line) for line in (capture / "watch.jsonl").read_text().splitlines()]
    assert [(one["t"], one["code"], one["source"]) for one in kept] == [("problem", "signal-failed", "gcm")]
    command("watch", "--directory", capture, "--once")
    command("watch", "--directory", capture, "--once", "--gcm", "false")
    assert len((capture / "watch.jsonl").read_text().splitlines()) == 2, "it came again after it was over"


def test_a_query_without_series_is_a_finding_after_five_polls(command, home, capture, monkeypatch):
    with serving(b'{"status":"success","data":{"resultType":"vector","result":[]}}') as url:
        monkeypatch.setenv("PROMETHEUS_QUERY_URL", url)
        answers = [command("watch", "--directory", capture, "--once", "--json", "--above", "temp=90") for _ in range(6)]
    codes = [[one["code"] for one in json.loads(one.out)["problems"]] for one in answers]
    assert codes == [[], [], [], [], ["signal-empty"], []]


@pytest.mark.parametrize(
    ("body", "code"), [(b"<html>", "signal-malformed"), (b'{"status":"error"}', "signal-malformed")]
)
def test_an_answer_that_is_none_is_a_finding(command, home, capture, monkeypatch, body, code):
    with serving(body) as url:
        monkeypatch.setenv("PROMETHEUS_QUERY_URL", url)
        answer = command("watch", "--directory", capture, "--once", "--json", "--above", "temp=90")
    assert (answer.code, [one["code"] for one in json.loads(answer.out)["problems"]]) == (3, [code])


def test_every_kind_of_problem_is_in_the_registry():
    documented = re.search(r'kind: str\n    """(.+?)"""', inspect.getsource(recording.SignalProblem))[1]
    kinds = re.findall(r"``([a-z-]+)``", documented)
    assert {recording.SignalProblem("x", kind, "").code for kind in kinds} == {one.name for one in signal_codes.SIGNALS}


def test_everything_that_was_seen_is_kept_beside_the_capture(look, capture, tmp_path):
    log = tmp_path / "kern.log"
    log.write_text("")
    look("--kernel-log", log)
    log.write_text(XID)
    look("--kernel-log", log)
    kept = [json.loads(line) for line in (capture / "watch.jsonl").read_text().splitlines()]
    assert [one["t"] for one in kept] == ["signal", "order"]
    assert kept[0]["code"] == 79


@pytest.mark.parametrize("state", ["", "{", "[]", '{"schema":"other"}'])
def test_a_state_file_that_is_none_is_named(command, home, capture, state):
    (capture / "watch-state.json").write_text(state)
    answer = command("watch", "--directory", capture, "--once")
    assert (answer.code, "watch-state.json" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--metric", "temp=x"], "needs --above"),
        (["--above", "temp=90"], "PROMETHEUS_QUERY_URL"),
        (["--above", "temp=hot"], "NAME=THRESHOLD"),
        (["--above", "90"], "NAME=VALUE"),
    ],
)
def test_options_that_do_not_fit_are_a_clear_error(command, home, capture, arguments, text):
    answer = command("watch", "--directory", capture, "--once", *arguments)
    assert (answer.code, text in answer.err) == (2, True)


def test_watching_is_refused_in_safe_mode(command, home, samples, capture):
    assert command("ingest", samples / "healthy").code == 0
    assert command("admin", "safe-mode", "on", "--reason", "drill").code == 0
    answer = command("watch", "--directory", capture, "--once")
    assert (answer.code, "drill" in answer.err) == (6, True)


def test_a_watcher_goes_on_until_it_is_interrupted(capture, home):
    program = "import sys; from provstore.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, "watch", "--directory", str(capture), "--interval", "0.2"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=home)
    until = time.monotonic() + 30
    while not (capture / "watch-state.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    for rank in range(4):
        write(capture, rank, (1, rank == 1))
    late = threading.Timer(60, running.kill)
    late.start()
    told = running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    late.cancel()
    assert running.returncode == 130, err
    assert "rank 1 differ" in told
    assert orders.read(capture)[0].scope == "group:pg"


def test_a_quiet_look_says_what_it_looked_at(command, home, capture, tmp_path):
    (tmp_path / "kern.log").write_text("")
    answer = command("watch", "--directory", capture, "--once", "--kernel-log", tmp_path / "kern.log")
    assert (answer.code, answer.out.strip()) == (0, "nothing new: looked at kernel log, digests of the ranks")


def test_without_any_source_a_look_is_no_answer(command, home, tmp_path):
    answer = command("watch", "--directory", tmp_path, "--once")
    assert answer.code == 3
    assert "no source to look at" in answer.out
    assert "nothing new" not in answer.out


EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'
ONE = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1796098600,"1"]}]}}'


@pytest.fixture
def asking(command, home, tmp_path, monkeypatch):
    """Look once at a Prometheus that gives one answer, and by default at nothing else."""
    (tmp_path / "empty").mkdir()

    def call(body, *arguments, directory=tmp_path / "empty", query=""):
        with serving(body) as url:
            monkeypatch.setenv("PROMETHEUS_QUERY_URL", url + query)
            return command("watch", "--directory", directory, "--once", *arguments)

    return call


TEMPERATURE = ("--metric", "temp=DCGM_FI_DEV_GPU_TEMP", "--above", "temp=90")


def test_a_query_without_series_is_nothing_to_look_at_and_is_named(asking):
    answer = asking(EMPTY, *TEMPERATURE)
    assert answer.code == 3
    assert " ".join(answer.out.split()) == "nothing to look at: temp: Prometheus has no series of DCGM_FI_DEV_GPU_TEMP"


def test_a_query_that_the_address_holds_is_named_too(asking):
    answer = asking(EMPTY, "--above", "temp=90", query="?query=gpu%5Ftemp")
    assert (answer.code, "no series of gpu_temp" in answer.out) == (3, True)


def test_a_query_without_series_beside_another_source_is_told_and_does_not_count(asking, capture):
    answer = asking(EMPTY, *TEMPERATURE, "--json", directory=capture)
    said = json.loads(answer.out)
    assert answer.code == 0
    assert said["looked_at"] == ["digests of the ranks"]
    assert said["without_series"] == {"temp": "DCGM_FI_DEV_GPU_TEMP"}
    assert "nothing new: looked at digests of the ranks" in asking(EMPTY, *TEMPERATURE, directory=capture).out


@pytest.mark.parametrize("query", ['ALERTS{alertstate="firing"}', "DCGM_FI_DEV_GPU_TEMP > 90"])
def test_a_query_that_is_healthy_without_series_is_not_accused_in_any_poll(asking, query):
    answers = [asking(EMPTY, "--metric", f"bad={query}", "--above", "bad=0") for _ in range(6)]
    assert {(one.code, one.out) for one in answers} == {(0, "nothing new: looked at Prometheus\n")}


def test_a_query_with_a_series_was_looked_at(asking):
    answer = asking(ONE, *TEMPERATURE)
    assert (answer.code, answer.out) == (0, "nothing new: looked at Prometheus\n")
