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
        "The first call, in causal order, into which a rank put a NaN or an infinity while all before it was finite.",
        "Look at what the rank computed before that call.",
    ),
)
"""One entry a class of finding; ``Finding.code``."""

REASONS = (
    Code("ring-wrapped", "The ring has lost the calls", "note", "The ring buffer no longer holds the calls in question.",
         "Raise TORCH_FR_BUFFER_SIZE."),
)
