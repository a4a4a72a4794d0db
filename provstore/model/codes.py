"""The registry of finding codes: what each class of finding, and each reason for none, means and asks for."""

from __future__ import annotations

from provstore.model.finding import Code

FINDINGS = (
    Code(
        "mismatch",
        "Members of a call disagree",
        "error",
        "The members of one collective call, or the two ends of a send and receive, ask for different operations, "
        "element types or sizes. The call cannot end.",
        "Compare the code path of the ranks at the lines shown.",
    ),
    Code(
        "skipped-call",
        "A rank left out a call",
        "error",
        "A rank went past a call that the ranks of its role made; every later number of the group is shifted on it.",
        "Look for a condition that lets the rank pass by the line shown.",
    ),
    Code(
        "extra-call",
        "A rank made a call too many",
        "error",
        "A rank made a call that the ranks of its role did not make.",
        "Look for a condition, a retry or an uneven loop that repeats the line shown.",
    ),
    Code(
        "device",
        "A device has stopped",
        "error",
        "A rank still has pending what a peer has completed: its device, or the thread that polls it, has stopped.",
        "Look for device errors on that rank's host.",
    ),
    Code(
        "host",
        "A rank is held up on the CPU side",
        "error",
        "A rank has not entered a call that others wait in, and waits for nothing itself.",
        "Look at what the process did: py-spy dump, its log, its data loader.",
    ),
    Code(
        "dead",
        "A rank left no dump",
        "error",
        "Others wait for a rank of which there is no dump. That is not proof of death.",
        "Look at the rank's log and exit status.",
    ),
    Code(
        "order-deadlock",
        "Ranks entered calls in different orders",
        "error",
        "Each rank of a cycle waits, in its own call, for the next.",
        "Make all ranks enter these calls in one order.",
    ),
    Code(
        "collective-hang",
        "A call hangs with all its members inside",
        "error",
        "All members entered a call with equal arguments, and none finished it.",
        "Check the links between the members, then their devices.",
    ),
    Code(
        "straggler",
        "A rank is late again and again",
        "warning",
        "A rank enters the calls of a group well after the others, in most of them.",
        "Profile the rank's host side: data loading, garbage collection, a busy neighbour.",
    ),
    Code(
        "nan-origin",
        "Where values stopped being finite",
        "error",
        "The first call, in causal order, into which a rank put a NaN or an infinity while all before it was finite; "
        "or the gradient in which that rank had it first, where gradients are recorded. Where `recorder.data` noted "
        "the batches of the rank, the finding names those of that step, which accuses none of them. Of a recorded run, "
        "a rank is not named whose values are gone again: what it summed with others was finite in 5 steps in a row.",
        "Look at what the rank computed before that call.",
    ),
)
"""One entry a class of finding; ``Finding.code``."""

