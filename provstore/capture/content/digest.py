"""Digests of live tensors: their elements as row-major little-endian bytes, read without a copy where they lie so."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provstore.capture.content.shortfall import UnsupportedDtypeError
from provstore.evidence.content.tensor_digest import ITEM_BYTES, TensorTree, tensor_tree


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """The elements of one tensor as its digest takes them."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    """Keeps the memory that it shows alive; it follows changes of the tensor where nothing had to be copied."""

    def tree(self) -> TensorTree:
        """Return digest and leaves; safe in another thread as long as nobody writes into the tensor."""
        return tensor_tree(self.dtype, self.shape, self.data)


def tensor_digest(torch: Any, tensor: Any) -> str:
    """Return the digest of a tensor, of a DTensor that of its local shard.

    Raises:
        UnsupportedDtypeError: It has no dense elements that can be read here.
    """
    return tensor_bytes(torch, tensor).tree().digest


def tensor_bytes(torch: Any, tensor: Any) -> TensorBytes:
    """Return dtype, shape and bytes of a tensor; a tensor of another device is copied to the host, which waits for it.

    Raises:
        UnsupportedDtypeError: It has no dense elements that can be read here.
    """
    if sys.byteorder != "little":
        raise UnsupportedDtypeError("tensor: bytes: this host is not little-endian")
    with torch.no_grad():
        dense = dense_local(torch, tensor).to("cpu").resolve_conj().resolve_neg()
        if dense._is_zerotensor():  # noqa: SLF001  a tensor of zeros without memory has no public name
            dense = dense.clone()
        dense = dense.contiguous()
    return TensorBytes(dtype_name(dense), tuple(map(int, dense.shape)), _memory(dense))


def dense_local(torch: Any, tensor: Any) -> Any:
    """Return the tensor without its history, of a DTensor the local shard, where its elements lie in memory.

    Raises:
        UnsupportedDtypeError: Sparse, quantized, nested, without data, of a dtype without digest, or of a class that
            only wraps other tensors.
    """
    with torch.no_grad():
        local = local_of(tensor)
        if type(local).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            raise UnsupportedDtypeError(f"tensor: class: {type(local).__name__} has no elements of its own")
        if local.layout is not torch.strided or local.is_nested or local.is_quantized or local.is_meta:
            kind = "meta" if local.is_meta else "nested" if local.is_nested else f"{local.layout} {local.dtype}"
            raise UnsupportedDtypeError(f"tensor: layout: {kind} is not dense")
        if dtype_name(local) not in ITEM_BYTES:
            raise UnsupportedDtypeError(f"tensor: dtype: {local.dtype} has no digest")
        return local.detach()


def local_of(tensor: Any) -> Any:
    """Return what a rank itself holds of a tensor: of a DTensor the local shard, else the tensor."""
    return tensor.to_local() if _is_distributed(tensor) else tensor


def dtype_name(tensor: Any) -> str:
    """Return the name of a tensor's dtype without ``torch.``."""
    return str(tensor.dtype).removeprefix("torch.")


def placement(tensor: Any) -> Mapping[str, object] | None:
    """Return mesh, placements and whole shape of a DTensor, as JSON values; ``None`` for any other tensor."""
    if not _is_distributed(tensor):
        return None
    mesh = tensor.device_mesh
    return {
        "mesh": mesh.mesh.tolist(),
        "dims": list(mesh.mesh_dim_names or ()),
        "placements": [repr(one) for one in tensor.placements],
        "shape": [int(size) for size in tensor.shape],
    }


def _is_distributed(tensor: Any) -> bool:
    # Who has a DTensor has loaded this module; loading it here would cost every job a second.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def _memory(tensor: Any) -> memoryview:
    """Return the memory of a contiguous tensor of the host."""
    nbytes = tensor.numel() * tensor.element_size()
    if not nbytes:
        return memoryview(b"")
    shown = (ctypes.c_ubyte * nbytes).from_address(tensor.data_ptr())
    shown.owner = tensor  # what shows the memory keeps it alive
    return memoryview(shown).cast("B")
