"""``read_dumps``: find the dumps of a run, read them in worker processes, and hold what many files say together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from provstore.errors import InputError
from provstore.model.dump import Dump, Refusal, TensorRecord
from provstore.sources.flight_recorder import names
from provstore.sources.flight_recorder.discovery import Candidate, Found, discover
from provstore.sources.flight_recorder.options import ReadOptions, ReadResult
from provstore.sources.flight_recorder.pool import Reply, Request, ask_all
from provstore.sources.flight_recorder.replies import Builder, refusal
from provstore.sources.flight_recorder.sidecars import first_error
from provstore.sources.flight_recorder.tensors import read_tensors

_ASKED_SIDECARS = 100
_SIDECAR_BYTES = 1 << 20
Progress = Callable[[int, int], None]


def read_dumps(
    paths: Iterable[Path], options: ReadOptions | None = None, on_progress: Progress | None = None
) -> ReadResult:
    """Read the Flight Recorder dumps in files and folders.

    One bad file never stops the others: it becomes a refusal. A single bad entry is set aside and kept in its dump.

    Args:
        paths: Files and folders; a file that is named itself is meant as a dump, whatever it is called.
        options: How to find and read them.
        on_progress: Called with (files done, files in all) after each file.

    Raises:
        InputError: A path does not exist, or nothing that was meant as a dump is there.
        ConfigError: The rank expression is not usable.
    """
    options = options or ReadOptions()
    given = [Path(path) for path in paths]
    found = discover(given, options)
    dumps, refusals = _read(found.candidates, options, on_progress)
    tensors = _tensors(found)
    used = {dump.file for dump in dumps}
    refusals = [*(item for item in found.refusals if item.file not in used), *refusals]
    if not dumps and not any(not item.skipped for item in refusals):
        raise InputError(_nothing(given, refusals), hint=_recorded(refusals))
    tensor_files = tuple(path for path, _, _ in found.tensors)
    return ReadResult(_with_shared_inference(dumps, options), refusals, tensors, found.name, tensor_files)


def _nothing(given: Sequence[Path], refusals: Sequence[Refusal]) -> str:
    shown = "; ".join(f"{item.file}: {item.reason}" for item in refusals[:3])
    more = f" and {len(refusals) - 3} more" if len(refusals) > 3 else ""
    skipped = f" (skipped: {shown}{more})" if refusals else ""
    return f"{', '.join(map(str, given))}: no Flight Recorder dump is there{_stated(refusals)}{skipped}"


def _recorded(refusals: Sequence[Refusal]) -> str | None:
    """Return which command takes the recording of a live job that lies where dumps were looked for."""
    for item in refusals:
        if item.path is not None and names.is_recording(Path(item.path).name):
            folder = Path(item.path).parent
            return f"{Path(item.path).name} is the recording of a live job: provstore record {folder} stores it"
    return None


def _stated(refusals: Sequence[Refusal]) -> str:
    """Return why the capture helper left no dump, as far as one of its sidecars says so."""
    for item in refusals[:_ASKED_SIDECARS]:
        if item.path is None or names.sidecar_rank(Path(item.path).name) is None:
            continue
        try:
            with Path(item.path).open("rb") as file:
                error = first_error(file.read(_SIDECAR_BYTES))
        except OSError:
            continue
        if error:
            return f"; {item.file} says why: {error}"
    return ""


def _read(
    candidates: Sequence[Candidate], options: ReadOptions, on_progress: Progress | None
) -> tuple[list[Dump], list[Refusal]]:
    refusals = []
    readable = []
    for item in candidates:
        early = _early_refusal(item, options)
        if early is None:
            readable.append(item)
        else:
            refusals.append(early)
    outcomes = _ask(readable, options, on_progress)
    dumps = []
    for dump, refused in outcomes:
        if refused is not None:
            refusals.append(refused)
        if dump is not None:
            dumps.append(dump)
    return dumps + _read_twins(candidates, dumps, options), refusals


def _early_refusal(item: Candidate, options: ReadOptions) -> Refusal | None:
    """Return the refusal of a file that needs no reading to be refused."""
    reason = item.reason
    if not reason and item.size_bytes > options.limits.file_bytes:
        reason = f"{item.size_bytes} bytes, more than {options.limits.file_bytes}"
    if not reason:
        return None
    return Refusal(
        item.file, reason, size_bytes=item.size_bytes, rank=item.rank, path=str(item.path), skipped=not item.is_meant
    )


def _ask(
    candidates: Sequence[Candidate], options: ReadOptions, on_progress: Progress | None
) -> list[tuple[Dump | None, Refusal | None]]:
    """Return, for each candidate, its dump or why there is none, and any refusal of its sidecar."""
    builder = Builder()
    outcomes: list[tuple[Dump | None, Refusal | None]] = [(None, None)] * len(candidates)
    caps = {name: value for name, value in asdict(options.limits).items() if isinstance(value, int)}
    requests = [_request(item, options, caps) for item in candidates]
    # Closed at once when the caller interrupts: no worker may outlive the command.
    with closing(ask_all(requests)) as replies:
        for done, (at, reply) in enumerate(replies, 1):
            item = candidates[at]
            if reply.header["status"] == "ok":
                outcomes[at] = builder.dump(item, reply), _sidecar_refusal(item, reply)
            else:
                outcomes[at] = None, refusal(item, reply)
            if on_progress is not None:
                on_progress(done, len(candidates))
    return outcomes


def _request(item: Candidate, options: ReadOptions, caps: Mapping[str, int]) -> Request:
    limits = options.limits
    size = item.size_bytes + _size(item.sidecar[0] if item.sidecar else None)
    fields = {
        "path": _latin(item.path),
        "sidecar": _latin(item.sidecar[0]) if item.sidecar else None,
        "form": item.form,
        "rank": item.rank,
        "active_only": options.active_only,
        "limits": caps,
        "memory_bytes": limits.worker_memory_bytes(size),
        "cpu_seconds": limits.worker_seconds(size),
    }
    return Request(fields, size, limits.worker_seconds(size))


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path else 0
    except OSError:
        return 0


def _latin(path: Path) -> str:
    """Return a path as text that any bytes survive."""
    return os.fsencode(path.absolute()).decode("latin-1")


def _sidecar_refusal(item: Candidate, reply: Reply) -> Refusal | None:
    reason = reply.header.get("sidecar_reason")
    if reason is None or item.sidecar is None:
        return None
    path, file = item.sidecar
    return Refusal(file, str(reason), path=str(path))


def _read_twins(candidates: Sequence[Candidate], dumps: Sequence[Dump], options: ReadOptions) -> list[Dump]:
    """Read the JSON twins of dumps that could not be read themselves."""
    read = {dump.file for dump in dumps}
    pairs = [(item, item.twin) for item in candidates if item.file not in read and item.twin is not None]
    for owner, twin in pairs:
        twin.sidecar = owner.sidecar
    rescued = []
    for (owner, _), (dump, _) in zip(pairs, _ask([twin for _, twin in pairs], options, None)):
        if dump is not None:
            warning = f"read in place of {owner.file}, which could not be read; a JSON twin holds no stacks"
            rescued.append(replace(dump, warnings=(*dump.warnings, warning)))
    return rescued


def _with_shared_inference(dumps: Sequence[Dump], options: ReadOptions) -> list[Dump]:
    """Return the dumps in the order of ranks; whether only unfinished calls are recorded is one setting of a job."""
    inferred = {dump.backend for dump in dumps if dump.active_only} if options.active_only is None else set()
    settled = []
    for dump in sorted(dumps, key=lambda item: (item.rank, item.file)):
        may_be = dump.backend in inferred and not dump.eventless and 2 not in dump.calls.state
        settled.append(replace(dump, active_only=True, wrapped=False) if may_be and not dump.active_only else dump)
    return settled


def _tensors(found: Found) -> list[TensorRecord]:
    records = []
    for path, file, rank in found.tensors:
        good, refused = read_tensors(path, file, rank)
        records += good
        if refused is not None:
            found.refusals.append(refused)
    return records