REASONS = (
    Code(
        "ring-wrapped",
        "The ring has lost the calls",
        "note",
        "The ring buffer of a rank no longer holds the calls in question.",
        "raise TORCH_FR_BUFFER_SIZE, so that the ring still holds the calls in question",
    ),
    Code(
        "missing-dump",
        "A rank left no dump",
        "note",
        "A rank that others speak of has no dump, or none of the recorder in question.",
        "collect the dump of every rank; look at the log of those that left none",
    ),
    Code(
        "refused-dump",
        "A dump could not be used",
        "note",
        "A dump was there and could not be read; its rank may be well.",
        "see why each file was refused; one that was cut off while it was written must be collected again",
    ),
    Code(
        "membership-unknown",
        "Nobody declares a group's members",
        "note",
        "A rank waits in a group whose members no file declares, so who is missing there cannot be told.",
        "dump with provstore.capture, or keep a pgs_<rank>.json beside the dumps, so that groups are declared",
    ),
    Code(
        "no-p2p-records",
        "Sends and receives are not recorded",
        "note",
        "The backend does not record sends and receives, and an idle rank may be waiting in one.",
        "use a backend that records sends and receives, or torch 2.15 with its FlightRecorderHook",
    ),
    Code(
        "no-completion-events",
        "The backend reports no completion",
        "note",
        "Without completion events a call that hangs and one that ended just now look the same.",
        "dump with a sidecar that holds the time of the dump (provstore.capture)",
    ),
    Code(
        "no-calls",
        "No calls are recorded",
        "note",
        "No dump holds a call, or none holds the one that a status table speaks of: the recorder was off, or its ring "
        "is empty.",
        "set TORCH_FR_BUFFER_SIZE (before torch 2.10 TORCH_NCCL_TRACE_BUFFER_SIZE) above 0, so that calls are recorded",
    ),
    Code(
        "no-values",
        "No values are recorded",
        "note",
        "Dumps hold no values; where a NaN began needs a tensor record without gaps.",
        "record tensor_rank_<rank>.jsonl beside the dumps, for every call from the start",
    ),
    Code(
        "unreadable-table",
        "A table beside the records cannot be read",
        "note",
        "Losses, batches, anchors, checkpoints or statistics of an epoch are kept in a file beside the journal that is "
        "missing, cut off or altered: what they would tell stays open, and the rest is answered.",
        "provstore verify names what is damaged; bring the file back from a copy of the journal",
    ),
    Code(
        "no-frames",
        "No stack frames are recorded",
        "note",
        "Without stack frames calls of equal kind cannot be told apart by their source line.",
        "set TORCH_INCLUDE_STACK_TRACE=1 and use pickle dumps, so that source lines are there",
    ),
    Code(
        "active-only",
        "The dump holds active calls only",
        "note",
        "Completed calls are left out, so what came before the pending ones is not known.",
        "unset TORCH_INCLUDE_ONLY_ACTIVE, so that completed calls are in the dump",
    ),
    Code(
        "tie",
        "Two sides, and nothing decides",
        "note",
        "Two sides disagree, and neither numbers, nor groups of the kind, nor what was usual tells who is wrong.",
        "look at the source lines of both sides; a third rank, or a second group of the kind, would decide",
    ),
    Code(
        "clock-unknown",
        "Clocks are off",
        "note",
        "The clocks of some ranks are off by more than can be corrected.",
        "dump with sidecars, so that hosts are known; synchronise the hosts' clocks",
    ),
    Code(
        "dump-time-unknown",
        "The time of the dump is not known",
        "note",
        "Nothing tells how long a pending call has been waiting.",
        "dump with a sidecar that holds the time of the dump (provstore.capture)",
    ),
    Code(
        "stood-still",
        "The watcher says that the job stood still",
        "note",
        "A watcher dumped because nothing moved, and no call of the dumps has waited for long: calls that had not "
        "ended are too young to tell a hang from a slow step, or none was under way.",
        "dump again while it stands still, or let the watcher wait longer; py-spy dump tells what each rank does",
    ),
    Code(
        "seq-not-comparable",
        "Numbers cannot be compared",
        "note",
        "The format, or a batch of sends and receives, lets the numbers of a group drift apart between ranks.",
        "use torch 2.4 or later, whose numbers can be compared between ranks",
    ),
    Code(
        "version-unknown",
        "The format's version is not known",
        "note",
        "The dump states a version that nobody here knows, and lacks fields that are needed.",
        "read the dumps with a provstore release that knows their format",
    ),
)
"""One entry a reason for no answer; ``Undecided.code`` is its name with underscores."""

ACTION_FINDINGS = (
    Code(
        "replica-disagreement",
        "Ranks that must hold the same bytes do not",
        "error",
        "After an all-reduce, all-gather or broadcast every rank holds the same bytes. A minority holds others.",
        "Re-execute the call from its stored inputs, then look at that rank's device and links.",
    ),
    Code(
        "replica-drift",
        "A rank no longer holds the parameters of its replicas",
        "error",
        "Ranks held equal parameters after every step until one; from then on a minority holds others. Ranks that "
        "never were equal, as in a model that is spread over them, are not compared, and those that add up nothing "
        "with the others, as an evaluator, are not named.",
        "Look for code that writes weights on one rank alone, then at that rank's memory; begin again from a "
        "checkpoint of the steps before.",
    ),
    Code(
        "cross-rank-outlier",
        "What a rank put into a reduction is far from what the others put in",
        "warning",
        "The size of a rank's input lies far outside the spread of the ranks of its group, and outside its own habit. "
        "Only sums of floating-point values are compared.",
        "Look at that rank's batch at this step, then at its device.",
    ),
    Code(
        "reexecution-mismatch",
        "A stored output is not what the stored inputs give",
        "error",
        "Re-executed from the stored inputs of all ranks, a call gives another output than the one that was stored.",
        "Look at the links and devices of the ranks whose output differs.",
    ),
)
"""Classes of findings about recorded actions, beside ``nan-origin``."""
