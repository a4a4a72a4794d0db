"""Exit codes, errors, and manners of the commands."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import provstore
from provstore import rooms
from provstore.cli import _app
from provstore.stores import embedded_query
from tests.fr_files import Entry, table, write_pickle


def test_a_healthy_job_exits_with_0_and_a_hung_one_with_1(command, samples):
    assert command("diagnose", samples / "healthy").code == 0
    assert command("diagnose", samples / "hang").code == 1


def test_what_the_dumps_cannot_tell_exits_with_3(command, samples):
    answer = command("diagnose", samples / "healthy", "--about", "nan", "--json")

    assert (answer.code, json.loads(answer.out)["status"]) == (3, "undecided")


def test_a_folder_without_dumps_exits_with_2_and_says_which(command, tmp_path):
    (tmp_path / "empty").mkdir()

    answer = command("diagnose", tmp_path / "empty")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"provstore: {tmp_path / 'empty'}: ")


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_job_whose_dumps_were_all_refused_exits_with_2(command, tmp_path, is_stored):
    (tmp_path / "bad").mkdir()
    for rank in range(2):
        (tmp_path / "bad" / f"nccl_trace_rank_{rank}").write_text("garbage")
    if is_stored:
        assert command("ingest", tmp_path / "bad").code == 2
    target = "run:bad" if is_stored else tmp_path / "bad"

    shown, told = command("diagnose", target), command("diagnose", target, "--json")

    assert (shown.code, told.code, json.loads(told.out)["status"]) == (2, 2, "error")
    assert shown.out.startswith("bad, attempt 0: no usable evidence\n")
    assert "nccl_trace_rank_0" in shown.out


def test_a_job_with_one_good_dump_among_refused_ones_is_still_judged(command, samples, tmp_path):
    shutil.copytree(samples / "hang", tmp_path / "some")
    for rank in (1, 2, 3):
        (tmp_path / "some" / f"fr_gloo_rank_{rank}").write_text("garbage")

    assert command("diagnose", tmp_path / "some").code in (1, 3)


def test_a_path_that_is_not_there_is_named_with_the_way_to_ask_for_a_run(command):
    answer = command("diagnose", "my-job")

    assert answer.code == 2
    assert answer.err == "provstore: my-job: no such file or folder\nhint: run:my-job asks for a stored run\n"


def test_a_stored_run_gives_the_same_findings_as_its_folder(filled, samples):
    folder = json.loads(filled("diagnose", samples / "hang", "--json").out)
    stored = json.loads(filled("diagnose", "run:hang", "--json").out)

    assert stored["findings"] == folder["findings"]
    assert stored["status"] == "findings"


@pytest.mark.parametrize(
    ("target", "noun"),
    [
        ("tensor:99999999999999999999:3:out", "rank"),
        ("rank:9223372036854775808", "rank"),
        ("r0:seq9223372036854775808", "call"),
        (f"p2p:0:{'9' * 5000}", "call"),
    ],
)
def test_a_number_that_no_store_can_hold_is_no_such_rank_or_call(filled, target, noun):
    answer = filled("trace", target, "--run", "hang")

    assert (answer.code, answer.out) == (2, "")
    assert f": there is no such {noun}; " in answer.err
    assert len(answer.err) < 250


@pytest.mark.parametrize("words", [("store", "info"), ("trace", "tensor:0:1:in"), ("diagnose",), ("store", "rebuild")])
def test_a_password_in_an_address_is_never_repeated(command, words):
    answer = command(*words, "--store", "neo4j://user:secret@host")

    assert (answer.code, answer.out) == (2, "")
    assert "secret" not in answer.err
    assert "PROVSTORE_NEO4J_PASSWORD" in answer.err


def test_a_store_that_is_a_bare_path_gets_the_address_that_was_meant(command):
    answer = command("store", "info", "--store", "foo")

    assert answer.code == 2
    assert answer.err.startswith("provstore: foo: store: not a store address; ")
    assert answer.err.endswith("hint: did you mean embedded:foo\n")


@pytest.mark.parametrize(
    ("uri", "words"),
    [("foo", "did you mean embedded:foo"), ("neo4j://user:secret@host", "PROVSTORE_NEO4J_PASSWORD")],
)
def test_doctor_lists_a_bad_address_among_its_checks(command, uri, words):
    answer = command("doctor", "--store", uri, "--json")

    (store,) = [check for check in json.loads(answer.out)["checks"] if check["name"] == "store"]
    assert (answer.code, store["code"]) == (2, 2)
    assert words in answer.out
    assert "secret" not in answer.out


@pytest.mark.parametrize(
    "text",
    [
        "MATCH (a),(b),(c) RETURN collect([a.iri,b.iri,c.iri]) AS x",
        f"UNWIND range(1, 1000000) AS i RETURN collect('{'x' * 200}' + toString(i)) AS x",
        "UNWIND range(1, 6000000) AS i RETURN count(i) AS x",
    ],
)
def test_a_query_that_needs_too_much_memory_exits_with_4(filled, monkeypatch, text):
    monkeypatch.setattr(embedded_query, "_SPARE_BYTES", 64 * 1024 * 1024)

    answer = filled("query", "--cypher", text)

    assert (answer.code, answer.out) == (4, "")
    assert answer.err.startswith("provstore: query: memory: ")


def test_options_of_every_command_may_stand_on_either_side_of_its_name(command, samples):
    before = command("--json", "diagnose", samples / "healthy")
    after = command("diagnose", samples / "healthy", "--json")

    assert json.loads(before.out)["status"] == json.loads(after.out)["status"] == "healthy"


def test_the_store_may_be_given_on_either_side_too(command, samples, tmp_path):
    command("--store", f"embedded:{tmp_path / 'here'}", "ingest", samples / "hang")

    answer = command("store", "info", "--store", f"embedded:{tmp_path / 'here'}", "--json")

    assert json.loads(answer.out)["runs"] == [{"run": "hang", "attempt": 0}]


def test_the_store_of_the_environment_is_used(command, samples, tmp_path, monkeypatch):
    monkeypatch.setenv("PROVSTORE_STORE", f"embedded:{tmp_path / 'there'}")

    command("ingest", samples / "hang")

    assert (tmp_path / "there").is_dir()
    assert not (tmp_path / ".provstore").exists()


def test_a_store_that_is_not_there_is_unavailable_and_not_made(command, tmp_path):
    answer = command("store", "info")

    assert answer.code == 7
    assert answer.err.startswith("provstore: ")
    assert not (tmp_path / ".provstore").exists()


def test_the_same_evidence_again_is_known(filled, samples):
    answer = filled("ingest", samples / "hang", "--json")

    assert answer.code == 0
    assert json.loads(answer.out)["counts"] == {"new": 0, "known": 4, "refused": 0, "skipped": 0}


def test_a_refused_file_is_named_the_others_are_used_and_the_exit_code_says_it(command, samples, tmp_path):
    for path in (samples / "hang").iterdir():
        (tmp_path / "set").mkdir(exist_ok=True)
        (tmp_path / "set" / path.name).write_bytes(path.read_bytes())
    broken = tmp_path / "set" / "fr_gloo_rank_1"
    broken.write_bytes(broken.read_bytes()[:100])

    answer = command("ingest", tmp_path / "set")

    assert answer.code == 2
    assert "refused: fr_gloo_rank_1" in answer.out
    assert "4 files (3 new, 1 refused)" in answer.out


def test_an_ambiguous_target_lists_what_it_could_mean(filled):
    answer = filled("trace", "tensor:2:3:out", "--run", "healthy")

    assert answer.code == 2
    assert answer.err.count("\n  https://w3id.org/provstore/id/healthy/0/gloo/") == 2
    assert "hint: " in answer.err


def test_a_cut_trace_is_an_answer_unless_a_whole_one_is_required(filled):
    cut = ("trace", "tensor:2:3:out", "--run", "healthy", "--group", "default", "--depth", "1")

    assert filled(*cut).code == 0
    assert filled(*cut, "--require-complete").code == 3


def test_a_trace_needs_no_store_when_it_is_given_dumps(command, samples, tmp_path):
    answer = command("trace", "tensor:2:3:out", samples / "healthy", "--group", "default", "--json")

    assert answer.code == 0
    assert json.loads(answer.out)["complete"] is True
    assert not (tmp_path / ".provstore").exists()


@pytest.mark.parametrize(("form", "opening"), [("dot", "digraph"), ("mermaid", "flowchart"), ("prov-n", "document")])
def test_a_trace_can_be_written_in_an_export_format(filled, form, opening):
    answer = filled("trace", "tensor:2:3:out", "--run", "healthy", "--group", "default", "--format", form)

    assert answer.code == 0
    assert opening in answer.out.split("\n\n")[0]


def test_an_export_is_the_document_alone(filled):
    answer = filled("export", "prov-json", "--run", "hang")

    assert answer.code == 0
    assert json.loads(answer.out)["prefix"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["query", "no_such_query"], "no_such_query"),
        (["query", "lagging_ranks", "--param", "runhang"], "runhang: --param: not of the form key=value"),
        (["query", "lagging_ranks", "--param", "color=red"], "color"),
        (["query"], "give one of NAME, --cypher TEXT and --list"),
        (["query", "--cypher", "CREATE (n) RETURN n"], "CREATE"),
        (["export", "papyrus", "--run", "hang"], "papyrus"),
        (["diagnose", "--about", "weather", "run:hang"], "weather"),
        (["trace", "nothing-like-this"], "nothing-like-this"),
        (["ingest", "/no/such/folder"], "/no/such/folder"),
        (["no-such-command"], "no-such-command"),
        (["trace"], "TARGET"),
        (["diagnose", "--depth", "3"], "--depth"),
        (["diagnose", "provstore-samples", "--save"], "provstore-samples"),
        (["demo", "--fault", "stuck"], "--fault"),
        (["demo", "--live", "--fault", "hiccup"], "known are none, stuck"),
    ],
    ids=" ".join,
)
def test_a_mistake_of_the_user_is_one_line_that_names_it_and_exits_with_2(filled, arguments, words):
    answer = filled(*arguments)

    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("provstore: ")
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_markup_and_control_characters_of_the_command_line_are_shown_literally(command):
    answer = command("diagnose", "[red]\x1b[31mx")

    assert r"[red]\x1b[31mx" in answer.err


def test_an_error_of_the_program_is_one_line_too_and_verbose_shows_where(command, samples, monkeypatch):
    from provstore import api

    def broken(*_, **__):
        raise RuntimeError("no\x1bgood")

    monkeypatch.setattr(api, "diagnose", broken)

    assert command("diagnose", samples / "hang").err.startswith(r"provstore: internal error: RuntimeError: no\x1bgood")
    assert "Traceback" not in command("diagnose", samples / "hang").err
    assert "Traceback" in command("--verbose", "diagnose", samples / "hang").err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        SystemError("error return without exception set"),
        ImportError("libx.so: failed to map segment from shared object"),
        SyntaxError("expected ':'", (str(Path(provstore.__file__).with_name("x.py")), 1, 1, None)),
    ],
)
def test_the_ways_in_which_the_interpreter_says_that_memory_ran_out_are_one_answer(
    command, samples, monkeypatch, error
):
    from provstore import api

    def exhausted(*_, **__):
        raise error

    monkeypatch.setattr(api, "diagnose", exhausted)
    answer = command("diagnose", samples / "hang")

    assert (answer.code, answer.err) == (4, "provstore: out of memory: it could not be finished\n")


def test_results_go_to_standard_output_alone(filled):
    assert filled("query", "lagging_ranks", "--param", "run=hang").err == ""
    assert filled("store", "check").err == ""


def test_wide_rows_are_shown_one_by_one(filled):
    out = filled("query", "last_call_per_rank", "--param", "run=hang").out

    assert max(map(len, out.splitlines())) <= 80
    assert out.count("is_completed  ") == 4


def test_doctor_looks_at_python_the_libraries_and_the_store(filled):
    answer = filled("doctor", "--json")
    checks = {check["name"]: check["status"] for check in json.loads(answer.out)["checks"]}

    assert answer.code == 0
    assert checks["python"] == checks["kglite"] == checks["store"] == "ok"


def test_the_demo_tells_its_story_in_a_store_of_its_own(command, tmp_path):
    answer = command("demo", "--json")
    steps = json.loads(answer.out)["steps"]

    assert answer.code == 0
    codes = [(step["command"].split()[0:3], step["exit_code"]) for step in steps]
    assert [code for _, code in codes[:5]] == [1, 0, 0, 0, 0]
    assert [code for command, code in codes if command[1] == "verify"] == [3, 1, 0]
    assert [code for command, code in codes[5:] if command[1] != "verify"] == [0] * 6
    (recorded,) = [step["answer"]["epochs"] for step in steps if step["command"].startswith("provstore record")]
    assert [(one["actions"], one["counts"]["shortfall"]) for one in recorded] == [(43, {"no-tensor-access": 43})]
    (touched,) = [one for one in steps[11]["answer"]["answers"][0]["findings"] if one["code"] == "graph-mismatch"]
    assert touched["where"].endswith("/8/0/in is_completed")
    assert not (tmp_path / ".provstore").exists()


@pytest.mark.parametrize(
    "name",
    [
        *(one.replace("_", "-") for one in rooms.names("cli") if one not in ("store", "keys", "evidence", "admin")),
        *("store info", "store check", "store rebuild"),
        *(f"evidence {one}" for one in ("list", "show", "export", "import", "join")),
        *(f"admin {one}" for one in ("safe-mode", "resume", "escalate", "deescalate")),
        *(f"keys {one}" for one in ("generate", "list", "show", "export", "trust", "rotate", "revoke")),
    ],
)
def test_every_command_has_help_with_an_example(command, name):
    answer = command(*name.split(), "--help")

    assert answer.code == 0
    assert "Example" in answer.out
    assert f"provstore {name}" in answer.out.split("Example")[1]
    assert max(len(line) for line in answer.out.split("Example")[0].splitlines()) <= 80


@pytest.mark.parametrize(
    "group", [[], ["store"], ["keys"], ["evidence"], ["admin"]], ids=lambda group: group[0] if group else "root"
)
def test_a_group_of_commands_alone_shows_its_help_and_nothing_else(command, group):
    answer = command(*group)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Usage: provstore ")
    assert "hint:" not in answer.err


@pytest.mark.parametrize(
    "group", [[], ["store"], ["keys"], ["evidence"], ["admin"]], ids=lambda group: group[0] if group else "root"
)
def test_no_summary_in_a_list_of_commands_is_cut(command, group):
    listed = command(*group, "--help").out.split("Commands:")[1]

    assert "..." not in listed


def test_a_diagnosis_of_nothing_without_a_store_is_a_mistake_of_the_user(command):
    answer = command("diagnose")

    assert answer.code == 2
    assert answer.err.endswith("hint: provstore diagnose FOLDER\n")


def test_the_findings_of_a_folder_cannot_be_saved(command, samples):
    assert command("diagnose", samples / "hang", "--save").code == 2


def test_saving_says_how_many_findings_it_kept(filled):
    assert filled("diagnose", "run:hang", "--save").out.endswith("\nsaved: 1 finding\n")
    assert "saved" not in filled("diagnose", "run:hang").out


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        (["query", "collectives/lagging_ranks"], "--param run=ID and --param attempt=N"),
        (["diagnose"], "run:ID and --attempt N"),
        (["export", "dot"], "--run and --attempt"),
    ],
    ids=["query", "diagnose", "export"],
)
def test_a_choice_of_runs_is_asked_for_in_the_words_of_the_command(filled, arguments, way):
    answer = filled(*arguments)

    assert answer.code == 2
    assert answer.err.endswith(f"hint: choose with {way}\n")


def test_an_empty_answer_says_that_it_has_no_rows(filled):
    shipped = filled("query", "collectives/disagreeing_ranks", "--param", "run=hang").out.splitlines()
    own = filled("query", "--cypher", "MATCH (c:Call) WHERE c.rank = 99 RETURN c.rank AS rank").out.splitlines()

    assert shipped[-1] == own[-1] == "0 rows"


def test_the_frames_of_a_stack_stand_one_a_line(filled):
    call = ("--param", "run=hang", "--param", "group=default", "--param", "call=r0:seq3")
    lines = [line.split() for line in filled("query", "collectives/stack_of_call", *call).out.splitlines()]

    assert ["/workspace/train.py:80", "train"] in lines
    assert ["/workspace/train.py:36", "main"] in lines


def test_the_names_that_are_listed_are_the_names_that_are_taken(filled):
    listed = [line for line in filled("query", "--list").out.splitlines() if line[:1].isalpha()]

    assert "collectives/lagging_ranks" in listed
    assert filled("query", "collectives/lagging_ranks", "--param", "run=hang").code == 0


def test_a_path_that_is_not_there_says_whether_the_other_direction_has_one(filled):
    cause, effect = "tensor:0:2:in", "tensor:2:3:out"
    scope = ("--run", "healthy", "--group", "default")

    assert "try with --down" in filled("trace", cause, "--to", effect, *scope).out
    assert "try without --down" in filled("trace", effect, "--to", cause, "--down", *scope).out
    assert "nor is there one the other way" in filled("trace", effect, "--to", "rank:0", *scope).out


def test_a_quiet_ingest_lists_no_skipped_file(command, samples, tmp_path):
    (tmp_path / "set").mkdir()
    for path in (samples / "hang").iterdir():
        (tmp_path / "set" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "set" / "notes.txt").write_text("not a dump")

    assert "skipped: notes.txt" in command("ingest", tmp_path / "set").out
    assert "skipped" not in command("ingest", tmp_path / "set", "--quiet").out


@pytest.mark.parametrize(
    ("name", "value", "status", "words"),
    [
        ("TORCH_FR_BUFFER_SIZE", "0", "note", "the recorder is off"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "0", "note", "the recorder is off"),
        ("TORCH_INCLUDE_STACK_TRACE", "0", "note", "stacks are off"),
        ("TORCH_FR_BUFFER_SIZE", "2000", "ok", "2000"),
        ("TORCH_INCLUDE_STACK_TRACE", "1", "ok", "1"),
    ],
)
def test_doctor_says_which_settings_leave_dumps_empty(command, monkeypatch, name, value, status, words):
    monkeypatch.setenv(name, value)

    checks = {check["name"]: check for check in json.loads(command("doctor", "--json").out)["checks"]}

    assert checks[name]["status"] == status
    assert words in checks[name]["detail"]


@pytest.mark.parametrize(
    ("version", "noted"), [(None, True), ("2.10.1", True), ("2.11.0", False), ("2.15.0+cpu", False)]
)
def test_doctor_asks_for_a_buffer_size_only_where_torch_has_none_by_itself(command, monkeypatch, version, noted):
    from provstore.cli import doctor

    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: version if name == "torch" else real(name))
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        monkeypatch.delenv(name, raising=False)

    names = {check["name"] for check in json.loads(command("doctor", "--json").out)["checks"]}

    assert ("TORCH_FR_BUFFER_SIZE" in names) is noted


def test_the_version_is_that_of_the_package(command):
    assert command("--version").out == f"provstore {provstore.__version__}\n"


def started(arguments, cwd, **options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROVSTORE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "provstore", *map(str, arguments)], cwd=cwd, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_a_reader_that_has_seen_enough_causes_no_noise_and_keeps_the_exit_code(samples, tmp_path):
    process = started(["diagnose", samples / "hang", "--json"], tmp_path)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()

    assert (process.wait(60), err) == (1, "")


def test_an_interruption_exits_with_130_and_says_what_is_kept(command, samples, monkeypatch):
    from provstore import api

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "diagnose", interrupted)

    answer = command("diagnose", samples / "hang")

    assert answer.code == 130
    assert answer.err.startswith("provstore: interrupted: what was accepted so far is kept")


def test_completion_offers_commands_and_options(tmp_path):
    environment = {**os.environ, "_PROVSTORE_COMPLETE": "complete_bash", "COMP_WORDS": "provstore d", "COMP_CWORD": "1"}
    offered = subprocess.run(
        [sys.executable, "-m", "provstore"], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert {"demo", "diagnose", "doctor"} <= set(offered.stdout.split())


@pytest.fixture
def hostile(command, tmp_path):
    """A store whose calls bear names with a terminal's escape sequences."""
    entries = [Entry(name="nccl:all_reduce\x1b[31m\x9b2J\u202e", frames=[("f\x1b]0;x\x07", "a\u2066.py", 7)])]
    (tmp_path / "dumps").mkdir()
    write_pickle(tmp_path / "dumps" / "rank_0", table("2.10", entries))
    assert command("ingest", tmp_path / "dumps").code == 0
    return command


