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
    return [asked(store, *question) for question in QUESTIONS]


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
