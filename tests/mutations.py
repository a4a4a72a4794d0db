"""The 23 mutations of signed evidence, and what must be found: described once, applied to any place that holds it.

The model has 200 records of 4 ranks in 5 epochs of 40, and no closing bundle. A mutation is a list of edits that know
nothing of a journal or a graph; whoever applies them to a place translates each edit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from provstore.evidence.anchors import Anchor
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import Trust
from provstore.model.evidence import BundleAt
from tests.sealing import STORE, Log, Sealing, line, losses, sealed, signed_again, trusting

SIZES = (40,) * 5
HALF, FULL = 100, 200
ANCHORS = ("none", "half", "full")
EDITED, REWRITTEN = 70, 130
"""Records that are changed: one below the half anchor, one beyond it."""


@dataclass(frozen=True, slots=True)
class SetRecord:
    """The text of a record becomes another; its number stays."""

    index: int
    line: bytes


@dataclass(frozen=True, slots=True)
class SetProperty:
    """One thing that a graph shows of a record becomes another, or goes (``None``); its text stays."""

    index: int
    name: str
    value: object


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """A record goes; all others keep their numbers."""

    index: int


@dataclass(frozen=True, slots=True)
class Renumber:
    """Every record from a number on gets a number that differs by this much."""

    start: int
    by: int


@dataclass(frozen=True, slots=True)
class InsertRecord:
    """A record is put right behind the one with this number, and gets the same."""

    index: int
    line: bytes


@dataclass(frozen=True, slots=True)
class SwapNumbers:
    """Two records take each other's number, and with it each other's place."""

    one: int
    other: int


@dataclass(frozen=True, slots=True)
class AppendRecord:
    """A record comes at the end, with the next number."""

    line: bytes


@dataclass(frozen=True, slots=True)
class SetBundle:
    """What stands in the place of a bundle becomes another."""

    position: int
    bundle: BundleAt


@dataclass(frozen=True, slots=True)
class DeleteBundle:
    """A bundle goes."""

    position: int


@dataclass(frozen=True, slots=True)
class SwapBundles:
    """Two bundles take each other's place."""

    one: int
    other: int


@dataclass(frozen=True, slots=True)
class AppendBundle:
    """A bundle comes at the end."""

    bundle: BundleAt


