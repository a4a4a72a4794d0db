"""The reader and the capture helper understand each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import WAYS, needs_hooks

from provstore.sources.flight_recorder import ReadOptions, read_dumps


@pytest.mark.parametrize("way", WAYS)
def test_the_reader_loads_every_dump_with_its_groups_declared(scenes: Any, way: str) -> None:
    result = read_dumps([scenes.out / way], ReadOptions())

    assert list(result.refusals) == []
    assert [(dump.rank, dump.backend) for dump in result.dumps] == [(0, "gloo"), (1, "gloo")]
    for dump in result.dumps:
        declared = {group.desc: group.ranks for group in dump.groups if group.ranks is not None}
        assert declared == {"default_pg": (0, 1), "alone": (dump.rank,)}


def test_the_reader_takes_every_field_of_the_sidecar(scenes: Any) -> None:
    result = read_dumps([scenes.out / "uncaught"], ReadOptions())

    for dump in result.dumps:
        stated = json.loads((scenes.out / "uncaught" / f"fr_meta_rank_{dump.rank}.json").read_text())
        read = dump.sidecar
        assert read is not None
        for name in ("rank", "run", "attempt", "world_size", "local_rank", "host", "pid", "torch_version", "reason"):
            assert getattr(read, name) == stated[name], name
        for name in ("dumped_at_ns", "monotonic_ns", "device", "settings"):
            assert getattr(read, name) == stated[name], name


@needs_hooks
def test_the_reader_takes_every_line_of_the_tensor_record(watched: Any) -> None:
    result = read_dumps([watched.out], ReadOptions())

    stated = [
        json.loads(line)
        for rank in (0, 1)
        for line in (watched.out / f"tensor_rank_{rank}.jsonl").read_text().splitlines()
    ]
    names = ("rank", "group", "seq", "side", "finite", "nan_count", "inf_count")
    read = [tuple(getattr(record, name) for name in names) for record in result.tensors]
    assert sorted(read) == sorted(tuple(line[name] for name in names) for line in stated)
