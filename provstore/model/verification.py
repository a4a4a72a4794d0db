"""What a verification says: separate axes, findings with their codes, and how far the answer reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from provstore.errors import EXIT_NO, EXIT_NOT_UNDERSTOOD, EXIT_OK, EXIT_ROLLBACK, EXIT_STORE, EXIT_UNDECIDED
from provstore.model.display import table

SCHEMA = "provstore-verification/1"

OK, FAULT, UNPROVEN, UNKNOWN, NOT_CHECKED = "ok", "fault", "unproven", "unknown", "not-checked"
"""States of an axis, best first except ``not-checked``."""
AXES = (
    "envelope",
    "signature",
    "key",
    "chain",
    "tree",
    "graph",
    "journal",
    "closing",
    "anchor",
    "policy",
    "clock",
)
PASS, LIMITED = "pass", "limited"
"""Verdicts, with ``fault`` and ``unknown``."""

ALWAYS = (
    "Signatures show that what was recorded has not changed. "
    "They cannot show that everything was recorded, nor that a rank told the truth."
)
NO_ANCHOR = (
    "No fault found in {bundles} bundles, {records} records. Not anchored: a cut tail, a rollback to an older copy, an "
    "emptied store, or a rewrite by a holder of the signing key would not be seen."
)
PARTLY_ANCHORED = "Anchored to {size} of {records} records; completeness of the tail is not proven."
NEVER_CLOSED = "Run never closed: nobody has signed that these are all its records."
FACTS_NOT_COMPARED = (
    "From the graph alone: the facts that were read from files were not compared; that takes the journal."
)
BLOBS_LEFT_OUT = (
    "Blobs were left out: the bytes of the {blobs} blobs that bundles name by their SHA-256 were not looked at."
)
BLOBS_NOT_HERE = (
    "Blobs are not here: the bytes of the {blobs} blobs that bundles name by their SHA-256 were not looked at; the "
    "journal holds them."
)
SHARED_GRAPH = "Several journals share this graph: what belongs to no run of this one was not compared."
REVOKED = "Unproven: the key is revoked since {since} and nothing shows that this signature is older."
ASSERTED = "Asserted by rank {rank} with key {keyid}"

EXIT_OF = {
    "rollback": EXIT_ROLLBACK,
    "fork": EXIT_ROLLBACK,
    "journal-damaged": EXIT_STORE,
    "unsigned-tail": EXIT_UNDECIDED,
    "not-closed": EXIT_UNDECIDED,
    "unanchored": EXIT_UNDECIDED,
    "anchor-partial": EXIT_UNDECIDED,
    "anchor-not-independent": EXIT_UNDECIDED,
    "anchor-untrusted": EXIT_UNDECIDED,
    "key-unproven": EXIT_UNDECIDED,
    "uncorroborated": EXIT_UNDECIDED,
    "clock-odd": EXIT_OK,
    "base64-noncanonical": EXIT_OK,
    "no-bundles": EXIT_NOT_UNDERSTOOD,
    "unknown-schema": EXIT_NOT_UNDERSTOOD,
    "unsupported-legacy": EXIT_NOT_UNDERSTOOD,
    "cap-exceeded": EXIT_NOT_UNDERSTOOD,
    "check-unfinished": EXIT_NOT_UNDERSTOOD,
}
"""Finding code → exit code it asks for; every other code is a fault, 1."""

_PRECEDENCE = (EXIT_ROLLBACK, EXIT_NO, EXIT_STORE, EXIT_NOT_UNDERSTOOD, EXIT_UNDECIDED, EXIT_OK)
ALLOWED = {"unanchored": ("unanchored", "anchor-partial"), "open": ("not-closed",), "tail": ("unsigned-tail",)}
"""What ``--allow`` takes → the limits that it lets pass."""


@dataclass(frozen=True, slots=True)
class EvidenceFinding:
    """One thing that does not hold, or that nothing proves."""

    run: str
    attempt: int
    epoch: int | None
    """Number of the evidence epoch; ``None`` where none is concerned."""
    seq: int | None
    """Index in the run tree."""
    code: str
    where: str
    """Journal segment and number, node id with property, or file."""
    text: str
    """Plain words, complete by themselves."""
    rank: int | None = None
    keyid: str | None = None
    cause: str | None = None
    """Code of the finding that this one follows from."""

    def to_dict(self) -> dict[str, object]:
        """Return the finding as JSON values."""
        return asdict(self)

    def order(self) -> tuple[object, ...]:
        """Return what findings are sorted by: equal evidence gives equal reports."""
        numbers = (self.epoch, self.seq, self.rank)
        return (
            self.run,
            self.attempt,
            *(-1 if number is None else number for number in numbers),
            self.code,
            self.where,
            self.text,
        )


@dataclass(frozen=True, slots=True)
class AnchorReach:
    """How far anchors hold a run in place."""

    size: int = 0
    """Records below this index could not change unseen; 0 without an anchor."""
    of: int = 0
    """Records that are signed."""
    source: str | None = None
    """Where the furthest anchor came from."""
    seen: str | None = None
    """When the verifier saw it, ISO 8601 in UTC; a statement of the verifier's own clock."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer about one attempt of one run, or one file."""

    run: str
    attempt: int
    inputs: Mapping[str, object] = field(default_factory=dict)
    """What the answer depends on: source, trust, anchors, at. JSON values."""
    axes: Mapping[str, str] = field(default_factory=dict)
    """Axis → state."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """bundles, records, signed, unsigned, ranks, facts compared."""
    anchor: AnchorReach = field(default_factory=AnchorReach)
    findings: tuple[EvidenceFinding, ...] = ()
    limits: tuple[str, ...] = ()
    """What cannot be known from these inputs, in the fixed words."""
    allowed: tuple[str, ...] = ()
    """Limits the caller lets pass; they change the exit code, never the text."""

    @property
    def exit_code(self) -> int:
        """The exit code that the findings ask for: 5 over 1 over 7 over 4 over 3 over 0."""
        passing = {code for name in self.allowed for code in ALLOWED.get(name, ())}
        asked = {_asked(one) for one in self.findings if one.code not in passing}
        return next((code for code in _PRECEDENCE if code in asked), EXIT_OK)

    @property
    def verdict(self) -> str:
        """``pass``, ``limited``, ``fault`` or ``unknown``; allowed limits stay limits."""
        asked = {_asked(one) for one in self.findings}
        if asked & {EXIT_ROLLBACK, EXIT_NO, EXIT_STORE}:
            return FAULT
        if EXIT_NOT_UNDERSTOOD in asked:
            return UNKNOWN
        return LIMITED if EXIT_UNDECIDED in asked else PASS

    def to_dict(self) -> dict[str, object]:
        """Return the answer as JSON values; equal evidence and inputs give equal values."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "attempt": self.attempt,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "inputs": dict(self.inputs),
            "axes": {axis: self.axes.get(axis, NOT_CHECKED) for axis in AXES},
            "counts": dict(self.counts),
            "anchor": asdict(self.anchor),
            "findings": [one.to_dict() for one in self.findings],
            "limits": list(self.limits),
            "allowed": list(self.allowed),
        }

    def _repr_html_(self) -> str:
        """Return the findings as a table."""
        rows = [(one.code, one.epoch, one.seq, one.where, one.text) for one in self.findings]
        title = f"{self.run}, attempt {self.attempt}: {self.verdict}"
        return table(title, ("code", "epoch", "seq", "where", "what"), rows, self.limits)


def _asked(one: EvidenceFinding) -> int:
    """Return the exit code that a finding asks for; one that follows from a damaged journal adds nothing to it."""
    asked = EXIT_OF.get(one.code, EXIT_NO)
    return EXIT_STORE if asked == EXIT_NO and one.cause == "journal-damaged" else asked


def exit_code(answers: tuple[Verification, ...]) -> int:
    """Return the exit code of several answers together."""
    asked = {answer.exit_code for answer in answers}
    return next((code for code in _PRECEDENCE if code in asked), EXIT_OK)
