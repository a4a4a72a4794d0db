"""What ``record`` keeps beside the journal for later questions: never another answer, and none from an old state."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from captures import RankCapture, floats

import provstore
from provstore.api import assistant, overview
from provstore.api.recording import record
from provstore.api.suspecting import suspected, suspected_in
from provstore.cli._app import run
from provstore.errors import StoreError
from provstore.evidence.keys import PrivateKey
from provstore.ingest import recording
from provstore.journal import Journal

WORLD = 4
QUESTIONS = (
    ("list_suspicious_actions", {"run": "job"}),
    ("list_suspicious_actions", {"run": "job", "epoch": 0}),
    ("summarize_epoch", {"run": "job", "epoch": 0}),
)


def captured(directory: Path, epochs: range, run: str = "job", *, spoilt: int | None = None) -> Path:
    """Three calls an epoch; rank 2 puts a NaN into call 1 of the epoch ``spoilt``."""
    for rank in range(WORLD):
        capture = RankCapture(directory, rank, WORLD, run)
        capture._seq = capture._ordinal = 3 * epochs.start
        for epoch in epochs:
            capture.begin(epoch, 3 * epoch)
            for step in range(3 * epoch, 3 * epoch + 3):
                is_behind = epoch == spoilt and step > 3 * epoch
                is_origin = epoch == spoilt and step == 3 * epoch + 1 and rank == 2
                is_met = is_origin or (epoch == spoilt and step == 3 * epoch + 2)
                capture.call(epoch, floats(1.0, step), step=step, finite_in=not is_met, finite_out=not is_behind)
            capture.end(epoch)
        capture.write()
    return directory


def asked(store: str, tool: str, arguments: dict[str, object]) -> dict[str, object]:
    return assistant.ask(tool, arguments, store)


def answers(store: str) -> list[dict[str, object]]:
    """All answers, without where they were taken from."""
    return [
        {name: value for name, value in asked(store, *question).items() if name not in {"basis", "untrusted_fields"}}
        for question in QUESTIONS
    ]


def rewritten(path: Path, **changed: object) -> None:
    """Change what is kept, with a digest that fits: what somebody who can write there would do."""
    _, head, content = path.read_bytes().split(b"\n", 2)
    said = {"head": json.loads(head), "content": json.loads(content)}
    for name, change in changed.items():
        change(said[name])
    body = json.dumps(said["head"]).encode() + b"\n" + json.dumps(said["content"]).encode()
    path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def kept_mismatches(store: str, key: Path) -> list[str]:
    with provstore.open(store, read_only=True) as opened:
        (answer,) = opened.verify("job", belief=provstore.belief(public_keys=[key]), refresh=False)
    assert (answer.axes["graph"] == "fault") is any(one.code == "kept-mismatch" for one in answer.findings)
    return [one.text for one in answer.findings if one.code == "kept-mismatch"]


def named(store: str, **arguments: object) -> list[tuple[str, int, int]]:
    """Code, rank and step of what is suspicious."""
    rows = asked(store, "list_suspicious_actions", {"run": "job", **arguments})["actions"]
    return [(row["code"], row["rank"], row["step"]) for row in rows]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    captured(tmp_path / "first", range(1), spoilt=0)
    record([tmp_path / "first"], store=f"embedded:{tmp_path / 'store'}")
    return tmp_path


@pytest.fixture
def store(place: Path) -> str:
    return f"embedded:{place / 'store'}"


@pytest.fixture
def journal(place: Path) -> Path:
    return place / "store" / "journal"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The file of a public key; nothing is signed with it."""
    path = tmp_path / "key.hex"
    path.write_text(PrivateKey.generate().public_key.hex(), encoding="ascii")
    return path


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whoever reads the journal from here on fails; ``undo`` ends it."""

    def refuse(*_: object, **__: object) -> Journal:
        raise StoreError("the journal was read")

    monkeypatch.setattr(Journal, "open", refuse)
    return monkeypatch


def test_a_question_about_what_was_recorded_last_reads_no_journal(store, no_reading):
    assert named(store) == named(store, epoch=0) == [("nan-origin", 2, 1)]
    said = asked(store, "summarize_epoch", {"run": "job", "epoch": 0})
    assert (said["actions"], said["findings"], said["first_non_finite"]["rank"]) == (12, {"nan-origin": 1}, 2)


def test_what_is_kept_answers_as_the_journal_does(store, journal):
    kept = answers(store)
    shutil.rmtree(journal / "derived")
    assert answers(store) == kept


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "other", "folder", "deep"])
def test_a_kept_file_that_is_not_whole_is_as_none(store, journal, damage):
    kept = answers(store)
    (path,) = (journal / "derived").iterdir()
    data = path.read_bytes()
    path.unlink()
    lie = data.replace(b"nan-origin", b"nan-nobody")
    changed = {
        "flipped": lie,
        "cut": data[: len(data) // 2],
        "emptied": b"",
        "other": b"0" * 64 + b"\n{}\n[]",
        "deep": (body := b"[" * 100_000) and hashlib.sha256(body).hexdigest().encode() + b"\n" + body,
    }
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes(changed[damage])
    assert lie != data
    assert answers(store) == kept


def test_an_epoch_recorded_later_is_in_every_answer(place, store, no_reading):
    no_reading.undo()
    record([captured(place / "second", range(1, 3), spoilt=2)], store=store)
    assert named(store) == [("nan-origin", 2, 1)]
    assert named(store, epoch=2) == [("nan-origin", 2, 7)]
    assert named(store, epoch=1) == []
    summary = asked(store, "summarize_epoch", {"run": "job", "epoch": 2})
    assert (summary["actions"], summary["findings"]) == (12, {"nan-origin": 1})


def test_what_another_run_records_changes_nothing(place, store, no_reading):
    no_reading.undo()
    kept = answers(store)
    record([captured(place / "other", range(1), "other")], store=store)
    no_reading.setattr(Journal, "open", lambda *_, **__: pytest.fail("the journal was read"))
    assert answers(store) == kept
    assert asked(store, "list_suspicious_actions", {"run": "other"})["actions"] == []
    with pytest.raises(assistant.ToolError, match="several fit: job, other"):
        asked(store, "list_suspicious_actions", {})
    with pytest.raises(assistant.ToolError, match="gone: no such run; stored are job, other"):
        asked(store, "list_suspicious_actions", {"run": "gone"})


def test_an_older_journal_put_back_beside_newer_files_is_read_itself(place, store, journal):
    shutil.copytree(journal, place / "older")
    older = answers(store)
    record([captured(place / "second", range(1, 2), spoilt=1)], store=store)
    assert [one["epoch"] for one in asked(store, "list_suspicious_actions", {"run": "job", "epoch": 1})["actions"]]
    newer = {path.name: path.read_bytes() for path in (journal / "derived").iterdir()}
    shutil.rmtree(journal)
    shutil.copytree(place / "older", journal)
    for name, data in newer.items():
        (journal / "derived" / name).write_bytes(data)
    assert answers(store) == older
    with pytest.raises(assistant.ToolError, match="epoch 1 is not stored"):
        asked(store, "summarize_epoch", {"run": "job", "epoch": 1})


def test_the_files_of_another_store_count_for_nothing(tmp_path, place, store, journal):
    other = f"embedded:{tmp_path / 'elsewhere'}"
    record([captured(tmp_path / "clean", range(1))], store=other)
    for path in (tmp_path / "elsewhere" / "journal" / "derived").iterdir():
        shutil.copy(path, journal / "derived" / path.name)
    assert named(store) == [("nan-origin", 2, 1)]


def test_a_frame_that_is_being_written_is_waited_for_by_nobody(store, journal, no_reading):
    (segment,) = journal.glob("seg-*.pvj")
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[8:40])
    assert named(store) == [("nan-origin", 2, 1)]


def test_damage_behind_what_was_kept_is_told_and_not_passed_over(place, store, journal):
    kept = {path: path.read_bytes() for path in (journal / "derived").iterdir()}
    (segment,) = journal.glob("seg-*.pvj")
    end = segment.stat().st_size
    record([captured(place / "second", range(1, 2))], store=store)
    for path, data in kept.items():
        path.write_bytes(data)
    with segment.open("r+b") as file:
        file.seek(end + 100)
        file.write(b"XX")
    assert overview.derived.current(journal, ("job", 0), recording.MARKS) is None
    assert overview.derived.scopes(journal) is None


def test_signing_is_seen_without_reading_what_was_signed(store, no_reading):
    question = ("summarize_epoch", {"run": "job", "epoch": 0})
    assert asked(store, *question)["is_signed"] is False
    no_reading.undo()
    with provstore.open(store) as opened:
        opened.seal(signer=PrivateKey.generate(), run="job")
    no_reading.setattr(Journal, "open", lambda *_, **__: pytest.fail("the journal was read"))
    assert asked(store, *question)["is_signed"] is True


@pytest.mark.parametrize("is_file", [True, False])
def test_where_nothing_can_be_kept_recording_and_answers_go_on(tmp_path, is_file, monkeypatch):
    store, journal = f"embedded:{tmp_path / 'store'}", tmp_path / "store" / "journal"
    if is_file:
        journal.mkdir(parents=True)
        (journal / "derived").write_text("in the way", encoding="utf-8")
    else:
        monkeypatch.setattr("provstore.journal.derived._MAX_BYTES", 10)
    report = record([captured(tmp_path / "first", range(1), spoilt=0)], store=store)
    assert [one.status for one in report.epochs] == ["new"]
    assert (journal / "derived").is_file() is is_file
    assert named(store) == [("nan-origin", 2, 1)]


def test_epochs_judged_together_are_judged_as_alone(place, store, journal):
    record([captured(place / "second", range(1, 4), spoilt=2)], store=store)
    with Journal.open(journal, writable=False) as opened:
        together = suspected_in(opened, "job", 0, (0, 1, 2, 3, 9, None))
        alone = {epoch: suspected(opened, "job", 0, epoch) for epoch in together}
    assert together == alone
    assert [len(together[epoch].suspicious) for epoch in (0, 1, 2, 3, 9, None)] == [1, 0, 1, 0, 0, 1]


def test_an_attempt_that_grows_is_not_judged_whole_each_time(place, store, journal, monkeypatch):
    monkeypatch.setattr(overview, "_FEW_ACTIONS", 0)
    judged: list[tuple[object, ...]] = []

    def counted(opened: Journal, run: str, attempt: int, epochs: list[int | None]) -> object:
        judged.append(tuple(epochs))
        return suspected_in(opened, run, attempt, epochs)

    monkeypatch.setattr("provstore.api.suspecting.suspected_in", counted)
    for epoch in range(1, 4):
        record([captured(place / f"epoch{epoch}", range(epoch, epoch + 1))], store=store)
    record([captured(place / "many", range(4, 9))], store=store)
    # Of an attempt, half and more of which is new, all is judged; else only what is new.
    assert judged == [(1, None), (2,), (3,), (4, 5, 6, 7, 8, None)]
    (kept,) = (json.loads(path.read_bytes().splitlines()[2]) for path in (journal / "derived").iterdir())
    assert sorted(kept["suspicion"]) == [*"012345678", "all"]


def forged_rank(content: dict[str, object]) -> None:
    content["suspicion"]["all"]["found"]["suspicious"][0]["rank"] = 1  # type: ignore[index]


FORGERIES = {
    "another rank": ({"content": forged_rank}, "other suspicious actions of the attempt"),
    "nothing in the epoch": (
        {"content": lambda said: said["suspicion"]["0"]["found"].update(suspicious=[])},
        "other suspicious actions of training epoch 0",
    ),
    "an epoch that is not there": (
        {"content": lambda said: said["suspicion"].update({"7": said["suspicion"]["0"]})},
        "judges training epoch 7, which is not recorded",
    ),
    "fewer actions": ({"content": lambda said: said["bundles"][0].update(actions=1)}, "tells other bundles"),
    "an escalation": (
        {"content": lambda said: said["escalations"].append({"source": "x", "number": 1, "event": "opened"})},
        "tells other escalations",
    ),
    "a signature": ({"head": lambda head: head.update(signed=True)}, "says that the attempt is signed"),
    "another run": ({"head": lambda head: head["scopes"].append(["other", 0])}, "names other runs"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_verify_tells_of_everything_kept_that_is_not_what_the_records_give(store, journal, key, name):
    assert kept_mismatches(store, key) == []
    changes, words = FORGERIES[name]
    (path,) = (journal / "derived").iterdir()
    rewritten(path, **changes)
    told = kept_mismatches(store, key)
    assert len(told) == 1
    assert words in told[0]
    shutil.rmtree(journal / "derived")
    assert kept_mismatches(store, key) == []


def test_verify_exits_with_1_for_a_forged_answer_and_names_it(store, journal, key, capfd):
    (path,) = (journal / "derived").iterdir()
    rewritten(path, content=forged_rank)
    command = ["verify", "job", "--store", store, "--public-key", str(key)]
    assert run(command) == 1
    shown = capfd.readouterr().out
    assert "kept-mismatch" in shown
    assert run([*command, "--no-blobs"]) != 1


def test_what_was_recorded_while_verifying_accuses_nobody(place, store, journal):
    with Journal.open(journal, writable=False) as before:
        assert overview.untrue(before, ("job", 0)) == []
        record(
            [captured(place / "second", range(1, 2), spoilt=1), captured(place / "other", range(1), "other")],
            store=store,
        )
        assert overview.untrue(before, ("job", 0)) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.pop("escalations"),
        lambda said: said.update(suspicion=[]),
        lambda said: said["bundles"][0].pop("epoch"),
        lambda said: said["bundles"].append(None),
        lambda said: said["suspicion"]["all"]["found"].update(affected="many"),
        lambda said: said["suspicion"]["all"]["found"]["suspicious"].append({"code": "nan-origin"}),
        lambda said: said["suspicion"]["all"]["found"]["suspicious"][0].pop("batches"),
        lambda said: said["suspicion"]["all"]["found"]["suspicious"][0].pop("parameter"),
        lambda said: said["suspicion"]["all"]["found"]["suspicious"][0].update(batches=[{"batch": 1}]),
        lambda said: said["escalations"].append({"source": "x"}),
        lambda said: said.update(made_by="provstore 0.0.1"),
    ],
)
def test_what_is_kept_in_another_shape_is_as_nothing(store, journal, change):
    kept = answers(store)
    (path,) = (journal / "derived").iterdir()
    rewritten(path, content=change)
    assert answers(store) == kept
    assert asked(store, *QUESTIONS[0])["basis"]["journal_read"] is True


def test_an_answer_says_whether_the_journal_was_read_for_it(store, journal):
    said = [asked(store, *question)["basis"] for question in QUESTIONS]
    assert [one["journal_read"] for one in said] == [False] * 3
    assert "provstore verify" in said[0]["meaning"]
    shutil.rmtree(journal / "derived")
    assert [asked(store, *question)["basis"]["journal_read"] for question in QUESTIONS] == [True] * 3
