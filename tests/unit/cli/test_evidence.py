"""The commands about evidence: what is signed, one bundle or record of it, and exports."""

import hashlib
import json
import os
from pathlib import Path

import jsonschema
import pytest

import provstore
from provstore.evidence import bundles, records
from provstore.evidence.key_uris import open_signer
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.journal import Journal
from provstore.model.evidence import Observation
from tests.docs.test_answers import strict

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"
SAMPLES = Path(__file__).parents[3] / "provstore" / "samples"
HOSTILE = "run\x1b[2J:7\u202e[red]"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PROVSTORE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two stored runs, both signed, one of them closed."""
    folder = tmp_path_factory.mktemp("store") / "s"
    key = PrivateKey.generate()
    with provstore.open(f"embedded:{folder}") as opened:
        opened.ingest(SAMPLES / "hang", SAMPLES / "healthy")
        opened.seal(signer=key)
        opened.seal(signer=key, run="hang", close="finished")
    (folder / "key.pub").write_text(key.public_key.hex())
    return folder


@pytest.fixture
def sealed(command, home, store):
    return lambda *arguments: command("--store", f"embedded:{store}", *arguments)


def told(answer, name=None):
    assert answer.code == 0, answer.err
    value = json.loads(answer.out)
    if name is not None:
        jsonschema.validate(value, strict(json.loads((SCHEMAS / f"{name}.json").read_text())))
    return value


def journal_with(folder, run, lines, *, sign=True, key=None):
    """Return the key of a run that was put into a journal without a store."""
    key = key or PrivateKey.generate()
    with Journal.open(folder, writable=True) as journal:
        journal.append_records(run, 0, lines)
        ledger = bundles.Ledger(run, 0, journal.journal_id)
        ledger.add(lines)
        if sign:
            sealed = ledger.seal(key, limits=bundles.Limits())
            journal.append_bundle(run, 0, sealed.envelope, sealed.note)
    return key


def observation(run, number):
    return records.observation(run, 0, number, Observation("loss", {"value": 1.5}))


def test_the_list_shows_each_run_with_its_bundles(sealed):
    found = told(sealed("evidence", "list", "--json"), "evidence-list")
    shown = sealed("evidence", "list")

    hang, healthy = found["runs"]
    assert [(run["run"], run["closed"], run["unsigned"]) for run in (hang, healthy)] == [
        ("hang", True, 0),
        ("healthy", False, 0),
    ]
    assert [(row["epoch"], row["first"], row["size"], row["closed"]) for row in hang["bundles"]] == [
        (0, 0, hang["signed"] - 1, False),
        (1, hang["signed"] - 1, hang["signed"], True),
    ]
    assert hang["bundles"][0]["keyid"] in shown.out
    assert "never closed" in shown.out


def test_the_list_of_one_run_is_that_run(sealed):
    assert [run["run"] for run in told(sealed("evidence", "list", "healthy", "--json"))["runs"]] == ["healthy"]
    answer = sealed("evidence", "list", "nope")

    assert answer.code == 2
    assert "run nope: the journal holds none" in answer.err


def test_what_is_recorded_and_not_signed_is_listed_without_a_bundle(command, home):
    journal_with(home / "j", "r", [observation("r", 0)], sign=False)

    (run,) = told(command("--journal", "j", "evidence", "list", "--json"), "evidence-list")["runs"]

    assert (run["bundles"], run["records"], run["signed"], run["unsigned"]) == ([], 1, 0, 1)


def test_a_bundle_is_shown_by_run_and_epoch_and_by_its_digests(sealed):
    by_name = told(sealed("evidence", "show", "epoch:hang:0", "--json"), "evidence-show")

    assert by_name["said"]["predicate"]["epoch"] == by_name["number"] == 0
    for digest in by_name["digests"].values():
        for target in (f"sha256:{digest[:12]}", digest):
            assert told(sealed("evidence", "show", target, "--json")) == by_name


def test_a_record_is_shown_by_run_and_index_and_by_its_digests(sealed):
    by_name = told(sealed("evidence", "show", "record:hang:2", "--json"), "evidence-show")

    assert told(sealed("evidence", "show", "2", "--run", "hang", "--json")) == by_name
    assert by_name["said"]["kind"] == "ingest"
    assert by_name["digests"]["sha256"] == hashlib.sha256(by_name["raw"].encode()).hexdigest()
    assert told(sealed("evidence", "show", by_name["digests"]["leaf"][:16], "--json")) == by_name


def test_what_names_several_lists_them_and_what_names_nothing_says_so(sealed):
    several, nothing, no_form = (sealed("evidence", "show", target) for target in ("2", "ffffffffffff", "epoch:x"))

    assert (several.code, nothing.code, no_form.code) == (2, 2, 2)
    assert "2 fit: record:hang:2 (attempt 0, sha256 " in several.err
    assert "record:healthy:2 (attempt 0, sha256 " in several.err
    assert "--run" in several.err
    assert "neither a bundle nor a record" in nothing.err
    assert sealed("evidence", "show", "ab1").code == 2


def test_raw_gives_the_exact_bytes_and_nothing_else(sealed, store):
    with Journal.open(store / "journal", writable=False) as journal:
        log = journal.evidence("hang", 0)
        envelope, line = next(log.bundles()).envelope, next(log.records()).line

    assert sealed("evidence", "show", "epoch:hang:0", "--raw").out.encode() == envelope
    assert sealed("evidence", "show", "record:hang:0", "--raw").out.encode() == line


def test_an_export_says_what_it_wrote_and_verifies(sealed, home, store):
    asked = ("evidence", "export", "hang", "-o", "out", "--public-key", store / "key.pub", "--json")
    report = told(sealed(*asked), "evidence-export")

    assert (report["run"], report["closed"], report["keyid"], report["notes"]) == ("hang", True, "ssh", [])
    assert report["keys"][0]["file"] == "pub.pem"
    assert len(list((home / "out").iterdir())) == report["files"]
    (home / "kept").write_bytes((home / "out" / "checkpoint").read_bytes())
    answer = sealed("verify", "out", "--public-key", "out/pub.pem", "--anchor", "kept")
    assert answer.code == 0, answer.out + answer.err


def test_an_export_is_asked_for_by_run_when_several_are_signed(sealed, home):
    answer = sealed("evidence", "export", "-o", "out")

    assert answer.code == 2
    assert "2 runs fit: hang attempt 0, healthy attempt 0" in answer.err
    assert not (home / "out").exists()


def test_an_export_of_an_unsigned_run_says_how_to_sign_it(command, home):
    journal_with(home / "j", "r", [observation("r", 0)], sign=False)

    answer = command("--journal", "j", "evidence", "export", "r", "-o", "out")

    assert (answer.code, answer.out) == (2, "")
    assert "nothing is signed" in answer.err
    assert "provstore seal" in answer.err


def test_an_export_needs_no_private_key_and_takes_a_public_one_from_a_file(command, home):
    key = journal_with(home / "j", "r", [observation("r", 0)])
    (home / "key").write_text(key.public_key.hex())
    arguments = ("--journal", "j", "evidence", "export", "r", "-o")

    without = told(command(*arguments, "one", "--json"), "evidence-export")
    hexed = command(*arguments, "two", "--keyid", "hex")
    given = told(command(*arguments, "three", "--keyid", "hex", "--public-key", "key", "--json"))

    assert without["keys"] == [{"keyid": fingerprint(key.public_key), "file": None}]
    assert len(without["notes"]) == 1
    assert (hexed.code, "--public-key FILE" in hexed.err) == (2, True)
    assert given["keys"][0]["file"] == "pub.pem"
    assert not (home / "two").exists()


def test_an_export_finds_public_keys_in_the_trust_file_and_among_the_users_own(command, home):
    assert command("keys", "generate", "alice", "--unencrypted").code == 0
    key = journal_with(home / "j", "r", [observation("r", 0)], key=open_signer("alice"))
    arguments = ("--journal", "j", "--json", "evidence", "export", "r", "-o")

    own = told(command(*arguments, "own"))
    assert command("keys", "trust", "alice", "--role", "run").code == 0
    (home / ".config" / "provstore" / "keys").rename(home / "elsewhere")
    trusted = told(command(*arguments, "trusted"))
    (home / ".config" / "provstore" / "trust.json").rename(home / "mine")
    named = told(command(*arguments, "named", "--trust", "mine"))
    absent = command(*arguments, "absent", "--trust", "nowhere")

    expected = [{"keyid": fingerprint(key.public_key), "file": "pub.pem"}]
    assert own["keys"] == trusted["keys"] == named["keys"] == expected
    assert (absent.code, "nowhere: trust: no such file" in absent.err) == (2, True)


def test_all_files_are_signed_only_when_asked_for_and_a_key_alone_is_an_error(sealed, home):
    assert sealed("keys", "generate", "bob", "--unencrypted").code == 0
    asked = ("evidence", "export", "hang", "-o")
    signed = told(sealed(*asked, "a", "--sign", "sshsig", "--sign", "in-toto", "--json"), "evidence-export")
    refusals = [
        sealed(*asked, "b", "--key", "bob"),
        sealed(*asked, "b", "--sign", "pgp"),
        sealed(*asked, "b", "--sign", "sshsig", "--key", "nobody"),
        sealed(*asked, "b", "--sign", "signify"),
    ]

    assert signed["signatures"] == ["sshsig", "in-toto"]
    assert {"SHA256SUMS", "SHA256SUMS.sshsig", "root.layout"} <= {path.name for path in (home / "a").iterdir()}
    assert [answer.code for answer in refusals] == [2, 2, 2, 1]
    assert "role file" in refusals[3].err
    assert not (home / "b").exists()


def test_proofs_are_written_for_the_records_that_are_named_or_for_all(sealed, home):
    assert (
        told(sealed("evidence", "export", "hang", "-o", "a", "--record", "0", "--record", "3", "--json"))["proofs"] == 2
    )
    report = told(sealed("evidence", "export", "hang", "-o", "b", "--record", "all", "--json"))
    wrong = sealed("evidence", "export", "hang", "-o", "c", "--record", "-1")

    assert sorted(path.name for path in (home / "a").glob("*.tlog-proof")) == [
        "record-0.tlog-proof",
        "record-3.tlog-proof",
    ]
    assert report["proofs"] == report["records"] == len(list((home / "b").glob("*.tlog-proof")))
    assert wrong.code == 2


def test_evidence_that_does_not_hold_is_not_exported_and_the_exit_code_is_1(command, home):
    lines = [observation("r", number) for number in range(3)]
    key = PrivateKey.generate()
    with Journal.open(home / "j", writable=True) as journal:
        journal.append_records("r", 0, lines)
        ledger = bundles.Ledger("r", 0, journal.journal_id)
        ledger.add([*lines[:2], observation("r", 7)])
        sealed = ledger.seal(key, limits=bundles.Limits())
        journal.append_bundle("r", 0, sealed.envelope, sealed.note)

    answer = command("--journal", "j", "evidence", "export", "-o", "out")

    assert (answer.code, answer.out) == (1, "")
    assert "its records are not those that were signed" in answer.err
    assert not (home / "out").exists()


def test_a_bundle_that_cannot_be_read_is_listed_and_shown_as_such(command, home):
    journal_with(home / "j", "r", [observation("r", 0)])
    with Journal.open(home / "j", writable=True) as journal:
        journal.append_bundle("r", 0, b'{"payload":"!"}', b"note")

    listed = command("--journal", "j", "evidence", "list")
    found = told(command("--journal", "j", "evidence", "list", "--json"), "evidence-list")

    assert "envelope: members" in listed.out
    assert [row["epoch"] for row in found["runs"][0]["bundles"]] == [0, None]
    digest = hashlib.sha256(b'{"payload":"!"}').hexdigest()
    shown = told(command("--journal", "j", "evidence", "show", digest[:12], "--json"), "evidence-show")
    assert (shown["said"], shown["fault"] is not None) == (None, True)


def test_the_name_of_a_run_reaches_the_terminal_as_text(command, home):
    journal_with(home / "j", HOSTILE, [observation(HOSTILE, 0)])
    answers = [
        command("--journal", "j", "evidence", "list"),
        command("--journal", "j", "evidence", "show", f"epoch:{HOSTILE}:0"),
        command("--journal", "j", "evidence", "export", HOSTILE, "-o", "out"),
        command("--journal", "j", "evidence", "show", "9"),
    ]

    assert [answer.code for answer in answers] == [0, 0, 0, 2]
    for answer in answers:
        assert "\x1b" not in answer.out + answer.err
        assert "\u202e" not in answer.out + answer.err
    assert "\\x1b[2J:7\\u202e[red]" in answers[0].out


def test_without_a_journal_the_exit_code_is_7(command, home):
    answer = command("evidence", "list")

    assert answer.code == 7
    assert "there is none here" in answer.err
