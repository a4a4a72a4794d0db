"""Which ranks run on a GPU, by its PCI address on its host or by its UUID; what is not certain is not said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from provstore.model.recording import ExternalSignal

_PCI = re.compile(
    r"(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?(?![0-9a-f:.])", re.IGNORECASE
)
_UUID = re.compile(
    r"(GPU-|MIG-)?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![0-9a-f-])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU of one rank, as its process saw it."""

    rank: int
    host: str | None
    pci: str | None = None
    """As :func:`pci_address` spells it."""
    uuid: str | None = None
    """As :func:`gpu_uuid` spells it."""


def pci_address(text: str) -> str | None:
    """Return the PCI address at the start of a text in one spelling, such as ``0000:3b:00``; None where there is none.

    Taken are ``PCI:0000:3b:00``, ``00000000:3B:00.0`` and ``3b:00.0``, with anything after a blank. Function 0 is the
    GPU itself and is left out; a missing domain is 0.
    """
    found = _PCI.match(text.strip())
    if found is None:
        return None
    domain, bus, slot, function = found.groups()
    tail = "" if function in (None, "0") else f".{function}"
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{slot.lower()}{tail}"


def gpu_uuid(text: str) -> str | None:
    """Return the UUID of a GPU, or of a part of one, in one spelling, such as ``GPU-34d7319c-…``; None without one."""
    found = _UUID.fullmatch(text.strip())
    return None if found is None else f"{(found[1] or 'GPU-').upper()}{found[2].lower()}"


class Devices:
    """The GPUs of a run's ranks.

    Args:
        known: One or more a rank; the last one of a rank counts.
        hosts: Further hosts of the run, such as those of ranks without a GPU.
    """

    def __init__(self, known: Iterable[Device] = (), hosts: Iterable[str] = ()) -> None:
        self._by_rank = {one.rank: one for one in known}
        named = (one.host for one in self._by_rank.values() if one.host)
        self.hosts = tuple(dict.fromkeys((*named, *hosts)))

    def host(self, said: str | None) -> str | None:
        """Return a host in the spelling of the run: exact, or with and without its domain; None when it is not one."""
        if not said:
            return None
        if said in self.hosts:
            return said
        alike = [one for one in self.hosts if _is_same_host(one, said)]
        return alike[0] if len(alike) == 1 else None

    def ranks(
        self, *, host: str | None = None, pci: str | None = None, uuid: str | None = None
    ) -> tuple[int, ...] | None:
        """Return the ranks on a GPU; None where that is not certain.

        A UUID is enough by itself. A PCI address says something only beside its host. Where both are given and lead to
        different ranks, nothing is certain.
        """
        found = []
        if uuid is not None:
            found.append(tuple(sorted(one.rank for one in self._by_rank.values() if one.uuid == uuid)))
        where = self.host(host)
        if pci is not None and where is not None:
            here = (one for one in self._by_rank.values() if one.host == where and one.pci == pci)
            found.append(tuple(sorted(one.rank for one in here)))
        told = {ranks for ranks in found if ranks}
        return told.pop() if len(told) == 1 else None

    def has_rank(self, rank: int) -> bool:
        """Return whether the run has such a rank."""
        return rank in self._by_rank

    def placed(self, signal: ExternalSignal, *, pci: str | None = None, uuid: str | None = None) -> ExternalSignal:
        """Return a signal with the ranks on its GPU, and its host as the run spells it."""
        ranks = self.ranks(host=signal.host, pci=pci, uuid=uuid)
        return replace(signal, host=self.host(signal.host) or signal.host, ranks=ranks)


def scopes(signal: ExternalSignal, devices: Devices | None = None) -> tuple[str, ...]:
    """Return what a signal escalates: the ranks on the GPU, else the host, else the run.

    A host that is not one of the run's covers none of its ranks, so that the run stands for it.
    """
    if signal.ranks:
        return tuple(f"rank:{rank}" for rank in signal.ranks)
    if signal.host and (devices is None or not devices.hosts or devices.host(signal.host)):
        return (f"host:{(devices and devices.host(signal.host)) or signal.host}",)
    return ("run",)


def of_headers(headers: Iterable[Mapping[str, object]]) -> Devices:
    """Return the GPUs that the first lines of capture files state, oldest first."""
    known, hosts = [], []
    for header in headers:
        rank, host, device = header.get("rank"), header.get("host"), header.get("device")
        if isinstance(host, str):
            hosts.append(host)
        if type(rank) is int:
            said = device if isinstance(device, Mapping) else {}
            pci, uuid = said.get("pci_bus_id"), said.get("uuid")
            known.append(
                Device(
                    rank,
                    host if isinstance(host, str) else None,
                    pci_address(pci) if isinstance(pci, str) else None,
                    gpu_uuid(uuid) if isinstance(uuid, str) else None,
                )
            )
    return Devices(known, hosts)


def _is_same_host(one: str, other: str) -> bool:
    """Return whether two names are one host: equal but for case, or one is the other without its domain."""
    one, other = one.lower().rstrip("."), other.lower().rstrip(".")
    return one == other or (("." in one) != ("." in other) and one.partition(".")[0] == other.partition(".")[0])
