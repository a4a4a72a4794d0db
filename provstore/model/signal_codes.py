"""The registry of codes of sources that gave no signal, or less than they should: what each means and asks for."""

from __future__ import annotations

from provstore.model.finding import Code

SIGNALS = (
    Code(
        "signal-unreachable",
        "A source of signals does not answer",
        "warning",
        "Nobody answered under the address, or the answer was an error: nothing is known of what it would have said.",
        "Look whether the exporter or server runs there, and whether this host may reach it.",
    ),
    Code(
        "signal-timeout",
        "A source of signals did not answer in time",
        "warning",
        "The answer took longer than the time limit: nothing is known of what it would have said.",
        "Ask for less, or raise PROMETHEUS_TIMEOUT.",
    ),
    Code(
        "signal-malformed",
        "An answer, or a part of it, cannot be read",
        "warning",
        "What came is not of the format that this source has; what could be read of it counts.",
        "Look under the address yourself: is it the exporter or server that is meant?",
    ),
    Code(
        "signal-empty",
        "A query gives no series",
        "warning",
        "Five polls in a row gave no series, so nothing is known of what the query asks for.",
        "Try the query by hand: its name, its labels, and whether anything is scraped at all.",
    ),
    Code(
        "signal-failed",
        "A check could not be carried out",
        "warning",
        "A command, file or folder gave nothing that tells whether something is wrong. That is no information.",
        "Run the check by hand as the user who watches.",
    ),
    Code(
        "signal-non-finite",
        "Values of a metric are no numbers",
        "warning",
        "Series whose value is NaN or infinite are compared with no threshold.",
        "Look which series those are; what divides by zero there?",
    ),
)
"""One entry a kind of :class:`provstore.model.recording.SignalProblem`."""
