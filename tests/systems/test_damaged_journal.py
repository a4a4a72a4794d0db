"""A journal that a disk has damaged: the cause is told first, what follows from it is not called tampering."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import kglite
import pytest

import provstore
from provstore.cli.verify import verification_lines
from provstore.evidence.keys import PrivateKey
from provstore.journal import Journal, frames, segments
from provstore.model.verification import Verification
from tests.simulator import Scenario, Shape3D, simulate


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two sealed runs of four ranks each."""
    place, key = tmp_path_factory.mktemp("signed"), PrivateKey.generate()
    with provstore.open(f"embedded:{place / 'store'}") as store:
        for run in ("job", "other"):
            simulate(Scenario("ddp", Shape3D(world=4, steps=3))).write(place / run)
            store.ingest(place / run)
        store.seal(signer=key)
    (place / "key.hex").write_text(key.public_key.hex())
    return place


@pytest.fixture
def damaged(signed: Path, tmp_path: Path) -> Path:
    """A copy in which one bit of the facts of rank 3 of ``job`` fell over."""
    shutil.copytree(signed / "store", tmp_path / "store")
    with Journal.open(tmp_path / "store" / "journal", writable=False) as journal:
        (lost,) = [
            batch
            for _, batch in journal.batches()
            if batch.run == "job" and batch.source is not None and batch.source.rank == 3
        ]
    (segment,) = (tmp_path / "store" / "journal").glob("*.pvj")
    content = bytearray(segment.read_bytes())
    at = content.index(lost.source.sha256.encode())
    content[at] ^= 1
    segment.write_bytes(content)
    return tmp_path / "store"


@pytest.fixture
def judged(signed: Path) -> Callable[[Path, str], Verification]:
    belief = provstore.belief(public_keys=[signed / "key.hex"])

    def verify(store: Path, run: str) -> Verification:
        with provstore.open(f"embedded:{store}", read_only=True) as opened:
            (answer,) = opened.verify(run, belief=belief, refresh=False)
        return answer

    return verify


def with_malformed_head(store: Path, run: str) -> None:
    """Write the journal anew, with right checksums, so that the first batch of a run names no kind that is known."""
    ((number, path),) = segments.listing(store / "journal").items()
    header = segments.read_header(path, number)
    assert header is not None
    seed, made, is_done = frames.seed(header.journal_id, number), [frames.MAGIC], False
    with path.open("rb") as file:
        at = len(frames.MAGIC)
        while (found := frames.unchecked(file, at)) is not None:
            payload = found.payload
            if found.type in frames.FACTS and not is_done and b'"run":"%s"' % run.encode() in payload:
                payload, is_done = payload.replace(b'"kind":"batch"', b'"kind":"other"', 1), True
            made.append(frames.encode(found.type, found.jseq, payload, seed))
            at = found.end
    assert is_done
    path.write_bytes(b"".join(made))


def edit(store: Path, text: str) -> None:
    graph = kglite.open(str(store / "graph.kgl"), storage="mapped", durable="off")
    graph.cypher(text)
    graph.close()


def shown(answer: Verification, *, verbose: bool = False) -> list[str]:
    return [line.text for line in verification_lines(answer, width=200, verbose=verbose)]


def test_differences_that_follow_from_a_damaged_batch_name_it_as_their_cause_and_ask_for_exit_code_7(
    damaged: Path, judged: Callable[[Path, str], Verification]
) -> None:
    answer = judged(damaged, "job")
    following = [one for one in answer.findings if one.code in ("graph-mismatch", "rows-missing")]

    assert len(following) > 20
    assert {one.cause for one in following} == {"journal-damaged"}
    assert (answer.verdict, answer.exit_code) == ("fault", 7)


