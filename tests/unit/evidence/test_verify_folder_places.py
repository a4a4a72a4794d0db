"""What is wrong with one file of exported evidence is told with its name, its epoch or record, and in words."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from provstore.evidence import checkpoint, merkle, public_forms
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust.keys import Trust, TrustedKey
from provstore.evidence.verify import folder, sums
from provstore.evidence.verify.folder import verify_folder
from provstore.evidence.verify.walk import Checked, verify
from provstore.exports.evidence import EvidenceExportOptions
from provstore.exports.evidence.writer import export
from tests.signed_logs import MemoryLog, signed_run

KEY = PrivateKey.generate()
TRUST = Trust.of_keys([KEY.public_key], "test")
Place = tuple[str, int | None, int | None, str, str | None]


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    return signed_run(sizes=[3, 2], closed=True, keys=[KEY])


@pytest.fixture
def out(log: MemoryLog, tmp_path: Path) -> Path:
    export(log, tmp_path / "out", log.publics, EvidenceExportOptions(records="all"))
    return tmp_path / "out"


def judged(out: Path, trust: Trust = TRUST) -> tuple[Checked, tuple[str, ...]]:
    told = ExportedEvidence(out)
    return verify_folder(told, verify(told, trust, source="files", within=out), trust, "provstore")


def found(out: Path, trust: Trust = TRUST) -> list[tuple[Place, str]]:
    """Code, epoch, record, file and cause of each finding that accuses, and its words."""
    return [
        ((one.code, one.epoch, one.seq, one.where, one.cause), one.text)
        for one in judged(out, trust)[0].findings
        if one.code not in {"unanchored", "not-closed", "unsigned-tail"}
    ]


def note_of(log: MemoryLog, size: int, key: PrivateKey = KEY, *, run: str = "run-1", root: bytes = b"") -> bytes:
    known = merkle.root_of([merkle.leaf_hash(line) for line in log.lines[:size]])
    return checkpoint.make(checkpoint.origin("provstore", log.store, run, 0), size, root or known, key)


@pytest.mark.parametrize(
    ("name", "what"),
    [("epoch-1.pae.bin", "the bytes that its bundle signs"), ("epoch-1.sig.raw", "the signature in its bundle")],
)
def test_a_part_that_differs_from_its_bundle_is_named(out: Path, name: str, what: str) -> None:
    (out / name).write_bytes((out / name).read_bytes() + b"x")

    text = f"Run run-1, attempt 0, epoch 1: {name}: it does not hold {what}."
    assert found(out) == [(("bad-signature", 1, None, name, None), text)]
    assert judged(out)[0].axes["signature"] == "fault"


@pytest.mark.parametrize("form", ["pae.bin", "sig.raw"])
def test_a_part_of_a_bundle_that_is_not_here_is_named(out: Path, form: str) -> None:
    name = f"epoch-7.{form}"
    (out / name).write_bytes(b"x")

    text = f"Run run-1, attempt 0, epoch 7: {name}: the bundle of epoch 7, of which it is a part, is not here."
    assert found(out) == [(("epoch-order", 7, None, name, None), text)]
    assert (judged(out)[0].axes["chain"], judged(out)[1]) == ("fault", ("VERIFY.txt",))


def test_the_first_line_of_the_attestations_that_is_not_its_bundle_is_named(out: Path) -> None:
    name = "run.intoto.jsonl"
    first, second = (out / name).read_bytes().splitlines(keepends=True)
    for content, epoch in ((b"", 0), (second + first, 0), (first, 1), (first + first, 1), (first + second[:-1], 1)):
        (out / name).write_bytes(content)
        ((place, text),) = found(out)
        assert place == ("bad-signature", epoch, None, name, None)
        assert text.endswith(f"{name}: its line of epoch {epoch} is not that bundle.")
    (out / name).write_bytes(first + second + second)
    ((place, text),) = found(out)
    assert place == ("epoch-order", None, None, name, None)
    assert text.endswith("it holds more bundles than are here.")


def test_a_record_or_proof_that_is_not_that_of_its_number_is_named(out: Path) -> None:
    lines = {n: (out / f"record-{n}.json").read_bytes() for n in range(5)}
    proof = (out / "record-2.tlog-proof").read_bytes()
    for name, n, data, code, words in (
        ("record-1.json", 1, lines[2], "root-mismatch", "it is not the record of that number."),
        ("record-77.json", 77, lines[2], "root-mismatch", "it is not the record of that number."),
        (
            "record-1.tlog-proof",
            1,
            proof,
            "seq-gap-or-dup",
            "the proof of record 2.",
        ),
    ):
        kept = (out / name).read_bytes() if (out / name).exists() else None
        (out / name).write_bytes(data)
        ((place, text),) = found(out)
        assert (place, text.endswith(words)) == ((code, None, n, name, None), True)
        assert judged(out)[0].axes["tree"] == "fault"
        (out / name).unlink()
        if kept is not None:
            (out / name).write_bytes(kept)
    assert found(out) == []
    (out / "record-3.json").write_bytes(lines[3].removesuffix(b"\n") + b"\n")
    assert found(out) == []


def test_a_proof_of_other_hashes_or_of_no_form_is_named(log: MemoryLog, out: Path) -> None:
    name = "record-1.tlog-proof"
    leaves = [merkle.leaf_hash(line) for line in log.lines]
    hashes = merkle.inclusion(leaves, 1, 5)
    (out / name).write_bytes(checkpoint.tlog_proof(1, [hashes[0], bytes(32), *hashes[2:]], note_of(log, 5)))
    ((place, text),) = found(out)
    assert place == ("root-mismatch", None, 1, name, None)
    assert text.endswith("it does not prove the record of that number.")

    (out / name).write_bytes(checkpoint.tlog_proof(77, hashes, note_of(log, 5)))
    assert [one for one, _ in found(out)] == [
        ("seq-gap-or-dup", None, 1, name, None), ("root-mismatch", None, 77, name, None),
    ]  # fmt: skip
    (out / name).write_bytes(b"no proof")
    ((place, text),) = found(out)
    assert place == ("envelope-malformed", None, 1, name, None)
    assert f"{name}: proof: " in text
    (out / name).write_bytes(checkpoint.tlog_proof(1, hashes, note_of(log, 5, PrivateKey.generate())))
    ((place, _),) = found(out)
    assert place == ("untrusted-key", None, None, name, None)


@pytest.mark.parametrize("name", ["checkpoint", "epoch-7.checkpoint"])
def test_a_checkpoint_is_judged_by_its_form_its_signature_its_name_and_its_tree(
    log: MemoryLog, out: Path, name: str
) -> None:
    note = note_of(log, 4)
    head, _, line = note.rpartition(b" ")
    broken = head + b" " + line[:12] + (b"A" if line[12:13] != b"A" else b"B") + line[13:]
    for data, code, words in (
        (note_of(log, 4, root=b"\1" * 32), "root-mismatch", "the first 4 records have another root than it states."),
        (note_of(log, 4, PrivateKey.generate()), "untrusted-key", "its signature is not that of a trusted key."),
        (broken, "bad-signature", "its signature is not that of a trusted key."),
        (note_of(log, 4, run="run-2"), "wrong-run", f"expected provstore/{log.store}/run-1/0."),
        (note_of(log, 5, root=b"\1" * 32), "root-mismatch", "the first 5 records have another root than it states."),
        (note_of(log, 6, root=b"\1" * 32), "rows-missing", "it covers 6 records, and 5 are here."),
    ):
        (out / name).write_bytes(data)
        ((place, text),) = found(out)
        assert (place, text.endswith(words)) == ((code, None, None, name, None), True), code
    (out / name).write_bytes(b"no note")
    assert [place for place, _ in found(out)] == [
        ("bad-signature", None, None, name, "envelope-malformed"), ("envelope-malformed", None, None, name, None),
    ]  # fmt: skip
    (out / name).write_bytes(note_of(log, 4) + note_of(log, 4).rpartition(b"\n\n")[2] * 64)
    assert [place[0] for place, _ in found(out)] == ["cap-exceeded"]
    assert judged(out)[0].axes["envelope"] == "unknown"
    for size in (1, 3, 4, 5):
        (out / name).write_bytes(note_of(log, size))
        assert found(out) == []


def test_a_checkpoint_of_a_log_key_of_the_run_counts_and_of_another_role_or_run_does_not(
    log: MemoryLog, out: Path
) -> None:
    other = PrivateKey.generate()
    listed = TrustedKey(fingerprint(other.public_key), "ed25519", other.public_key, "log")
    (out / "checkpoint").write_bytes(note_of(log, 4, other))

    def of(key: TrustedKey) -> list[str]:
        return [place[0] for place, _ in found(out, replace(TRUST, keys=(*TRUST.keys, key)))]

    assert of(listed) == []
    assert of(replace(listed, role="rank")) == ["untrusted-key"]
    assert of(replace(listed, runs="run-2")) == ["untrusted-key"]
    assert of(replace(listed, runs="run-1")) == []


def test_a_checkpoint_beyond_the_last_bundle_shows_that_bundles_are_missing(out: Path) -> None:
    for name in (
        "epoch-1.dsse.json",
        "epoch-1.sigstore.json",
        "epoch-1.pae.bin",
        "epoch-1.sig.raw",
        "run.intoto.jsonl",
    ):
        (out / name).unlink()
    told = found(out)

    assert {place for place, _ in told} >= {("epoch-order", None, None, "checkpoint", None)}
    assert any("it covers 5 records, and the bundles here 3: bundles are missing." in text for _, text in told)


def test_what_a_key_file_holds_is_a_limit_where_it_is_not_trusted(out: Path) -> None:
    other = PrivateKey.generate().public_key
    (out / "pub-2.pem").write_bytes(public_forms.FORMS["pem"](other))
    (out / "vkey-2").write_bytes(b"\xff")
    checked, not_read = judged(out)

    assert f"pub-2.pem holds key {fingerprint(other)}, which is not among the trusted ones." in checked.limits
    assert sum(text.startswith("vkey-2: ") and text.endswith(".") for text in checked.limits) == 1
    assert (len(checked.limits), not_read) == (4, ("VERIFY.txt",))
    unknown = replace(TRUST, keys=tuple(replace(one, alg="ed448") for one in TRUST.keys))
    assert any(text.startswith("pub.pem holds key") for text in judged(out, unknown)[0].limits)


def test_names_that_were_not_read_are_listed_up_to_a_limit(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (b"b", b"a\xff", b"c"):
        (out / Path(name.decode("utf-8", "surrogateescape"))).touch()
    assert judged(out)[1] == ("VERIFY.txt", "a\\xff", "b", "c")
    monkeypatch.setattr(folder, "MOST_NAMES", 3)
    assert judged(out)[1] == ("VERIFY.txt", "a\\xff", "b", "and 1 more")
    (out / "c").unlink()
    assert judged(out)[1] == ("VERIFY.txt", "a\\xff", "b")


def line_of(out: Path, name: str, digest: str = "") -> str:
    return f"SHA256 ({name}) = {digest or hashlib.sha256((out / name).read_bytes()).hexdigest()}\n"


def of_sums(out: Path, text: str) -> list[tuple[str, str, str]]:
    (out / "SHA256SUMS").write_text(text)
    return list(sums.faults(ExportedEvidence(out), {path.name for path in out.iterdir()}))


def test_each_line_of_the_list_of_digests_that_does_not_fit_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, wrong = line_of(out, "checkpoint"), line_of(out, "pub.pem", "0" * 64)
    other = ("subject-mismatch", "pub.pem", "it is not the file whose digest SHA256SUMS lists")
    assert of_sums(out, good + wrong + good) == [other]
    assert of_sums(out, good + line_of(out, "none", "0" * 64)) == [
        ("rows-missing", "none", "SHA256SUMS lists it, and it is not here")
    ]
    assert of_sums(out, good + "x\n" + good) == [
        ("subject-mismatch", "SHA256SUMS", "line 2 is not the digest of a file")
    ]
    monkeypatch.setattr(sums, "MOST_FAULTS", 2)
    assert of_sums(out, good + wrong + good + wrong + wrong) == [
        other, other,
        ("subject-mismatch", "SHA256SUMS", "the lines behind line 4 were not compared: too many do not fit"),
    ]  # fmt: skip
    (out / "SHA256SUMS").write_text(wrong)
    ((place, _),) = found(out)
    assert place == ("subject-mismatch", None, None, "pub.pem", None)


def test_the_signatures_beside_the_list_of_digests_are_named() -> None:
    names = {f"SHA256SUMS.{end}" for end in "dcba"} | {"SHA256SUMS", "other"}

    assert sums.limit(names) == (
        "SHA256SUMS was compared with the files, and its signature was not checked: "
        "SHA256SUMS.a, SHA256SUMS.b, SHA256SUMS.c."
    )
    assert sums.limit({"SHA256SUMS"}).startswith("SHA256SUMS has no signature beside it")


def test_a_folder_without_the_other_files_is_what_its_bundles_and_records_are(out: Path) -> None:
    for path in out.iterdir():
        if not path.name.startswith("epoch-") or path.name.endswith((".pae.bin", ".sig.raw", ".sigstore.json")):
            path.unlink()
    told = ExportedEvidence(out)
    alone = verify(told, TRUST, source="files", within=out)

    assert verify_folder(told, alone, TRUST, "provstore") == (alone, ())