Edit = (
    SetRecord | SetProperty | DeleteRecord | Renumber | InsertRecord | SwapNumbers | AppendRecord
    | SetBundle | DeleteBundle | SwapBundles | AppendBundle
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    """The signed run, another run of the same key, and what the verifier holds."""

    key: PrivateKey
    stranger: PrivateKey
    sealing: Sealing
    other: Sealing

    @property
    def log(self) -> Log:
        return self.sealing.log()

    @property
    def trust(self) -> Trust:
        return trusting(self.key)

    def anchors(self, setting: str) -> list[Anchor]:
        """The anchors of a setting: none, one of 100 records, or one of all."""
        sizes = {"none": [], "half": [HALF], "full": [FULL]}[setting]
        return [self.sealing.anchor(size) for size in sizes]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way of changing evidence, and the codes that it must give at least."""

    number: int
    name: str
    edits: Callable[[Model], list[Edit]]
    none: frozenset[str]
    half: frozenset[str]
    full: frozenset[str]
    finds_nothing: frozenset[str] = frozenset()
    """Settings in which only limits may be named."""
    properties: Callable[[Model], list[Edit]] | None = None
    """The same done to what a graph shows alone, for 1 to 5: ``graph-mismatch``."""
    epoch: int | None = None
    """Where the first finding must be."""

    def expected(self, setting: str) -> frozenset[str]:
        """The codes that must at least appear."""
        return {"none": self.none, "half": self.half, "full": self.full}[setting]


def build(store: str = STORE) -> Model:
    """Return a fresh model with fresh keys, signed for a store."""
    key = PrivateKey.generate()
    own, other = sealed(SIZES, key, store=store), sealed(SIZES, key, run="run-2", store=store)
    return Model(key, PrivateKey.generate(), own, other)


def applied(edits: list[Edit], log: Log) -> Log:
    """Return a log in memory after the edits."""
    changed = log.copy()
    rows: list[tuple[int, bytes]] = list(enumerate(changed.lines))
    for edit in edits:
        rows = _records_after(edit, rows)
        _edit_bundles(edit, changed.signed)
    changed.lines = [text for _, text in rows]
    changed.numbers = [number for number, _ in rows]
    return changed


def edited(text: bytes, **changes: Any) -> bytes:
    """Return a record with other members; a member ``None`` goes."""
    said = json.loads(text) | changes
    said = {name: value for name, value in said.items() if name not in changes or value is not None}
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _records_after(edit: Edit, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    match edit:
        case SetRecord(index, text):
            return [(n, text if n == index else old) for n, old in rows]
        case DeleteRecord(index):
            return [row for row in rows if row[0] != index]
        case Renumber(start, by):
            return [(n + by if n >= start else n, text) for n, text in rows]
        case InsertRecord(index, text):
            behind = 1 + next(at for at, (n, _) in enumerate(rows) if n == index)
            return [*rows[:behind], (index, text), *rows[behind:]]
        case SwapNumbers(one, other):
            turn = {one: other, other: one}
            return sorted(((turn.get(n, n), text) for n, text in rows), key=lambda row: row[0])
        case AppendRecord(text):
            return [*rows, (rows[-1][0] + 1, text)]
    return rows


def _edit_bundles(edit: Edit, bundles: list[BundleAt]) -> None:
    match edit:
        case SetBundle(position, bundle):
            bundles[position] = bundle
        case DeleteBundle(position):
            del bundles[position]
        case SwapBundles(one, other):
            bundles[one], bundles[other] = bundles[other], bundles[one]
        case AppendBundle(bundle):
            bundles.append(bundle)


def _values(model: Model, value: object) -> bytes:
    return edited(model.sealing.lines[EDITED], values=[{"n": "loss", "t": "i", "v": value}])


def _edit_one(model: Model) -> list[Edit]:
    return [SetRecord(EDITED, _values(model, "i64:71"))]


def _back_date(model: Model) -> list[Edit]:
    return [SetRecord(EDITED, edited(model.sealing.lines[EDITED], at="i64:946684800000000000"))]


def _to_float(model: Model) -> list[Edit]:
    text = model.sealing.lines[EDITED]
    return [SetRecord(EDITED, text.replace(b'"step":70', b'"step":70.0'))]


def _add_one(model: Model) -> list[Edit]:
    return [SetRecord(EDITED, edited(model.sealing.lines[EDITED], extra="more"))]


def _remove_one(model: Model) -> list[Edit]:
    return [SetRecord(EDITED, edited(model.sealing.lines[EDITED], step=None))]


def _delete_and_renumber(model: Model) -> list[Edit]:
    return [DeleteRecord(EDITED), Renumber(EDITED, -1)]


def _insert(model: Model) -> list[Edit]:
    return [InsertRecord(EDITED, _values(model, "i64:-1"))]


def _append(model: Model) -> list[Edit]:
    return [AppendRecord(losses(204)[-4])]


def _replay(model: Model) -> list[Edit]:
    return [AppendBundle(model.sealing.signed[2])]


def _foreign(model: Model) -> list[Edit]:
    return [SetBundle(2, model.other.signed[2])]


def _flip_payload(model: Model) -> list[Edit]:
    said = json.loads(model.sealing.signed[2].envelope)
    text = said["payload"]
    # The middle of base64 text: a letter becomes another letter, so the payload differs in some bits.
    at = len(text) // 2
    said["payload"] = text[:at] + ("B" if text[at] != "B" else "C") + text[at + 1 :]
    return [SetBundle(2, _enveloped(model, said))]


def _edit_policy(model: Model) -> list[Edit]:
    import base64

    said = json.loads(model.sealing.signed[2].envelope)
    payload = json.loads(base64.b64decode(said["payload"]))
    payload["predicate"]["policy"]["mode"] = "full"
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    said["payload"] = base64.b64encode(text.encode()).decode()
    return [SetBundle(2, _enveloped(model, said))]


def _strip(model: Model) -> list[Edit]:
    said = json.loads(model.sealing.signed[2].envelope)
    return [SetBundle(2, _enveloped(model, said | {"signatures": []}))]


def _enveloped(model: Model, said: dict[str, Any]) -> BundleAt:
    envelope = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    return replace(model.sealing.signed[2], envelope=envelope)


def _sign_as_stranger(model: Model) -> list[Edit]:
    return [SetBundle(2, signed_again(model.sealing.signed[2], lambda said: None, model.stranger))]


def _drop_last_epoch(model: Model) -> list[Edit]:
    return [DeleteBundle(4), *(DeleteRecord(index) for index in range(160, 200))]


def _restore_epoch_1(model: Model) -> list[Edit]:
    return [*(DeleteBundle(at) for at in (4, 3, 2)), *(DeleteRecord(index) for index in range(80, 200))]


def _empty(model: Model) -> list[Edit]:
    return [*(DeleteBundle(at) for at in (4, 3, 2, 1, 0)), *(DeleteRecord(index) for index in range(200))]


def _rewrite(model: Model) -> list[Edit]:
    """Whoever holds the signing key signs another history from record 130 on."""
    lines = list(model.sealing.lines)
    lines[REWRITTEN] = edited(lines[REWRITTEN], values=[{"n": "loss", "t": "i", "v": "i64:0"}])
    forged = Sealing(model.key, store=model.sealing.store)
    for start in range(0, 200, 40):
        forged.add(lines[start : start + 40])
    edits: list[Edit] = [SetRecord(REWRITTEN, lines[REWRITTEN])]
    return [*edits, SetBundle(3, forged.signed[3]), SetBundle(4, forged.signed[4])]


def _of(codes: str) -> frozenset[str]:
    return frozenset(codes.split())


def _tree(number: int, name: str, edits: Callable[[Model], list[Edit]], codes: str, **own: Any) -> Mutation:
    """A change of records below the half anchor: every anchor sees a fork."""
    found = _of(codes)
    return Mutation(number, name, edits, found, found | {"fork"}, found | {"fork"}, epoch=1, **own)


def _chain(
    number: int, name: str, edits: Callable[[Model], list[Edit]], codes: str, full: str = "", epoch: int = 2
) -> Mutation:
    found = _of(codes)
    return Mutation(number, name, edits, found, found, found | _of(full), epoch=epoch)


def _shown(name: str, value: object) -> Callable[[Model], list[Edit]]:
    return lambda _: [SetProperty(EDITED, name, value)]


_FOLLOWS = " chain-broken epoch-order range-gap"
_NOTHING: frozenset[str] = frozenset()
_ROLLBACK, _FORK = frozenset(("rollback",)), frozenset(("fork",))

MUTATIONS = (
    _tree(1, "edit one property", _edit_one, "root-mismatch", properties=_shown("name", "gain")),
    _tree(2, "back-date a record", _back_date, "root-mismatch", properties=_shown("at_ns", 946_684_800_000_000_000)),
    _tree(3, "3 becomes 3.0", _to_float, "root-mismatch", properties=_shown("step", 70.0)),
    _tree(4, "add a property", _add_one, "root-mismatch", properties=_shown("extra", "more")),
    _tree(5, "remove a property", _remove_one, "root-mismatch", properties=_shown("step", None)),
    _tree(6, "delete a middle record", lambda _: [DeleteRecord(EDITED)], "seq-gap-or-dup root-mismatch rows-missing"),
    _tree(7, "delete and renumber", _delete_and_renumber, "root-mismatch rows-missing"),
    _tree(8, "insert a record", _insert, "seq-gap-or-dup root-mismatch unsigned-tail"),
    _tree(9, "swap the numbers of two records", lambda _: [SwapNumbers(EDITED, EDITED + 4)], "root-mismatch"),
    Mutation(10, "delete the last record", lambda _: [DeleteRecord(199)], *[_of("rows-missing")] * 3, epoch=4),
    Mutation(11, "append an unsigned record", _append, *[_of("unsigned-tail")] * 3),
    _chain(12, "delete a middle bundle", lambda _: [DeleteBundle(2)], _FOLLOWS, epoch=3),
    _chain(13, "swap two bundles", lambda _: [SwapBundles(2, 3)], _FOLLOWS),
    _chain(14, "replay a bundle at the end", _replay, _FOLLOWS + " unsigned-tail", full="rollback"),
    _chain(15, "bundle of another run", _foreign, "wrong-run chain-broken root-mismatch"),
    _chain(16, "flip a bit of a payload", _flip_payload, "bad-signature" + _FOLLOWS),
    _chain(17, "edit the policy in a bundle", _edit_policy, "bad-signature" + _FOLLOWS),
    _chain(18, "strip the signature", _strip, "bad-signature" + _FOLLOWS),
    _chain(19, "sign again with an unknown key", _sign_as_stranger, "untrusted-key" + _FOLLOWS),
    Mutation(
        20, "drop the last bundle and its records", _drop_last_epoch, _NOTHING, _NOTHING, _ROLLBACK,
        finds_nothing=frozenset(("none", "half")),
    ),
    Mutation(
        21, "restore the store as of epoch 1", _restore_epoch_1, _NOTHING, _ROLLBACK, _ROLLBACK,
        finds_nothing=frozenset(("none",)),
    ),
    Mutation(
        22, "empty the store", _empty, _of("no-bundles"), _ROLLBACK, _ROLLBACK, finds_nothing=frozenset(("none",))
    ),
    Mutation(
        23, "rewrite with the stolen key", _rewrite, _NOTHING, _NOTHING, _FORK,
        finds_nothing=frozenset(("none", "half")),
    ),
)  # fmt: skip

__all__ = ["ANCHORS", "FULL", "HALF", "MUTATIONS", "Edit", "Model", "Mutation", "applied", "build", "edited", "line"]
