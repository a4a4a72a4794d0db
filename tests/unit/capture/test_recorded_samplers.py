"""A loader or sampler is described as it states itself: nothing is iterated, nothing drawn, nothing raised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402  torch is an extra
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from provstore import capture  # noqa: E402
from provstore.capture.recording.samplers import sampler_facts  # noqa: E402


class Numbers(TensorDataset):
    """Ten samples that are counted when they are read."""

    read = 0

    def __init__(self) -> None:
        super().__init__(torch.arange(10))

    def __getitem__(self, index: int) -> object:
        type(self).read += 1
        return super().__getitem__(index)


class Endless(IterableDataset):
    def __iter__(self):
        raise AssertionError("nobody iterates")


def test_a_distributed_loader_gives_all_that_its_order_depends_on() -> None:
    sampler = DistributedSampler(Numbers(), num_replicas=4, rank=3, shuffle=True, seed=7, drop_last=True)
    sampler.set_epoch(5)
    loader = DataLoader(Numbers(), batch_size=2, sampler=sampler)
    assert sampler_facts(loader) == {
        "kind": "DistributedSampler",
        "within": ["DataLoader", "BatchSampler"],
        "seed": 7,
        "shard_epoch": 5,
        "shards": 4,
        "shard": 3,
        "shuffle": True,
        "drop_last": True,
        "batch_size": 2,
        "workers": 0,
        "dataset_kind": "Numbers",
        "dataset_length": 10,
        "samples": 2,
    }


def test_a_random_sampler_has_the_seed_of_its_generator_or_none() -> None:
    own = RandomSampler(Numbers(), replacement=True, num_samples=6, generator=torch.Generator().manual_seed(11))
    found = sampler_facts(BatchSampler(own, 3, drop_last=True))
    assert (found["kind"], found["seed"], found["replacement"], found["samples"]) == ("RandomSampler", 11, True, 6)
    assert (found["batch_size"], found["drop_last"]) == (3, True)
    assert "seed" not in sampler_facts(RandomSampler(Numbers()))


def test_a_plain_loader_is_sequential_and_one_without_length_has_none() -> None:
    assert sampler_facts(DataLoader(Numbers(), batch_size=None))["kind"] == "SequentialSampler"
    assert sampler_facts(SequentialSampler(Numbers())) == {
        "kind": "SequentialSampler", "dataset_kind": "Numbers", "dataset_length": 10, "samples": 10,
    }  # fmt: skip
    endless = sampler_facts(DataLoader(Endless()))
    assert endless["dataset_kind"] == "Endless"
    assert "dataset_length" not in endless


def test_describing_reads_no_sample_and_draws_no_random_number() -> None:
    Numbers.read = 0
    generator = torch.Generator().manual_seed(3)
    states = torch.get_rng_state(), generator.get_state()
    sampler_facts(DataLoader(Numbers(), shuffle=True, generator=generator, num_workers=2))
    sampler_facts(RandomSampler(Numbers(), generator=generator))
    assert Numbers.read == 0
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(generator.get_state(), states[1])


class Hostile:
    """Answers every question with an exception."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class Itself:
    """Holds itself."""

    seed, epoch, shuffle, batch_size = True, -1, 1, 2.5

    @property
    def sampler(self) -> object:
        return self

    @property
    def dataset(self) -> object:
        return Hostile()


def test_what_states_nothing_usable_is_named_by_its_kind_alone() -> None:
    assert sampler_facts(Hostile()) == {"kind": "Hostile"}
    assert sampler_facts(None) == {"kind": "NoneType"}
    assert sampler_facts(Itself()) == {"kind": "Itself", "dataset_kind": "Hostile"}


def test_the_line_stands_in_the_capture_file_and_a_recorder_that_is_off_does_nothing(tmp_path: Path) -> None:
    capture.evidence("job", enabled=False).sampler(Hostile())
    with capture.evidence("job", tmp_path) as recorder:
        recorder.begin_epoch(2)
        recorder.sampler(RandomSampler(Numbers()), dataset="numbers@1")
        recorder.sampler(Hostile())
        path = recorder.path
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    first, second = (line for line in lines if line["t"] == "sampler")
    assert (first["epoch"], first["kind"], first["dataset"]) == (2, "RandomSampler", "numbers@1")
    assert second["kind"] == "Hostile"
    assert not [line for line in lines if line["t"] == "fault"]
