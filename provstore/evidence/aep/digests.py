"""The digests that a container itself carries over its records: of a bundle, of a ledger, of a compacted ledger."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from provstore.evidence.aep import forms
from provstore.evidence.aep.chains import digest
from provstore.evidence.aep.text import MAX_LEVELS, JsonText
from provstore.model.aep import BUNDLE, COMPACTED, LEDGER, Axis, Container, RawRecord

RECORD_DIGEST: Final = "bundle-record-mismatch"
BUNDLE_DIGEST: Final = "bundle-digest-mismatch"
BUNDLE_LIST: Final = "bundle-list-mismatch"
LEDGER_HASH: Final = "ledger-hash-mismatch"
LEDGER_LINK: Final = "ledger-link-mismatch"
LEDGER_ORDER: Final = "ledger-order"
GENESIS: Final = ""
_NONE: Final = Axis(False, None, "this kind of file carries no digests of its own")
_MOST_LISTED = 100


class ContainerDigests:
    """What a container says of its records, compared record by record."""

    def __init__(self, container: Container) -> None:
        self._kind, self._gaps = container.kind, [JsonText(one) for one in container.gaps]
        self._manifest = JsonText(container.manifest) if container.kind == BUNDLE else None
        self._found: dict[int, list[str]] = {}
        self._said: list[str] = []
        self._of_container: list[str] = []
        self._count, self._runs = 0, set[str]()
        self._seq, self._hash = 0, GENESIS
        if self._gaps:
            self._start_behind_gaps()

    def is_behind_gap(self, raw: RawRecord) -> bool:
        """Return whether the container says that records right before this one were left out."""
        return bool(self._gaps) and raw.index == 0

    def take(self, raw: RawRecord, text: JsonText, own: str | None) -> None:
        """Compare the next record.

        Args:
            raw: It, as it lies in the container.
            text: Its JSON.
            own: Its verbatim digest; ``None`` when it could not be read.
        """
        if self._manifest is not None:
            self._take_listed(raw, text, own)
        elif self._kind in {LEDGER, COMPACTED}:
            self._take_ledger(raw)
        self._count += 1

    def axis(self) -> Axis:
        """Return the verdict on the container."""
        if self._kind not in {BUNDLE, LEDGER, COMPACTED}:
            return _NONE
        if self._manifest is not None:
            self._finish_bundle(self._manifest)
        codes = sorted({code for found in self._found.values() for code in found} | set(self._of_container))
        details: dict[str, object] = {"records": self._count}
        if self._gaps:
            details["declared_gaps"] = [_gap(one.value) for one in self._gaps]
        if not codes:
            return Axis(True, "pass", None, details)
        return Axis(True, "fail", self._said[0], {**details, "findings": codes, "records_concerned": self._concerned()})

    def findings(self, index: int) -> tuple[str, ...]:
        """Return the codes that concern one record."""
        return tuple(dict.fromkeys(self._found.get(index, ())))

    def problems(self) -> tuple[str, ...]:
        """Return what does not agree, in words."""
        return tuple(self._said[:_MOST_LISTED])

    def _concerned(self) -> list[int]:
        return sorted(self._found)[:_MOST_LISTED]

    def _say(self, code: str, text: str, index: int | None = None) -> None:
        if index is None:
            self._of_container.append(code)
        else:
            self._found.setdefault(index, []).append(code)
        self._said.append(f"{code}: {text}")

    # Bundles.

    def _take_listed(self, raw: RawRecord, text: JsonText, own: str | None) -> None:
        entry = self._entry(raw.index)
        said = entry.get("digest")
        if own is None or (said != own and said not in [digest(text, form) for form in forms.FORMS[1:]]):
            self._say(RECORD_DIGEST, f"record {raw.index} is not the one that the manifest lists", raw.index)
        run = text.value.get("run_id") if isinstance(text.value, dict) else None
        if isinstance(run, str):
            self._runs.add(run)
        if entry and (entry.get("index") != raw.index or entry.get("run_id") != run):
            self._say(BUNDLE_LIST, f"the manifest lists record {raw.index} with another index or run id", raw.index)

    def _entry(self, index: int) -> dict[str, Any]:
        entries = _member(self._manifest, "records")
        if isinstance(entries, list) and index < len(entries) and isinstance(entries[index], dict):
            return dict(entries[index])
        return {}

    def _finish_bundle(self, manifest: JsonText) -> None:
        value = manifest.value
        if not isinstance(value, dict):
            self._say(BUNDLE_DIGEST, f"the manifest cannot be read: {manifest.fault or 'no object'}")
            return
        said = value.get("bundle_digest")
        made = (hashlib.sha256(manifest.canon(form, drop=("bundle_digest",))).hexdigest() for form in forms.FORMS)
        if not any(said == one for one in made):
            self._say(BUNDLE_DIGEST, "the manifest is not the one that bundle_digest was made of")
        count, listed = value.get("record_count"), value.get("records")
        is_whole = isinstance(listed, list) and len(listed) == self._count
        if not is_whole or isinstance(count, bool) or count != self._count:
            self._say(BUNDLE_LIST, f"the manifest counts other records than the {self._count} that are here")
        if value.get("run_ids") != sorted(self._runs):
            self._say(BUNDLE_LIST, "the manifest names other run ids than the records")

    # Ledgers.

    def _start_behind_gaps(self) -> None:
        for place, gap in enumerate(self._gaps):
            value = gap.value if isinstance(gap.value, dict) else {}
            first, last = value.get("fromSeq"), value.get("toSeq")
            if first != self._seq or value.get("firstRecordPrevHash") != self._hash:
                self._say(LEDGER_LINK, f"gap {place} does not begin where the one before it ended")
            self._seq = last + 1 if isinstance(last, int) else -1
            self._hash = str(value.get("lastRecordHash"))

    def _take_ledger(self, raw: RawRecord) -> None:
        wrapper = JsonText(raw.wrapper, MAX_LEVELS + 1)
        value = wrapper.value if isinstance(wrapper.value, dict) else {}
        said = value.get("hash")
        made = (hashlib.sha256(wrapper.canon(form, drop=("hash",))).hexdigest() for form in forms.FORMS)
        if not value or not any(said == one for one in made):
            self._say(LEDGER_HASH, f"ledger record {raw.index} is not the one that its hash was made of", raw.index)
        if value.get("seq") != self._seq:
            self._say(LEDGER_ORDER, f"ledger record {raw.index} has another number than {self._seq}", raw.index)
        if value.get("prevHash") != self._hash:
            self._say(LEDGER_LINK, f"ledger record {raw.index} does not name the one before it", raw.index)
        seq = value.get("seq")
        self._seq = seq + 1 if isinstance(seq, int) else self._seq + 1
        self._hash = said if isinstance(said, str) else GENESIS


def _member(text: JsonText | None, name: str) -> object:
    return text.value.get(name) if text is not None and isinstance(text.value, dict) else None


def _gap(value: object) -> dict[str, object]:
    names = ("fromSeq", "toSeq", "recordCount", "runIds")
    return {name: value.get(name) for name in names} if isinstance(value, dict) else {}
