"""XID errors as DCGM shows them: a gauge that holds the last code, and a count of each code in a window.

The gauge keeps its value until driver or exporter are started again, hides a second equal code, and does not show every
code. So it fires when it changes to another code, never because of the value that it had when it was first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provstore.model.recording import ExternalSignal, SignalProblem
from provstore.sources.signals.devices import Devices, gpu_uuid, pci_address
from provstore.sources.signals.exposition import Sample, samples
from provstore.sources.signals.xid_table import TABLE, XidTable

SOURCE = "dcgm"
GAUGE, COUNT = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"

_LARGEST_CODE = 1_000_000
_SHOWN = 512


class Dcgm:
    """Follows the XID errors of some GPUs, poll by poll.

    Args:
        devices: The GPUs of the run's ranks.
        host: Whose GPUs they are, where the labels do not say.
        table: Classes of XID codes.
        state: What :meth:`state` gave before a restart.
    """

    def __init__(
        self,
        devices: Devices | None = None,
        *,
        host: str | None = None,
        table: XidTable = TABLE,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._devices, self._host, self._table = devices or Devices(), host, table
        said = state or {}
        self._last: dict[str, int] = dict(said.get("last", {}))
        self._counts: dict[str, float] = dict(said.get("counts", {}))
        self._has_counted: bool = said.get("has_counted", False)
        self.problems: list[SignalProblem] = []
        """What could not be read; the caller empties it."""

    def state(self) -> dict[str, Any]:
        """Return what a later process goes on from, as JSON values."""
        return {"counts": self._counts, "has_counted": self._has_counted, "last": self._last}

    def read(self, text: str, at_ns: int | None = None) -> list[ExternalSignal]:
        """Return what is new in the text that an exporter serves."""
        found, odd = samples(text)
        if odd:
            self.problems.append(
                SignalProblem(SOURCE, "malformed", f"dcgm: exposition: {odd} lines are no samples", odd)
            )
        return self.take(found, at_ns)

    def take(self, values: Iterable[Sample], at_ns: int | None = None) -> list[ExternalSignal]:
        """Return what is new in some samples; other metrics among them are passed over."""
        by_name: dict[str, list[Sample]] = {GAUGE: [], COUNT: []}
        has_answered = False
        for sample in values:
            has_answered = True
            if sample.name in by_name:
                by_name[sample.name].append(sample)
        if not has_answered:
            return []
        counted = self._take_counts(by_name[COUNT])
        told = {(self._gpu(sample), code) for sample, code in counted}
        changed = [one for one in self._take_gauges(by_name[GAUGE]) if (self._gpu(one[0]), one[1]) not in told]
        return [self._signal(sample, code, at_ns) for sample, code in (*counted, *changed)]

    def _take_gauges(self, gauges: Iterable[Sample]) -> list[tuple[Sample, int]]:
        found = []
        for sample in gauges:
            code = _code(sample.value)
            if code is None:
                self._odd(sample)
                continue
            gpu = self._gpu(sample)
            before = self._last.get(gpu)
            self._last[gpu] = code
            if before is not None and code not in (before, 0):
                found.append((sample, code))
        return found

    def _take_counts(self, counts: Iterable[Sample]) -> list[tuple[Sample, int]]:
        """Return the codes whose count in the window grew; a code that was never seen is new after the first poll."""
        found, now = [], {}
        for sample in counts:
            label = sample.labels.get("xid", "")
            code = _code(float(label)) if label.isascii() and label.isdecimal() else None
            if code is None or not 0 <= sample.value < float("inf"):
                self._odd(sample)
                continue
            key = f"{self._gpu(sample)}|{code}"
            now[key] = sample.value
            if self._has_counted and code and sample.value > self._counts.get(key, 0.0):
                found.append((sample, code))
        # An exporter that has seen no XID serves no such series: the next one is new all the same.
        self._has_counted = True
        self._counts = now
        return found

    def _signal(self, sample: Sample, code: int, at_ns: int | None) -> ExternalSignal:
        labels = sample.labels
        pci, uuid = pci_address(labels.get("pci_bus_id", "")), gpu_uuid(labels.get("UUID", ""))
        device = pci or uuid or labels.get("gpu")
        signal = ExternalSignal(
            "xid",
            SOURCE,
            _shown(sample),
            code,
            self._table.fault_class(code),
            labels.get("Hostname") or self._host,
            device,
            at_ns=at_ns,
            value=sample.value,
        )
        return self._devices.placed(signal, pci=pci, uuid=uuid)

    def _gpu(self, sample: Sample) -> str:
        """Return by what a GPU, or a part of one, is known; its code and texts about it are not among that."""
        labels = sample.labels
        gpu = labels.get("UUID") or labels.get("pci_bus_id") or labels.get("gpu") or labels.get("device") or ""
        return "|".join((labels.get("Hostname") or self._host or "", gpu, labels.get("GPU_I_ID", "")))

    def _odd(self, sample: Sample) -> None:
        text = f"dcgm: {_shown(sample)[:200]}: the value is no XID code or count"
        self.problems.append(SignalProblem(SOURCE, "malformed", text))


def _code(value: float) -> int | None:
    return int(value) if 0 <= value <= _LARGEST_CODE and value == int(value) else None


def _shown(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
    return f"{sample.name}{{{labels}}} {sample.value:g}"[:_SHOWN]
