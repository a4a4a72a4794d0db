"""A question to a graph reads no journal while that ends where it did when the graph had all of it, and only then."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from captures import RankCapture, floats

import provstore
from provstore.api import control
from provstore.api.recording import record
from provstore.evidence.keys import PrivateKey
from provstore.journal import Journal, ending

WORLD = 2
EVERY = "MATCH (a:Action) RETURN a.run AS run, a.seq AS seq, a.rank AS rank ORDER BY run, seq, rank"


def recorded(place: Path, run: str, store: str) -> None:
    """One epoch of three calls on each rank."""
    for rank in range(WORLD):
        capture = RankCapture(place / run, rank, WORLD, run)
        capture.begin(0)
        for step in range(3):
            capture.call(0, floats(1.0, step), step=step)
        capture.end(0)
        capture.write()
    record([place / run], store=store)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'store'}"


@pytest.fixture
def journal(tmp_path: Path, store: str) -> Path:
    """Of a store whose graph has all that was recorded: one run."""
    recorded(tmp_path, "one", store)
    with provstore.open(store):
        return tmp_path / "store" / "journal"


@pytest.fixture
def readings(journal: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by one whenever the journal is read from here on: whether that was for writing."""
    done: list[bool] = []
    reading = Journal.open

    def noted(directory: Path, *, writable: bool, **more: object) -> Journal:
        done.append(writable)
        return reading(directory, writable=writable, **more)

    monkeypatch.setattr(Journal, "open", noted)
    return done


def runs(store: str) -> set[str]:
    """The runs whose actions an answer holds; each has all of them."""
    with provstore.open(store, read_only=True) as opened:
        answer = opened.cypher(EVERY)
    assert (answer.complete, answer.notes) == (True, ())
    found = [row["run"] for row in answer.rows]
    assert len(found) == 3 * WORLD * len(set(found))
    return set(found)


