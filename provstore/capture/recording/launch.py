"""What launched a run: an agent's records, read once when a recording begins, and what they say of the consent to it.

The file is another's. One that is missing, too large or no agent evidence changes nothing: what it would have said is
not known then, and the header of the capture says so.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from provstore.capture.fail_open import tried
from provstore.errors import InputError
from provstore.evidence.recording.consent import Consent, consent_of

VARIABLE = "PROVSTORE_LAUNCH_RECORD"
MAX_BYTES = 16 * 1024 * 1024
"""The largest file that is read while a job starts."""
_NOTHING_NAMED = "no launching action is named"


@dataclass(frozen=True, slots=True)
class Launch:
    """The records of what launched a run, and what they say."""

    consent: Consent
    action: str | None = None
    """``<run_id>/<action_id>``."""
    file: str | None = None
    """Name of the file, without its folder."""
    sha256: str | None = None
    size_bytes: int | None = None
    fault: str | None = None
    """Why the file could not be used."""

    def header(self) -> dict[str, Any]:
        """Return what the header of a capture says of it; whether there is an anomaly only where that was looked at."""
        digest = None if self.sha256 is None else f"sha256:{self.sha256}"
        said = {"file": self.file, "digest": digest, "bytes": self.size_bytes, "action": self.action}
        said |= {"evaluated": self.consent.is_evaluated, "reason": self.consent.reason}
        said |= {"consent_anomaly": self.consent.has_anomaly} if self.consent.is_evaluated else {}
        return {name: value for name, value in said.items() if value is not None}


def launch_found(file: str | os.PathLike[str] | None, action: str | None, *, is_stated: bool) -> Launch | None:
    """Return what is known of the consent to this run; never raises.

    Args:
        file: As for :func:`launch_of`.
        action: ``<run_id>/<action_id>``.
        is_stated: The program itself says that there is an anomaly, whatever a file says.
    """
    found, fault = tried(launch_of, file, action)
    if fault is not None:
        found = Launch(Consent(is_evaluated=False, has_anomaly=False, reason=fault), action, fault=fault)
    if not is_stated or (found is not None and found.consent.has_anomaly):
        return found
    said = Consent(is_evaluated=True, has_anomaly=True, reason="the program says so")
    return Launch(said) if found is None else replace(found, consent=said)


def launch_of(
    file: str | os.PathLike[str] | None, action: str | None, environment: Mapping[str, str] = os.environ
) -> Launch | None:
    """Return what a file says of the action that launched this run; ``None`` where no file is named.

    Args:
        file: An agent's record or records; default is ``PROVSTORE_LAUNCH_RECORD``.
        action: ``<run_id>/<action_id>``.
        environment: Where the variable is.
    """
    given = file if file is not None else environment.get(VARIABLE) or None
    if given is None:
        return None
    path = Path(given)
    try:
        data = _read(path)
    except (InputError, OSError) as error:
        return _unusable(Launch(_not_known(""), action, path.name), error)
    found = Launch(_not_known(""), action, path.name, hashlib.sha256(data).hexdigest(), len(data))
    try:
        consent = _not_known(_NOTHING_NAMED) if action is None else _judged(data, path.name, action)
    except InputError as error:
        return _unusable(found, error)
    return replace(found, consent=consent)


def _judged(data: bytes, name: str, action: str) -> Consent:
    from provstore.sources import aep

    container = aep.read(data, name=name)
    problems = [*container.problems]
    found = consent_of(_records(container, problems), action)
    if found.has_anomaly or not problems:
        return found
    # What could not be read may be the very record that denies it.
    return _not_known(f"{found.reason}; {problems[0]}")


def _records(container: Any, problems: list[str]) -> Iterator[Mapping[str, Any]]:
    from provstore.evidence.aep.schema import RECORD
    from provstore.evidence.aep.text import JsonText

    for raw in container.records:
        text = raw.text if isinstance(raw.text, JsonText) else JsonText(raw.data)
        fault = raw.fault or text.fault
        if fault is not None:
            problems.append(f"record {raw.index}: {fault}"[:200])
        elif raw.kind == RECORD and isinstance(text.value, dict):
            yield text.value


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise InputError("is no file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"has more than {MAX_BYTES} bytes")
    return data


def _unusable(found: Launch, error: Exception) -> Launch:
    reason = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
    text = reason if reason.startswith(f"{found.file}: ") else f"{found.file}: {reason}"
    return replace(found, consent=_not_known(text), fault=text)


def _not_known(reason: str) -> Consent:
    return Consent(is_evaluated=False, has_anomaly=False, reason=reason)
