"""The list of digests in a folder of exported evidence against the files that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provstore.evidence.files import ExportedEvidence

SUMS = "SHA256SUMS"
MOST_FAULTS = 2_000
"""Lines that do not fit and are told; a hostile list could have any number."""

# As long as a name of 200 characters and a digest can be.
_MOST_LINE = 512
_LINE = re.compile(rb"SHA256 \((?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,199})\) = (?P<digest>[0-9a-f]{64})\n")


def faults(log: ExportedEvidence, names: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (code, file, words) of every line that does not fit what is here, up to a limit.

    Args:
        log: The folder.
        names: Of everything in it.

    Raises:
        InputError: A file is no regular one, or cannot be read.
        NotUnderstoodError: A file is larger than is looked at.
    """
    known: dict[str, str] = {}
    told = 0
    for at, line in enumerate(log.lines_of(SUMS, _MOST_LINE), 1):
        found = _fault(log, line, at, names, known)
        if found is not None:
            yield found
            told += 1
        if told == MOST_FAULTS:
            yield "subject-mismatch", SUMS, f"the lines behind line {at} were not compared: too many do not fit"
            return


def limit(names: set[str]) -> str:
    """Return in words what the list shows: never who made it."""
    signatures = sorted(name for name in names if name.startswith(f"{SUMS}."))
    if not signatures:
        return f"{SUMS} has no signature beside it: whoever can change the files can change the list."
    return f"{SUMS} was compared with the files, and its signature was not checked: {', '.join(signatures[:3])}."


def _fault(
    log: ExportedEvidence, line: bytes, at: int, names: set[str], known: dict[str, str]
) -> tuple[str, str, str] | None:
    said = _LINE.fullmatch(line)
    if said is None:
        return "subject-mismatch", SUMS, f"line {at} is not the digest of a file"
    name = said["name"].decode("ascii")
    if name not in names:
        return "rows-missing", name, f"{SUMS} lists it, and it is not here"
    if name not in known:
        known[name] = log.sha256(name)
    if known[name] != said["digest"].decode("ascii"):
        return "subject-mismatch", name, f"it is not the file whose digest {SUMS} lists"
    return None
