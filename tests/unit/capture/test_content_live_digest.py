"""Digests of live tensors: what lies in memory as torch has it, however it is laid out, and what cannot be read."""

from __future__ import annotations

import struct
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from provstore.capture.content.digest import placement, tensor_bytes, tensor_digest  # noqa: E402
from provstore.capture.content.shortfall import UnsupportedDtypeError  # noqa: E402
from provstore.evidence.content.tensor_digest import ITEM_BYTES, digest_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
"""torch warns of its own prototypes, such as quantized and nested tensors."""


def digest(tensor: Any) -> str:
    return tensor_digest(torch, tensor)


@pytest.mark.parametrize(
    ("make", "begins"),
    [
        # Published with the format: the first 16 hex digits.
        (lambda: torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "07b9bfada2f0932b"),
        (lambda: torch.tensor([1.0, 2.0, 3.0, 4.0]), "ebdf310547c65ed2"),
        (lambda: torch.empty(0), "9dae61b57a5b580e"),
        (lambda: torch.tensor(1.0), "8dd651021322d600"),
        (lambda: torch.tensor([0, 1, 2**53 + 1]), "d887cd9612e620c7"),
        (lambda: torch.tensor([True, False, True]), "31f7ad4a3b9b4e51"),
        (lambda: torch.tensor([1.0, 2.0], dtype=torch.bfloat16), "03848a6b813a1ea5"),
        (lambda: torch.zeros(262_145), "ec7b01ba47eb32dd"),
    ],
)
def test_live_tensors_have_the_published_vectors(make: Any, begins: str) -> None:
    assert digest(make()).startswith(f"sha256:{begins}")


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_every_dtype_with_a_digest_is_read_as_its_bytes_lie(dtype: str) -> None:
    if not hasattr(torch, dtype):
        pytest.skip(f"torch {torch.__version__} has no {dtype}")
    data = bytes(range(3, 99))
    if dtype == "bool":
        data = bytes(number % 2 for number in data)
    tensor = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(getattr(torch, dtype))

    assert digest(tensor) == digest_of(dtype, (96 // ITEM_BYTES[dtype],), data)


def test_strides_do_not_count() -> None:
    whole = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    last_axis_first = whole.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    every_other = torch.arange(48, dtype=torch.float32)[::2].reshape(2, 3, 4)

    assert not last_axis_first.is_contiguous()
    assert digest(last_axis_first) == digest(whole)
    assert digest(every_other) == digest_of("float32", (2, 3, 4), struct.pack("<24f", *range(0, 48, 2)))
    assert digest(whole[:, 1]) == digest_of("float32", (2, 4), struct.pack("<8f", 4, 5, 6, 7, 16, 17, 18, 19))
    assert digest(torch.tensor(7.0).expand(3)) == digest_of("float32", (3,), struct.pack("<3f", 7, 7, 7))


def test_signs_and_conjugates_that_torch_only_noted_count_as_the_values_they_are() -> None:
    noted = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj()

    assert noted.is_conj()
    assert digest(noted) == digest_of("complex64", (2,), struct.pack("<4f", 1, -2, 3, 4))
    assert digest(noted.imag) == digest_of("float32", (2,), struct.pack("<2f", -2, 4))


def test_parameters_and_tensors_that_were_computed_have_the_digest_of_their_values() -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    computed = parameter * 1.0

    assert computed.requires_grad
    assert digest(parameter) == digest(computed) == digest(computed.detach())
    with torch.inference_mode():
        assert digest(torch.tensor([1.0, 2.0, 3.0, 4.0])) == digest(parameter)


def test_zeros_without_memory_are_zeros() -> None:
    assert digest(torch._efficientzerotensor(3)) == digest(torch.zeros(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.eye(2).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        lambda: torch.empty(3, device="meta"),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.empty(2, dtype=torch.int4),
        lambda: torch.empty(2, dtype=torch.bits8),
        lambda: torch._subclasses.FakeTensorMode().from_tensor(torch.ones(3)),
    ],
    ids=["sparse", "csr", "quantized", "meta", "nested", "int4", "bits8", "fake"],
)
def test_a_tensor_without_dense_elements_is_a_shortfall_of_its_own_name(make: Any) -> None:
    with pytest.raises(UnsupportedDtypeError) as caught:
        digest(make())

    assert caught.value.reason == "unsupported-dtype"


def test_the_bytes_are_the_tensors_own_memory_and_keep_it_alive() -> None:
    tensor = torch.arange(1_000)
    found = tensor_bytes(torch, tensor)
    expected = digest(tensor)
    tensor[3] = -1
    assert found.tree().digest != expected
    tensor[3] = 3
    del tensor
    torch.empty(1_000, dtype=torch.int64).fill_(9)
    seen: list[str] = []
    worker = threading.Thread(target=lambda: seen.append(found.tree().digest))
    worker.start()
    worker.join()

    assert seen == [expected]


def test_a_digest_changes_neither_the_tensor_nor_its_history_nor_random_numbers() -> None:
    torch.manual_seed(5)
    tensor = torch.randn(9, requires_grad=True)
    state, version = torch.get_rng_state(), tensor._version
    digest(tensor)

    assert torch.equal(state, torch.get_rng_state())
    assert tensor._version == version
    assert tensor.grad_fn is None


@pytest.fixture
def one_rank() -> Any:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_dtensor_has_the_digest_of_its_local_shard_with_mesh_and_placements_beside_it(one_rank: None) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    local = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    spread = distribute_tensor(local.clone().requires_grad_(), mesh, [Shard(1)])

    assert digest(spread) == digest(local)
    assert placement(local) is None
    assert placement(spread) == {
        "mesh": [0], "dims": ["data"], "placements": ["Shard(dim=1)"], "shape": [2, 3],
    }  # fmt: skip
