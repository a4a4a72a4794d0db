"""A journal whose disk lost records or bundles: what follows from that is damage, a change beside it is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import kglite
import pytest

import provstore
from provstore.evidence.keys import PrivateKey
from provstore.journal import frames, segments
from provstore.model import canonical
from provstore.model.evidence import Observation
from provstore.model.verification import Verification
from tests.simulator import Scenario, Shape3D, simulate

RECORDS, BUNDLES = (1, 2, 4, 5, 7, 8), (3, 6, 9)
"""Frames about the run in the journal below, by number."""
Judge = Callable[..., Verification]


@dataclass(frozen=True)
class At:
    """One frame and where it lies."""

    type: int
    jseq: int
    payload: bytes
    end: int


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one run: three epochs of two frames of four records each, each followed by its bundle."""
    place, key = tmp_path_factory.mktemp("signed"), PrivateKey.generate()
    with provstore.open(f"embedded:{place / 'store'}") as store:
        for step in range(6):
            values = [Observation("loss", {"value": step + rank / 8}, rank=rank, step=step) for rank in range(4)]
            store.record(values, run="job")
            if step % 2:
                store.seal(run="job", signer=key)
        for step in range(2):
            store.record([Observation("loss", {"value": 1.0}, rank=0, step=step)], run="other")
    (place / "key.hex").write_text(key.public_key.hex())
    return place


