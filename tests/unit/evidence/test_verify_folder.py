"""Every file of exported evidence: whoever reads one of them alone is not misled unseen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from provstore.errors import InputError
from provstore.evidence import checkpoint, merkle, public_forms
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.folder import verify_folder
from provstore.evidence.verify.walk import Checked, verify
from provstore.exports.evidence import EvidenceExportOptions
from provstore.exports.evidence.writer import export
from tests.signed_logs import MemoryLog, signed_run

KEY = PrivateKey.generate()
CLEAN = {"unanchored"}


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    return signed_run(sizes=[3, 2], closed=True, keys=[KEY])


@pytest.fixture
def out(log: MemoryLog, tmp_path: Path) -> Path:
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions(records="all"))
    return tmp_path / "out"


def judged(out: Path, trust: Trust | None = None, org: str = "provstore") -> tuple[Checked, tuple[str, ...]]:
    log, known = ExportedEvidence(out), trust or Trust.of_keys([KEY.public_key], "test")
    return verify_folder(log, verify(log, known, org=org, source="files", within=out), known, org)


def codes(out: Path) -> set[str]:
    return {one.code for one in judged(out)[0].findings}


def flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def holds_the_key(path: Path) -> bool:
    return path.name.startswith(("pub", "vkey")) and public_forms.read_public(path.read_bytes(), "") == KEY.public_key


def note_of(log: MemoryLog, size: int, key: PrivateKey = KEY, *, run: str = "run-1") -> bytes:
    root = merkle.root_of([merkle.leaf_hash(line) for line in log.lines[:size]])
    return checkpoint.make(checkpoint.origin("provstore", log.store, run, 0), size, root, key)


def test_an_untouched_export_has_nothing_but_its_limits_and_says_what_was_not_read(out: Path) -> None:
    checked, not_read = judged(out)

    assert {one.code for one in checked.findings} == CLEAN
    assert not_read == ("VERIFY.txt",)
    assert not any("trusted ones" in text for text in checked.limits)


def test_a_bundle_that_was_taken_away_is_seen_in_the_checkpoint_that_stayed(out: Path) -> None:
    for path in [*out.glob("epoch-1.*"), *out.glob("record-*"), out / "run.intoto.jsonl"]:
        path.unlink()

    checked, _ = judged(out)
    (finding,) = [one for one in checked.findings if one.code == "rows-missing"]
    assert finding.where == "checkpoint"
    assert "covers 5 records, and 3 are here" in finding.text
    assert checked.axes["tree"] == "fault"


@pytest.mark.parametrize("left", ["epoch-1.checkpoint", "epoch-1.pae.bin", "epoch-1.sig.raw"])
def test_each_file_that_a_removed_bundle_leaves_behind_shows_that_it_is_gone(out: Path, left: str) -> None:
    kept = (out / left).read_bytes()
    gone = [*out.glob("epoch-1.*"), *out.glob("record-*"), out / "run.intoto.jsonl", out / "checkpoint"]
    for path in gone:
        path.unlink()
    assert codes(out) == {"unanchored", "not-closed"}
    (out / left).write_bytes(kept)

    assert codes(out) & {"rows-missing", "epoch-order"}


def test_a_bundle_whose_records_stayed_is_missed_too(out: Path) -> None:
    for name in ("epoch-1.dsse.json", "epoch-1.sigstore.json", "epoch-1.pae.bin", "epoch-1.sig.raw"):
        (out / name).unlink()

    assert {"epoch-order", "unsigned-tail"} <= codes(out)


def test_one_changed_bit_in_any_file_that_others_read_is_seen(out: Path) -> None:
    for path in sorted(out.iterdir()):
        kept = path.read_bytes()
        for at in range(0, len(kept), 1 + len(kept) // 12):
            flipped(path, at)
            checked, not_read = judged(out)
            told = {one.code for one in checked.findings} - CLEAN
            is_told = bool(told) or path.name in not_read or path.name in " ".join(checked.limits)
            # The remark behind an OpenSSH key, and line ends, are no part of the key.
            assert is_told or holds_the_key(path), (path.name, at)
            path.write_bytes(kept)


@pytest.mark.parametrize("change", [lambda data: data + b"\n", lambda data: data + b"x", lambda data: b""])
@pytest.mark.parametrize("name", ["checkpoint", "epoch-0.pae.bin", "epoch-0.sig.raw", "record-2.tlog-proof"])
def test_a_longer_or_empty_file_is_another_one(out: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    (out / name).write_bytes(change((out / name).read_bytes()))

    assert codes(out) - CLEAN, name


def test_lines_of_the_attestations_are_the_bundles_no_fewer_no_more_and_in_their_order(out: Path) -> None:
    path = out / "run.intoto.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)

    for content in (b"", first, second + first, first + second + second, first + second[:-1], first + second + b"\n"):
        path.write_bytes(content)
        assert codes(out) - CLEAN, content[-80:]


def test_a_checkpoint_of_another_tree_key_or_run_is_a_fault_and_an_older_one_is_not(log: MemoryLog, out: Path) -> None:
    other = signed_run(sizes=[5], keys=[KEY])
    wrong = {
        "root-mismatch": note_of(replaced(other), 4),
        "untrusted-key": note_of(log, 4, PrivateKey.generate()),
        "wrong-run": note_of(log, 4, run="run-2"),
        "rows-missing": checkpoint.make(checkpoint.origin("provstore", log.store, "run-1", 0), 99, b"\1" * 32, KEY),
    }
    for code, note in wrong.items():
        (out / "checkpoint").write_bytes(note)
        assert code in codes(out), code
    (out / "checkpoint").write_bytes(note_of(log, 2))
    assert codes(out) == CLEAN


def replaced(log: MemoryLog) -> MemoryLog:
    log.lines[0] = log.lines[0].replace(b'"n":0', b'"n":7')
    return log


def test_records_and_proofs_that_changed_places_are_seen(out: Path) -> None:
    one, other = (out / "record-1.json"), (out / "record-2.json")
    one.write_bytes(other.read_bytes())
    assert "root-mismatch" in codes(out)
    one.unlink()
    assert codes(out) == CLEAN
    (out / "record-1.tlog-proof").write_bytes((out / "record-2.tlog-proof").read_bytes())
    assert "seq-gap-or-dup" in codes(out)
    (out / "record-77.json").write_bytes(other.read_bytes())
    assert "root-mismatch" in codes(out)


def test_a_key_that_is_not_trusted_is_named_although_nothing_here_is_signed_by_it(out: Path) -> None:
    (out / "pub-2.pem").write_bytes(public_forms.FORMS["pem"](PrivateKey.generate().public_key))
    (out / "pub-3.ssh").write_bytes(b"\xff")
    limits = judged(out)[0].limits

    assert [text.partition(" ")[0].rstrip(":") for text in limits if text.startswith("pub")] == [
        "pub-2.pem",
        "pub-3.ssh",
    ]


def test_names_of_others_are_listed_as_not_read(out: Path) -> None:
    (out / "sub").mkdir()
    (out / "notes\x1b[2J.txt").write_bytes(b"")
    (out / "epoch-01.pae.bin").write_bytes(b"")

    assert judged(out)[1] == ("VERIFY.txt", "epoch-01.pae.bin", "notes\x1b[2J.txt", "sub")


@pytest.mark.parametrize("options", [{"epoch": 0}, {"keyid": "hex"}, {"keyid": "none"}, {"epoch": 0, "records": [1]}])
def test_other_forms_of_an_export_get_no_finding_for_files_that_are_as_they_were_written(
    log: MemoryLog, tmp_path: Path, options: dict[str, object]
) -> None:
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions(**options))
    told = ExportedEvidence(tmp_path / "out")
    trust = Trust.of_keys([KEY.public_key], "test")
    checked = verify(told, trust, source="files", within=tmp_path / "out")

    assert verify_folder(told, checked, trust, "provstore")[0].findings == checked.findings


def test_files_about_imported_documents_and_of_a_run_with_an_odd_name_are_judged_alike(tmp_path: Path) -> None:
    for at, run in enumerate(("", "a/b %\u2028 c")):
        log = signed_run(run, sizes=[2, 2], keys=[KEY])
        export(log, tmp_path / f"{at}", log.publics, EvidenceExportOptions(records="all"))
        assert codes(tmp_path / f"{at}") == {"unanchored", "not-closed"}
        for path in (tmp_path / f"{at}").glob("epoch-1.*"):
            path.unlink()
        assert "rows-missing" in codes(tmp_path / f"{at}")


def test_two_keys_that_signed_one_after_the_other_are_both_looked_up(tmp_path: Path) -> None:
    other = PrivateKey.generate()
    log = signed_run(sizes=[2, 2, 1], keys=[KEY, other], closed=True)
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions(records="all"))
    trust = Trust.of_keys([KEY.public_key, other.public_key], "test")
    checked, _ = judged(tmp_path / "out", trust)

    assert {one.code for one in checked.findings} == CLEAN
    assert not any(text.startswith("pub") for text in checked.limits)


@pytest.mark.parametrize("name", ["checkpoint", "record-1.json", "pub.pem", "run.intoto.jsonl", "epoch-0.sig.raw"])
def test_a_link_in_the_place_of_a_file_is_refused(out: Path, tmp_path: Path, name: str) -> None:
    (out / name).rename(tmp_path / "kept")
    (out / name).symlink_to(tmp_path / "kept")

    with pytest.raises(InputError, match=name):
        judged(out)


def listed(out: Path) -> Path:
    """Write the list of digests of all files, as BSD's tools write it."""
    lines = [f"SHA256 ({one.name}) = {hashlib.sha256(one.read_bytes()).hexdigest()}\n" for one in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines))
    return out / "SHA256SUMS"


