"""Which files of a folder are dumps, twins, sidecars or tensor records; everything else is named as skipped."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from provstore.errors import InputError
from provstore.model.dump import Refusal
from provstore.sources.flight_recorder import names
from provstore.sources.flight_recorder.names import Naming
from provstore.sources.flight_recorder.options import ReadOptions

HEAD_BYTES = 4096
_JSON_KEYS = (
    b'"pg_config"',
    b'"pg_status"',
    b'"entries"',
    b'"comm_lib_version"',
    b'"nccl_version"',
    b'"profiling_name"',
    b'"collective_seq"',
    b'_comm_state"',
)
_SAME = "the same file as"
_TWINS = "json"
_NEVER = "log"


@dataclass(slots=True)
class Candidate:
    """A file that is read as a dump."""

    path: Path
    file: str
    """Path below the given folder."""
    size_bytes: int
    form: str
    """``pickle`` or ``json``, by content; empty when the content is neither."""
    rank: int | None
    host: str | None = None
    reason: str = ""
    """Why it cannot be read, when that is known already."""
    is_meant: bool = True
    """False for a file that may be something else: then it is skipped, not refused."""
    sidecar: tuple[Path, str] | None = None
    twin: Candidate | None = None
    """The JSON file of the same recorder, used only if this one cannot be read."""


@dataclass(slots=True)
class Found:
    """What the given paths hold."""

    name: str
    candidates: list[Candidate] = field(default_factory=list)
    tensors: list[tuple[Path, str, int]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def skip(self, file: str, reason: str, path: Path) -> None:
        """List a file that is not read."""
        self.refusals.append(Refusal(file, reason, skipped=True, path=str(path)))


@dataclass(slots=True)
class _Folder:
    """The files of one folder and of its ``json`` subfolder."""

    candidates: list[Candidate] = field(default_factory=list)
    twins: list[Candidate] = field(default_factory=list)
    sidecars: dict[int, tuple[Path, str]] = field(default_factory=dict)


def recognises(head: bytes, name: str) -> bool:
    """Return whether a file is, or is named like, a Flight Recorder dump.

    Args:
        head: The first 4,096 bytes.
        name: File name without folder.
    """
    return bool(_form(head)) or (names.is_known(name) and names.never_read(name) is None)


def _form(head: bytes) -> str:
    if head[:1] == b"\x80":
        return "pickle"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return "json" if text[:1] in (b"{", b"[") and any(key in text for key in _JSON_KEYS) else ""


def discover(paths: Iterable[Path], options: ReadOptions) -> Found:
    """Find the dumps below the given files and folders.

    Raises:
        InputError: A path does not exist, or no path is given.
        ConfigError: The rank expression is not usable.
    """
    naming = Naming(options)
    given = list(dict.fromkeys(Path(path) for path in paths))
    if not given:
        raise InputError("dumps: no path is given")
    found = Found(_base_name(given[0]))
    seen: dict[tuple[int, int], str] = {}
    folder = _Folder()
    for path in given:
        facts = _facts(path)
        if isinstance(facts, str):
            raise InputError(f"{path}: {facts}")
        prefix = f"{_readable(path.name)}/" if len(given) > 1 else ""
        if stat.S_ISDIR(facts.st_mode):
            _scan_tree(path, prefix, naming, options, seen, found)
        else:
            _take_named(path, naming, seen, folder, found)
    _finish(folder, found)
    found.candidates.sort(key=lambda item: (item.file.rpartition("/")[0], item.rank or 0, item.file))
    return found


def _base_name(path: Path) -> str:
    whole = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow the link whose name is meant)
    return (whole if whole.is_dir() else whole.parent).name or "run"


def _readable(name: str) -> str:
    """Return a file name as text that UTF-8 can carry."""
    return os.fsencode(name).decode("utf-8", "replace")


def _facts(path: Path) -> os.stat_result | str:
    try:
        return path.stat()
    except OSError as error:
        return f"not readable: {error.strerror or error}"
    except ValueError as error:
        return f"not a usable path: {error}"


def _take_named(path: Path, naming: Naming, seen: dict[tuple[int, int], str], folder: _Folder, found: Found) -> None:
    """Take a file that was named itself: it is meant as evidence, whatever it is called."""
    file = _readable(path.name)
    rank = names.tensors_rank(path.name)
    if rank is not None:
        found.tensors.append((path, file, rank))
        return
    rank = names.sidecar_rank(path.name)
    if rank is not None:
        folder.sidecars[rank] = path, file
        return
    candidate = _candidate(path, file, naming, seen)
    if isinstance(candidate, Candidate):
        candidate.is_meant = True
        folder.candidates.append(candidate)
        _take_sidecar_beside(path, candidate.rank, folder)
    elif candidate:
        found.refusals.append(Refusal(file, candidate, path=str(path), skipped=candidate.startswith(_SAME)))


def _take_sidecar_beside(path: Path, rank: int | None, folder: _Folder) -> None:
    """Give a dump that was named alone the sidecar that its folder holds for its rank, unless another is named too."""
    if rank is None or rank in folder.sidecars:
        return
    names_beside = (f"fr_meta_rank_{rank}.json", f"pgs_{rank}.json", f"{_TWINS}/pgs_{rank}.json")
    beside = next((place for name in names_beside if (place := path.parent / name).is_file()), None)
    if beside is not None:
        folder.sidecars[rank] = beside, beside.name


def _scan_tree(
    root: Path, prefix: str, naming: Naming, options: ReadOptions, seen: dict[tuple[int, int], str], found: Found
) -> None:
    pending = [(root, prefix)]
    while pending:
        place, below = pending.pop()
        folder = _Folder()
        for entry in _listing(place, below, found):
            file = below + _readable(entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name == _TWINS:
                    _take_twins(Path(entry.path), f"{file}/", naming, seen, folder, found)
                elif entry.name == _NEVER:
                    found.skip(f"{file}/", "the log folder is never read", Path(entry.path))
                elif options.recursive and not entry.name.startswith("."):
                    pending.append((Path(entry.path), f"{file}/"))
                else:
                    found.skip(f"{file}/", "a folder: it is read with --recursive (recursive=True)", Path(entry.path))
            else:
                _take(Path(entry.path), file, naming, seen, folder, found)
        _finish(folder, found)


def _listing(place: Path, below: str, found: Found) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        found.refusals.append(
            Refusal(below or _readable(place.name), f"not readable: {error.strerror or error}", path=str(place))
        )


def _take(
    path: Path, file: str, naming: Naming, seen: dict[tuple[int, int], str], folder: _Folder, found: Found
) -> None:
    """Sort one file of a folder by its name, then by its first bytes."""
    rank = names.sidecar_rank(path.name)
    if rank is not None:
        # The capture helper's sidecar says more than a bare list of groups.
        if rank not in folder.sidecars or path.name.startswith("fr_meta"):
            folder.sidecars[rank] = path, file
        return
    rank = names.tensors_rank(path.name)
    if rank is not None:
        found.tensors.append((path, file, rank))
        return
    reason = names.never_read(path.name)
    candidate = reason or _candidate(path, file, naming, seen)
    if isinstance(candidate, Candidate):
        folder.candidates.append(candidate)
    elif candidate:
        found.skip(file, candidate, path)


def _take_twins(
    place: Path, below: str, naming: Naming, seen: dict[tuple[int, int], str], folder: _Folder, found: Found
) -> None:
    for entry in _listing(place, below, found):
        path, file = Path(entry.path), below + _readable(entry.name)
        rank = names.sidecar_rank(entry.name)
        if rank is not None:
            if rank not in folder.sidecars or not folder.sidecars[rank][0].name.startswith("fr_meta"):
                folder.sidecars[rank] = path, file
            continue
        candidate = names.never_read(entry.name) or _candidate(path, file, naming, seen)
        if isinstance(candidate, Candidate) and candidate.form == "json" and candidate.rank is not None:
            folder.twins.append(candidate)
        elif candidate:
            found.skip(file, candidate if isinstance(candidate, str) else "not a JSON dump", path)


def _candidate(path: Path, file: str, naming: Naming, seen: dict[tuple[int, int], str]) -> Candidate | str:
    """Return a file as a candidate, or why it is none."""
    facts = _facts(path)
    if isinstance(facts, str):
        return facts
    if not stat.S_ISREG(facts.st_mode):
        return "not a regular file"
    identity = facts.st_dev, facts.st_ino
    if facts.st_ino and identity in seen:
        return f"{_SAME} {seen[identity]}"
    seen[identity] = file
    place = naming.place(path.name, file)
    try:
        with path.open("rb", buffering=0) as opened:
            form = _form(opened.read(HEAD_BYTES))
        reason = "" if form else _why_not(facts.st_size)
    except OSError as error:
        form, reason = "", f"not readable: {error.strerror or error}"
    is_meant = bool(form) or names.is_known(path.name)
    return Candidate(path, file, facts.st_size, form, place.rank, place.host, reason or place.reason, is_meant)


def _why_not(size_bytes: int) -> str:
    if not size_bytes:
        return "empty file (0 bytes)"
    return f"neither a pickle nor the JSON text of a dump ({size_bytes} bytes)"


def _finish(folder: _Folder, found: Found) -> None:
    """Settle, with all files of a folder known, what is a twin, what was meant, and which sidecar goes where."""
    patterns = {names.pattern_of(item.path.name) for item in folder.candidates if item.form}
    pickles = {(item.rank, names.bare(item.path.name)): item for item in folder.candidates if item.form == "pickle"}
    of_rank = {item.rank: item for item in folder.candidates if item.form != "json" and item.is_meant}
    for item in folder.candidates:
        pickle = pickles.get((item.rank, names.bare(item.path.name)))
        if item.form == "json" and pickle is not None:
            _join_twin(pickle, item, found)
            continue
        item.is_meant = item.is_meant or names.pattern_of(item.path.name) in patterns
        if item.rank is not None and item.rank in folder.sidecars:
            item.sidecar = folder.sidecars[item.rank]
        found.candidates.append(item)
    for item in folder.twins:
        owner = of_rank.get(item.rank)
        if owner is None:
            found.skip(item.file, "a JSON twin without its dump; it is read when its folder is given", item.path)
        else:
            _join_twin(owner, item, found)
    ranks = {item.rank for item in folder.candidates}
    for rank, (path, file) in folder.sidecars.items():
        if rank not in ranks:
            found.skip(file, f"a sidecar without a dump of rank {rank}", path)


def _join_twin(owner: Candidate, twin: Candidate, found: Found) -> None:
    twin.sidecar = owner.sidecar
    owner.twin = twin
    found.skip(twin.file, f"the JSON twin of {owner.file}, which has more", twin.path)
