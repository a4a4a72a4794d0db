"""A signed store in the hands of somebody who knows its formats and has no key: what was changed is named."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kglite
import pytest

import provstore
from provstore.cli.verify import verification_lines
from provstore.errors import ProvstoreError, StoreError, TrustError
from provstore.evidence import records
from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.evidence.trust.keys import Trust
from provstore.evidence.verify.file import verify_file
from provstore.evidence.verify.walk import verify as judge_bytes
from provstore.journal import Journal, blobs, frames, segments
from provstore.model import canonical
from provstore.model.block import Block, Nodes, Relations
from provstore.model.evidence import Observation
from provstore.model.verification import Verification
from tests.sealing import Sealing, line, losses
from tests.simulator import Scenario, Shape3D, simulate

CLEAN = {"unanchored", "not-closed"}
JOB = "https://w3id.org/provstore/id/job/0"
Frame = tuple[int, bytes]
Change = Callable[[int, bytes], list[Frame]]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PrivateKey]:
    """A sealed store of two ranks and the dumps it was made from, which tests copy."""
    place, key = tmp_path_factory.mktemp("attacked"), PrivateKey.generate()
    simulate(Scenario("ddp", Shape3D(world=2, steps=3))).write(place / "job")
    with provstore.open(f"embedded:{place / 'store'}") as store:
        store.ingest(place / "job")
        store.record([Observation("loss", {"value": 0.5}, rank=1, step=1)], run="job")
        store.seal(signer=key)
    (place / "key.hex").write_text(key.public_key.hex())
    return place, key


@pytest.fixture
def store(made: tuple[Path, PrivateKey], tmp_path: Path) -> Path:
    shutil.copytree(made[0] / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def belief(made: tuple[Path, PrivateKey]) -> provstore.Belief:
    return provstore.belief(public_keys=[made[0] / "key.hex"])


def judged(
    store: Path, belief: provstore.Belief, run: str | None = "job", source: str = "both"
) -> tuple[Verification, ...]:
    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        return opened.verify(run, belief=belief, source=source, refresh=False)


def codes(answers: tuple[Verification, ...]) -> set[str]:
    return {one.code for answer in answers for one in answer.findings}


def rewrite(store: Path, change: Change) -> None:
    """Write the journal anew, frame by frame, with the right numbers and checksums; then the graph from it."""
    _rewritten(store, change)
    provstore.rebuild(f"embedded:{store}")


def _rewritten(store: Path, change: Change) -> None:
    ((number, path),) = segments.listing(store / "journal").items()
    header = segments.read_header(path, number)
    assert header is not None
    start, jseq, made = frames.seed(header.journal_id, number), header.jseq, [frames.MAGIC]
    for kind, payload in list(_frames(path)):
        for new_kind, new in [(kind, payload)] if kind == frames.HEADER else change(kind, payload):
            jseq += kind != frames.HEADER
            made.append(frames.encode(new_kind, jseq, new, start))
    path.write_bytes(b"".join(made))


def _frames(path: Path) -> Iterator[Frame]:
    with path.open("rb") as file:
        at = len(frames.MAGIC)
        while (found := frames.unchecked(file, at)) is not None:
            yield found.type, found.payload
            at = found.end


def head_of(payload: bytes) -> tuple[dict[str, Any], list[bytes]]:
    first, *lines = payload.split(b"\n")
    return json.loads(first), lines


def payload_of(head: dict[str, Any], lines: list[bytes]) -> bytes:
    return b"\n".join((canonical.encode(head), *lines))


def of_batches(edit: Callable[[dict[str, Any], list[bytes]], list[bytes]]) -> Change:
    """Change every batch: ``edit`` changes the head in place and gives the new lines."""

    def change(kind: int, payload: bytes) -> list[Frame]:
        if kind != frames.LINES:
            return [(kind, payload)]
        head, lines = head_of(payload)
        return [(kind, payload_of(head, edit(head, lines)))]

    return change


def altered(lines: list[bytes]) -> list[bytes]:
    found = [line.replace(b"all_reduce", b"all_gather") for line in lines]
    assert found != lines
    return found


def digest(lines: list[bytes]) -> str:
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def in_graph(store: Path, *texts: str) -> None:
    """Write to the graph file by the engine alone, as another program would."""
    graph = kglite.open(str(store / "graph.kgl"), storage="mapped", durable="off")
    for text in texts:
        graph.cypher(text)
    graph.close()


def test_the_store_that_is_attacked_is_clean(store: Path, belief: provstore.Belief) -> None:
    rewrite(store, lambda kind, payload: [(kind, payload)])

    for source in ("both", "journal", "graph"):
        assert codes(judged(store, belief, source=source)) == CLEAN


def test_facts_are_compared_and_not_the_digest_that_their_frame_states(store: Path, belief: provstore.Belief) -> None:
    def edit(head: dict[str, Any], lines: list[bytes]) -> list[bytes]:
        head |= {"sha256": digest(lines), "size": 1}
        return altered(lines)

    rewrite(store, of_batches(edit))

    for source in ("both", "journal"):
        (answer,) = judged(store, belief, source=source)
        assert answer.verdict == "fault"
        assert "subject-mismatch" in codes((answer,))
        assert answer.axes["journal"] == "fault"


def test_a_second_record_of_a_batch_does_not_stand_in_for_the_signed_one(
    store: Path, belief: provstore.Belief, made: tuple[Path, PrivateKey]
) -> None:
    digests: list[str] = []
    signed: list[tuple[dict[str, Any], list[bytes]]] = []

    def change(kind: int, payload: bytes) -> list[Frame]:
        if kind == frames.LINES:
            head, lines = head_of(payload)
            digests.append(digest(altered(lines)))
            return [(kind, payload_of(head, altered(lines)))]
        if kind == frames.RECORDS and b'"kind":"ingest"' in payload:
            signed.append(head_of(payload))
        if kind != frames.BUNDLE:
            return [(kind, payload)]
        ((head, lines),) = signed
        again = [json.loads(line) for line in lines]
        for said, new in zip(again, digests, strict=True):
            said["facts"]["sha256"] = new
            said["n"] += 1
        forged = payload_of(head | {"first": 3}, [canonical.encode(said) for said in again])
        return [(kind, payload), (frames.RECORDS, forged)]

    rewrite(store, change)
    before = judged(store, belief)
    with provstore.open(f"embedded:{store}") as opened, contextlib.suppress(ProvstoreError):
        opened.seal(signer=made[1])
    after = judged(store, belief)

    for answers in (before, after):
        assert {"subject-mismatch"} <= codes(answers)
        assert answers[0].verdict == "fault"


STATED = {"kept": False, "reader": "other", "version": "9", "size": 7, "setAside": 5, "rank": 9, "element": f"{JOB}/x"}


@pytest.mark.parametrize("name", [*STATED, "rows"])
def test_a_batch_is_all_that_its_record_says_of_it(name: str, store: Path, belief: provstore.Belief) -> None:
    def edit(head: dict[str, Any], lines: list[bytes]) -> list[bytes]:
        if name == "rows":
            head["rows"] += 1
        else:
            head["source"][name] = STATED[name]
        return lines

    rewrite(store, of_batches(edit))

    (answer,) = judged(store, belief, source="journal")
    assert answer.verdict == "fault"
    assert "subject-mismatch" in codes((answer,))


def test_facts_that_nobody_signed_about_this_run_are_named_whatever_run_they_are_put_in(
    store: Path, belief: provstore.Belief
) -> None:
    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        (row,) = opened.cypher("MATCH (c:Call {rank: 1}) RETURN c.iri AS iri ORDER BY iri LIMIT 1").rows
    extra = Nodes(("Element", "Entity", "Suspicious"), [row["iri"]], {"verdict": ["hang"]})
    cause = Relations("WAS_DERIVED_FROM", [row["iri"]], [f"{JOB}/record/0"])
    with Journal.open(store / "journal", writable=True) as journal:
        journal.append(Block("other", 0, (extra, Nodes(("Element",), [f"{JOB}/record/0"])), (cause,)))

    (answer,) = judged(store, belief)
    assert "unsigned-tail" in codes((answer,))
    assert any("run other" in one.text for one in answer.findings)


def test_facts_of_another_run_that_mention_this_one_change_nothing_of_it(store: Path, belief: provstore.Belief) -> None:
    mine = "https://w3id.org/provstore/id/other/0/mine"
    nodes = (
        Nodes(("Element", "Entity"), [mine], {"run": ["other"], "attempt": [0]}),
        Nodes(("Element",), [f"{JOB}/record/0"]),
    )
    with Journal.open(store / "journal", writable=True) as journal:
        journal.append(Block("other", 0, nodes, (Relations("WAS_DERIVED_FROM", [mine], [f"{JOB}/record/0"]),)))

    assert codes(judged(store, belief)) == CLEAN


@pytest.mark.parametrize(
    "stated",
    [
        {"encoding": "parquet", "sha256": ""},
        {"encoding": "parquet", "sha256": "../../../etc/passwd"},
        {"encoding": "parquet", "sha256": 5},
        {"encoding": "other"},
        {"run": None},
        {"run": ["job"]},
        {"run": {}},
        {"run": True},
        {"attempt": "0"},
        {"attempt": [0]},
        {"attempt": True},
        {"rows": "all"},
    ],
    ids=str,
)
def test_a_frame_that_is_no_batch_is_named_and_never_a_crash(
    stated: dict[str, Any], store: Path, belief: provstore.Belief
) -> None:
    def edit(head: dict[str, Any], lines: list[bytes]) -> list[bytes]:
        head |= stated
        return lines

    _rewritten(store, of_batches(edit))

    for source in ("both", "journal"):
        (answer,) = judged(store, belief, source=source)
        named = [one for one in answer.findings if one.code == "journal-damaged"]
        assert len(named) == 2
        assert all("is not understood" in one.text for one in named)
        # What was signed of it cannot be compared: that follows from the frame, which is told first.
        assert {one.cause for one in answer.findings if one.code == "rows-missing"} == {"journal-damaged"}
        assert answer.exit_code == 7


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [pipe, device])
def test_a_pipe_or_device_in_the_place_of_a_segment_is_not_read(
    put: Callable[[Path], None], store: Path, belief: provstore.Belief
) -> None:
    put(store / "journal" / "seg-00000002.pvj")

    with pytest.raises(StoreError, match="is no regular file"):
        judged(store, belief)


@pytest.mark.parametrize("put", [pipe, device])
def test_a_pipe_or_device_in_the_place_of_facts_is_not_read(put: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / ("0" * 64)
    put(path)

    assert blobs.facts_fault(path, "0" * 64) == "altered"
    assert blobs.source_fault(path, "0" * 64) == "altered"
    with pytest.raises(StoreError, match="is no regular file"):
        blobs.read_facts(path, "0" * 64)


def test_what_hides_behind_the_label_of_positions_is_found(store: Path, belief: provstore.Belief) -> None:
    in_graph(store, f"CREATE (:Element:Entity:Call:Applied {{iri: '{JOB}/mine', run: 'job', attempt: 0, rank: 1}})")

    (answer,) = judged(store, belief)
    assert f"{JOB}/mine" in [one.where for one in answer.findings if one.code == "graph-mismatch"]


@pytest.mark.parametrize("extra", ["key: 'other', jseq: 1", "jseq: 1", "key: 5, jseq: 'x'"])
def test_a_second_position_in_an_embedded_graph_hides_nothing(
    extra: str, store: Path, belief: provstore.Belief
) -> None:
    in_graph(
        store,
        f"CREATE (:Applied {{{extra}}})",
        "CREATE (:Signature {key: 'zz', op: 'x'})",
        "MATCH (c:Call {rank: 1}) WITH c LIMIT 1 CREATE (:Element {iri: 'https://x/y'})-[:WAS_DERIVED_FROM]->(c)",
    )

    (answer,) = judged(store, belief)
    told = {one.where for one in answer.findings if one.code == "graph-mismatch"}
    assert {"zz", "https://x/y"} <= told


def test_a_graph_that_states_no_journal_of_ours_hides_nothing(store: Path, belief: provstore.Belief) -> None:
    in_graph(store, "CREATE (:Applied {key: 'other', jseq: 1})")

    assert "graph-mismatch" in codes(judged(store, belief))


@pytest.mark.parametrize("run", ["job", None])
def test_facts_of_an_attempt_that_nothing_recorded_are_found(
    run: str | None, store: Path, belief: provstore.Belief
) -> None:
    iri = "https://w3id.org/provstore/id/job/1/x"
    in_graph(store, f"CREATE (:Element:Entity:Call {{iri: '{iri}', run: 'job', attempt: 1, rank: 0}})")

    answers = judged(store, belief, run)
    assert iri in {one.where for answer in answers for one in answer.findings if one.code == "graph-mismatch"}


@pytest.mark.parametrize("source", ["both", "journal", "graph"])
def test_a_store_that_was_replaced_is_judged_from_every_source(
    source: str, store: Path, made: tuple[Path, PrivateKey], tmp_path: Path
) -> None:
    belief = provstore.belief(public_keys=[made[0] / "key.hex"], state=tmp_path / "anchors")
    with provstore.open(f"embedded:{store}", read_only=True) as opened:
        opened.verify("job", belief=belief)
    shutil.rmtree(store)
    with provstore.open(f"embedded:{store}") as opened:
        opened.ingest(made[0] / "job")
        opened.seal(signer=made[1])

    answers = judged(store, belief, source=source)
    assert len(answers) == 2
    assert "rollback" in codes(answers)


def test_a_graph_of_another_store_is_not_taken_for_this_one(
    store: Path, belief: provstore.Belief, made: tuple[Path, PrivateKey], tmp_path: Path
) -> None:
    with provstore.open(f"embedded:{tmp_path / 'other'}") as opened:
        opened.ingest(made[0] / "job")
        opened.record([Observation("loss", {"value": 0.7}, rank=1, step=1)], run="job")
        opened.seal(signer=made[1])
    with Journal.open(store / "journal", writable=False) as journal:
        name, position = journal.journal_id, journal.position
    shutil.copy(tmp_path / "other" / "graph.kgl", store / "graph.kgl")
    in_graph(store, f"CREATE (:Applied {{key: '{name}', jseq: {position}}})")

    for source in ("both", "graph"):
        assert "wrong-run" in codes(judged(store, belief, source=source))


def test_a_journal_without_a_name_takes_no_bundle(store: Path, belief: provstore.Belief) -> None:
    ((number, path),) = segments.listing(store / "journal").items()
    start, written = frames.seed("", number), [frames.MAGIC]
    for jseq, (kind, payload) in enumerate(_frames(path), 1):
        text = canonical.encode(json.loads(payload) | {"store": ""}) if kind == frames.HEADER else payload
        written.append(frames.encode(kind, jseq, text, start))
    path.write_bytes(b"".join(written))
    marker = json.loads((store / "journal" / "journal.json").read_text()) | {"store": ""}
    (store / "journal" / "journal.json").write_bytes(canonical.encode(marker) + b"\n")

    with pytest.raises(StoreError):
        provstore.rebuild(f"embedded:{store}")


def test_facts_that_follow_the_end_of_a_closed_run_are_a_fault(
    store: Path, belief: provstore.Belief, made: tuple[Path, PrivateKey]
) -> None:
    with provstore.open(f"embedded:{store}") as opened:
        opened.seal(signer=made[1], close="finished")
    assert codes(judged(store, belief)) == {"unanchored"}
    later = Block("job", 0, (Nodes(("Element", "Entity"), [f"{JOB}/later"], {"run": ["job"], "attempt": [0]}),))
    with Journal.open(store / "journal", writable=True) as journal:
        journal._known_evidence()["job", 0].is_closed = False
        journal.append(later)

    (answer,) = judged(store, belief)
    assert {"after-close", "unsigned-tail"} <= codes((answer,))
    assert (answer.verdict, answer.axes["closing"]) == ("fault", "fault")


@pytest.fixture
def exported(made: tuple[Path, PrivateKey], tmp_path: Path) -> Path:
    """Two epochs of eight records as files."""
    run, out = Sealing(made[1]), tmp_path / "exported"
    run.add(losses(8))
    run.add(losses(16)[8:])
    out.mkdir()
    for epoch, bundle in zip(run.epochs, run.signed, strict=True):
        lines = run.lines[epoch.first : epoch.size]
        (out / f"epoch-{epoch.number}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        (out / f"epoch-{epoch.number}.dsse.json").write_bytes(bundle.envelope)
        (out / f"epoch-{epoch.number}.checkpoint").write_bytes(bundle.checkpoint or b"")
    return out


def test_a_line_that_moved_to_another_epoch_file_is_a_fault(exported: Path, belief: provstore.Belief) -> None:
    first, second = (exported / f"epoch-{number}.jsonl" for number in (0, 1))
    assert codes(provstore.verify(exported, belief=belief)) == CLEAN
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(lines[:-1]))
    second.write_bytes(lines[-1] + second.read_bytes())

    (answer,) = provstore.verify(exported, belief=belief)
    assert codes((answer,)) == CLEAN | {"subject-mismatch"}
    assert (answer.verdict, answer.axes["tree"]) == ("fault", "fault")


@pytest.mark.parametrize("name", ["epoch-0.dsse.json", "epoch-0.checkpoint"])
@pytest.mark.parametrize("window", [{"not_before": "2999-01-01T00:00:00Z"}, {"not_after": "2000-01-01T00:00:00Z"}])
def test_a_file_by_itself_is_no_proof_outside_the_window_of_its_key(
    window: dict[str, str], name: str, exported: Path, made: tuple[Path, PrivateKey]
) -> None:
    trust = Trust.of_keys([made[1].public_key], "given")
    narrow = replace(trust, keys=tuple(replace(key, **window) for key in trust.keys))

    for at in (None, "2026-03-01T12:00:00Z"):
        answer = verify_file(exported / name, narrow, at)
        assert {one.code for one in answer.findings} == {"key-unproven", "unanchored"}
        assert answer.axes["key"] == "unproven"
    assert {one.code for one in verify_file(exported / name, trust).findings} == {"unanchored"}


def test_an_answer_about_files_names_them_since_a_folder_may_be_called_like_a_run(
    exported: Path, belief: provstore.Belief
) -> None:
    (answer,) = provstore.verify(exported, belief=belief)

    first = next(verification_lines(answer, width=1_000))
    assert first.text == f"{exported}: run run-1, attempt 0: limited"


def test_a_trust_file_inside_the_files_that_it_judges_is_refused(exported: Path, belief: provstore.Belief) -> None:
    (exported / "trust.json").write_bytes(b"{}")

    with pytest.raises(TrustError, match="inside"):
        provstore.verify(exported, belief=replace(belief, trust_path=exported / "trust.json"))


def test_ranks_whose_signatures_are_left_out_for_their_number_are_said_to_be_vouched_for_by_nobody(
    made: tuple[Path, PrivateKey],
) -> None:
    run, public = Sealing(made[1]), PrivateKey.generate().public_key
    named = {"certified": 1, "keyid": fingerprint(public), "public": public.hex()}
    run.add([line("rank-certificate", 0, None, **named), *losses(4)])
    listed = [
        {"count": 1, "head": one.head, "keyid": None, "rank": one.rank, "sig": None} for one in run.epochs[0].ranks
    ]
    text = json.dumps(listed, separators=(",", ":"))
    again = Sealing(made[1])
    again.add(run.lines, ranks=(), ranks_sha256=hashlib.sha256(text.encode()).hexdigest())

    trust = Trust.of_keys([made[1].public_key], "given")
    found = {one.code for one in judge_bytes(again.log(), trust).findings}
    assert found == CLEAN | {"uncorroborated"}


def test_what_a_key_signs_before_it_is_valid_does_not_count(made: tuple[Path, PrivateKey]) -> None:
    run = Sealing(made[1])
    run.add(losses(4))
    trust = Trust.of_keys([made[1].public_key], "given")
    later = replace(trust, keys=tuple(replace(key, not_before="2999-01-01T00:00:00Z") for key in trust.keys))

    assert {one.code for one in judge_bytes(run.log(), later).findings} > CLEAN


@pytest.mark.parametrize(
    "stated", [{"head": "0" * 64}, {"rank": [1]}, {"rank": "x"}, {"sig": 5}, {"keyid": 7}], ids=str
)
def test_what_a_frame_states_of_a_rank_is_signed_only_if_it_is_so(
    stated: dict[str, Any], store: Path, belief: provstore.Belief, made: tuple[Path, PrivateKey]
) -> None:
    with provstore.open(f"embedded:{store}") as opened:
        opened.record([Observation("loss", {"value": 1}, rank=1, step=2)], run="job", rank_signer=PrivateKey.generate())

    def change(kind: int, payload: bytes) -> list[Frame]:
        head, lines = head_of(payload) if kind == frames.RECORDS else ({}, [])
        if not head.get("heads"):
            return [(kind, payload)]
        head["heads"][0] |= stated
        return [(kind, payload_of(head, lines))]

    _rewritten(store, change)
    with provstore.open(f"embedded:{store}") as opened:
        opened.seal(signer=made[1])

    answers = judged(store, belief)
    if "head" in stated:
        assert codes(answers) == CLEAN | {"uncorroborated"}
    else:
        assert "journal-damaged" in codes(answers)
        assert answers[0].verdict == "fault"


@pytest.fixture
def waiting(made: tuple[Path, PrivateKey], tmp_path: Path) -> Path:
    """A store whose batches nobody has signed yet."""
    with provstore.open(f"embedded:{tmp_path / 'waiting'}") as opened:
        opened.ingest(made[0] / "job")
    return tmp_path / "waiting"


def record_of(batch: int, run: str = "job") -> bytes:
    facts: dict[str, Any] = {"encoding": "lines", "rows": 97, "sha256": "0" * 64}
    return records.ingest(run, 0, 0, batch=batch, source=None, facts=facts)


FORGED = {
    "another digest": [record_of(2)],
    "no such batch": [record_of(99)],
    "a record of another run": [record_of(2, run="other")],
    "no record": [b'{"x":1}'],
    "no JSON": [b"not json"],
    "no object": [b"[1]"],
    "not canonical": [record_of(2).replace(b":97", b": 97")],
}


@pytest.mark.parametrize("name", FORGED)
def test_nothing_is_signed_that_waits_and_is_not_what_was_ingested(
    name: str, waiting: Path, made: tuple[Path, PrivateKey]
) -> None:
    with Journal.open(waiting / "journal", writable=True) as journal:
        journal.append_records("job", 0, FORGED[name])
    with provstore.open(f"embedded:{waiting}") as opened, pytest.raises(TrustError):
        opened.seal(signer=made[1])

    with Journal.open(waiting / "journal", writable=False) as journal:
        assert list(journal.evidence("job", 0).bundles()) == []


def test_records_that_an_earlier_seal_left_unsigned_are_signed(
    waiting: Path, belief: provstore.Belief, made: tuple[Path, PrivateKey]
) -> None:
    with provstore.open(f"embedded:{waiting}") as opened:
        opened.seal(signer=made[1])
    _rewritten(waiting, lambda kind, payload: [] if kind == frames.BUNDLE else [(kind, payload)])
    provstore.rebuild(f"embedded:{waiting}")
    assert "no-bundles" in codes(judged(waiting, belief))
    with provstore.open(f"embedded:{waiting}") as opened:
        opened.seal(signer=made[1])

    assert codes(judged(waiting, belief)) == CLEAN