def rewritten(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change what is noted, with a digest that fits: what somebody who can write there would do."""
    said = json.loads(path.read_bytes().splitlines()[1])
    change(said)
    body = json.dumps(said).encode()
    path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def test_a_question_to_a_graph_that_has_everything_reads_no_journal(store, readings):
    assert runs(store) == {"one"}
    with provstore.open(store, read_only=True) as opened:
        trace = opened.trace("tensor:1:2:out")
    assert {node.rank for node in trace.nodes if node.rank is not None} == {0, 1}
    assert readings == []


def test_what_was_recorded_since_is_in_the_next_answer(store, tmp_path, journal):
    recorded(tmp_path, "two", store)

    assert ending.known(journal) is None
    assert runs(store) == {"one", "two"}
    # That answer caught up, and noted it.
    assert ending.known(journal) is not None
    assert runs(store) == {"one", "two"}


def test_a_store_that_never_noted_it_answers_from_its_journal(store, journal, readings):
    (journal / ending.NAME).unlink()

    assert runs(store) == {"one"}
    assert readings == [False]


def test_an_event_of_the_journal_itself_leaves_the_graph_up_to_date(store, journal, readings):
    before = ending.known(journal)
    control.switch(store, on=True, reason="maintenance")
    control.switch(store, on=False, reason="done")
    with Journal.open(journal, writable=True) as opened:
        assert len(list(opened.events())) == 2
    readings.clear()

    assert ending.known(journal) == before
    assert runs(store) == {"one"}
    assert readings == []


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "folder", "huge", "list", "number"])
def test_a_note_that_is_not_whole_is_as_none(store, journal, readings, damage, monkeypatch):
    path = journal / ending.NAME
    data = path.read_bytes()
    match damage:
        case "flipped":
            path.write_bytes(data[:80] + bytes([data[80] ^ 1]) + data[81:])
        case "cut":
            path.write_bytes(data[:-20])
        case "emptied":
            path.write_bytes(b"")
        case "folder":
            path.unlink()
            path.mkdir()
        case "huge":
            monkeypatch.setattr(ending, "_MAX_BYTES", len(data) - 1)
        case _:
            body = b"[]" if damage == "list" else b"7"
            path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    assert ending.known(journal) is None
    assert runs(store) == {"one"}
    assert readings == [False]


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(schema=2),
        lambda said: said.pop("place"),
        lambda said: said.update(position="1"),
        lambda said: said.update(position=True),
        lambda said: said.update(position=-1),
        lambda said: said["place"].pop("end"),
        lambda said: said["place"].update(end=10**12),
        lambda said: said["place"].update(end=-1),
        lambda said: said["place"].update(end="1"),
        lambda said: said["place"].update(segment=9),
        lambda said: said["place"].update(segment=[1]),
        lambda said: said["place"].update(before={"0": 1}),
        lambda said: said["place"].update(check="00000000"),
        lambda said: said["place"].update(store="another"),
    ],
)
def test_a_note_about_another_journal_is_as_none(journal, change):
    rewritten(journal / ending.NAME, change)

    assert ending.known(journal) is None


def test_a_note_of_a_longer_state_is_no_reason_to_believe_a_copy_from_before(store, tmp_path, journal):
    shutil.copytree(journal, tmp_path / "before")
    recorded(tmp_path, "two", store)
    assert runs(store) == {"one", "two"}
    note = (journal / ending.NAME).read_bytes()
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "before", journal)
    (journal / ending.NAME).write_bytes(note)

    assert ending.known(journal) is None


def test_the_note_of_another_store_of_the_same_shape_is_as_none(store, tmp_path, journal):
    other = f"embedded:{tmp_path / 'other'}"
    recorded(tmp_path / "more", "one", other)
    with provstore.open(other):
        pass
    shutil.copy(tmp_path / "other" / "journal" / ending.NAME, journal / ending.NAME)

    assert ending.known(journal) is None
    assert runs(store) == {"one"}


def test_a_forged_note_hides_nothing_from_whoever_reads_the_journal(store, tmp_path, journal):
    """Who can write there can as well change the graph; what is judged is judged from the journal."""
    recorded(tmp_path, "two", store)
    with Journal.open(journal, writable=True) as opened:
        ending.keep(opened)
    rewritten(journal / ending.NAME, lambda said: said.update(position=1))
    assert runs(store) == {"one"}
    key = tmp_path / "key.hex"
    key.write_text(PrivateKey.generate().public_key.hex(), encoding="ascii")

    with provstore.open(store, read_only=True) as opened:
        answers = opened.verify(belief=provstore.belief(public_keys=[key]), refresh=False)
        assert [answer.run for answer in answers] == ["one", "two"]
        assert {row["run"] for row in opened.cypher(EVERY).rows} == {"one", "two"}
    assert runs(store) == {"one", "two"}


def test_a_store_that_is_open_gives_graph_and_journal_of_one_state(store, tmp_path, journal):
    with provstore.open(store, read_only=True) as opened:
        assert {row["run"] for row in opened.cypher(EVERY).rows} == {"one"}
        recorded(tmp_path, "two", store)
        # What only the graph is asked stays as it was; whoever needs the journal gets both anew.
        assert {row["run"] for row in opened.cypher(EVERY).rows} == {"one"}
        both = opened.opened
        assert {run for run, _ in both.journal.scopes()} == {"one", "two"}
        assert {row["run"] for row in opened.cypher(EVERY).rows} == {"one", "two"}
        assert opened.opened is both
        assert opened.check().clean


def test_a_graph_file_put_back_from_before_is_caught_up(store, tmp_path, journal):
    graph = tmp_path / "store" / "graph.kgl"
    before = graph.read_bytes()
    recorded(tmp_path, "two", store)
    assert runs(store) == {"one", "two"}
    graph.write_bytes(before)

    assert runs(store) == {"one", "two"}


def test_a_lost_graph_is_made_again_although_the_ending_is_known(store, tmp_path, journal):
    (tmp_path / "store" / "graph.kgl").unlink()
    assert ending.known(journal) is not None

    assert runs(store) == {"one"}


def test_a_graph_of_another_journal_is_told_although_the_ending_is_known(store, tmp_path, journal):
    other = f"embedded:{tmp_path / 'other'}"
    recorded(tmp_path / "more", "one", other)
    with provstore.open(other):
        pass
    shutil.copy(tmp_path / "other" / "graph.kgl", tmp_path / "store" / "graph.kgl")

    with provstore.open(store, read_only=True) as opened:
        answer = opened.cypher(EVERY)
    assert not answer.complete
    assert "the graph was made from another journal" in answer.notes[-1]


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_cannot_be_noted_costs_nothing_but_time(store, tmp_path, journal, is_folder):
    (journal / ending.NAME).unlink()
    if is_folder:
        (journal / ending.NAME).mkdir()
    else:
        shutil.rmtree(journal / "tmp")
        (journal / "tmp").mkdir()
    recorded(tmp_path, "two", store)

    assert runs(store) == {"one", "two"}
    assert (ending.known(journal) is None) is is_folder
    assert runs(store) == {"one", "two"}
