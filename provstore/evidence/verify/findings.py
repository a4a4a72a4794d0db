"""What a verification has found so far: findings in plain words, and the state of each axis that follows from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from provstore.errors import EXIT_NO, EXIT_NOT_UNDERSTOOD, EXIT_ROLLBACK, EXIT_STORE
from provstore.model.verification import (
    AXES,
    EXIT_OF,
    FAULT,
    NOT_CHECKED,
    OK,
    UNKNOWN,
    UNPROVEN,
    EvidenceFinding,
)

MOST_OF_A_CODE = 2_000
"""Findings of one code that are listed; hostile evidence could have one a record."""

ENVELOPE, SIGNATURE, KEY, CHAIN, TREE, CLOSING, ANCHOR, POLICY, CLOCK = (
    "envelope",
    "signature",
    "key",
    "chain",
    "tree",
    "closing",
    "anchor",
    "policy",
    "clock",
)
_AXIS_OF = {
    "bad-signature": SIGNATURE,
    "untrusted-key": KEY,
    "keyid-mismatch": KEY,
    "key-revoked": KEY,
    "key-unproven": KEY,
    "envelope-malformed": ENVELOPE,
    "base64-noncanonical": ENVELOPE,
    "payload-noncanonical": ENVELOPE,
    "unknown-schema": ENVELOPE,
    "cap-exceeded": ENVELOPE,
    "wrong-run": CHAIN,
    "chain-broken": CHAIN,
    "epoch-order": CHAIN,
    "range-gap": CHAIN,
    "rank-head-mismatch": CHAIN,
    "rank-disagrees": CHAIN,
    "uncorroborated": CHAIN,
    "subject-mismatch": TREE,
    "root-mismatch": TREE,
    "rows-missing": TREE,
    "seq-gap-or-dup": TREE,
    "unsigned-tail": TREE,
    "check-unfinished": TREE,
    "after-close": CLOSING,
    "not-closed": CLOSING,
    "close-mismatch": CLOSING,
    "rollback": ANCHOR,
    "fork": ANCHOR,
    "unanchored": ANCHOR,
    "anchor-partial": ANCHOR,
    "anchor-not-independent": ANCHOR,
    "anchor-untrusted": ANCHOR,
    "policy-mismatch": POLICY,
    "clock-odd": CLOCK,
    "no-bundles": SIGNATURE,
}
_WORST_LAST = (OK, UNPROVEN, UNKNOWN, FAULT)


@dataclass(slots=True)
class Notes:
    """The findings about one attempt of one run."""

    run: str
    attempt: int
    _found: list[EvidenceFinding] = field(default_factory=list)
    _axes: dict[str, str] = field(default_factory=dict)
    _of_code: Counter[str] = field(default_factory=Counter)

    def add(
        self,
        code: str,
        text: str,
        *,
        epoch: int | None = None,
        seq: int | None = None,
        where: str = "",
        rank: int | None = None,
        keyid: str | None = None,
        cause: str | None = None,
        axis: str | None = None,
        is_whole: bool = False,
    ) -> None:
        """Note one thing.

        Args:
            code: From the registry.
            text: Plain words; run, epoch and record number are put before them.
            epoch: Number of the evidence epoch concerned.
            seq: Index in the run tree.
            where: Place in the store.
            rank: Rank concerned.
            keyid: Key concerned.
            cause: Code of the finding that this one follows from.
            axis: Where it is not the code's own.
            is_whole: The text is one of the fixed wordings, and nothing is put before it.
        """
        self._of_code[code] += 1
        self._mark(axis or _AXIS_OF[code], state_of(code))
        if self._of_code[code] > MOST_OF_A_CODE:
            return
        words = text if is_whole else f"{self._place(epoch, seq)}: {text}"
        self._found.append(
            EvidenceFinding(self.run, self.attempt, epoch, seq, code, where, words, rank, keyid, cause)
        )  # fmt: skip

    def checked(self, *axes: str) -> None:
        """Note that these axes were looked at: they are ok unless something is found."""
        for axis in axes:
            self._mark(axis, OK)

    def has(self, *codes: str) -> bool:
        """Return whether any of these codes was found."""
        return any(self._of_code[code] for code in codes)

    @property
    def has_fault(self) -> bool:
        """Whether anything contradicts what was signed."""
        return any(state_of(code) == FAULT for code, count in self._of_code.items() if count)

    def findings(self) -> tuple[EvidenceFinding, ...]:
        """Return all findings in their order."""
        rest = [
            EvidenceFinding(
                self.run, self.attempt, None, None, code, "",
                f"{self._place(None, None)}: {count - MOST_OF_A_CODE} more findings of this code are not listed.",
            )
            for code, count in self._of_code.items() if count > MOST_OF_A_CODE
        ]  # fmt: skip
        return tuple(sorted((*self._found, *rest), key=EvidenceFinding.order))

    def axes(self) -> dict[str, str]:
        """Return the state of every axis."""
        return {axis: self._axes.get(axis, NOT_CHECKED) for axis in AXES}

    def _mark(self, axis: str, state: str) -> None:
        held = self._axes.get(axis, OK)
        self._axes[axis] = max(held, state, key=_WORST_LAST.index)

    def _place(self, epoch: int | None, seq: int | None) -> str:
        words = f"Run {self.run or '(no name)'}, attempt {self.attempt}"
        words += f", epoch {epoch}" if epoch is not None else ""
        return words + (f", record {seq}" if seq is not None else "")


def state_of(code: str) -> str:
    """Return the state that a finding of this code puts its axis into."""
    asked = EXIT_OF.get(code, EXIT_NO)
    if asked in {EXIT_NO, EXIT_ROLLBACK, EXIT_STORE}:
        return FAULT
    return UNKNOWN if asked == EXIT_NOT_UNDERSTOOD else UNPROVEN
