"""Snapshots: each chunk lies where its entry says and proves itself; a write that fails leaves nothing."""

from __future__ import annotations

import hashlib
import random
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from provstore.capture.content.digest import TensorBytes
from provstore.capture.content.snapshot import FILE_BYTES, SnapshotEntry, SnapshotError, SnapshotFile
from provstore.evidence.content.tensor_digest import CHUNK_BYTES, check_chunk


def content(size: int, seed: int = 1) -> TensorBytes:
    return TensorBytes("uint8", (size,), memoryview(random.Random(seed).randbytes(size)))


def read(folder: Path, entry: SnapshotEntry) -> bytes:
    return (folder / entry.file).read_bytes()[entry.offset : entry.offset + entry.bytes]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have the system refuse files beyond a size, as it refuses a full disk: in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_kept_chunks_lie_where_their_entries_say_and_prove_themselves(tmp_path: Path) -> None:
    tensor = content(4 * CHUNK_BYTES + 11)
    tree = tensor.tree()
    with_all, with_some = SnapshotFile(tmp_path, 3), SnapshotFile(tmp_path, 4)
    entries = with_all.write(tensor, tree, range(5)), with_some.write(tensor, tree, [0, 2, 4])

    assert [entry.chunk for entry in entries[1]] == [0, 2, 4]
    for entry in (*entries[0], *entries[1]):
        found = read(tmp_path, entry)
        assert found == bytes(tensor.data[entry.chunk * CHUNK_BYTES :][: entry.bytes])
        path = tree.path(entry.chunk) if entry.path is None else [bytes.fromhex(one) for one in entry.path]
        check_chunk(entry.tensor, "uint8", tensor.shape, entry.chunk, found, path)
        assert entry.hash == hashlib.sha256(b"\x00" + found).hexdigest()
        assert (entry.tensor, entry.chunks) == (tree.digest, 5)
    assert all(entry.path is None for entry in entries[0])
    assert all(entry.path for entry in entries[1])


def test_an_entry_is_plain_json_with_a_path_only_where_it_is_needed(tmp_path: Path) -> None:
    tensor = content(CHUNK_BYTES + 1)
    whole, last = SnapshotFile(tmp_path, 0), SnapshotFile(tmp_path, 1)
    first = whole.write(tensor, tensor.tree(), [0, 1])[1].to_dict()
    second = last.write(tensor, tensor.tree(), [1])[0].to_dict()
    leaves = [
        hashlib.sha256(b"\x00" + tensor.data[cut]).hexdigest() for cut in (slice(0, CHUNK_BYTES), slice(-1, None))
    ]

    assert first == {
        "file": "snap-rank0-0.bin", "offset": CHUNK_BYTES, "bytes": 1, "chunk": 1, "chunks": 2,
        "tensor": tensor.tree().digest, "hash": leaves[1],
    }  # fmt: skip
    assert second == first | {"file": "snap-rank1-0.bin", "offset": 0, "path": [leaves[0]]}


def test_no_file_grows_beyond_its_limit_and_every_chunk_is_found_again(tmp_path: Path) -> None:
    assert FILE_BYTES == 64 * 2**20
    snapshots = SnapshotFile(tmp_path, 0, file_bytes=2 * CHUNK_BYTES)
    tensors = [content(size, seed) for seed, size in enumerate((CHUNK_BYTES, 3 * CHUNK_BYTES + 5, 7, 2 * CHUNK_BYTES))]
    written = [
        (one, entry) for one in tensors for entry in snapshots.write(one, one.tree(), range(len(one.tree().leaves)))
    ]
    snapshots.close()

    assert max(path.stat().st_size for path in tmp_path.iterdir()) <= 2 * CHUNK_BYTES
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == sum(len(one.data) for one in tensors)
    for tensor, entry in written:
        assert read(tmp_path, entry) == bytes(tensor.data[entry.chunk * CHUNK_BYTES :][: entry.bytes])


def test_files_of_an_earlier_process_stay_as_they_are(tmp_path: Path) -> None:
    one, two = content(10, 1), content(10, 2)
    first = SnapshotFile(tmp_path, 0).write(one, one.tree(), [0])[0]
    second = SnapshotFile(tmp_path, 0).write(two, two.tree(), [0])[0]

    assert (first.file, second.file) == ("snap-rank0-0.bin", "snap-rank0-1.bin")
    assert read(tmp_path, first) == bytes(one.data)


def test_a_tensor_without_elements_and_a_selection_of_nothing_write_nothing(tmp_path: Path) -> None:
    empty, some = content(0), content(5)
    snapshots = SnapshotFile(tmp_path, 0)

    assert snapshots.write(empty, empty.tree(), []) == []
    assert snapshots.write(some, some.tree(), []) == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_in_the_middle_of_a_tensor_leaves_nothing_of_it_and_writing_goes_on(tmp_path: Path) -> None:
    before, large, after = content(9, 1), content(3 * CHUNK_BYTES, 2), content(8, 3)
    snapshots = SnapshotFile(tmp_path, 0, file_bytes=2 * CHUNK_BYTES)
    kept = snapshots.write(before, before.tree(), [0])[0]
    with largest_file(CHUNK_BYTES + CHUNK_BYTES // 2), pytest.raises(SnapshotError) as caught:
        snapshots.write(large, large.tree(), [0, 1, 2])

    assert caught.value.reason == "disk-reserve"
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {kept.file: 9}
    again = snapshots.write(after, after.tree(), [0])[0]
    assert read(tmp_path, kept) == bytes(before.data)
    assert read(tmp_path, again) == bytes(after.data)


def test_a_folder_that_is_gone_is_a_fault_of_recording_and_no_exception_of_another_kind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    tensor, snapshots = content(5), SnapshotFile(folder, 0)
    shutil.rmtree(folder)
    with pytest.raises(SnapshotError) as caught:
        snapshots.write(tensor, tensor.tree(), [0])

    assert caught.value.reason == "capture-fault"
    snapshots.close()


def test_closing_ends_a_file_and_leaves_no_descriptor_open(tmp_path: Path) -> None:
    tensor = content(5)
    descriptors = Path("/proc/self/fd")
    open_before = set(descriptors.iterdir()) if descriptors.exists() else set()
    snapshots = SnapshotFile(tmp_path, 0)
    snapshots.write(tensor, tensor.tree(), [0])
    snapshots.close()
    snapshots.close()
    if open_before:
        assert set(descriptors.iterdir()) == open_before

    assert snapshots.write(tensor, tensor.tree(), [0])[0].file == "snap-rank0-1.bin"
    snapshots.close()
