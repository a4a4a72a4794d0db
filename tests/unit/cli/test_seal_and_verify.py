"""Sealing and verifying on the command line: exit codes, fixed words, and text that never steers a terminal."""

from __future__ import annotations

import json

import pytest

from provstore.cli.verify import verification_lines
from provstore.model.verification import EvidenceFinding, Verification


@pytest.fixture
def signed(filled, tmp_path, monkeypatch):
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    for name in ("PROVSTORE_KEY", "PROVSTORE_TRUST", "PROVSTORE_ANCHORS"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments):
        monkeypatch.setenv("PROVSTORE_KEY_PASSPHRASE", "only for this test")
        return filled(*arguments)

    assert call("keys", "generate", "tester").code == 0
    assert call("keys", "trust", "tester").code == 0
    return call


def test_from_unsigned_over_signed_to_anchored_and_closed(signed):
    before = signed("verify", "hang")
    assert before.code == 4
    assert "no-bundles" in before.out
    sealed = signed("seal", "hang", "--close", "aborted")
    assert sealed.code == 0
    assert "closed: nothing may follow" in " ".join(sealed.out.split())
    first, second = signed("verify", "hang"), signed("verify", "hang")
    assert (first.code, second.code) == (3, 0)
    flat, last = (" ".join(one.out.split()) for one in (first, second))
    assert "No fault found in 1 bundles, 9 records. Not anchored: a cut tail, a rollback to an older copy," in flat
    assert "They cannot show that everything was recorded, nor that a rank told the truth." in last


def test_allowed_limits_give_zero_and_are_still_said(signed):
    signed("seal", "hang")
    answer = signed("verify", "hang", "--allow", "unanchored,open", "--no-keep-anchor")
    assert answer.code == 0
    assert "Run never closed: nobody has signed that these are all its records." in " ".join(answer.out.split())


def test_a_limit_that_does_not_exist_is_a_usage_error(signed):
    answer = signed("verify", "hang", "--allow", "everything")
    assert answer.code == 2
    assert "known are unanchored, open, tail" in answer.err


def test_the_printed_checkpoint_is_an_anchor(signed, tmp_path):
    sealed = json.loads(signed("seal", "hang", "--json").out)
    kept = tmp_path / "kept.txt"
    kept.write_text(sealed["runs"][0]["checkpoint"])
    answer = json.loads(signed("verify", "hang", "--anchor", kept, "--no-keep-anchor", "--json").out)["answers"][0]
    assert answer["anchor"]["size"] == answer["anchor"]["of"] == 8
    assert answer["anchor"]["source"] == str(kept)


def test_two_reports_of_the_same_bytes_are_equal(signed):
    signed("seal")
    one, other = (signed("verify", "--json", "--no-keep-anchor").out for _ in range(2))
    assert one == other
    assert json.loads(one)["exit_code"] == 3


def test_an_exported_folder_is_verified_without_the_store(signed, tmp_path):
    signed("seal", "hang", "--close", "aborted")
    assert signed("evidence", "export", "hang", "-o", tmp_path / "out").code == 0
    answer = signed("--store", "embedded:elsewhere", "verify", tmp_path / "out", "--no-keep-anchor")
    assert answer.code == 3
    file = tmp_path / "out" / "epoch-0.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"rank":1', b'"rank":2'))
    changed = signed("verify", tmp_path / "out", "--no-keep-anchor")
    assert changed.code == 1
    assert "subject-mismatch" in changed.out


def test_a_folder_and_a_run_are_not_mixed(signed, tmp_path):
    assert signed("verify", "hang", tmp_path).code == 2
    assert signed("verify", "hang", "healthy").code == 2


def test_ingest_signs_at_once_when_asked(signed, samples):
    answer = signed("ingest", samples / "mismatch", "--seal")
    assert answer.code == 0
    assert "records signed in epoch 0" in answer.out
    assert signed("ingest", samples / "mismatch", "--key", "tester").code == 2


def test_without_a_key_or_a_run_it_is_said_what_to_do(signed, tmp_path, monkeypatch):
    unknown = signed("seal", "nobody")
    assert (unknown.code, "the store holds none" in unknown.err) == (2, True)
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "none"))
    without = signed("seal")
    assert without.code == 2
    assert "provstore keys generate" in without.err
    assert signed("verify").code == 2


def test_control_characters_and_markup_in_findings_stay_text():
    found = EvidenceFinding("[/red]\x1b]0;x\a", 0, 1, 2, "graph-mismatch", "node \x1b[2J", "[bold]x[/bold]\u202e")
    lines = [line.text for line in verification_lines(Verification("[/red]\x1b", 0, findings=(found,)), width=80)]
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text


def test_a_trust_file_planted_in_the_store_is_refused_unread(signed, tmp_path):
    signed("seal", "hang")
    planted = tmp_path / ".provstore" / "trust.json"
    planted.write_bytes((tmp_path / "config" / "trust.json").read_bytes())
    before = sorted(path.name for path in planted.parent.iterdir())
    answer = signed("verify", "hang", "--trust", planted, "--first-use")
    assert answer.code == 1
    assert "trust" in answer.err
    assert sorted(path.name for path in planted.parent.iterdir()) == before


def test_what_a_finding_follows_from_ends_its_sentence() -> None:
    text = "Run my-run, attempt 0, epoch 0: the 2 records of rank 1 are not the signed ones."
    found = EvidenceFinding(
        "my-run", 0, 0, None, "rank-head-mismatch", "epoch-0.dsse.json", text, 1, None, "root-mismatch"
    )
    said = [line.text for line in verification_lines(Verification("my-run", 0, findings=(found,)), width=200)]
    assert any(line.endswith("are not the signed ones; follows from root-mismatch") for line in said)
