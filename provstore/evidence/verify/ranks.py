"""Per-rank signatures: which rank's chain does not fit, whose key signed it, and who contradicts whom."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from provstore.errors import ProvstoreError
from provstore.evidence import dsse, rank_heads, statement
from provstore.evidence.trust.keys import RANK, Trust
from provstore.evidence.verify.bundles import Signed
from provstore.evidence.verify.content import Certificate, Content
from provstore.evidence.verify.digests import Doubt, Stated
from provstore.evidence.verify.findings import CHAIN, KEY, Notes
from provstore.evidence.verify.tree import Tree
from provstore.model.evidence import EvidenceLog, RankHead
from provstore.model.lost import DAMAGED
from provstore.model.verification import ASSERTED


@dataclass(slots=True)
class RankCheck:
    """Compares the rank heads in bundles with the records, and checks their signatures.

    Args:
        tree: What the records give.
        content: Certificates and digests among them.
        trust: Lists keys with the role ``rank``.
        proven: Records below this index are covered by a bundle whose key nobody doubts: certificates among them hold.
        notes: Where findings go.
    """

    tree: Tree
    content: Content
    trust: Trust
    proven: int
    notes: Notes
    _held: dict[int, tuple[RankHead, str | None]] = field(default_factory=dict)
    """Rank → the last head that was looked at, and the key that signed it."""
    _unsigned: set[int] = field(default_factory=set)

    def check(self, log: EvidenceLog, bundles: Sequence[Signed]) -> None:
        """Read the bundles that have rank heads once more, and judge them."""
        self._second_keys()
        self._digests_only(bundles)
        wanted = {one.position: one for one in bundles if not one.is_foreign and self._matters(one)}
        if not wanted:
            return
        reason = "its bundle changed while it was being verified"
        try:
            for one, epoch in _again(log, wanted):
                self._compare(one, epoch)
                for head in epoch.ranks:
                    self._signature(head, one)
                del wanted[one.position]
        except (ProvstoreError, OSError) as error:
            reason = str(error)
        for one in wanted.values():
            text = f"its ranks were not checked: {reason}."
            self.notes.add("check-unfinished", text, epoch=one.number, where=one.where, axis=CHAIN)

    def _digests_only(self, bundles: Sequence[Signed]) -> None:
        """Note the first bundle with so many ranks that it holds none of their signatures, although they have keys."""
        for one in bundles:
            if not one.is_foreign and one.heads_sha256 is not None and self.content.certificates:
                text = "its ranks have keys, and it holds a digest of their chains only: the collector alone vouches."
                self.notes.add("uncorroborated", text, epoch=one.number, where=one.where)
                return

    def _second_keys(self) -> None:
        """Note each record that gives a rank another key than the first one gave it."""
        for rank, certified in sorted(self.content.certificates.items()):
            first = certified[0].keyid
            for cert in certified[1:]:
                if cert.keyid != first:
                    text = (
                        f"rank {rank} has two keys, {first} and {cert.keyid}: whoever wrote to the journal before it "
                        "was signed may have added one."
                    )
                    epoch = self.content.epoch_of(cert.seq)
                    self.notes.add(
                        "uncorroborated", text, epoch=epoch, seq=cert.seq, rank=rank, keyid=cert.keyid, axis=KEY
                    )

    def name_doubts(self) -> None:
        """Note which shared digests nobody confirms, and which ranks contradict a majority."""
        for doubt in self.content.digests.doubts():
            if doubt.majority or len(doubt.stated) == 1:
                for said in doubt.stated:
                    self._name(doubt, said)
                continue
            seq = min(said.seq for said in doubt.stated)
            text = f"the ranks state different digests of {_what(doubt)}, and no majority tells who is right."
            self.notes.add("uncorroborated", text, epoch=self.content.epoch_of(seq), seq=seq)

    def _name(self, doubt: Doubt, said: Stated) -> None:
        rank = None if said.rank < 0 else said.rank
        keyid = self.key_of(rank)
        if rank is None:
            who = "The collector says"
        else:
            who = ASSERTED.format(rank=rank, keyid=keyid) if keyid else f"Asserted by rank {rank}, which has no key"
        rest = "no other of {1} ranks confirms it"
        if doubt.majority:
            rest = "it contradicts {0} of the {1} ranks that must hold the same"
        self.notes.add(
            "rank-disagrees" if doubt.majority else "uncorroborated",
            f"{who}: digest {said.sha256[:16]}… of {_what(doubt)}; {rest.format(doubt.majority, doubt.group)}.",
            epoch=self.content.epoch_of(said.seq), seq=said.seq, rank=rank, keyid=keyid,
        )  # fmt: skip

    def key_of(self, rank: int | None) -> str | None:
        """Return the key that answers for a rank's records, where one does."""
        if rank is None:
            return None
        certified = self._certified(rank)
        if certified:
            return certified[-1].keyid
        return self._held[rank][1] if rank in self._held else None

    def _matters(self, one: Signed) -> bool:
        heads = self.tree.heads.get(one.size)
        differs = heads is not None and one.heads_sha256 is None and one.heads != heads.digest
        return differs or one.has_rank_signatures or (one.heads_inside > 0 and bool(self.content.certificates))

    def _compare(self, one: Signed, epoch: statement.Epoch) -> None:
        heads = self.tree.heads.get(one.size)
        if heads is None or epoch.ranks_sha256 is not None or one.heads == heads.digest:
            return
        cause = None if self.tree.roots.get(one.size) == one.root else "root-mismatch"
        if heads.listed is None:
            text = "the chains of its ranks do not end where its bundle says."
            self.notes.add("rank-head-mismatch", text, epoch=one.number, where=one.where, cause=cause)
            return
        found = {rank: (count, head) for rank, count, head in heads.listed}
        stated = {head.rank: (head.count, head.head) for head in epoch.ranks}
        for rank in sorted(found.keys() | stated.keys()):
            if found.get(rank) == stated.get(rank):
                continue
            here, there = found.get(rank, (0, ""))[0], stated.get(rank, (0, ""))[0]
            text = (
                f"rank {rank}'s chain does not end where its bundle says: {there} records are signed, {here} are here."
            )
            if here == there:
                text = f"the {here} records of rank {rank} are not the ones whose chain is signed in its bundle."
            self.notes.add(
                "rank-head-mismatch", text,
                epoch=one.number, where=one.where, rank=rank, keyid=self.key_of(rank), cause=cause,
            )  # fmt: skip

    def _signature(self, head: RankHead, one: Signed) -> None:
        if head.sig is None:
            self._expect_signature(head.rank, one)
            return
        held = self._held.get(head.rank)
        if held is not None and held[0] == head:
            return
        keyid = head.keyid or ""
        publics = [cert.public for cert in self._certified(head.rank) if cert.keyid == keyid and cert.seq < one.size]
        publics += [key.public for key in self.trust.candidates(keyid, self.notes.run, (RANK,)) if key.keyid == keyid]
        code, text = (
            "untrusted-key",
            f"no trusted record or file says that key {keyid[:80]} is that of rank {head.rank}.",
        )
        for public in publics:
            if rank_heads.is_signed(head, self.notes.run, self.notes.attempt, public):
                self._held[head.rank] = (head, keyid)
                return
            code = "rank-head-mismatch"
            text = f"the signature over rank {head.rank}'s chain is not that of its key {keyid}."
        self._held[head.rank] = (head, None)
        # The record that names its key may be among those that are lost, or stand behind them.
        cause = DAMAGED if code == "untrusted-key" and self.tree.lacks(one.size) else None
        self.notes.add(
            code, text, epoch=one.number, where=one.where, rank=head.rank, keyid=keyid[:80], cause=cause,
            axis=CHAIN if code == "rank-head-mismatch" else None,
        )  # fmt: skip

    def _expect_signature(self, rank: int, one: Signed) -> None:
        certified = [cert for cert in self._certified(rank) if cert.seq < one.size]
        if certified and rank not in self._unsigned:
            self._unsigned.add(rank)
            text = f"rank {rank} has a key, but has not signed its chain: only the collector vouches for its records."
            self.notes.add(
                "uncorroborated", text, epoch=one.number, where=one.where, rank=rank, keyid=certified[-1].keyid
            )  # fmt: skip

    def _certified(self, rank: int) -> list[Certificate]:
        return [cert for cert in self.content.certificates.get(rank, ()) if cert.seq < self.proven]


def _again(log: EvidenceLog, wanted: dict[int, Signed]) -> Iterator[tuple[Signed, statement.Epoch]]:
    """Yield the bundles at these positions and their words, those that are still what they were."""
    for position, bundle in enumerate(log.bundles()):
        one = wanted.get(position)
        if one is None:
            continue
        payload = dsse.parse(bundle.envelope).payload
        if hashlib.sha256(payload).hexdigest() == one.payload_sha256:
            yield one, statement.parse(payload)


def _what(doubt: Doubt) -> str:
    return doubt.name if doubt.step is None else f"{doubt.name} at step {doubt.step}"
