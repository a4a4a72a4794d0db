"""What the bundles state against what the records give: roots, epoch files, rank chains, policy, the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from provstore.evidence.verify.bundles import Chain, Signed
from provstore.evidence.verify.content import Content
from provstore.evidence.verify.findings import POLICY, TREE, Notes
from provstore.evidence.verify.tree import EpochFile, Tree
from provstore.model.lost import DAMAGED
from provstore.model.verification import NEVER_CLOSED


@dataclass(slots=True)
class Comparison:
    """Compares bundle by bundle, in the order of the place."""

    tree: Tree
    notes: Notes
    matched: int = 0
    """Largest size at which a bundle of this run and the records agree."""
    _broken_at: int | None = None
    """Smallest size at which they do not."""
    _beyond: list[Signed] = field(default_factory=list)

    def compare(self, bundles: Sequence[Signed]) -> None:
        """Compare all bundles."""
        for one in bundles:
            self._one(one)
        if self._beyond and self.tree.is_whole:
            self._rows_missing()

    @property
    def first_broken(self) -> int | None:
        """Smallest size at which a bundle of this run and the records disagree."""
        return self._broken_at

    def is_sound(self, one: Signed) -> bool:
        """Return whether a bundle of this run has the root that the records give."""
        return not one.is_foreign and self.tree.roots.get(one.size) == one.root

    def _one(self, one: Signed) -> None:
        root = self.tree.roots.get(one.size)
        if one.is_foreign:
            if root != one.root:
                self._mismatch(one, "the records here are not those that were signed for the other run.", "wrong-run")
            return
        self.notes.checked(TREE, POLICY)
        is_lost = self.tree.lacks(one.size) and one.size <= self.tree.held
        if root is None and not is_lost:
            self._beyond.append(one)
            return
        file = self.tree.epochs.get((one.first, one.size))
        is_own_fault = file is None or file.sha256 != one.subject
        if file is not None and file.sha256 != one.subject:
            self.notes.add(
                "subject-mismatch",
                f"its records, {one.first} to {one.size - 1}, are not the ones that were signed.",
                epoch=one.number, seq=one.first, where=one.where, keyid=one.key.keyid,
            )  # fmt: skip
        if root is not None:
            self._root(one, root, is_own_fault=is_own_fault)
        if file is not None:
            self._policy(one, file)
            self._close(one, file)

    def _root(self, one: Signed, root: bytes, *, is_own_fault: bool) -> None:
        if root == one.root:
            self.matched = max(self.matched, one.size)
        else:
            self._root_mismatch(one, is_own_fault=is_own_fault)
        self._heads(one)

    def _root_mismatch(self, one: Signed, *, is_own_fault: bool) -> None:
        before = self._broken_at
        follows = before is not None and not is_own_fault
        self._broken_at = one.size if before is None else min(before, one.size)
        if follows:
            text = f"the tree over the first {one.size} records is not the signed one, because earlier records differ."
        else:
            text = (
                f"the tree over the first {one.size} records is not the signed one: "
                f"a record from {one.first} on differs, is missing or was added."
            )
        self._mismatch(one, text, "root-mismatch" if follows else None)

    def _mismatch(self, one: Signed, text: str, cause: str | None) -> None:
        self.notes.add(
            "root-mismatch", text,
            epoch=one.number, seq=one.first, where=one.where, keyid=one.key.keyid, cause=cause,
        )  # fmt: skip

    def _cause(self, one: Signed) -> str | None:
        if self.tree.lacks(one.size):
            # The record of its policy may be among those that are lost.
            return DAMAGED
        return None if self.is_sound(one) else "root-mismatch"

    def _heads(self, one: Signed) -> None:
        heads = self.tree.heads[one.size]
        if one.heads_sha256 is not None and one.heads_sha256 != heads.sha256:
            self.notes.add(
                "rank-head-mismatch",
                "the chains of its ranks do not end where the digest in its bundle says.",
                epoch=one.number, where=one.where, keyid=one.key.keyid, cause=self._cause(one),
            )  # fmt: skip

    def _policy(self, one: Signed, file: EpochFile) -> None:
        if one.policy == file.policy:
            return
        said, found = one.policy, file.policy
        if said.digest != found.digest:
            text = f"its bundle signs policy {said.digest[:16]}…, and the latest policy record is {found.digest[:16]}…."
        else:
            text = f"its bundle states mode {said.mode} ({said.reason}), its records {found.mode} ({found.reason})."
        self.notes.add(
            "policy-mismatch", text, epoch=one.number, where=one.where, keyid=one.key.keyid, cause=self._cause(one)
        )  # fmt: skip

    def _close(self, one: Signed, file: EpochFile) -> None:
        if one.closed == file.closes:
            return
        if one.closed:
            text = "its bundle closes the run, but the last of its records does not."
        else:
            text = "the last of its records closes the run, but its bundle does not."
        self.notes.add(
            "close-mismatch", text, epoch=one.number, seq=one.size - 1, where=one.where,
            cause=None if self.tree.lacks(one.size) else self._cause(one),
        )  # fmt: skip

    def _rows_missing(self) -> None:
        first, size = self._beyond[0], max(one.size for one in self._beyond)
        self.notes.add(
            "rows-missing",
            f"{size} records are signed, and {self.tree.held} are here.",
            epoch=first.number, seq=self.tree.held, where=first.where, keyid=first.key.keyid,
        )  # fmt: skip


def judge_end(chain: Chain, tree: Tree, content: Content, notes: Notes) -> None:
    """Note what stands behind the last bundle, and whether anybody closed the run."""
    if not chain.is_whole:
        return
    if tree.held > chain.signed_size and tree.is_whole:
        extra = tree.held - chain.signed_size
        notes.add(
            "unsigned-tail",
            f"no bundle covers the records from here on, {extra} in number.",
            seq=chain.signed_size, cause=chain.cause,
        )  # fmt: skip
        if chain.closed and content.closed_at is None:
            text = f"records follow the bundle that closed the run, {extra} in number."
            notes.add("after-close", text, seq=chain.signed_size)
    if not chain.closed:
        notes.add("not-closed", NEVER_CLOSED, cause=chain.cause, is_whole=True)
