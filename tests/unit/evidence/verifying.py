"""What the tests of the verifier ask for again and again."""

from __future__ import annotations

from collections.abc import Sequence

from provstore.evidence.anchors import Anchor
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.walk import Checked, verify
from provstore.model.evidence import EvidenceLog
from provstore.model.verification import EXIT_OF, EvidenceFinding, Verification
from tests.sealing import Sealing, trusting

LIMITS = frozenset(code for code, asked in EXIT_OF.items() if asked in {0, 3, 4}) - {"unknown-schema", "cap-exceeded"}
"""Codes that say what is not proven, and accuse nobody."""


def checked(made: Sealing | EvidenceLog, trust: Trust | None = None, anchors: Sequence[Anchor] = (), **own) -> Checked:
    """Verify a run, trusting its own key unless told otherwise."""
    log = made.log() if isinstance(made, Sealing) else made
    return verify(log, trust or trusting(made.key), anchors, **own)


def codes(answer: Checked) -> list[str]:
    """The codes that were found, once each."""
    return sorted({one.code for one in answer.findings})


def faults(answer: Checked) -> list[str]:
    """The codes that accuse somebody, once each."""
    return [code for code in codes(answer) if code not in LIMITS]


def only(answer: Checked, code: str) -> EvidenceFinding:
    """The one finding of a code."""
    (found,) = of(answer, code)
    return found


def of(answer: Checked, code: str) -> list[EvidenceFinding]:
    """The findings of a code."""
    return [one for one in answer.findings if one.code == code]


def places(answer: Checked, *left_out: str) -> list[tuple[object, ...]]:
    """Code, epoch, record, place, rank, key and cause of each finding in the order of the report, but some codes."""
    return [
        (one.code, one.epoch, one.seq, one.where, one.rank, one.keyid, one.cause)
        for one in answer.findings
        if one.code not in (left_out or ("unanchored", "not-closed"))
    ]


def asked(answer: Checked, *allowed: str) -> tuple[str, int]:
    """Verdict and exit code, as a command would show them."""
    shown = Verification("run-1", 0, axes=answer.axes, findings=answer.findings, allowed=allowed)
    return shown.verdict, shown.exit_code
