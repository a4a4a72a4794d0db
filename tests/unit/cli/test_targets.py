"""What a name means that is a run of the store as well as a folder here: nobody diverts a check with a folder."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture
def signed(filled, home):
    """The filled store, with both runs signed by a key that is trusted."""
    assert filled("keys", "generate", "alice", "--unencrypted").code == 0
    assert filled("keys", "trust", "alice").code == 0
    assert filled("seal").code == 0
    return filled


@pytest.fixture
def exported(signed, tmp_path):
    assert signed("evidence", "export", "run:healthy", "-o", tmp_path / "healthy").code == 0
    return tmp_path / "healthy"


def test_a_run_wins_over_the_folder_of_dumps_that_it_was_named_after(signed, samples, tmp_path):
    shutil.copytree(samples / "hang", tmp_path / "hang")
    answer = signed("verify", "hang")
    assert answer.code == 3, answer.err
    assert answer.out.startswith("run hang, attempt 0: limited")
    (tmp_path / "healthy").write_text("a file of that name")
    assert signed("verify", "healthy").out.startswith("run healthy, attempt 0: limited")


def test_an_export_named_like_a_run_is_refused_until_it_is_said_which_is_meant(signed, exported):
    answer = signed("verify", "healthy")
    assert (answer.code, answer.out) == (2, "")
    assert "run:healthy" in answer.err
    assert "./healthy" in answer.err
    assert signed("verify", "run:healthy").out.startswith("run healthy")
    assert signed("verify", "./healthy").out.startswith("healthy: run healthy")
    assert signed("verify", exported).out.startswith(f"{exported}"[:60])


def test_an_export_that_is_no_run_of_the_store_needs_no_spelling(signed, exported):
    exported.rename(exported.with_name("handed-over"))
    assert signed("verify", "handed-over").out.startswith("handed-over: run healthy")
    assert signed("--store", "embedded:nowhere", "verify", "handed-over").code == 3


def test_a_run_that_was_seen_here_stays_a_run_when_its_journal_is_gone(signed, exported, tmp_path):
    assert signed("verify", "run:healthy").code == 3
    shutil.rmtree(tmp_path / ".provstore")
    assert signed("verify", "healthy").code == 2
    shutil.rmtree(exported)
    assert signed("verify", "healthy").code == 7


def test_a_folder_without_evidence_that_is_no_run_either_is_named(signed, tmp_path):
    (tmp_path / "empty").mkdir()
    answer = signed("verify", "empty")
    assert answer.code == 2
    assert answer.err.startswith("provstore: empty: evidence: holds no epoch-N.jsonl")


@pytest.mark.parametrize("path", ["./nofolder", "no/folder", "~/nofolder", "../nofolder"])
def test_a_path_that_does_not_exist_is_named(signed, path):
    answer = signed("verify", path)
    assert answer.code == 2
    assert answer.err.startswith(f"provstore: {path}: no such folder or file")
    assert "run:NAME" in answer.err


def test_a_name_is_named_where_there_is_no_store_either(command, home):
    answer = command("verify", "nofolder")
    assert answer.code == 2
    assert answer.err.startswith("provstore: nofolder: no such folder or file, and no store")


def test_run_and_its_name_are_one_spelling_of_every_command_about_a_run(signed, tmp_path):
    for command in (("seal",), ("verify",), ("evidence", "list")):
        assert signed(*command, "run:hang").code == signed(*command, "hang").code != 2
    assert signed("evidence", "show", "0", "--run", "run:hang").code == 0
    assert signed("evidence", "export", "run:hang", "-o", tmp_path / "out").code == 0
    for command in (("seal",), ("verify",), ("evidence", "list"), ("evidence", "show"), ("evidence", "export")):
        assert "run:" in signed(*command, "--help").out, command


def test_each_file_of_an_export_is_judged_or_said_to_be_no_evidence_by_itself(signed, tmp_path):
    out = tmp_path / "out"
    assert signed("evidence", "export", "hang", "-o", out, "--record", "2").code == 0
    for path in sorted(out.iterdir()):
        answer = signed("verify", path)
        is_signed = path.name.endswith(("checkpoint", ".dsse.json", ".sigstore.json", ".tlog-proof"))
        assert answer.code == (3 if is_signed else 2), (path.name, answer.err)
        assert "imported documents" not in answer.out
        assert is_signed or "no signature covers it by itself" in answer.err


def test_the_title_of_an_answer_about_a_file_that_cannot_be_read_is_the_file(signed, tmp_path):
    (tmp_path / "x.bin").write_bytes(b"\x00" * 40)
    answer = signed("verify", "./x.bin")
    assert answer.code == 1
    assert answer.out.startswith("x.bin: fault")


def test_another_org_than_that_of_every_checkpoint_is_a_mistake_and_no_tampering(signed, exported):
    for target in ("run:healthy", "./healthy"):
        answer = signed("verify", target, "--org", "other")
        assert (answer.code, answer.out) == (2, "")
        said = "".join(answer.err.split())
        assert "expectedoriginother/" in said
        assert "provstore/" in said
        assert "--org provstore" in answer.err
    strange = signed("verify", "run:healthy", "--org", "other", "--public-key", exported / "pub.ssh")
    assert strange.code == 2


def test_another_org_is_told_once_for_all_runs_with_the_org_that_the_checkpoints_are_about(signed):
    answer = signed("verify", "--org", "other")
    assert (answer.code, answer.out) == (2, "")
    said = " ".join(answer.err.split())
    assert "other: --org: the checkpoints here are about another org, provstore:" in said
    assert "--org provstore" in said
    assert "wrong-run" not in said


def test_an_org_in_a_checkpoint_that_no_trusted_key_signed_stays_a_fault(signed, exported):
    note = exported / "epoch-0.checkpoint"
    note.write_bytes(note.read_bytes().replace(b"provstore/", b"otherorgs/", 1))
    assert signed("verify", "./healthy").code == 1
