"""Lines of files that somebody else wrote: one that is longer than is read is told by its size and never held whole."""

from __future__ import annotations

import hashlib
import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import provstore
from provstore.errors import InputError, NotUnderstoodError, StoreError
from provstore.evidence import files
from provstore.evidence.aep.schema import RECORD
from provstore.ingest import replicas, running_job
from provstore.journal import blobs
from provstore.journal.disk import Disk
from provstore.journal.kept import KeptBytes
from provstore.model import canonical
from provstore.sources import _aep_lines, aep, capture_directory
from provstore.sources.flight_recorder import tensors
from provstore.sources.signals import spool
from tests.agent_records import Emitter, lines, linked, record

CHAIN = [Emitter().signed(one) for one in linked([record(number=number) for number in range(2)])]
MOST, LONG = 4_096, 4 << 20
HEADER = {
    "t": "header",
    "schema": "provstore-capture/1",
    "rank": 0,
    "world_size": 1,
    "groups": [{"name": "0", "desc": "default_pg"}],
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_aep_lines, aep):
        monkeypatch.setattr(module, "MAX_BYTES", MOST)
    monkeypatch.setattr(_aep_lines, "_CHUNK", MOST)
    monkeypatch.setattr(blobs, "_PIECE_BYTES", MOST)
    monkeypatch.setattr(capture_directory, "MAX_LINE_BYTES", MOST)


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    path = tmp_path / "agents.jsonl"
    path.write_bytes(lines(CHAIN[:1]) + b"\n" + b'{"x":"' + b"x" * LONG + b'"}\n' + lines(CHAIN[1:]))
    return path


def held(work: Callable[[], object]) -> int:
    """The most bytes that were held at one time while something was done."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def kept(path: Path, journal: Path) -> tuple[str, int]:
    """Keep a file as the journal does."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for folder in ("tmp", "blobs"):
        (journal / folder).mkdir(parents=True)
    blobs.put_source(journal, path, digest, Disk())
    return digest, path.stat().st_size


@pytest.mark.usefixtures("small")
def test_a_line_of_agent_evidence_that_is_too_long_is_named_by_its_number_its_size_and_the_limit(agents: Path) -> None:
    long = LONG + len('{"x":""}')
    found = list(aep.read(agents).records)

    assert [one.kind for one in found] == [RECORD] * 3
    assert [one.fault for one in found] == [None, f"line 3: {long} bytes are more than {MOST}", None]
    assert held(lambda: list(aep.read(agents).records)) < LONG / 4


@pytest.mark.usefixtures("small")
def test_kept_bytes_are_read_as_the_file_was_and_are_not_held_whole(agents: Path, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    digest, size = kept(agents, journal)

    def read() -> list[object]:
        container = aep.read(KeptBytes(journal).file(digest, size), name="kept")
        return [(one.offset, one.data, one.fault, one.sha256) for one in container.records]

    read()
    assert read() == [(one.offset, one.data, one.fault, one.sha256) for one in aep.read(agents).records]
    assert held(read) < LONG / 4


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(CHAIN).encode(),
        json.dumps(CHAIN[0], indent=2).encode() + b"\n \n",
        lines(CHAIN)[:-40],
        lines(CHAIN)[100:],
        b"\n\n" + lines(CHAIN),
    ],
    ids=["list", "record", "torn", "cut", "blank lines"],
)
def test_every_container_is_read_from_kept_bytes_as_from_its_file(data: bytes, tmp_path: Path) -> None:
    path, journal = tmp_path / "agents", tmp_path / "journal"
    path.write_bytes(data)
    digest, size = kept(path, journal)

    of_file, of_kept = aep.read(path, name="x"), aep.read(KeptBytes(journal).file(digest, size), name="x")

    assert (of_kept.kind, of_kept.problems) == (of_file.kind, of_file.problems)
    assert list(of_kept.records) == list(of_file.records)


def test_kept_bytes_that_were_changed_are_no_file(tmp_path: Path) -> None:
    path, journal = tmp_path / "agents", tmp_path / "journal"
    path.write_bytes(lines(CHAIN))
    digest, size = kept(path, journal)
    blob = blobs.path_of(journal, digest, blobs.SOURCE_SUFFIX)

    with pytest.raises(StoreError, match="payload is cut off: "):
        KeptBytes(journal).file(digest, size + 1)
    with pytest.raises(StoreError, match="payload is altered: it is longer"):
        KeptBytes(journal).file(digest, size - 1)
    blob.unlink()
    with pytest.raises(StoreError, match=f"journal: {blob}: payload is missing: "):
        KeptBytes(journal).file(digest, size)


