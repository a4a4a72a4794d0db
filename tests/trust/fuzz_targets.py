"""The parsers of untrusted bytes, each with good seeds and with what must hold of every input."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provstore.errors import ProvstoreError


@dataclass(frozen=True, slots=True)
class Target:
    """A parser: ``take`` raises when an input shows a flaw."""

    seeds: Sequence[bytes]
    take: Callable[[bytes], None]


def _place() -> Path:
    """Return a folder below ``TMPDIR``, which whoever starts the fuzzing makes and removes."""
    return Path(tempfile.mkdtemp(prefix="provstore-fuzz-"))


def dump_reader() -> Target:
    """Whatever a dump holds, the reader answers; it never trips over it."""
    from provstore.sources.flight_recorder import reading
    from provstore.sources.flight_recorder.options import Limits
    from tests.fr_files import VERSIONS, Entry, table

    reading.set_limits = lambda *given: None  # type: ignore[assignment]  # the whole process is limited instead
    limits = {name: getattr(Limits(), name) for name in Limits.__slots__}
    path = _place() / "rank0.pkl"
    asked = {"path": str(path), "sidecar": None, "rank": 0, "active_only": False, "limits": limits}
    asked |= {"memory_bytes": 1 << 30, "cpu_seconds": 60}

    def take(data: bytes) -> None:
        path.write_bytes(data)
        form = "json" if data[:1] in (b"{", b"[") else "pickle"
        said, _ = reading.answer({**asked, "form": form})
        assert said["status"] in {"ok", "refused", "foreign"}, said
        assert "the reader failed on it" not in str(said.get("reason")), said

    rows = [Entry(seq=at, record_id=at, group="0") for at in range(3)]
    return Target([pickle.dumps(table(version, rows), protocol=4) for version in VERSIONS], take)


def journal() -> Target:
    """Whatever a segment holds, a journal names the damage or reads on; it never takes bytes for what they are not."""
    import io

    import journal_seeds

    from provstore.journal import Journal, frames

    place = _place() / "journal"
    with Journal.open(place, writable=True) as made:
        start = frames.seed(made.journal_id, 1)
        (path,) = journal_seeds.fill(made)
    whole = path.read_bytes()

    def take(data: bytes) -> None:
        kind, body = (data[0], data[1:]) if data else (0, b"")
        if kind % 2:
            # Sound frames with hostile content: the checksum is no shield against whoever can compute it.
            body = _framed(body, start, last_jseq=len(list(frames.read(io.BytesIO(head), 8, len(head), start, 0))))
            body = head + body
        path.write_bytes(body)
        try:
            with Journal.open(place, writable=False) as found:
                found.check()
                for _ in found.blocks(on_problem=lambda problem: None):
                    pass
                journal_seeds.read(found)
        except ProvstoreError:
            return

    first = frames.unchecked(io.BytesIO(whole), 8)
    assert first is not None
    head = whole[: first.end]
    payloads = list(frames.read(io.BytesIO(whole), first.end, len(whole), start, 1))
    framed = [bytes([1, item.type]) + item.payload for item in payloads if isinstance(item, frames.Frame)]
    return Target([b"\0" + whole, *framed], take)


def _framed(data: bytes, start: int, last_jseq: int) -> bytes:
    from provstore.journal import frames

    found = b""
    for at, part in enumerate(data.split(b"\0")):
        if part:
            found += frames.encode(part[0] % 16, last_jseq + 1 + at, part[1:], start)
    return found


def envelope() -> Target:
    """What is read as an envelope of ours is written again as the same bytes."""
    from evidence_seeds import epoch_envelope

    from provstore.evidence import dsse

    def take(data: bytes) -> None:
        with contextlib.suppress(ProvstoreError):
            assert dsse.parse(data).encode() == data
        with contextlib.suppress(ProvstoreError):
            dsse.parse_foreign(data)

    return Target([epoch_envelope()], take)


def statement() -> Target:
    """What is read as a statement about an epoch is written again as the same bytes."""
    from evidence_seeds import epoch_envelope

    from provstore.evidence import dsse
    from provstore.evidence import statement as room

    def take(data: bytes) -> None:
        try:
            assert room.parse(data).payload() == data
        except ProvstoreError:
            return

    return Target([dsse.parse(epoch_envelope()).payload], take)


def checkpoint() -> Target:
    """A checkpoint keeps its bytes, and its size and root lie within their bounds."""
    from evidence_seeds import signed_note, signer

    from provstore.evidence import checkpoint as room

    public = signer().public_key

    def take(data: bytes) -> None:
        try:
            found = room.parse(data)
        except ProvstoreError:
            return
        assert found.note == data
        assert len(found.root) == 32
        assert found.size >= 0
        room.check(found, public)

    return Target([signed_note()], take)


def tlog_proof() -> Target:
    """What is read as a proof has an index and hashes of 32 bytes."""
    from evidence_seeds import proof

    from provstore.evidence import checkpoint as room

    def take(data: bytes) -> None:
        try:
            index, hashes, _ = room.parse_tlog_proof(data)
        except ProvstoreError:
            return
        assert index >= 0
        assert len(hashes) <= 64
        assert all(len(one) == 32 for one in hashes)

    return Target([proof()], take)


def trust_file() -> Target:
    """What is read as a trust file names at least as many root keys as must sign."""
    from evidence_seeds import trust_bytes

    from provstore.evidence.trust import document

    def take(data: bytes) -> None:
        try:
            found = document.parse(data, "trust.json").trust
        except ProvstoreError:
            return
        assert 1 <= found.threshold <= len(found.root) <= 16

    return Target([trust_bytes()], take)


TARGETS: dict[str, Callable[[], Target]] = {
    "envelope": envelope,
    "statement": statement,
    "checkpoint": checkpoint,
    "tlog-proof": tlog_proof,
    "trust-file": trust_file,
    "journal": journal,
    "dump-reader": dump_reader,
}
