"""Compares a diagnosis with the truth of a scenario."""

from __future__ import annotations

from dataclasses import dataclass

from provstore.model.finding import Diagnosis, Finding

from .truth import Truth

GOOD = ("right",)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How good an answer is.

    ``right``; ``partial`` (one of several culprits); ``undecided`` and ``silent`` (nobody named; silent says healthy
    although the job hangs); ``weak`` (an innocent rank is suspected where transfers leave no trace, with the lowest
    confidence, as FR 8.2 has it); ``class`` (right rank, other class); ``place`` (right rank and class, another
    instance); ``wrong`` (an innocent rank is named).
    """

    word: str
    why: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether an innocent rank is accused."""
        return self.word == "wrong"


def judge(truth: Truth, diagnosis: Diagnosis) -> Verdict:
    """Return how ``diagnosis`` compares with ``truth``."""
    weak = None
    for finding in diagnosis.findings:
        innocent = _innocents(truth, finding)
        if innocent and truth.blind and (finding.kind, finding.confidence) == ("host", "possible"):
            weak = Verdict("weak", f"ranks {sorted(innocent)} suspected: {finding.summary}")
        elif innocent:
            return Verdict(
                "wrong", f"ranks {sorted(innocent)} accused ({finding.kind}, {finding.confidence}): {finding.summary}"
            )
        overlap = {culprit.rank for culprit in finding.culprits} & set(finding.victims)
        if overlap:
            return Verdict(
                "wrong", f"ranks {sorted(overlap)} are culprits and victims of one finding: {finding.summary}"
            )
    if weak is not None:
        return weak
    about = [finding for finding in diagnosis.findings if not _is_about_missing(truth, finding)]
    if truth.fault == "none" or not (truth.hangs or truth.fault == "slow"):
        return _without_fault(truth, diagnosis, about)
    if not about:
        return Verdict("undecided" if diagnosis.status in ("undecided", "findings") else "silent", diagnosis.status)
    return _graded(truth, about)


def _without_fault(truth: Truth, diagnosis: Diagnosis, about: list[Finding]) -> Verdict:
    if about and truth.fault == "none":
        return Verdict("wrong", f"finding on a healthy job: {about[0].kind}: {about[0].summary}")
    if diagnosis.status == "healthy" or truth.fault != "none":
        return Verdict("right")
    return Verdict("undecided", "; ".join(f"{row.code}: {row.what}" for row in diagnosis.undecided))


def _graded(truth: Truth, about: list[Finding]) -> Verdict:
    named = frozenset(culprit.rank for finding in about for culprit in finding.culprits)
    kinds = {finding.kind for finding in about}
    if not kinds & truth.kinds:
        return Verdict("class", f"{sorted(kinds)} instead of {sorted(truth.kinds)}: {about[0].summary}")
    if not named and truth.culprits and named not in truth.sets:
        return Verdict("undecided", f"names nobody: {about[0].summary}")
    if truth.culprits - named and named not in truth.sets:
        return Verdict("partial", f"named {sorted(named)}, truth {sorted(truth.culprits)}: {about[0].summary}")
    fitting = [finding for finding in about if finding.kind in truth.kinds]
    if truth.instances and not any(_is_there(truth, finding) for finding in fitting):
        return Verdict("place", f"expected {sorted(truth.instances)[:6]}: {fitting[0].summary}")
    return Verdict("right")


def _innocents(truth: Truth, finding: Finding) -> frozenset[int]:
    named = frozenset(culprit.rank for culprit in finding.culprits)
    if named in truth.sets or _is_about_missing(truth, finding):
        return frozenset()
    allowed = truth.culprits | truth.allowed
    if truth.fault == "order" and finding.kind != "order_deadlock":
        # any member waits in the circle, but only one of them changed its order
        return named - truth.sets[0]
    if finding.kind in ("collective_hang", "order_deadlock"):
        allowed = allowed.union(*truth.sets)
    return named - allowed


def _is_about_missing(truth: Truth, finding: Finding) -> bool:
    named = frozenset(culprit.rank for culprit in finding.culprits)
    lost = truth.without_dump if truth.fault == "order" else truth.without_dump - truth.culprits
    return finding.kind == "dead" and bool(named) and named <= lost and truth.hangs


def _is_there(truth: Truth, finding: Finding) -> bool:
    if finding.group is None or finding.seq is None:
        return finding.channel not in (None, "collective")
    if finding.channel not in (None, "collective"):
        return any(name == finding.group.name for name, _ in truth.instances)
    return (finding.group.name, finding.seq) in truth.instances
