"""The diagnosis: the rules in their order of precedence, what stayed open, and the status of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType

from provstore.analysis.case import Case
from provstore.analysis.coverage import coverage, last_calls
from provstore.analysis.options import Options
from provstore.analysis.scene import Scene
from provstore.analysis.undecided import open_questions
from provstore.model.dump import DumpSet
from provstore.model.finding import Diagnosis, Finding, Undecided
from provstore.rooms import load, names

_ROOM = "analysis.diagnoses"
_CONFIDENCES = ("certain", "probable", "possible")


def diagnose(evidence: DumpSet, options: Options | None = None) -> Diagnosis:
    """Return what is wrong with one attempt of one run, as far as its dumps tell.

    Args:
        evidence: At most one dump for each rank and backend.
        options: The question asked, and the limits of the rules.

    Source: docs/explanation/diagnosis.md
    """
    asked = options or Options()
    scene = Scene(Case(evidence, asked))
    findings: list[Finding] = []
    for rule in _rules(asked.about):
        findings += rule.find(scene, tuple(findings))
    undecided = open_questions(scene, findings)
    findings.sort(key=_rank)
    return Diagnosis(
        run=evidence.run,
        attempt=evidence.attempt,
        status=_status(findings, undecided),
        findings=tuple(findings),
        undecided=tuple(undecided),
        last_calls=last_calls(scene.case, findings) if findings or undecided else (),
        coverage=coverage(scene.case),
        notes=_notes(scene.case, findings),
    )


def _rules(about: str | None) -> list[ModuleType]:
    modules = (load(_ROOM, name) for name in names(_ROOM))
    fitting = (module for module in modules if about is None or about == module.ABOUT)
    return sorted(fitting, key=lambda module: int(module.PRECEDENCE))


def _rank(finding: Finding) -> tuple[bool, int]:
    """Return a key that puts hangs before slowness and the surest findings first; then the rules' order decides."""
    return finding.kind == "straggler", _CONFIDENCES.index(finding.confidence)


def _status(findings: Sequence[Finding], undecided: Iterable[Undecided]) -> str:
    if findings:
        return "findings"
    return "undecided" if any(item.blocks_answer for item in undecided) else "healthy"


def _notes(case: Case, findings: Sequence[Finding]) -> tuple[str, ...]:
    lived_with = int((case.instances.disagreement >= 0).sum())
    warnings = tuple(f"{dump.file}: {text}" for dump in case.table.dumps for text in dump.warnings)
    calls = f"{lived_with} collective call{'' if lived_with == 1 else 's'}"
    unequal = (f"{calls} whose members asked for different sizes, types or operations",) if lived_with else ()
    is_open = case.options.about is None and not findings and not case.evidence.tensors
    unchecked = ("NaN: not checked, the dumps hold no values",) if is_open else ()
    return *unequal, *unchecked, *warnings
