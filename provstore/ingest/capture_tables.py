"""Tables and bytes beside the actions of an epoch, kept as blobs: statistics, snapshots, states, steps, data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provstore.errors import ConfigError, InputError, TrustError
from provstore.evidence.content import tensor_digest
from provstore.evidence.epoch_bundles import RNG_STATE, SNAPSHOT, SNAPSHOTS_INDEX, STATISTICS, Blob
from provstore.ingest import capture_lines
from provstore.ingest.record_epochs import keep_lines
from provstore.journal import Journal
from provstore.model import canonical
from provstore.model.action import Action
from provstore.model.canonical import Json

_PIECE_BYTES = 8 * 1024 * 1024
_PACK_BYTES = 32 * 1024 * 1024
_MAX_STATE_BYTES = 16 * 1024 * 1024
_SNAP_FILE = re.compile(r"snap-rank[0-9]{1,7}-[0-9]{1,7}\.bin")
_HEX = re.compile(r"[0-9a-f]{64}")
SIDES = ("in", "out")


@dataclass(slots=True)
class Tables:
    """Collects lines by role, and keeps them in pieces; what one rank gave counts only when it is taken over."""

    journal: Journal
    blobs: list[Blob] = field(default_factory=list)
    _lines: dict[str, list[bytes]] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _of_rank: dict[str, dict[bytes, None]] = field(default_factory=dict)

    def add(self, role: str, line: bytes) -> None:
        """Add a line that the rank gave; equal lines of one rank stand once."""
        self._of_rank.setdefault(role, {})[line] = None

    def end_rank(self, *, is_wanted: bool) -> None:
        """Take over what the rank gave, or forget it."""
        given, self._of_rank = self._of_rank, {}
        for role, lines in given.items() if is_wanted else ():
            held = self._lines.setdefault(role, [])
            for line in lines:
                held.append(line)
                self._sizes[role] = self._sizes.get(role, 0) + len(line) + 1
                if self._sizes[role] >= _PIECE_BYTES:
                    self._keep(role)
                    held = self._lines.setdefault(role, [])

    def finish(self) -> list[Blob]:
        """Keep what is left; return all blobs, in an order that depends on nothing but their content."""
        for role in list(self._lines):
            self._keep(role)
        return self.blobs

    def _keep(self, role: str) -> None:
        lines = self._lines.pop(role)
        self._sizes.pop(role, None)
        if lines:
            self.blobs.append(keep_lines(self.journal, role, lines))


@dataclass(slots=True)
class Snapshots:
    """Proves the snapshots of one rank's actions against their digests, and packs their bytes into blobs."""

    directory: Path
    journal: Journal
    tables: Tables
    unproven: Callable[[str], None] = lambda _: None
    """Told of each side whose snapshots prove nothing, and why."""
    _data: bytearray = field(default_factory=bytearray)
    _rows: list[dict[str, Json]] = field(default_factory=list)

    def proven(self, action: Action, lines: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the sides of which snapshots prove their digests; these are kept, others are not."""
        found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for line in lines:
            side, arg = line.get("side"), line.get("arg")
            if side in SIDES and type(arg) is int:
                found.setdefault((side, arg), []).append(line)
        good = set()
        for side in SIDES:
            shapes = action.shapes_in if side == "in" else action.shapes_out
            dtypes = action.dtypes_in if side == "in" else action.dtypes_out
            whole = action.digest_in if side == "in" else action.digest_out
            if not shapes or not dtypes or len(shapes) != len(dtypes):
                continue
            try:
                kept = [
                    _Tensor(self.directory, dtype, shape, found.get((side, arg), ()))
                    for arg, (shape, dtype) in enumerate(zip(shapes, dtypes))
                ]
                self._require_whole(kept, whole)
            except (ConfigError, InputError, TrustError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                self.unproven(f"{action.action_id}: {side}: {reason}")
                continue
            for arg, one in enumerate(kept):
                self._pack(action, side, arg, one)
            good.add(side)
        return good

    def end_rank(self) -> None:
        """Keep what is left of this rank."""
        if self._rows:
            blob = Blob(SNAPSHOT, self.journal.keep(bytes(self._data)), len(self._data))
            self.tables.blobs.append(blob)
            for row in self._rows:
                self.tables.add(SNAPSHOTS_INDEX, canonical.encode({**row, "blob": blob.sha256}))
        self._data, self._rows = bytearray(), []

    @staticmethod
    def _require_whole(kept: Sequence[_Tensor], digest: str | None) -> None:
        """Require that the digests of the single tensors are those that the action names together."""
        said = tensor_digest.of_side([one.digest for one in kept])
        if said is None or said[0] != digest:
            raise TrustError("snapshot: the tensors are not those of the action", code="root-mismatch")

    def _pack(self, action: Action, side: str, arg: int, tensor: _Tensor) -> None:
        for chunk in tensor.chunks:
            if len(self._data) + len(chunk.data) > _PACK_BYTES:
                self.end_rank()
            self._rows.append(
                {
                    "action": action.action_id,
                    "arg": arg,
                    "bytes": len(chunk.data),
                    "chunk": chunk.index,
                    "chunks": tensor.count,
                    "dtype": tensor.dtype,
                    "hash": chunk.leaf,
                    "offset": len(self._data),
                    "path": [*chunk.path],
                    "rank": action.rank,
                    "shape": [*tensor.shape],
                    "side": side,
                    "tensor": tensor.digest,
                }
            )
            self._data += chunk.data


@dataclass(frozen=True, slots=True)
class _Chunk:
    index: int
    data: bytes
    leaf: str
    path: tuple[str, ...]


class _Tensor:
    """The chunks that were kept of one tensor, each proven.

    Raises:
        InputError: There is none, or a line is malformed.
        TrustError: A chunk does not belong to the digest.
        OSError: The file cannot be read.
    """

    def __init__(self, directory: Path, dtype: str, shape: tuple[int, ...], lines: Sequence[Mapping[str, Any]]) -> None:
        self.dtype, self.shape = dtype, shape
        self.chunks: tuple[_Chunk, ...] = ()
        self.count = tensor_digest.chunk_count(_size(dtype, shape))
        if not self.count:
            # A tensor without elements: there is nothing to keep, and its digest follows from type and shape.
            self.digest = tensor_digest.digest_of(dtype, shape, b"")
            return
        if not lines:
            raise InputError("snapshot: there is none")
        self.digest = capture_lines.text(lines[0], "tensor")
        chunks = {}
        for line in lines:
            if line.get("tensor") != self.digest:
                raise InputError("snapshot: chunks of two tensors")
            chunk = _chunk(directory, line)
            chunks[chunk.index] = chunk
        self.chunks = tuple(chunks[index] for index in sorted(chunks))
        self._prove()

    def _prove(self) -> None:
        """Require that each chunk leads to the digest: by its path, or all of them together."""
        if [chunk.index for chunk in self.chunks] == [*range(self.count)]:
            data = b"".join(chunk.data for chunk in self.chunks)
            if tensor_digest.digest_of(self.dtype, self.shape, data) != self.digest:
                raise TrustError("snapshot: its bytes are not the tensor's", code="root-mismatch")
            return
        for chunk in self.chunks:
            path = [bytes.fromhex(one) for one in chunk.path]
            tensor_digest.check_chunk(self.digest, self.dtype, self.shape, chunk.index, chunk.data, path)


def keep_state(directory: Path, journal: Journal, said: dict[str, Any], rank: int) -> tuple[bytes, Blob | None]:
    """Return the row of a state of random number generators and the blob that holds it, if that is there.

    Raises:
        InputError: The row is malformed.
    """
    name, blob = str(said.get("blob") or "").removeprefix("sha256:"), None
    if _HEX.fullmatch(name):
        path = directory / "blobs" / name
        try:
            data = path.read_bytes() if path.is_file() and path.stat().st_size <= _MAX_STATE_BYTES else b""
        except OSError:
            data = b""
        if data and hashlib.sha256(data).hexdigest() == name:
            blob = Blob(RNG_STATE, journal.keep(data), len(data))
    said = {key: value for key, value in said.items() if key != "blob"}
    if blob is not None:
        said |= {"blob": blob.sha256, "bytes": blob.size_bytes}
    return capture_lines.row(said, rank), blob


def statistics(line: Any, tables: Tables) -> str | None:
    """Keep a line of statistics; return its name, or nothing for what is no such line."""
    if not isinstance(line, str):
        return None
    data = line.encode("utf-8", "surrogatepass")
    try:
        said = canonical.parse(data)
    except InputError:
        return None
    if not isinstance(said, dict):
        return None
    tables.add(STATISTICS, data)
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _chunk(directory: Path, line: Mapping[str, Any]) -> _Chunk:
    name = capture_lines.text(line, "file")
    if not _SNAP_FILE.fullmatch(name):
        raise InputError(f"snapshot: file: {name[:40]!a} is no name of one")
    index, offset, size = (capture_lines.count(line, member) for member in ("chunk", "offset", "bytes"))
    if size > tensor_digest.CHUNK_BYTES:
        raise InputError(f"snapshot: {size} bytes are more than a chunk")
    path = capture_lines.texts(line, "path") or ()
    if not all(map(_HEX.fullmatch, path)):
        raise InputError("snapshot: path: is no list of hashes")
    if not (directory / name).is_file():
        raise InputError(f"snapshot: {name}: there is no such file")
    with (directory / name).open("rb") as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) != size:
        raise InputError(f"snapshot: {name}: offset {offset}: the file ends before the chunk")
    leaf = tensor_digest.leaf(data).hex()
    if line.get("hash") != leaf:
        raise InputError(f"snapshot: {name}: offset {offset}: the chunk is not what its hash says")
    return _Chunk(index, data, leaf, path)


def _size(dtype: str, shape: tuple[int, ...]) -> int:
    try:
        return tensor_digest.size_bytes(dtype, shape)
    except ConfigError as error:
        raise InputError(str(error)) from error
