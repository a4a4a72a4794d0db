"""What a file's name tells: whether it is meant as a dump, a sidecar or a tensor record, and of which rank and host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from provstore.errors import ConfigError
from provstore.sources.flight_recorder.options import ReadOptions

_EXTENSIONS = (".pkl", ".pickle", ".json", ".bin")
_NEVER_READ = re.compile(
    r".*\.(log|txt|out|err|md|rst|csv|tsv|ya?ml|toml|ini|cfg|html|xml|py|sh|c|h|cpp|png|jpg|svg|pdf|zip|gz|tar|tgz|xz|zst"
    r"|bz2|tmp|swp|lock|pt|pth|safetensors|parquet|kgl|ipynb|provn|ttl|dot)",
    re.IGNORECASE | re.DOTALL,
)
_SIDECAR = re.compile(r"(?:fr_meta_rank_|pgs_)(\d{1,18})\.json")
_TENSORS = re.compile(r"tensor_rank_(\d{1,18})\.jsonl")
_RECORDING = re.compile(r"capture-rank\d{1,7}(?:\.\d{1,6})?\.jsonl")
_KNOWN = re.compile(r"(?:.*trace_rank_|.*_?rank_|_dump_|fr_.*_rank_)(?:(?P<host>.*[^0-9_].*)_)?-?\d+", re.DOTALL)
_LAST_INTEGER = re.compile(r"(\d+)\D*\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """Rank and host as a name tells them."""

    rank: int | None
    host: str | None = None
    reason: str = ""
    """Why there is no rank."""


_NO_RANK = "its name holds no rank: give one with --rank-regex or --rank-map (rank_regex, rank_map)"


class Naming:
    """The rules that give a file its rank: the map, the regular expression, else the last integer of the name.

    Raises:
        ConfigError: The regular expression does not compile, or has no group ``rank``.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._map: Mapping[str, int] = options.rank_map or {}
        self._most = options.limits.ranks
        self._regex = _compiled(options.rank_regex)

    def place(self, name: str, file: str) -> Place:
        """Return the rank of a file from its name, or from ``file``, its path below the folder."""
        for key in (file, name):
            if key in self._map:
                return self._checked(self._map[key], None, "the rank map")
        if self._regex is not None:
            found = self._regex.search(name)
            if found is None or found["rank"] is None:
                return Place(None, None, "the rank expression does not match its name")
            host = found["host"] if "host" in self._regex.groupindex else None
            digits = found["rank"].lstrip("+")
            if not re.fullmatch(r"-?\d{1,18}", digits, re.ASCII):
                return Place(None, host, f"the rank expression finds {found['rank'][:40]!r}, which is no rank")
            return self._checked(int(digits), host, "the rank expression")
        return self._from_last_integer(bare(name))

    def _from_last_integer(self, stem: str) -> Place:
        found = _LAST_INTEGER.search(stem)
        if found is None:
            return Place(None, None, _NO_RANK)
        digits = found[1]
        before = stem[: found.start(1)]
        is_negative = before.endswith("-") and not before[:-1][-1:].isalnum()
        known = _KNOWN.fullmatch(stem)
        host = known["host"] if known else None
        rank = int(digits[-30:])
        return self._checked(-rank if is_negative else rank, host, "its name")

    def _checked(self, rank: int, host: str | None, source: str) -> Place:
        if rank < 0:
            return Place(None, host, f"{source} gives rank {rank}, which is negative")
        if rank >= self._most:
            return Place(None, host, f"{source} gives rank {rank}: ranks are below {self._most}")
        return Place(rank, host)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"rank expression: {pattern}: {error}") from error
    if "rank" not in regex.groupindex:
        raise ConfigError(f"rank expression: {pattern}: has no group named rank, as in rank_(?P<rank>[0-9]+)")
    return regex


def bare(name: str) -> str:
    """Return a name without the known extensions of dumps."""
    for extension in _EXTENSIONS:
        if name.lower().endswith(extension):
            return name[: -len(extension)]
    return name


def pattern_of(name: str) -> str:
    """Return the name with its last integer left out: equal for the files of one set of dumps."""
    return _LAST_INTEGER.sub(lambda found: "*" + found[0][len(found[1]) :], bare(name), count=1)


def is_known(name: str) -> bool:
    """Return whether a dump would be named like this by a known tool."""
    return _KNOWN.fullmatch(bare(name)) is not None


def sidecar_rank(name: str) -> int | None:
    """Return the rank in the name of a sidecar, ``None`` for another file."""
    found = _SIDECAR.fullmatch(name)
    return int(found[1]) if found else None


def tensors_rank(name: str) -> int | None:
    """Return the rank in the name of a tensor record, ``None`` for another file."""
    found = _TENSORS.fullmatch(name)
    return int(found[1]) if found else None


def is_recording(name: str) -> bool:
    """Return whether this is the file that recording a live job leaves of a rank; it is no dump."""
    return _RECORDING.fullmatch(name) is not None


def never_read(name: str) -> str | None:
    """Return why a file of this name is not even opened, ``None`` when it may be."""
    if name.startswith("."):
        return "a hidden file"
    found = _NEVER_READ.fullmatch(name)
    return f"a .{found[1].lower()} file is never a dump" if found else None