def of_sums(out: Path) -> list[tuple[str, str]]:
    return [(one.code, one.where) for one in judged(out)[0].findings if "SHA256SUMS" in one.text]


def test_the_list_of_digests_is_compared_with_the_files_and_shows_nothing_of_who_made_it(out: Path) -> None:
    listed(out)
    checked, not_read = judged(out)
    assert ({one.code for one in checked.findings}, not_read) == (CLEAN, ("VERIFY.txt",))
    assert "SHA256SUMS has no signature beside it: whoever can change the files can change the list." in checked.limits
    (out / "SHA256SUMS.sshsig").write_text("signature")
    checked, not_read = judged(out)
    assert any("its signature was not checked: SHA256SUMS.sshsig" in text for text in checked.limits)
    assert not_read == ("SHA256SUMS.sshsig", "VERIFY.txt")


def test_a_file_that_the_list_of_digests_does_not_fit_is_a_fault_even_one_that_nothing_else_reads(out: Path) -> None:
    listed(out)
    with (out / "VERIFY.txt").open("a") as file:
        file.write("rm -r ~\n")
    assert of_sums(out) == [("subject-mismatch", "VERIFY.txt")]
    assert judged(out)[0].axes["tree"] == "fault"
    (out / "VERIFY.txt").unlink()
    assert of_sums(out) == [("rows-missing", "VERIFY.txt")]


@pytest.mark.parametrize(
    "line",
    [
        f"SHA256 (../outside) = {'0' * 64}\n",
        f"SHA256 (checkpoint) = {'0' * 63}\n",
        f"{'0' * 64}  checkpoint\n",
        f"SHA256 (checkpoint) = {'0' * 64}",
        "x" * 2_000,
        "\n",
    ],
    ids=["a name outside", "a short digest", "another form", "no line end", "a long line", "an empty line"],
)
def test_a_line_that_is_no_digest_of_a_file_here_is_a_fault(line: str, out: Path) -> None:
    with listed(out).open("a") as file:
        file.write(line)
    assert ("subject-mismatch", "SHA256SUMS") in of_sums(out)


def test_a_list_of_wrong_digests_is_told_up_to_a_limit(out: Path) -> None:
    (out / "SHA256SUMS").write_text(f"SHA256 (checkpoint) = {'0' * 64}\n" * 5_000)
    assert len(of_sums(out)) <= 2_001
    assert judged(out)[0].axes["tree"] == "fault"
