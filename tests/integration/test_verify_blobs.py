"""verify reads the bytes that signed bundles name: what is missing, cut off or altered is named, each as what it is."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from captures import RankCapture, floats
from signed_captures import Signed, packed, signed_capture

import provstore
from provstore.api.recording import record
from provstore.cli._app import run as command_line
from provstore.evidence.verify.blobs import Blob, Naming, check_blobs
from provstore.journal.kept import KeptBytes
from provstore.model.verification import EvidenceFinding, Verification


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return signed_capture(tmp_path_factory.mktemp("blobs"))


@pytest.fixture
def signed(made: Signed, tmp_path: Path) -> Signed:
    shutil.copytree(made.store, tmp_path / "store")
    return Signed(tmp_path / "store", made.key)


def unpacked(path: Path) -> bytes:
    with pa.OSFile(str(path), "rb") as raw, pa.CompressedInputStream(raw, "zstd") as file:
        return file.read()


ROLES = ("snapshot", "statistics", "rng", "rng-state", "headers", "agent record")


def about(answer: Verification, sha256: str) -> EvidenceFinding:
    (found,) = [one for one in answer.findings if f"blob {sha256}" in one.text]
    return found


def test_sound_blobs_are_counted_and_the_journal_is_ok(made: Signed) -> None:
    answer = made.verified()
    assert answer.axes["journal"] == "ok"
    assert {one.code for one in answer.findings} == {"unanchored"}
    # snapshot, its index, statistics, rng, headers; one random state; one agent record
    assert answer.counts["blobs"] == 7


@pytest.mark.parametrize("role", ROLES)
def test_a_missing_blob_is_damage_and_no_tampering(signed: Signed, role: str) -> None:
    sha256 = signed.sha256(role)
    signed.path_of(sha256).unlink()
    answer = signed.verified()
    found = about(answer, sha256)
    assert (found.code, answer.axes["journal"], answer.exit_code) == ("journal-damaged", "fault", 7)
    assert role in found.text
    assert "missing" in found.text
    assert (found.epoch, found.seq is not None) == (1 if role == "agent record" else 0, True)
    assert answer.axes["tree"] == answer.axes["signature"] == "ok"


def longer(data: bytes) -> bytes:
    return packed(data + b"!")


def flipped(data: bytes) -> bytes:
    return packed(bytes([data[0] ^ 1]) + data[1:])


def shortened(data: bytes) -> bytes:
    return packed(data[:-1])


def torn(data: bytes) -> bytes:
    return packed(data)[:-3]


def emptied(data: bytes) -> bytes:
    return b""


def garbled(data: bytes) -> bytes:
    return b"no frame of zstd" * 8


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (longer, "altered: it is longer"),
        (flipped, "altered: its bytes have another SHA-256"),
        (shortened, "cut off"),
        (torn, "cut off"),
        (emptied, "cut off: 0 bytes are here"),
        (garbled, "altered: it cannot be unpacked"),
    ],
)
def test_other_bytes_than_were_signed_are_a_fault_that_names_blob_bundle_and_reason(
    signed: Signed, role: str, change: Callable[[bytes], bytes], words: str
) -> None:
    sha256 = signed.sha256(role)
    path = signed.path_of(sha256)
    path.write_bytes(change(unpacked(path)))
    answer = signed.verified()
    found = about(answer, sha256)
    assert (found.code, answer.axes["journal"], answer.exit_code) == ("subject-mismatch", "fault", 1)
    assert words in found.text
    assert role in found.text
    assert ("training epoch 0" in found.text) or role == "agent record"


def test_something_that_is_no_file_is_not_read(signed: Signed) -> None:
    path = signed.blob("snapshot")
    path.unlink()
    path.mkdir()
    assert "no regular file" in about(signed.verified(), path.stem).text


def test_blobs_that_are_left_out_are_never_ok(signed: Signed) -> None:
    signed.blob("snapshot").write_bytes(b"")
    answer = signed.verified(blobs=False)
    assert (answer.axes["journal"], answer.exit_code, answer.counts["blobs"]) == ("not-checked", 3, 0)
    assert any(text.startswith("Blobs were left out: the bytes of the 6 blobs") for text in answer.limits)


def test_a_fault_of_the_journal_stays_one_where_blobs_are_left_out(signed: Signed) -> None:
    (segment,) = signed.journal.glob("*.pvj")
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1
    segment.write_bytes(data)
    assert signed.verified(blobs=False).axes["journal"] == "fault"


def test_the_command_leaves_blobs_out_when_asked(signed: Signed, capsys: pytest.CaptureFixture[str]) -> None:
    signed.blob("snapshot").write_bytes(b"")
    words = ["--json", "--store", f"embedded:{signed.store}", "verify", "run:job", "--public-key", str(signed.public)]
    assert command_line([*words, "--no-keep-anchor"]) == 1
    assert command_line([*words, "--no-keep-anchor", "--no-blobs"]) == 3
    said = capsys.readouterr().out
    answer = json.loads(said[said.index("}\n{") + 2 :])["answers"][0]
    assert answer["axes"]["journal"] == "not-checked"


def test_damage_to_a_blob_says_nothing_of_another_run(signed: Signed, tmp_path: Path) -> None:
    capture = RankCapture(tmp_path / "other", 0, 1, run="other")
    capture.begin(0)
    capture.call(0, floats(5.0, 6.0))
    capture.end(0)
    record([capture.write()], store=f"embedded:{signed.store}", signer=signed.key)
    signed.blob("snapshot").unlink()
    belief = provstore.belief(public_keys=[signed.public], state=tmp_path / "anchors")
    with provstore.open(f"embedded:{signed.store}", read_only=True) as store:
        answers = {one.run: one for one in store.verify(belief=belief, refresh=False)}
    assert (answers["job"].axes["journal"], answers["other"].axes["journal"]) == ("fault", "ok")


def test_blobs_of_a_bundle_that_waits_for_a_signature_are_told_as_that(made: Signed, tmp_path: Path) -> None:
    store = tmp_path / "store"
    capture = RankCapture(tmp_path / "capture", 0, 1)
    capture.begin(0)
    capture.call(0)
    capture.end(0)
    record([capture.write()], store=f"embedded:{store}")
    waiting = Signed(store, made.key)
    waiting.blob("headers").unlink()
    found = about(waiting.verified(), waiting.sha256("headers"))
    assert found.epoch is None
    assert "which nobody has signed yet" in found.text


@pytest.fixture
def exported(signed: Signed, tmp_path: Path) -> Path:
    words = ["--quiet", "--store", f"embedded:{signed.store}", "evidence", "export", "-o", str(tmp_path / "out")]
    assert command_line([*words, "job", "--public-key", str(signed.public)]) == 0
    return tmp_path / "out"


def of_folder(signed: Signed, folder: Path, **more: bool) -> Verification:
    belief = provstore.belief(public_keys=[signed.public], state=signed.store.parent / "anchors")
    (answer,) = provstore.verify(folder, belief=belief, **more)
    return answer


def test_an_export_without_blobs_says_that_they_were_not_looked_at(signed: Signed, exported: Path) -> None:
    answer = of_folder(signed, exported)
    assert any(text.startswith("Blobs are not here: the bytes of the 6 blobs") for text in answer.limits)
    assert answer.axes["journal"] == "not-checked"


def test_an_export_that_carries_blobs_is_judged_with_them(signed: Signed, exported: Path) -> None:
    shutil.copytree(signed.journal / "blobs", exported / "blobs")
    answer = of_folder(signed, exported)
    assert (answer.counts["blobs"], answer.exit_code) == (7, 3)
    assert "blobs" not in answer.inputs["not_read"]
    sha256 = signed.sha256("snapshot")
    (exported / "blobs" / sha256[:2] / f"{sha256}.zst").write_bytes(packed(b"another tensor"))
    answer = of_folder(signed, exported)
    assert (about(answer, sha256).code, answer.axes["journal"], answer.exit_code) == ("subject-mismatch", "fault", 1)
    assert of_folder(signed, exported, blobs=False).exit_code == 3


def test_a_blob_of_many_pieces_is_read_piece_by_piece_and_progress_is_told(tmp_path: Path) -> None:
    data = bytes(9 << 20)
    sha256 = hashlib.sha256(data).hexdigest()
    path = tmp_path / "blobs" / sha256[:2] / f"{sha256}.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(packed(data))
    told: list[tuple[int, int, str]] = []
    naming = Naming(4, 0, "here", "the bundle of training epoch 1", 1, (Blob("snapshot", sha256, len(data)),) * 2)
    found = check_blobs(("job", 0), [naming], KeptBytes(tmp_path), lambda *said: told.append(said))
    assert (found.findings, found.blobs, found.size_bytes) == ((), 1, len(data))
    assert told == [(1, 2, "checking blobs"), (2, 2, "checking blobs")]


def test_of_very_many_bad_blobs_the_rest_is_counted(tmp_path: Path) -> None:
    names = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(1_003)]
    naming = Naming(4, 0, "here", "the bundle of training epoch 1", 1, tuple(Blob("data", one, 1) for one in names))
    found = check_blobs(("job", 0), [naming], KeptBytes(tmp_path)).findings
    assert len(found) == 1_001
    assert found[-1].text.startswith("3 more blobs")


def test_lines_are_whole_over_pieces_and_one_without_end_is_not_held(tmp_path: Path) -> None:
    long, short = b"x" * (9 << 20), [b"%d" % number for number in range(1_000_000)]
    for data, expected in ((b"\n".join(short), short), (long + b"\nlast\n", [long[: (1 << 20) + 1], b"last"])):
        sha256 = hashlib.sha256(data).hexdigest()
        path = tmp_path / "blobs" / sha256[:2] / f"{sha256}.zst"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(data))
        assert list(KeptBytes(tmp_path).lines(sha256, len(data))) == expected
