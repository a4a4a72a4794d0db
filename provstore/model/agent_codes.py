"""The registry of codes that concern agent records: what each means and asks for."""

from __future__ import annotations

from provstore.model.finding import Code

AGENT = (
    Code(
        "signature-copy-differs",
        "The copy of a signature is not the one of the envelope",
        "error",
        "The member signature of a record repeats the signature of its envelope and says something else.",
        "Rely on the envelope; find out who changed the copy, which no signature covers.",
    ),
    Code(
        "bundle-record-mismatch",
        "A record is not the one that its bundle lists",
        "error",
        "The digest of the record differs from the one in the manifest of the bundle.",
        "The record was changed, moved or added; its own axes tell what else can be known of it.",
    ),
    Code(
        "bundle-digest-mismatch",
        "The manifest of a bundle was changed",
        "error",
        "The manifest does not have the digest that it states of itself.",
        "Rely on nothing that the manifest says; ask for the bundle again.",
    ),
    Code(
        "bundle-list-mismatch",
        "A bundle lists other records than it holds",
        "error",
        "Count, order or run ids in the manifest are not those of the records.",
        "Records were removed, added or moved; ask for the bundle again.",
    ),
    Code(
        "ledger-hash-mismatch",
        "A ledger record is not the one that its hash was made of",
        "error",
        "The hash over number, predecessor and record differs from the stated one.",
        "The ledger record was changed; its own axes tell what else can be known of it.",
    ),
    Code(
        "ledger-link-mismatch",
        "A ledger record does not name the one before it",
        "error",
        "prevHash is not the hash of the ledger record before, or of the gap before.",
        "A ledger record was removed, added or moved.",
    ),
    Code(
        "ledger-order",
        "Ledger records are not numbered in a row",
        "error",
        "A number is missing, repeated or out of order.",
        "A ledger record was removed, added or moved.",
    ),
    Code(
        "history-rewritten",
        "A chain tells an earlier action differently later on",
        "error",
        "A later record of one chain repeats an action with another content.",
        "Compare both records: both are kept, and only the writer can say why they differ.",
    ),
    Code(
        "chain-fork",
        "Two records follow one record",
        "error",
        "Two different records name the same record as the one before them.",
        "Both lines are kept; find out why there were two writers, or who replaced a line.",
    ),
    Code(
        "action-conflict",
        "Chains tell one action differently",
        "warning",
        "Several chains of one run hold an action of the same id with different contents.",
        "All are kept; ids are unique only within one writer, so look whether it is one action at all.",
    ),
    Code(
        "trace-mismatch",
        "A reference and the trace ids say different things",
        "warning",
        "A record names a training run, or the run names an action, and their trace ids mean different traces.",
        "The link is kept: look which of the two was set by hand, and whether the run was launched again.",
    ),
    Code(
        "trace-context-conflict",
        "A job was given several trace ids",
        "warning",
        "Option, environment and carrier of the job gave different trace ids; the first counts, all are kept.",
        "Find out which launcher wrapped another one, and let one of them set the id.",
    ),
    Code(
        "trace-id-placeholder",
        "A trace id stands for none",
        "info",
        "The id is empty, zeros only, or a word such as unknown; it joins nothing.",
        "Let whoever launches pass a real id; references still join.",
    ),
    Code(
        "action-id-collision",
        "Actions of one imported file share an id",
        "warning",
        "The format builds ids without the process group, so that two actions may have one; both are kept, numbered.",
        "Tell them apart by number, rank and time; record with provstore to have ids of their own.",
    ),
)
"""One entry a code of agent records."""
