"""The other files of exported evidence against its records and envelopes: what readers of one file alone rely on.

Each says again what the bundles say. One that says something else misleads whoever reads it; a signed checkpoint that
covers more than is here shows that something was taken away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from provstore.errors import InputError, ProvstoreError, TrustError
from provstore.evidence import anchors, checkpoint, dsse, keys, merkle, public_forms
from provstore.evidence.files import MAX_SIGSTORE_BYTES, ExportedEvidence
from provstore.evidence.trust.keys import LOG, RUN, Trust
from provstore.evidence.verify import sums
from provstore.evidence.verify.findings import Notes
from provstore.evidence.verify.signatures import UNREAD
from provstore.evidence.verify.walk import Checked
from provstore.model.verification import FAULT, NOT_CHECKED, OK, UNKNOWN, UNPROVEN

MOST_NAMES = 1_000
"""Files that were not read and are listed."""
CHECKPOINT, ATTESTATIONS = "checkpoint", "run.intoto.jsonl"

_BUNDLES = re.compile(r"epoch-(?:0|[1-9][0-9]{0,9})\.(?:jsonl|dsse\.json|sigstore\.json)")
_PART = re.compile(r"epoch-(?P<number>0|[1-9][0-9]{0,9})\.(?P<form>pae\.bin|sig\.raw|checkpoint)")
_RECORD = re.compile(r"record-(?P<index>0|[1-9][0-9]{0,11})\.(?P<form>json|tlog-proof)")
_KEY = re.compile(r"(?:pub(?:-[0-9]+)?\.(?:pem|ssh)|vkey(?:-[0-9]+)?)")
_WORST_FIRST = (FAULT, UNKNOWN, UNPROVEN, OK, NOT_CHECKED)
_UNFINISHED = frozenset(("unknown-schema", "cap-exceeded", "check-unfinished"))
_CHUNK = 1024


def verify_folder(log: ExportedEvidence, checked: Checked, trust: Trust, org: str) -> tuple[Checked, tuple[str, ...]]:
    """Return what was found of the bundles and records with what the other files show, and the files not read.

    Args:
        log: The folder.
        checked: What its bundles and records show.
        trust: Whose signatures count.
        org: First part of the origins of checkpoints.

    Raises:
        InputError: A file is no regular one, or cannot be read.
        NotUnderstoodError: A file is larger than is looked at.
    """
    return _Folder(log, checked, trust, org).judge()


class _Folder:
    """One folder while it is looked at."""

    def __init__(self, log: ExportedEvidence, checked: Checked, trust: Trust, org: str) -> None:
        self._log, self._checked, self._trust = log, checked, trust
        self._origin = checkpoint.origin(org, log.store, log.run, log.attempt) if log.is_stated else None
        self._notes = Notes(log.run, log.attempt)
        self._limits: list[str] = []
        self._seen: set[bytes] = set()
        """Checkpoints that were judged: those of the bundles by the walk over them."""
        self._points: list[tuple[str, checkpoint.Checkpoint]] = []
        self._proofs: list[tuple[str, int, tuple[bytes, ...], checkpoint.Checkpoint]] = []
        self._leaves: dict[int, bytes] = {}
        self._lines: list[tuple[str, int, bytes]] = []

    def judge(self) -> tuple[Checked, tuple[str, ...]]:
        """Return what was found, and the names of the files that were not read."""
        names = self._log.names()
        numbers = self._bundles(names)
        self._sums(names)
        rest = sorted(name for name in names if not _BUNDLES.fullmatch(name) and name not in (ATTESTATIONS, sums.SUMS))
        not_read = [name for name in rest if not self._file(name, numbers)]
        self._records()
        own, axes = self._checked, dict(self._checked.axes)
        for axis, state in self._notes.axes().items():
            axes[axis] = min(axes[axis], state, key=_WORST_FIRST.index)
        findings = (*own.findings, *self._notes.findings())
        return replace(own, findings=findings, axes=axes, limits=(*self._limits, *own.limits)), _listed(not_read)

    def _bundles(self, names: set[str]) -> set[int]:
        """Compare envelopes with their other spellings; return the numbers under which there are any."""
        listed = self._log.lines_of(ATTESTATIONS, MAX_SIGSTORE_BYTES) if ATTESTATIONS in names else None
        numbers = set()
        for one in self._log.numbered():
            number, bundle = one.number, one.bundle
            numbers.add(number)
            for name in one.others:
                self._other_form(number, name, bundle.where)
            if bundle.checkpoint is not None:
                self._seen.add(bundle.checkpoint)
            if listed is not None and next(listed, b"") != bundle.envelope + b"\n":
                self._add("bad-signature", ATTESTATIONS, f"its line of epoch {number} is not that bundle", number)
                listed = None
            self._parts(number, bundle.envelope, names)
        if listed is not None and next(listed, None) is not None:
            self._add("epoch-order", ATTESTATIONS, "it holds more bundles than are here")
        return numbers

    def _other_form(self, number: int, name: str, other: str) -> None:
        """Say what is wrong with a form of a bundle that holds another envelope than the form that is meant."""
        cause = None
        try:
            dsse.parse(self._log.envelope(name))
        except TrustError as error:
            self._add(error.code, name, str(error), number)
            if error.code in UNREAD:
                return
            cause = error.code
        self._add("bad-signature", name, f"it does not hold the envelope in {other}", number, cause=cause)

    def _parts(self, number: int, envelope: bytes, names: set[str]) -> None:
        """Compare the signed bytes and the signature, each in a file of its own, with those of the envelope."""
        try:
            told = dsse.parse(envelope)
        except TrustError:
            return
        for form, wanted in (("pae.bin", told.signed_bytes()), ("sig.raw", told.signatures[0].sig)):
            name = f"epoch-{number}.{form}"
            if name in names and self._log.read(name) != wanted:
                what = "the bytes that its bundle signs" if form == "pae.bin" else "the signature in its bundle"
                self._add("bad-signature", name, f"it does not hold {what}", number)

    def _sums(self, names: set[str]) -> None:
        if sums.SUMS in names:
            for code, name, text in sums.faults(self._log, names):
                self._add(code, name, text)
            self._limits.append(sums.limit(names))

    def _file(self, name: str, numbers: set[int]) -> bool:
        """Judge a file by its name; return whether it was read."""
        if (part := _PART.fullmatch(name)) is not None:
            number = int(part["number"])
            if number not in numbers and part["form"] == CHECKPOINT:
                self._note(name, self._log.read(name))
            elif number not in numbers:
                self._add(
                    "epoch-order", name, f"the bundle of epoch {number}, of which it is a part, is not here", number
                )
            return True
        if (record := _RECORD.fullmatch(name)) is not None:
            self._of_record(name, int(record["index"]), record["form"])
            return True
        if name == CHECKPOINT:
            self._note(name, self._log.read(name))
            return True
        if _KEY.fullmatch(name):
            self._key(name)
            return True
        return False

    def _of_record(self, name: str, index: int, form: str) -> None:
        data = self._log.read(name)
        if form == "json":
            self._lines.append((name, index, merkle.leaf_hash(data.removesuffix(b"\n"))))
            return
        try:
            stated, hashes, point = checkpoint.parse_tlog_proof(data)
        except TrustError as error:
            self._add(error.code, name, str(error), seq=index)
            return
        if stated != index:
            self._add("seq-gap-or-dup", name, f"it is the proof of record {stated}", seq=index)
        self._proofs.append((name, stated, hashes, point))
        self._note(name, point.note)

    def _note(self, name: str, note: bytes) -> None:
        """Judge signature and name of a checkpoint; its tree is compared when the records are read."""
        if note in self._seen:
            return
        self._seen.add(note)
        try:
            point = checkpoint.parse(note)
        except TrustError as error:
            self._add(error.code, name, str(error))
            if error.code not in UNREAD:
                self._add("bad-signature", name, "it is no checkpoint, so no signature covers it", cause=error.code)
            return
        about = anchors.scope_of(point.origin)
        candidates = self._trust.candidates(None, self._log.run if about is None else about.run, (RUN, LOG))
        if not any(checkpoint.check(point, key.public) for key in candidates):
            named = {short for _, short, _ in point.signatures}
            is_named = any(checkpoint.key_hash(point.origin, key.public) in named for key in candidates)
            code = "bad-signature" if is_named else "untrusted-key"
            self._add(code, name, "its signature is not that of a trusted key")
        elif self._origin is not None and point.origin != self._origin:
            self._add("wrong-run", name, f"it is about {point.origin}, expected {self._origin}")
        else:
            self._points.append((name, point))

    def _key(self, name: str) -> None:
        data = self._log.read(name)
        try:
            public = public_forms.read_public(data, name)
        except (InputError, TrustError) as error:
            self._limits.append(f"{error}.")
            return
        keyid = keys.fingerprint(public)
        if not any(key.public == public for key in self._trust.keys if key.is_known):
            self._limits.append(f"{name} holds key {keyid}, which is not among the trusted ones.")

    def _records(self) -> None:
        """Compare checkpoints, proofs and single records with the records of the epochs, in one pass over them."""
        if not self._points and not self._proofs and not self._lines:
            return
        sizes = {point.size for _, point in self._points}
        indices = {*(index for _, index, *_ in self._proofs), *(index for _, index, _ in self._lines)}
        try:
            held, roots = self._tree(sizes, indices)
        except (ProvstoreError, OSError):
            return  # The walk over bundles and records has said so.
        for name, point in self._points:
            self._compare(name, point, held, roots)
        for name, index, leaf in self._lines:
            self._one(name, index, self._leaves.get(index) == leaf, "it is not the record of that number")
        for name, index, hashes, point in self._proofs:
            leaf = self._leaves.get(index, b"")
            self._one(
                name, index, _is_included(leaf, index, hashes, point), "it does not prove the record of that number"
            )

    def _tree(self, sizes: set[int], indices: set[int]) -> tuple[int, dict[int, bytes]]:
        """Return the number of records and the roots at some sizes; keep the leaves of some records."""
        tree, records, roots = merkle.Frontier(), self._log.records(), {}
        for stop in (*sorted(sizes), None):
            while stop is None or tree.size < stop:
                wanted = _CHUNK if stop is None else min(_CHUNK, stop - tree.size)
                leaves = merkle.leaf_hashes([record.line for record in islice(records, wanted)])
                if not leaves:
                    break
                if indices:
                    found = enumerate(leaves, tree.size)
                    self._leaves.update((index, leaf) for index, leaf in found if index in indices)
                tree.extend(leaves)
            if stop == tree.size:
                roots[stop] = tree.root()
        return tree.size, roots

    def _compare(self, name: str, point: checkpoint.Checkpoint, held: int, roots: dict[int, bytes]) -> None:
        if point.size > held:
            self._add("rows-missing", name, f"it covers {point.size} records, and {held} are here")
        elif roots[point.size] != point.root:
            self._add("root-mismatch", name, f"the first {point.size} records have another root than it states")
        elif point.size > self._checked.signed and not {one.code for one in self._checked.findings} & _UNFINISHED:
            text = f"it covers {point.size} records, and the bundles here {self._checked.signed}: bundles are missing"
            self._add("epoch-order", name, text)

    def _one(self, name: str, index: int, is_right: bool, text: str) -> None:
        if not is_right:
            self._add("root-mismatch", name, text, seq=index)

    def _add(
        self,
        code: str,
        name: str,
        text: str,
        epoch: int | None = None,
        *,
        seq: int | None = None,
        cause: str | None = None,
    ) -> None:
        self._notes.add(code, f"{name}: {text}.", epoch=epoch, seq=seq, where=name, cause=cause)


def _listed(names: Sequence[str]) -> tuple[str, ...]:
    """Return names as JSON can hold them, and how many more there are than are listed."""
    spelled = [os.fsencode(name).decode("utf-8", "backslashreplace") for name in names[:MOST_NAMES]]
    return (*spelled, *([f"and {len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []))


def _is_included(leaf: bytes, index: int, hashes: tuple[bytes, ...], point: checkpoint.Checkpoint) -> bool:
    try:
        merkle.check_inclusion(leaf, index, point.size, point.root, hashes)
    except TrustError:
        return False
    return True