@pytest.fixture
def store(signed: Path, tmp_path: Path) -> Path:
    shutil.copytree(signed / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def judged(signed: Path) -> Judge:
    belief = provstore.belief(public_keys=[signed / "key.hex"])

    def verify(store: Path, source: str = "both") -> Verification:
        with provstore.open(f"embedded:{store}", read_only=True) as opened:
            (answer,) = opened.verify("job", belief=belief, source=source, refresh=False)
        return answer

    return verify


def listed(store: Path) -> list[At]:
    ((_, path),) = segments.listing(store / "journal").items()
    found, at = [], len(frames.MAGIC)
    with path.open("rb") as file:
        while (frame := frames.unchecked(file, at)) is not None:
            found.append(At(frame.type, frame.jseq, frame.payload, frame.end))
            at = frame.end
    return found


def damage(store: Path, number: int) -> None:
    """Let one bit of a frame fall over."""
    ((_, path),) = segments.listing(store / "journal").items()
    content = bytearray(path.read_bytes())
    content[listed(store)[number].end - 8] ^= 1
    path.write_bytes(content)


def rewrite(store: Path, change: Callable[[list[At]], list[At]]) -> None:
    """Write the journal anew with right checksums and numbers without a hole: no disk does that."""
    ((number, path),) = segments.listing(store / "journal").items()
    header = segments.read_header(path, number)
    assert header is not None
    seed, first = frames.seed(header.journal_id, number), listed(store)[0].jseq
    changed = enumerate(change(listed(store)), first)
    path.write_bytes(b"".join((frames.MAGIC, *(frames.encode(one.type, at, one.payload, seed) for at, one in changed))))


def without(*numbers: int) -> Callable[[list[At]], list[At]]:
    return lambda all_: [one for number, one in enumerate(all_) if number not in numbers]


def altered(number: int) -> Callable[[list[At]], list[At]]:
    """Another value in the last record of a frame."""

    def change(all_: list[At]) -> list[At]:
        one = all_[number]
        head, sep, last = one.payload.rpartition(b'"v":"f64:')
        assert sep
        digit = b"1" if last[:1] != b"1" else b"2"
        return [*all_[:number], replace(one, payload=head + sep + digit + last[1:]), *all_[number + 1 :]]

    return change


def uncaused(answer: Verification) -> list[tuple[str, int | None]]:
    """Code and epoch of the faults that follow from nothing."""
    limits = {"journal-damaged", "not-closed", "unanchored", "unsigned-tail"}
    return [(one.code, one.epoch) for one in answer.findings if one.cause is None and one.code not in limits]


def edit(store: Path, text: str) -> None:
    graph = kglite.open(str(store / "graph.kgl"), storage="mapped", durable="off")
    graph.cypher(text)
    graph.close()


def test_the_journal_is_the_one_that_these_tests_speak_of(store: Path, judged: Judge) -> None:
    types = [one.type for one in listed(store)]

    assert tuple(number for number, kind in enumerate(types) if kind == frames.RECORDS) == (*RECORDS, 10, 11)
    assert tuple(number for number, kind in enumerate(types) if kind == frames.BUNDLE) == BUNDLES
    assert (uncaused(judged(store)), judged(store).exit_code) == ([], 3)


@pytest.mark.parametrize("source", ["both", "journal"])
@pytest.mark.parametrize("number", [*RECORDS, *BUNDLES])
def test_what_follows_from_one_lost_frame_is_damage_and_no_tampering(
    number: int, source: str, store: Path, judged: Judge
) -> None:
    damage(store, number)
    answer = judged(store, source)

    assert uncaused(answer) == []
    assert {one.cause for one in answer.findings} <= {None, "journal-damaged"}
    assert (answer.verdict, answer.exit_code) == ("fault", 7)


@pytest.mark.parametrize("number", RECORDS)
def test_the_records_that_are_lost_are_named_and_those_that_are_left_are_not_called_others(
    number: int, store: Path, judged: Judge
) -> None:
    first = json.loads(listed(store)[number].payload.partition(b"\n")[0])["first"]
    damage(store, number)
    answer = judged(store, "journal")
    (lost,) = [one for one in answer.findings if one.code == "rows-missing"]

    assert (answer.counts["records"], answer.counts["signed"]) == (20, 24)
    assert lost.seq == first
    assert f"the records from here to {first + 3} are not here: the journal lost them to damage" in lost.text


@pytest.mark.parametrize(
    ("lost", "changed", "told"),
    [
        (4, 7, ("subject-mismatch", 2)),
        (4, 2, ("root-mismatch", 0)),
        (3, 2, ("subject-mismatch", None)),
        (3, 7, ("root-mismatch", 2)),
        (8, 4, ("root-mismatch", 1)),
    ],
    ids=["behind lost records", "before lost records", "in the lost epoch", "behind a lost bundle", "before its end"],
)
def test_a_changed_record_beside_what_is_lost_is_tampering(
    lost: int, changed: int, told: tuple[str, int], store: Path, judged: Judge
) -> None:
    rewrite(store, altered(changed))
    damage(store, lost)
    answer = judged(store, "journal")

    if told[1] is None:
        # Its own bundle is gone; the next one signs the tree over all records up to its own.
        assert "root-mismatch" in {code for code, _ in uncaused(answer)}
    else:
        assert told in uncaused(answer)
    assert answer.exit_code == 1


@pytest.mark.parametrize(
    ("gone", "lost"), [((1,), 7), ((4,), 7), ((4, 5), 8), ((3,), 7), ((7, 8), 10)],
    ids=["first records", "records", "an epoch's records", "a bundle", "records whose bundle is in front of the loss"],
)  # fmt: skip
def test_frames_that_somebody_took_out_are_missed_whatever_was_damaged_elsewhere(
    gone: tuple[int, ...], lost: int, store: Path, judged: Judge
) -> None:
    rewrite(store, without(*gone))
    damage(store, lost - len(gone))
    answer = judged(store, "journal")

    assert uncaused(answer)
    assert answer.exit_code == 1


def test_what_the_graph_says_of_a_lost_record_must_still_be_what_its_own_line_says(store: Path, judged: Judge) -> None:
    damage(store, 4)
    edit(store, "MATCH (r:Record {run: 'job', leaf_index: 9}) SET r.name = 'other'")
    answer = judged(store)

    assert ("graph-mismatch", 1) in uncaused(answer)
    assert answer.exit_code == 1


def test_a_number_that_no_damage_can_explain_is_not_counted_up_to(store: Path, judged: Judge) -> None:
    def far(all_: list[At]) -> list[At]:
        head, _, rest = all_[5].payload.partition(b"\n")
        said = json.loads(head) | {"first": 10**15}
        return [*all_[:5], replace(all_[5], payload=canonical.encode(said) + b"\n" + rest), *all_[6:]]

    rewrite(store, far)
    damage(store, 4)

    assert judged(store, "journal").exit_code == 1


def test_a_closed_run_whose_records_of_batches_are_lost_has_no_facts_that_came_after_its_end(
    tmp_path: Path,
) -> None:
    key = PrivateKey.generate()
    (tmp_path / "key.hex").write_text(key.public_key.hex())
    simulate(Scenario("ddp", Shape3D(world=2, steps=3))).write(tmp_path / "dumps")
    with provstore.open(f"embedded:{tmp_path / 'closed'}") as store:
        store.ingest(tmp_path / "dumps", run="job")
        store.seal(run="job", signer=key)
        store.record([Observation("loss", {"value": 1.0}, rank=0, step=0)], run="job")
        store.seal(run="job", signer=key, close="finished")
        store.record([Observation("loss", {"value": 1.0}, rank=0, step=0)], run="other")
    frame = next(number for number, one in enumerate(listed(tmp_path / "closed")) if b'"kind":"ingest"' in one.payload)
    damage(tmp_path / "closed", frame)
    with provstore.open(f"embedded:{tmp_path / 'closed'}", read_only=True) as opened:
        belief = provstore.belief(public_keys=[tmp_path / "key.hex"])
        (answer,) = opened.verify("job", belief=belief, source="journal", refresh=False)

    assert [one.cause for one in answer.findings if one.code == "after-close"] == ["journal-damaged"]
    assert (uncaused(answer), answer.exit_code) == ([], 7)
