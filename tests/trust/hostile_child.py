"""Gives hostile files to every reader of untrusted bytes, and watches what the interpreter is asked to do.

``hostile_child.py FOLDER``: each file lies in ``FOLDER/<reader>/``. For each a line of JSON tells the outcome, the
seconds, and every audit event that a reader must never cause: a program, a socket, code, a library, a file opened for
writing. Good files, in ``FOLDER/<reader>/good-*``, come first: they load what the readers need.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provstore.errors import ProvstoreError
from provstore.evidence import anchors, checkpoint, dsse, files, key_files, public_forms, statement
from provstore.evidence.trust import document as trust_document
from provstore.journal import Journal
from provstore.sources import prov_json, prov_n
from provstore.sources.flight_recorder import reading
from provstore.sources.flight_recorder.options import Limits

MORE_MEMORY_BYTES = 512 * 1024 * 1024
NEVER = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile", "subprocess.", "socket.")
NEVER += ("ctypes.", "pty.", "shutil.", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink")
NEVER += ("os.truncate", "os.chmod", "os.chown", "pickle.find_class", "exec", "compile", "webbrowser.", "urllib.")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

seen: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, mode, flags = arguments
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & WRITES):
            seen.append(f"open {path!r} {mode} {flags}")
    elif event.startswith(NEVER):
        seen.append(f"{event} {str(arguments)[:80]}")


def dump(path: Path) -> object:
    limits = {name: getattr(Limits(), name) for name in Limits.__slots__}
    asked = {"path": str(path), "sidecar": None, "rank": 0, "active_only": False, "limits": limits}
    form = "json" if path.read_bytes()[:1] in {b"{", b"["} else "pickle"
    said, _ = reading.answer({**asked, "form": form, "memory_bytes": 1 << 30, "cpu_seconds": 60})
    return said["status"]


def journal(path: Path) -> object:
    """A folder with a whole journal whose segment, or a blob, is hostile."""
    with Journal.open(path, writable=False) as found:
        problems = found.check()
        for _ in found.accepted(on_problem=problems.append):
            pass
        for scope in found.scopes():
            log = found.evidence(*scope)
            list(log.bundles())
            list(log.records())
        for _, batch in found.batches():
            if batch.source is not None and batch.source.is_kept:
                found.source(batch.source.sha256)
    return "problems" if problems else "ok"


def exported(path: Path) -> object:
    found = files.ExportedEvidence(path)
    return sum(1 for _ in found.bundles()) + sum(1 for _ in found.records())


def document(reader: Any) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        recognised = reader.recognises(path.read_bytes()[:4096], path.name)
        for name in ("read", "read_file", "load"):
            if callable(getattr(reader, name, None)):
                getattr(reader, name)(path)
                break
        return recognised

    return read


def key(path: Path) -> object:
    """A public key in any form, else a private one."""
    try:
        return public_forms.read_public(path.read_bytes(), path.name)
    except ProvstoreError:
        return key_files.load(path, lambda: b"passphrase", insecure_mode=True).public_key


READERS: dict[str, Callable[[Path], object]] = {
    "envelope": lambda path: dsse.parse(path.read_bytes()),
    "foreign": lambda path: dsse.parse_foreign(path.read_bytes()),
    "statement": lambda path: statement.parse(path.read_bytes()),
    "checkpoint": lambda path: checkpoint.parse(path.read_bytes()),
    "proof": lambda path: checkpoint.parse_tlog_proof(path.read_bytes()),
    "trust": lambda path: trust_document.parse(path.read_bytes(), path.name),
    "anchor": anchors.read,
    "bundle": lambda path: files.envelope_in(path.read_bytes()),
    "key": key,
    "exported": exported,
    "journal": journal,
    "dump": dump,
    "prov-json": document(prov_json),
    "prov-n": document(prov_n),
}


def main() -> None:
    reading.set_limits = lambda *given: None  # type: ignore[assignment]  # the whole process is limited instead
    sys.addaudithook(watch)
    places = [path for name in READERS for path in sorted((Path(sys.argv[1]) / name).iterdir())]
    good = [path for path in places if path.name.startswith("good-")]
    bad = [path for path in places if path not in good]
    for path in good:
        assert READERS[path.parent.name](path) is not None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for path in bad:
        seen.clear()
        started = time.process_time()
        try:
            outcome = f"read: {str(READERS[path.parent.name](path))[:60]}"
        except ProvstoreError as error:
            outcome = f"refused: {str(error)[:200]}"
        except Exception as error:  # noqa: BLE001 - a failure that is no refusal is what is looked for
            outcome = f"FAILED: {type(error).__name__}: {str(error)[:200]}"
        seconds = time.process_time() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        name = str(path.relative_to(sys.argv[1]))
        said = {"file": name, "outcome": outcome, "seconds": round(seconds, 3), "events": list(seen), "peak_mb": peak}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