def controls(text):
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf") and char not in "\n\t"}


def test_json_never_holds_raw_control_characters_and_stays_equal(hostile):
    out = hostile("export", "json").out

    assert controls(out) == set()
    assert "all_reduce\x1b[31m\x9b2J\u202e" in {node["properties"].get("op") for node in json.loads(out)["nodes"]}


@pytest.mark.parametrize("form", ["json", "prov-json", "prov-n", "dot", "mermaid"])
def test_a_terminal_gets_no_control_characters_in_an_export(hostile, monkeypatch, form):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    exported = hostile("export", form)
    traced = hostile("trace", "r0:seq1", "--format", "prov-n")

    assert (exported.code, traced.code) == (0, 0)
    assert len(exported.out) > 100
    assert len(traced.out) > 100
    assert controls(exported.out) == controls(traced.out) == set()


def test_a_terminal_gets_prov_n_that_is_the_same_document(hostile, monkeypatch):
    plain = hostile("export", "prov-n").out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    spelled = hostile("export", "prov-n").out

    assert re.sub(r"\\u([0-9A-F]{4})", lambda found: chr(int(found[1], 16)), spelled) == re.sub(
        r"\\u([0-9A-F]{4})", lambda found: chr(int(found[1], 16)), plain
    )


def finished(arguments, **streams):
    return subprocess.run(
        [sys.executable, "-m", "provstore", *map(str, arguments)],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        **streams,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("words", [("diagnose",), ("diagnose", "--json")])
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_code_7(samples, words, buffered):
    with Path("/dev/full").open("w") as full:
        done = finished([*words, samples / "hang"], stdout=full, env={**os.environ, "PYTHONUNBUFFERED": buffered})

    assert done.returncode == 7
    assert done.stderr == "provstore: standard output: it cannot be written: No space left on device\n"


def test_an_export_into_a_full_disk_exits_with_7(filled, monkeypatch):
    def refuse(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys.stdout, "write", refuse)
    monkeypatch.setattr(_app, "quiet_broken_pipe", lambda: None)

    answer = filled("export", "json", "--run", "hang")

    assert answer.code == 7
    assert answer.err == "provstore: standard output: it cannot be written: No space left on device\n"


@pytest.mark.parametrize(("sample", "code"), [("healthy", 0), ("mismatch", 1)])
@pytest.mark.parametrize("words", [("diagnose",), ("diagnose", "--json")])
def test_the_exit_code_is_the_answers_when_the_reader_of_a_pipe_has_seen_enough(samples, words, sample, code):
    reader, pipe = os.pipe()
    os.close(reader)
    try:
        done = finished([*words, samples / sample], stdout=pipe)
    finally:
        os.close(pipe)

    assert (done.returncode, done.stderr) == (code, "")


def test_a_closed_standard_output_is_one_line_and_exit_code_7(samples):
    done = finished(["diagnose", samples / "hang"], preexec_fn=lambda: os.close(1))

    assert (done.returncode, done.stderr) == (7, "provstore: standard output: it is closed\n")
