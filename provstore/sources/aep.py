"""Files of agent evidence, told apart by what they hold and cut into records whose bytes stay exactly what they are."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from provstore.errors import InputError, NotUnderstoodError
from provstore.evidence.aep import cutting
from provstore.evidence.aep.kinds import kind_of, why_not, wrapper_of
from provstore.evidence.aep.schema import RECORD
from provstore.evidence.aep.text import MAX_BYTES, MAX_LEVELS, JsonText
from provstore.model.aep import ARRAY, BUNDLE, COMPACTED, JSONL, LEDGER, Container, RawRecord
from provstore.model.aep import RECORD as ONE
from provstore.sources._aep_lines import Item, Lines, Place, Readable, torn_at

FORMAT = "agent evidence"
MAX_DOCUMENT = 256 * 1024 * 1024
"""The largest file that is one JSON value; a file of lines may have any length."""

_HEAD = 64 * 1024
_BUNDLE_VERSION = "aep-bundle/v0.1"
_NO_VALUE = "Expecting value"
"""How the parser says that no JSON begins where it looks."""
_MARKS = re.compile(
    rb'"schema_version"\s*:\s*"(aep/|aep-bundle/|canonical-event/)|"prevHash"\s*:|"lastRecordHash"\s*:|"mem_ref"\s*:'
    rb'|"fork_id"\s*:|"checkpoint_id"\s*:|"artifact_uri"\s*:|"engine_version"\s*:'
)


def recognises(head: bytes) -> bool:
    """Return whether a file with these first bytes is meant as agent evidence."""
    return (
        cutting.first_byte(head.removeprefix(codecs.BOM_UTF8)) in (b"{", b"[")
        and _MARKS.search(head[:_HEAD]) is not None
    )


def read(source: Path | bytes | Readable, *, name: str | None = None) -> Container:
    """Return the container that a file is.

    Args:
        source: The file, or its bytes; those that lie elsewhere are read piece by piece.
        name: What messages call it; the name of the file when not given.

    Raises:
        InputError: It cannot be read or holds no agent evidence; the message gives the first reason.
        NotUnderstoodError: One JSON value that is larger than is looked at.
    """
    place = Place(source, name or (source.name if isinstance(source, Path) else "record"))
    head = place.head(MAX_BYTES + 1)
    match cutting.first_byte(head):
        case b"[":
            return _array(place)
        case b"{":
            return _lines_or_object(place, head)
        case b"":
            raise _refused(place, "the file is empty")
    return _cut_off(place, head)


def _cut_off(place: Place, head: bytes) -> Container:
    """Return the lines of a file whose first one lost its beginning.

    Raises:
        InputError: None of them is a record; the message gives the reason of the first.
    """
    fault = JsonText(head[:_HEAD]).fault or "no JSON object or list"
    if fault.endswith(_NO_VALUE) and b"\0" not in head[:_HEAD]:
        fault = fault.removesuffix(_NO_VALUE) + "text, such as a command prints, and no JSON"
    reason = _refused(place, fault)
    if _MARKS.search(head) is None:
        raise reason
    try:
        return _lines(place)
    except InputError:
        raise reason from None


def _lines_or_object(place: Place, head: bytes) -> Container:
    start = head.index(b"{")
    end = head.find(b"\n", start)
    line = head[start : end if end >= 0 else len(head)]
    if end < 0 and len(head) > MAX_BYTES and place.size > MAX_DOCUMENT:
        raise _too_large(place)
    if end >= 0 and _is_whole(line) and not place.is_blank_from(end):
        return _lines(place)
    data = place.all(MAX_DOCUMENT)
    if data is None:
        return _lines(place)
    stop = cutting.end_of(data, start)
    if stop is not None and not data[stop:].strip():
        return _object(place, data[start:stop], start)
    try:
        return _lines(place)
    except InputError:
        reason = "ends in the middle of a value" if stop is None else "more than one value, and not one a line"
        raise _refused(place, f"byte {len(data) if stop is None else stop}: {reason}") from None


def _object(place: Place, data: bytes, offset: int) -> Container:
    spans = _bundle_spans(data, place.name)
    if spans is not None:
        return _bundle(place, data, offset, spans)
    text = _text(data)
    if isinstance(text.value, dict):
        wrapper = wrapper_of(text.value)
        if wrapper is not None:
            return _listed(place, [Item(offset, data)], ONE)
        kind = kind_of(text.value)
        if kind is None:
            raise _refused(place, why_not(text.value))
    elif _MARKS.search(data[:_HEAD]):
        kind = RECORD
    else:
        raise _refused(place, text.fault or "no JSON object")
    raw = RawRecord(0, offset, data, kind, text.fault, text=text)
    return Container(ONE if kind == RECORD else kind, (raw,), place.name)


def _bundle_spans(data: bytes, thing: str) -> dict[str, tuple[int, int]] | None:
    """Return where the members of a bundle lie, found without parsing it: it may be larger than a record."""
    try:
        spans = cutting.members(data, 0, thing)
    except InputError:
        return None
    return spans if wrapper_of(spans) == BUNDLE else None


def _bundle(place: Place, data: bytes, offset: int, spans: Mapping[str, tuple[int, int]]) -> Container:
    (begin, _), (first, last) = spans["records"], spans["manifest"]
    if data[begin : begin + 1] != b"[":
        raise _refused(place, f"byte {offset + begin}: records is no list")
    items = [Item(offset + a, data[a:b]) for a, b in cutting.elements(data, begin, place.name)]
    manifest = data[first:last]
    problems = tuple(_unknown_versions(manifest, data[slice(*spans.get("schema_version", (0, 0)))]))
    return Container(BUNDLE, _Records(items, RECORD, 0), place.name, problems, manifest=manifest)


def _unknown_versions(manifest: bytes, stated: bytes) -> Iterator[str]:
    """Yield what a bundle says of its version, in its manifest and beside it, where that is not the known one."""
    inner = _text(manifest).value
    versions = {"manifest": inner.get("schema_version") if isinstance(inner, dict) else None}
    if stated:
        versions["bundle"] = _text(stated).value
    for where, version in versions.items():
        if version is not None and version != _BUNDLE_VERSION:
            yield f"{where}: schema_version: {str(version)[:40]!a} is not {_BUNDLE_VERSION}: it is read by its members"


def _array(place: Place) -> Container:
    data = place.all(MAX_DOCUMENT)
    if data is None:
        raise _too_large(place)
    start = data.index(b"[")
    end = cutting.end_of(data, start)
    if end is None:
        raise _refused(place, f"byte {len(data)}: ends in the middle of a value")
    if data[end:].strip():
        raise _refused(place, f"byte {end}: something stands behind the list")
    items = [Item(a, data[a:b]) for a, b in cutting.elements(data, start, place.name)]
    if not items:
        raise _refused(place, "an empty list")
    return _listed(place, items, ARRAY)


def _lines(place: Place) -> Container:
    torn = torn_at(place)
    problems = () if torn is None else (f"the last line is torn at byte {torn}: it is not read",)
    return _listed(place, Lines(place, torn), JSONL, problems)


def _listed(place: Place, items: Iterable[Item], outer: str, problems: tuple[str, ...] = ()) -> Container:
    """Return the container of a row of items, told by the first that is recognised.

    Raises:
        InputError: None is; the message gives the reason of the first.
    """
    gaps: list[bytes] = []
    reason = None
    for item in items:
        text = _text(item.data)
        value = text.value if isinstance(text.value, dict) else None
        wrapper = wrapper_of(value) if value is not None else None
        if wrapper == COMPACTED:
            gaps.append(item.data)
            continue
        if wrapper == LEDGER:
            kind = COMPACTED if gaps else LEDGER
            return Container(kind, _Records(items, RECORD, len(gaps)), place.name, problems, gaps=tuple(gaps))
        found = kind_of(value) if value is not None else None
        if found is not None:
            outer = outer if found == RECORD or outer == ARRAY else found
            return Container(outer, _Records(items, found, len(gaps)), place.name, problems, gaps=tuple(gaps))
        if reason is None:
            reason = f"byte {item.offset}: {item.fault or text.fault or why_not(text.value)}"
    if gaps:
        return Container(COMPACTED, (), place.name, problems, gaps=tuple(gaps))
    raise _refused(place, reason or "the file holds no record")


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of a row of items, made anew each time they are asked for."""

    items: Iterable[Item]
    kind: str
    """What a record that cannot be read is taken for."""
    skipped: int
    """Items before the first record."""

    def __iter__(self) -> Iterator[RawRecord]:
        for place, item in enumerate(self.items):
            if place >= self.skipped:
                yield self._record(place - self.skipped, item)

    def _record(self, index: int, item: Item) -> RawRecord:
        if item.fault is not None:
            return RawRecord(index, item.offset, b"", self.kind, item.fault, item.sha256)
        text = _text(item.data)
        value = text.value if isinstance(text.value, dict) else None
        kind = kind_of(value) if value is not None else None
        if kind is None and value is not None and wrapper_of(value) == LEDGER:
            begin, end = cutting.members(item.data, 0, "ledger record")["record"]
            return RawRecord(index, item.offset + begin, item.data[begin:end], RECORD, wrapper=item.data)
        return RawRecord(index, item.offset, item.data, kind or self.kind, text.fault, text=text)


def _text(data: bytes) -> JsonText:
    """Return one value of a file; what a ledger wraps around a record is no level of the record."""
    text = JsonText(data)
    if text.fault is None:
        return text
    around = JsonText(data, MAX_LEVELS + 1)
    is_ledger = isinstance(around.value, dict) and wrapper_of(around.value) == LEDGER
    return around if is_ledger else text


def _is_whole(line: bytes) -> bool:
    """Return whether a line holds a whole JSON object, sound or not."""
    end = cutting.end_of(line, 0)
    return end is not None and not line[end:].strip()


def _refused(place: Place, reason: str) -> InputError:
    return InputError(f"{place.name}: {FORMAT}: {reason}")


def _too_large(place: Place) -> NotUnderstoodError:
    return NotUnderstoodError(f"{place.name}: {FORMAT}: one JSON value of more than {MAX_DOCUMENT} bytes")
