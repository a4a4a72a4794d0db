"""In which order a verification's findings are shown: causes first; what merely follows from one is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from provstore.cli._text import counted

if TYPE_CHECKING:
    from provstore.model.verification import EvidenceFinding

CAUSES = ("journal-damaged", "journal-chain-broken", "acked-lost")
"""Losses of the journal, from which much else follows."""


def causes_first(findings: Sequence[EvidenceFinding]) -> list[EvidenceFinding]:
    """Return all findings, losses of the journal before everything else."""
    return sorted(findings, key=lambda one: one.code not in CAUSES)


def condensed(findings: Sequence[EvidenceFinding]) -> tuple[list[EvidenceFinding], list[str]]:
    """Return the findings to show one by one, and a line for each kind that follows from a loss of the journal."""
    following = Counter((one.code, one.cause) for one in findings if one.cause in CAUSES)
    shown = [one for one in causes_first(findings) if one.cause not in CAUSES]
    return shown, [
        f"{code}: {counted(count, 'finding')} {'follows' if count == 1 else 'follow'} from {cause}: --verbose shows all"
        for (code, cause), count in sorted(following.items(), key=str)
    ]
