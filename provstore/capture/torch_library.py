"""The door to torch: loads it on first use and says what is wrong when it is missing or too old."""

from __future__ import annotations

import importlib
import re
from typing import Any

from provstore.errors import ConfigError

OLDEST_SUPPORTED = (2, 8)
FIRST_WITH_A_DEFAULT_BUFFER = (2, 11)


def load_torch() -> Any:
    """Return the torch module with ``torch.distributed`` loaded.

    Raises:
        ConfigError: torch is not installed.
    """
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.distributed")
    except ImportError as error:
        raise ConfigError(
            f"torch: {error}: provstore.capture works inside a training job and needs it",
            hint="pip install 'provstore[capture]'",
        ) from error
    return torch


def torch_release(torch: Any) -> tuple[int, int]:
    """Return (major, minor) of the loaded torch; (0, 0) when its version text has no such pair."""
    found = re.match(r"(\d+)\.(\d+)", str(getattr(torch, "__version__", "")))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def too_old(torch: Any) -> str | None:
    """Return what to tell the user of a torch older than 2.8, or ``None``."""
    if torch_release(torch) >= OLDEST_SUPPORTED:
        return None
    return f"torch: {torch.__version__}: the recorder of gloo jobs can be read from torch 2.8 on; upgrade to torch>=2.8"


def distributed_bindings(torch: Any) -> Any:
    """Return ``torch._C._distributed_c10d``, or ``None`` in a torch that was built without torch.distributed."""
    if not torch.distributed.is_available():
        return None
    return torch._C._distributed_c10d  # noqa: SLF001  the recorder has no public name


def live_groups(torch: Any) -> list[tuple[Any, str]]:
    """Return (group, name) of each process group this process is in now; names are those of the dumps."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return []
    return list(distributed_world(torch).pg_names.items())


def group_count(torch: Any) -> int:
    """Return how many process groups this process is in now; asked at every call."""
    return len(torch.distributed.distributed_c10d._world.pg_names)  # noqa: SLF001  torch has no public name for it


def distributed_world(torch: Any) -> Any:
    """Return torch's own table of groups, by name, backend and hook."""
    return torch.distributed.distributed_c10d._world  # noqa: SLF001  torch has no public name for it


def last_collective(group: Any, device: Any = None) -> int:
    """Return the number of the group's last collective: ``collective_seq_id`` in the dumps.

    Args:
        group: The process group.
        device: Of a group with several backends, the kind of device whose backend is meant.

    Raises:
        RuntimeError: Its backend does not count.
    """
    counts = group if device is None else group._get_backend(device)  # noqa: SLF001  torch has no public name for it
    return int(counts._get_sequence_number_for_group())  # noqa: SLF001  nor for this