@pytest.mark.usefixtures("small")
def test_an_import_says_which_line_is_too_long_and_never_holds_it(
    agents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise AssertionError("the whole file was asked for")

    monkeypatch.setattr(blobs, "read_source", refused)
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        first, again = store.ingest(agents, source="evidence"), store.ingest(agents, source="evidence")

    at = len(lines(CHAIN[:1])) + 1
    long = LONG + len('{"x":""}')
    told = f"record 1 at byte {at}: line 3: {long} bytes are more than {MOST}: only its bytes are kept"
    assert first.files[0].warnings == (told,)
    assert (first.files[0].status, first.files[0].set_aside, again.files[0].status) == ("new", 1, "known")


@pytest.mark.usefixtures("small")
def test_groups_of_a_running_job_are_read_past_a_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "capture-rank0.jsonl"
    later = {"t": "group", "name": "7", "desc": "pair"}
    parts = (
        json.dumps(HEADER).encode(),
        b'"t":"group"' + b"x" * LONG,
        json.dumps(later, separators=(",", ":")).encode(),
    )
    path.write_bytes(b"\n".join(parts) + b"\n")

    assert running_job.why_without_effect(tmp_path, "group:7") is None
    assert running_job.why_without_effect(tmp_path, "group:pair") is None
    assert held(lambda: running_job.why_without_effect(tmp_path, "group:7")) < LONG / 4


def test_comparing_ranks_goes_on_behind_a_line_that_is_longer_than_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "_READ_BYTES", MOST)
    path = tmp_path / "capture-rank0.jsonl"
    call = b'{"t":"call","seq":1}\n'
    path.write_bytes(call + b'{"t":"call","x":"' + b"x" * 3 * MOST + b'"}\n' + call)
    watching = replicas.Replicas(tmp_path)

    found = [said for _ in range(6) for said in watching._new_lines(path)]

    assert found == [{"t": "call", "seq": 1}] * 2


def test_a_line_of_records_that_is_too_long_is_refused_with_its_number_and_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canonical, "MAX_RECORD_BYTES", MOST)
    (tmp_path / "epoch-0.jsonl").write_bytes(b"{}\n" + b"x" * LONG + b"\n")

    def read() -> None:
        with pytest.raises(NotUnderstoodError, match=f"epoch-0.jsonl: line 2: more than {MOST} bytes"):
            list(files.ExportedEvidence(tmp_path).records())

    assert held(read) < LONG / 4


def test_a_file_of_tensor_records_and_one_of_a_watcher_are_refused_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_FILE_BYTES", MOST)
    monkeypatch.setattr(spool, "MAX_BYTES", MOST)
    path = tmp_path / "tensor_rank_0.jsonl"
    path.write_bytes(b"x" * LONG)
    (tmp_path / spool.NAME).write_bytes(b"x" * LONG)

    def read() -> None:
        _, refusal = tensors.read_tensors(path, path.name, 0)
        assert refusal is not None
        assert refusal.reason == f"{LONG} bytes, more than {MOST}"
        with pytest.raises(InputError, match=f"^watch.jsonl: more than {MOST} bytes$"):
            spool.read(tmp_path)

    assert held(read) < LONG / 4


def test_a_file_of_tensor_records_that_is_too_large_is_kept_and_never_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_FILE_BYTES", MOST)
    folder = tmp_path / "hang"
    shutil.copytree(Path(provstore.__file__).parent / "samples" / "hang", folder)
    path = folder / "tensor_rank_0.jsonl"
    path.write_bytes(b"x" * LONG)
    held_whole: list[str] = []
    real = Path.read_bytes

    def noting(one: Path) -> bytes:
        held_whole.append(one.name)
        return real(one)

    monkeypatch.setattr(Path, "read_bytes", noting)
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        report = store.ingest(folder)

    refused = next(one for one in report.files if one.file == path.name and one.status == "refused")
    assert refused.reason == f"{LONG} bytes, more than {MOST}"
    assert path.name not in held_whole
    digest = hashlib.sha256(b"x" * LONG).hexdigest()
    assert KeptBytes(tmp_path / "store" / "journal").fault(digest, LONG) is None
