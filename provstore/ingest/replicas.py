"""Live comparison of ranks: whether those that must hold the same bytes after a call do, from their capture files."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from provstore.analysis.suspicion import ALIKE_OUT

MAX_CALLS = 20_000
"""Calls that wait for the digests of other ranks."""
_FORM = ("shapes_out", "dtypes_out")
_CALL = b'"t":"call"'
_READ_BYTES = 16 * 1024 * 1024
_READ_AGAIN_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A call after which ranks hold different bytes."""

    op: str
    group: str
    seq: int
    step: int | None
    ranks: tuple[int, ...]
    """Those that told a digest of what they hold in one shape and type, which most of them have."""
    minority: tuple[int, ...]
    """Those that differ from a strict majority; empty where there is none: then nobody is named."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What a rank says that it holds after a call."""

    kind: str
    form: bytes
    digest: str
    step: int | None


class Replicas:
    """Follows the capture files of one job.

    Args:
        directory: Where they are.
        state: What :meth:`state` gave before a restart.
    """

    def __init__(self, directory: Path, state: Mapping[str, Any] | None = None) -> None:
        said = state or {}
        self._directory = directory
        # What other ranks had told before a restart is read again: a call is compared with all that is near it.
        offsets: Mapping[str, int] = said.get("offsets", {})
        self._offsets = {name: max(0, at - _READ_AGAIN_BYTES) for name, at in offsets.items()}
        self._calls: OrderedDict[str, dict[int, _Held]] = OrderedDict()
        self._told: set[str] = set(said.get("told", ()))

    def state(self) -> dict[str, Any]:
        """Return what a later process goes on from, as JSON values."""
        return {"offsets": self._offsets, "told": sorted(self._told)[-MAX_CALLS:]}

    def poll(self) -> list[Disagreement]:
        """Return what the lines that came since show; a group that disagrees is told once."""
        changed: dict[str, None] = {}
        for path in sorted(self._directory.glob("capture-rank*.jsonl")):
            for said in self._new_lines(path):
                key = self._note(path, said)
                if key is not None:
                    changed[key] = None
        found = [self._compared(key) for key in changed if key in self._calls]
        return [one for one in found if one is not None]

    def _note(self, path: Path, said: Mapping[str, Any]) -> str | None:
        group, op, seq, digest, kind = (said.get(name) for name in ("group", "op", "seq", "out", "kind"))
        rank = _rank_of(path)
        if op not in ALIKE_OUT or not isinstance(group, str) or type(seq) is not int or rank is None:
            return None
        if not isinstance(digest, str) or group in self._told:
            return None
        key = f"{group}\0{seq}\0{op}"
        step = said.get("step")
        held = self._calls.setdefault(key, {})
        form = orjson.dumps([said.get(name) for name in _FORM])
        held[rank] = _Held(str(kind), form, digest, step if type(step) is int else None)
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)
        return key

    def _compared(self, key: str) -> Disagreement | None:
        told = self._calls[key]
        if len({one.kind for one in told.values()}) > 1:
            return None
        # A digest is that of type and shape too: the same bytes have another one in another shape.
        forms = Counter(one.form for one in told.values())
        ((form, _),) = forms.most_common(1)
        held = {rank: one for rank, one in told.items() if one.form == form}
        by_digest: dict[str, list[int]] = defaultdict(list)
        for rank, one in held.items():
            by_digest[one.digest].append(rank)
        if len(by_digest) < 2:
            return None
        group, seq, op = key.split("\0")
        self._told.add(group)
        largest = max(by_digest.values(), key=len)
        rest = () if len(largest) * 2 <= len(held) else tuple(sorted(set(held) - set(largest)))
        step = next((one.step for one in held.values() if one.step is not None), None)
        return Disagreement(op, group, int(seq), step, tuple(sorted(held)), rest)

    def _new_lines(self, path: Path) -> Iterator[Mapping[str, Any]]:
        """Yield the whole lines of calls that were added; a line that is still being written waits."""
        try:
            with path.open("rb") as file:
                file.seek(self._offsets.get(path.name, 0))
                data = file.read(_READ_BYTES)
        except OSError:
            return
        # Where so much is no whole line, it is none of a call: reading goes on behind it.
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == _READ_BYTES else 0)
        self._offsets[path.name] = self._offsets.get(path.name, 0) + end
        for line in data[:end].split(b"\n"):
            if _CALL in line:
                try:
                    said = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(said, dict):
                    yield said


def _rank_of(path: Path) -> int | None:
    digits = path.name.removeprefix("capture-rank").partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else None
