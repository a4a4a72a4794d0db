"""Every axis of every record of a container, in one pass, one record in memory at a time."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from provstore.evidence.aep import envelopes, schema, semantics
from provstore.evidence.aep.cells import Cells
from provstore.evidence.aep.chains import DROPPED, Chains
from provstore.evidence.aep.digests import ContainerDigests
from provstore.evidence.aep.histories import Histories
from provstore.evidence.aep.text import JsonText
from provstore.model.aep import AXES, Axis, Container, ContainerVerdict, RawRecord, RecordVerdict

MAX_ACTIONS: Final = 100_000
NO_SCHEMAS: Final = Axis(False, None, "the schemas of agent evidence, or jsonschema, are not installed")
NO_WITNESS: Final = Axis(False, None, "records alone cannot show that nothing was left out")
_UNREAD = "the record could not be read"
_NO_RULES = Axis(False, None, "this kind has no rules beyond its schema")
_NO_CHAIN = Axis(False, None, "this kind has no chain")
_PASS = Axis(True, "pass")
_UNSIGNED = envelopes.UNSIGNED
_MEMORY = "memory-evidence"


@dataclass(frozen=True, slots=True)
class _Judged:
    """What is known of a record before the chain is."""

    index: int
    sha256: str
    run_id: str | None
    kind: str
    structural: Axis
    semantic: Axis
    authenticity: Axis
    findings: tuple[str, ...]
    cell: str | None


def judge(container: Container, keys: Mapping[str, bytes], *, check_legacy: bool = False) -> ContainerVerdict:
    """Return the verdict on each record and on the container.

    Args:
        container: Its records are gone through once.
        keys: Public keys (32 bytes) by the id that signatures name them with.
        check_legacy: Check signatures of retired schemes too; no status depends on it.
    """
    judged, problems = _Pass(keys, check_legacy), list(container.problems)
    digests = ContainerDigests(container)
    for raw in container.records:
        judged.take(raw, digests)
        if (one := judged.records[-1]).structural.reason and one.structural.status == "fail":
            problems += [f"record {raw.index} at byte {raw.offset}: {one.structural.reason}"][: len(problems) < 100]
    return judged.verdict(container, digests, tuple(problems))


@dataclass(slots=True)
class _Pass:
    keys: Mapping[str, bytes]
    check_legacy: bool
    records: list[_Judged] = field(default_factory=list)
    chains: Chains = field(default_factory=Chains)
    cells: Cells = field(default_factory=Cells)
    histories: Histories = field(default_factory=Histories)
    shared: dict[object, Any] = field(default_factory=dict)
    """Equal verdicts are held once: a file may have 100,000 records that are all alike."""

    def take(self, raw: RawRecord, digests: ContainerDigests) -> None:
        text = _text(raw)
        own = hashlib.sha256(text.canon(drop=DROPPED)).hexdigest() if isinstance(text.value, dict) else None
        run = text.value.get("run_id") if isinstance(text.value, dict) else None
        run = run if isinstance(run, str) else None
        cell = None
        if raw.kind == schema.RECORD:
            self.chains.add(raw.index, run, text, own, behind_gap=digests.is_behind_gap(raw))
        elif raw.kind == _MEMORY and isinstance(text.value, dict):
            cell = self.cells.add(raw.index, text.value)
        authenticity, findings = self._authenticity(text)
        if raw.kind == schema.RECORD and own is not None and text.fault is None:
            findings += self.histories.add(own, text)
        digests.take(raw, text, own)
        sha256 = raw.sha256 or hashlib.sha256(raw.data).hexdigest()
        structural, semantic = self._share(_structural(raw, text)), self._share(_semantic(raw, text))
        one = _Judged(raw.index, sha256, run, raw.kind, structural, semantic, self._share(authenticity), findings, cell)
        self.records.append(one)

    def verdict(self, container: Container, digests: ContainerDigests, problems: tuple[str, ...]) -> ContainerVerdict:
        whole = self.chains.whole.axis() if self.chains.whole.count else _NO_CHAIN
        runs = {run: chain.axis() for run, chain in self.chains.runs.items()}
        cells = self.cells.axes()
        held = digests.axis()
        records = []
        for one in self.records:
            chain = cells[one.cell] if one.cell is not None else _chain_of(one, whole, runs)
            parts = (one.structural, one.semantic, one.authenticity, chain, held, NO_WITNESS)
            key = tuple(map(id, parts))
            if key not in self.shared:
                self.shared[key] = dict(zip(AXES, parts))
            findings = one.findings + digests.findings(one.index)
            records.append(RecordVerdict(one.index, one.sha256, one.run_id, self.shared[key], findings))
        named = {run: axis for run, axis in runs.items() if run is not None}
        return ContainerVerdict(
            container.kind, tuple(records), whole, named | cells, held, problems + digests.problems()
        )

    def _authenticity(self, text: JsonText) -> tuple[Axis, tuple[str, ...]]:
        if not isinstance(text.value, dict):
            return Axis(False, None, _UNREAD), ()
        return envelopes.authenticity(text, self.keys, check_legacy=self.check_legacy)

    def _share(self, axis: Axis) -> Axis:
        if axis is _PASS or axis is _UNSIGNED or axis is _passed(str(axis.details.get("schema"))):
            return axis
        shared: Axis = self.shared.setdefault(repr(axis), axis)
        return shared


@functools.cache
def _passed(kind: str) -> Axis:
    return Axis(True, "pass", None, {"schema": kind})


def _text(raw: RawRecord) -> JsonText:
    text = raw.text if isinstance(raw.text, JsonText) else JsonText(raw.data)
    if raw.fault is not None:
        text.fault, text.value = raw.fault, None
    elif text.fault is None and not isinstance(text.value, dict):
        text.fault = "is no JSON object"
    return text


def _chain_of(one: _Judged, whole: Axis, runs: Mapping[str | None, Axis]) -> Axis:
    if one.kind != schema.RECORD:
        return _NO_CHAIN
    return whole if whole.status == "intact" or len(runs) == 1 else runs[one.run_id]


def _structural(raw: RawRecord, text: JsonText) -> Axis:
    if text.fault is not None or not isinstance(text.value, dict):
        return Axis(True, "fail", text.fault or "is no JSON object")
    actions = text.value.get("actions")
    if isinstance(actions, list) and len(actions) > MAX_ACTIONS:
        return Axis(True, "fail", f"{len(actions)} actions are more than {MAX_ACTIONS}")
    wrong = schema.errors(raw.kind, text.value)
    if wrong is None:
        return NO_SCHEMAS
    return Axis(True, "fail", wrong[0], {"schema": raw.kind, "errors": wrong}) if wrong else _passed(raw.kind)


def _semantic(raw: RawRecord, text: JsonText) -> Axis:
    if text.fault is not None or not isinstance(text.value, dict):
        return Axis(False, None, _UNREAD)
    if raw.kind != schema.RECORD:
        return _NO_RULES
    broken = semantics.violations(text.value)
    return Axis(True, "fail", broken[0], {"violations": broken}) if broken else _PASS