def test_the_cause_is_shown_first_and_what_follows_from_it_in_one_line_each(
    damaged: Path, judged: Callable[[Path, str], Verification]
) -> None:
    answer = judged(damaged, "job")
    lines = shown(answer)
    findings = [line for line in lines if line.startswith("  ") and "-" in line.partition(":")[0]]
    count = sum(one.code == "graph-mismatch" for one in answer.findings)

    assert findings[0].startswith("  journal-damaged: ")
    assert f"  graph-mismatch: {count} findings follow from journal-damaged: --verbose shows all" in lines
    assert sum("graph-mismatch" in line for line in lines) == 1
    assert sum(line.startswith("  graph-mismatch") for line in shown(answer, verbose=True)) == count


def test_a_change_of_what_another_batch_states_is_tampering_beyond_the_damage(
    damaged: Path, judged: Callable[[Path, str], Verification]
) -> None:
    edit(damaged, "MATCH (c:Call {run: 'job', rank: 2}) WITH c ORDER BY c.iri LIMIT 1 SET c.op = 'other'")
    answer = judged(damaged, "job")
    (beyond,) = [one for one in answer.findings if one.code == "graph-mismatch" and one.cause is None]

    assert beyond.where.endswith(" op")
    assert answer.exit_code == 1
    assert any(line.startswith("  graph-mismatch") and 'is "other"' in line for line in shown(answer))


def test_a_change_of_a_run_that_lost_nothing_is_tampering(
    damaged: Path, judged: Callable[[Path, str], Verification]
) -> None:
    edit(damaged, "MATCH (c:Call {run: 'other', rank: 2}) WITH c ORDER BY c.iri LIMIT 1 SET c.added = 1")
    answer = judged(damaged, "other")

    assert [(one.code, one.cause) for one in answer.findings if one.code == "graph-mismatch"] == [
        ("graph-mismatch", None)
    ]
    assert answer.exit_code == 1


def test_a_run_that_lost_nothing_is_told_of_the_damage_alone(
    damaged: Path, judged: Callable[[Path, str], Verification]
) -> None:
    answer = judged(damaged, "other")

    assert [one.code for one in answer.findings] == ["journal-damaged", "not-closed", "unanchored"]
    assert answer.exit_code == 7


def test_a_journal_that_lost_its_end_says_it_once(signed: Path, tmp_path: Path, judged) -> None:
    shutil.copytree(signed / "store", tmp_path / "store")
    (segment,) = (tmp_path / "store" / "journal").glob("*.pvj")
    with Journal.open(tmp_path / "store" / "journal", writable=False) as journal:
        (first,) = [batch for _, batch in journal.batches() if batch.run == "other"][:1]
    content = segment.read_bytes()
    segment.write_bytes(content[: content.index(first.source.sha256.encode())])
    answer = judged(tmp_path / "store", "job")
    (gone,) = [one for one in answer.findings if one.code == "acked-lost"]

    assert gone.text.startswith("the graph holds batches ")
    assert {one.cause for one in answer.findings if one.code == "graph-mismatch"} <= {"acked-lost", "journal-damaged"}
    assert not any("acked-lost: acked-lost" in line for line in shown(answer))


def test_a_batch_whose_head_says_nothing_stops_no_verification(signed: Path, tmp_path: Path, judged) -> None:
    shutil.copytree(signed / "store", tmp_path / "store")
    with_malformed_head(tmp_path / "store", "other")
    of_job, of_other = judged(tmp_path / "store", "job"), judged(tmp_path / "store", "other")

    for answer in (of_job, of_other):
        (named,) = [one for one in answer.findings if one.code == "journal-damaged"]
        assert "is not understood" in named.text
        assert answer.exit_code == 7
    assert [one.code for one in of_job.findings] == ["journal-damaged", "not-closed", "unanchored"]
    assert of_job.axes["signature"] == of_job.axes["tree"] == "ok"
    assert {one.cause for one in of_other.findings if one.code == "rows-missing"} == {"journal-damaged"}
    with provstore.open(f"embedded:{tmp_path / 'store'}", read_only=True) as opened:
        belief = provstore.belief(public_keys=[signed / "key.hex"])
        assert {one.run for one in opened.verify(belief=belief, refresh=False)} == {"job", "other"}
