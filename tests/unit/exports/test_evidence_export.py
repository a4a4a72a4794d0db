"""Exports of signed evidence: whole or not at all, only of what holds, and of any size."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from provstore.errors import ConfigError, InputError, NotUnderstoodError, StoreError, TrustError
from provstore.evidence import checkpoint, dsse
from provstore.evidence.files import ExportedEvidence
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.exports import evidence as module
from provstore.exports.evidence import EvidenceExportOptions, _directory, _walk, writer
from provstore.exports.evidence._proofs import Levels
from provstore.model.evidence import RecordAt
from tests.signed_logs import MemoryLog, observations, replaced, signed_run


def export(log: MemoryLog, directory: Path, **options: object) -> module.EvidenceExportReport:
    return writer.export(log, directory, log.publics, EvidenceExportOptions(**options))


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_an_export_holds_each_epoch_in_every_form_and_nothing_else(tmp_path: Path) -> None:
    report = export(signed_run(sizes=[3, 2], unsigned=4), tmp_path / "out", records=[4])

    forms = ("jsonl", "dsse.json", "sigstore.json", "pae.bin", "sig.raw", "checkpoint")
    each = {f"epoch-{number}.{form}" for number in (0, 1) for form in forms}
    whole = {"checkpoint", "run.intoto.jsonl", "VERIFY.txt", "pub.pem", "pub.ssh", "vkey"}
    assert names(tmp_path / "out") == each | whole | {"record-4.json", "record-4.tlog-proof"}
    assert (report.files, report.records, report.unsigned, report.proofs, report.closed) == (20, 5, 4, 1, False)
    assert report.size_bytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())


def test_an_epoch_file_is_its_record_lines_each_with_a_line_end(tmp_path: Path) -> None:
    log = signed_run(sizes=[3, 2])
    export(log, tmp_path / "out")

    assert (tmp_path / "out" / "epoch-1.jsonl").read_bytes() == b"".join(line + b"\n" for line in log.lines[3:])


def test_the_stored_envelope_is_exported_byte_for_byte_with_its_own_key_id(tmp_path: Path) -> None:
    log = signed_run(sizes=[3])
    export(log, tmp_path / "out")

    assert (tmp_path / "out" / "epoch-0.dsse.json").read_bytes() == log.signed[0].envelope
    assert (tmp_path / "out" / "epoch-0.checkpoint").read_bytes() == log.signed[0].checkpoint


def test_a_key_id_in_another_spelling_needs_no_private_key_and_changes_nothing_else(tmp_path: Path) -> None:
    """The golden value is that of the public key 03a107bf…31b8 (RFC 8032 test key for the seed 00 01 … 1f)."""
    key = PrivateKey.from_seed(bytes(range(32)))
    log = signed_run(sizes=[3], keys=[key])
    told = {}
    for form in ("ssh", "hex", "none"):
        export(log, tmp_path / form, keyid=form)
        told[form] = json.loads((tmp_path / form / "epoch-0.dsse.json").read_bytes())

    assert key.public_key.hex() == "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
    assert [told[form]["signatures"][0]["keyid"] for form in told] == [
        "SHA256:lbmsoA0yIEcEiVDRnMWuzm+nV+3ZEEpVIURqFoeSspg",
        "63d00ee3cf4f5c61ad94efa696c68f13b608fe56ecea13fb144a6fd18e9235b9",
        "",
    ]
    for one in told.values():
        one["signatures"][0]["keyid"] = ""
    assert told["ssh"] == told["hex"] == told["none"]


def test_without_the_public_key_everything_but_the_key_is_exported_and_the_report_says_so(tmp_path: Path) -> None:
    log = signed_run(sizes=[3])
    (keyid,) = log.publics
    log.publics = {}

    report = export(log, tmp_path / "out")

    assert not names(tmp_path / "out") & {"pub.pem", "pub.ssh", "vkey"}
    assert report.keys == (module.ExportedKey(keyid, None),)
    assert [note for note in report.notes if keyid in note and "not known" in note]
    assert keyid in (tmp_path / "out" / "VERIFY.txt").read_text()
    with pytest.raises(ConfigError, match="is not known here"):
        export(log, tmp_path / "hex", keyid="hex")


def test_the_instructions_say_where_trust_order_and_completeness_come_from(tmp_path: Path) -> None:
    export(signed_run(sizes=[3]), tmp_path / "out")
    text = " ".join((tmp_path / "out" / "VERIFY.txt").read_text().split())

    assert "known only by a fingerprint that you got from elsewhere" in text
    assert "Order and completeness come from the chain" in text
    assert "Run never closed: nobody has signed that these are all its records." in text
    assert "They cannot show that everything was recorded, nor that a rank told the truth." in text


def _cut(log: MemoryLog) -> MemoryLog:
    return replace(log, lines=log.lines[:-1])


def _edited(log: MemoryLog) -> MemoryLog:
    return replace(log, lines=[*log.lines[:7], log.lines[7].replace(b'"step":7', b'"step":8'), *log.lines[8:]])


def _swapped(log: MemoryLog) -> MemoryLog:
    return replace(log, signed=[log.signed[1], log.signed[0], *log.signed[2:]])


def _without_middle(log: MemoryLog) -> MemoryLog:
    return replace(log, signed=[log.signed[0], *log.signed[2:]])


def _resigned(log: MemoryLog) -> MemoryLog:
    envelope = dsse.parse(log.signed[2].envelope)
    other = dsse.sign(envelope.payload, envelope.payload_type, PrivateKey.generate()).signatures[0]
    forged = replace(envelope, signatures=(replace(other, keyid=envelope.signatures[0].keyid),))
    return replaced(log, 2, envelope=forged.encode())


def _other_note(log: MemoryLog) -> MemoryLog:
    return replaced(log, 2, checkpoint=log.signed[1].checkpoint)


def _forged_note(log: MemoryLog) -> MemoryLog:
    said = checkpoint.parse(log.signed[2].checkpoint)
    return replaced(log, 2, checkpoint=checkpoint.make(said.origin, said.size, said.root, PrivateKey.generate()))


def _other_run(log: MemoryLog) -> MemoryLog:
    return replace(log, run="run-2")


def _after_close(log: MemoryLog) -> MemoryLog:
    closed = signed_run(sizes=[4, 4], closed=True, keys=[PrivateKey.from_seed(bytes(range(32)))])
    return replace(closed, signed=[*closed.signed, log.signed[2]])


def _two_lines(log: MemoryLog) -> MemoryLog:
    return replace(log, lines=[log.lines[0] + b"\n" + log.lines[1], *log.lines[2:]])


@pytest.mark.parametrize(
    ("alter", "code"),
    [
        (_cut, "rows-missing"),
        (_edited, "subject-mismatch"),
        (_swapped, "epoch-order"),
        (_without_middle, "epoch-order"),
        (_resigned, "bad-signature"),
        (_other_note, "root-mismatch"),
        (_forged_note, "bad-signature"),
        (_other_run, "wrong-run"),
        (_after_close, "after-close"),
        (_two_lines, "payload-noncanonical"),
    ],
)
def test_what_does_not_hold_is_not_exported(alter, code: str, tmp_path: Path) -> None:
    log = alter(signed_run(sizes=[4, 4, 4]))

    with pytest.raises(TrustError) as caught:
        export(log, tmp_path / "out")

    assert caught.value.code == code
    assert names(tmp_path) == set()


def test_a_record_with_another_index_than_its_place_is_not_exported(tmp_path: Path) -> None:
    log = signed_run(sizes=[4])
    log.records = lambda: (RecordAt(index + 1, line, "x") for index, line in enumerate(log.lines))  # type: ignore[method-assign]

    with pytest.raises(TrustError, match="stands where 0 should") as caught:
        export(log, tmp_path / "out")

    assert caught.value.code == "seq-gap-or-dup"


@pytest.mark.parametrize(("given", "fault"), [({"epoch": 9}, InputError), ({"records": [4]}, InputError),
                                              ({"keyid": "did"}, ConfigError)])  # fmt: skip
def test_what_is_asked_for_and_not_there_is_an_error_and_leaves_nothing(given, fault, tmp_path: Path) -> None:
    with pytest.raises(fault):
        export(signed_run(sizes=[4]), tmp_path / "out", **given)

    assert names(tmp_path) == set()


def test_a_run_without_a_bundle_is_an_error_that_says_how_to_sign_it(tmp_path: Path) -> None:
    log = MemoryLog("run-1", 0, "s", observations("run-1", 3), [])

    with pytest.raises(InputError, match="nothing is signed") as caught:
        export(log, tmp_path / "out")

    assert "provstore seal" in (caught.value.hint or "")


def test_a_key_under_an_id_that_is_not_its_own_is_refused(tmp_path: Path) -> None:
    log = signed_run(sizes=[3])
    log.publics = {fingerprint(PrivateKey.generate().public_key): next(iter(log.publics.values()))}

    with pytest.raises(ConfigError, match="its own id is SHA256:"):
        export(log, tmp_path / "out")


@pytest.mark.parametrize(("below", "accepted"), [(-1, False), (0, True), (1, True)])
def test_an_epoch_file_is_written_up_to_the_cap_and_no_further(
    below: int, accepted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = signed_run(sizes=[5])
    monkeypatch.setattr(_walk, "MAX_EPOCH_BYTES", sum(len(line) + 1 for line in log.lines) + below)

    if accepted:
        export(log, tmp_path / "out")
        return
    with pytest.raises(NotUnderstoodError, match="more than"):
        export(log, tmp_path / "out")


def test_the_cap_is_120_mib() -> None:
    assert module.MAX_EPOCH_BYTES == 120 * 2**20


@pytest.mark.parametrize("size", [*range(1, 70), 1000, 1023, 1025])
def test_the_levels_of_a_tree_give_the_proofs_of_the_recursive_definition(size: int) -> None:
    import hashlib

    def path(index: int, leaves: list[bytes]) -> list[bytes]:
        """RFC 6962, section 2.1.1."""
        if len(leaves) == 1:
            return []
        split = 1 << (len(leaves) - 1).bit_length() - 1
        if index < split:
            return [*path(index, leaves[:split]), root(leaves[split:])]
        return [*path(index - split, leaves[split:]), root(leaves[:split])]

    def root(leaves: list[bytes]) -> bytes:
        if len(leaves) == 1:
            return leaves[0]
        split = 1 << (len(leaves) - 1).bit_length() - 1
        return hashlib.sha256(b"\1" + root(leaves[:split]) + root(leaves[split:])).digest()

    leaves = [hashlib.sha256(bytes([number % 256, number >> 8])).digest() for number in range(size)]
    levels = Levels(bytearray(b"".join(leaves)))

    assert levels.size == size
    for index in {0, 1, size // 2, size - 2, size - 1} & set(range(size)):
        assert levels.proof(index) == path(index, leaves)


def test_an_export_replaces_only_an_export_and_only_when_told(tmp_path: Path) -> None:
    log = signed_run(sizes=[3])
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("years of work")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")

    for taken in ("home", "file", "link"):
        with pytest.raises(ConfigError):
            export(log, tmp_path / taken, overwrite=True)
    with pytest.raises(ConfigError, match="is no directory"):
        export(log, tmp_path / "absent" / "out")
    export(log, tmp_path / "empty")
    with pytest.raises(ConfigError, match="an export already") as caught:
        export(log, tmp_path / "empty")
    assert "--overwrite" in (caught.value.hint or "")
    export(signed_run(sizes=[2, 1]), tmp_path / "empty", overwrite=True)

    assert "epoch-1.jsonl" in names(tmp_path / "empty")
    assert (tmp_path / "home" / "thesis").read_text() == "years of work"
    assert names(tmp_path) == {"home", "file", "empty", "link"}


def test_an_export_that_fails_leaves_the_older_one_as_it_was(tmp_path: Path) -> None:
    export(signed_run(sizes=[3]), tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    with pytest.raises(TrustError):
        export(_cut(signed_run(sizes=[3, 2])), tmp_path / "out", overwrite=True)

    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert names(tmp_path) == {"out"}


class _Slow(MemoryLog):
    """A log whose records come slowly."""

    def records(self):
        for record in MemoryLog.records(self):
            time.sleep(0.002)
            yield record


def _export_slowly(directory: Path) -> None:
    log = signed_run(sizes=[40] * 5)
    slow = _Slow(log.run, log.attempt, log.store, log.lines, log.signed, log.publics)
    while True:
        export(slow, directory, overwrite=True)


@pytest.mark.parametrize("before_ms", [50, 150, 350, 450, 600, 900])
def test_a_kill_at_any_moment_leaves_a_whole_export_or_none_and_the_next_one_tidies_up(
    before_ms: int, tmp_path: Path
) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_export_slowly, args=(tmp_path / "out",))
    process.start()
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    time.sleep(before_ms / 1000)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()

    left = tmp_path / "out"
    if left.exists():
        found = ExportedEvidence(left)
        assert [record.line for record in found.records()] == observations("run-1", 200)
        assert {"VERIFY.txt", "checkpoint", "epoch-4.checkpoint", "vkey"} <= names(left)
    export(signed_run(sizes=[3]), left, overwrite=True)
    assert names(tmp_path) == {"out"}
    assert "epoch-4.jsonl" not in names(left)


def _export_with_little_room(directory: Path, most_bytes: int, said: multiprocessing.Queue) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    try:
        export(signed_run(sizes=[40] * 5), directory)
    except StoreError as error:
        said.put((error.exit_code, str(error)))


def test_a_full_disk_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    said = context.Queue()
    process = context.Process(target=_export_with_little_room, args=(tmp_path / "out", 2000, said))
    process.start()
    code, text = said.get(timeout=30)
    process.join()

    assert (code, text) == (7, f"{tmp_path / 'out'}: export: disk full: File too large")
    assert names(tmp_path) == set()


def test_an_old_export_comes_back_when_its_replacement_was_killed_between_two_renames(tmp_path: Path) -> None:
    export(signed_run(sizes=[3]), tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / ".out.abc.old")

    with (
        pytest.raises(ConfigError, match="an export already"),
        _directory.whole(tmp_path / "out", "VERIFY.txt", overwrite=False),
    ):
        pass

    assert names(tmp_path) == {"out"}


def test_an_export_beside_one_that_is_still_running_leaves_it_alone(tmp_path: Path) -> None:
    with _directory.whole(tmp_path / "out", "VERIFY.txt", overwrite=False) as files:
        files.write("first", b"1")
        with _directory.whole(tmp_path / "out", "VERIFY.txt", overwrite=False) as others:
            others.write("VERIFY.txt", b"2")
        assert len(list(tmp_path.glob(".out.*.partial"))) == 1
        (tmp_path / "out" / "VERIFY.txt").unlink()

    assert names(tmp_path / "out") == {"first"}
