"""What a journal has lost, and which differences follow from that rather than from a change of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provstore.journal import Problem
from provstore.model.verification import EvidenceFinding

ACKED_LOST, CHAIN_BROKEN, DAMAGED = "acked-lost", "journal-chain-broken", "journal-damaged"


@dataclass(frozen=True, slots=True)
class Loss:
    """Numbers of the journal that are gone; of an unknown extent where they are ``None``."""

    code: str
    first: int | None
    last: int | None

    def holds(self, number: int) -> bool:
        """Return whether a number is among what is gone."""
        return self.first is not None and self.last is not None and self.first <= number <= self.last


@dataclass(frozen=True, slots=True)
class Losses:
    """All that a journal has lost.

    Args:
        found: What is gone.
        scopes: Number of a batch → (run, attempt) whose signed record names it, also where the batch itself is gone.
    """

    found: Sequence[Loss]
    scopes: Mapping[int, tuple[str, int]]

    def cause_of_batch(self, number: int) -> str | None:
        """Return the code that explains why a batch is missing."""
        return next((one.code for one in self.found if one.holds(number)), None)

    def numbers(self) -> list[tuple[int, int]]:
        """Return the first and last number of each loss that is damage and of a known extent."""
        known = (one for one in self.found if one.code == DAMAGED)
        return [(one.first, one.last) for one in known if one.first is not None and one.last is not None]

    def cause_of(self, scope: tuple[str, int]) -> str | None:
        """Return the code that explains why the graph holds of an attempt what nothing in the journal states.

        What is of no known attempt may follow from every loss, and what is lost without a record that names its
        attempt may be of every attempt.
        """
        for one in self.found:
            if one.first is None or one.last is None or not scope[0]:
                return one.code
            named = [pair for number, pair in self.scopes.items() if one.holds(number)]
            if scope in named or len(named) <= one.last - one.first:
                return one.code
        return None


def loss_of(found: Problem) -> Loss:
    """Return what a problem of the journal has lost."""
    code = CHAIN_BROKEN if found.code == CHAIN_BROKEN else DAMAGED
    return Loss(code, found.first_jseq, found.last_jseq)


def finding_of(found: Problem) -> EvidenceFinding:
    """Return a problem of the journal as a finding about no run in particular."""
    return EvidenceFinding("", 0, None, None, loss_of(found).code, found.place, found.text)


def told_by_check(_: Problem) -> None:
    """Pass over a frame that cannot be read: the check of the whole journal names it, for every run."""
