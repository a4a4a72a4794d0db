"""Anchors on disk: kept whole or not at all, never smaller, forgotten only on request, refused when odd."""

import contextlib
import errno
import json
import os
import stat
import threading

import pytest

from provstore.errors import InputError, StoreError, TrustError
from provstore.evidence import anchor_files, checkpoint
from provstore.evidence.anchors import Anchor, AnchorState, Scope, lies_within, read, scope_of
from provstore.evidence.keys import PrivateKey
from provstore.evidence.moments import nanoseconds
from provstore.model import canonical
from tests.sealing import ORG, RUN, STORE, losses, sealed, tree

FIRST, SECOND = "2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z"


@pytest.fixture
def run():
    return sealed([4, 4, 4])


@pytest.fixture
def state(tmp_path):
    return AnchorState(tmp_path / "anchors")


def note(made, size):
    return made.anchor(size).note


def test_what_was_kept_is_read_back_verbatim(run, state):
    state.refresh(note(run, 5), run.origin(), "/data/store/journal", FIRST)
    (held,) = state.for_origin(run.origin())

    assert held == Anchor(run.origin(), 5, tree(run.lines[:5]), note(run, 5), FIRST, "state", "/data/store/journal")


def test_the_file_holds_the_checkpoint_itself(run, state):
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    (path,) = state.directory.glob("*.anchor")

    assert path.read_bytes().endswith(b"\n" + note(run, 5))
    assert checkpoint.parse(path.read_bytes().split(b"\n", 1)[1]).size == 5


def test_files_and_directory_are_their_owners_only(run, state):
    state.refresh(note(run, 5), run.origin(), None, FIRST)

    assert stat.S_IMODE(state.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in state.directory.iterdir()} == {0o600}


def test_no_text_of_a_run_becomes_a_name_of_a_file(state):
    for run in ("../../evil", "/abs", "a\x00b", "x" * 300, "ü"):
        made = sealed([2], run=run)
        state.refresh(note(made, 2), made.origin(), None, FIRST)

        assert state.for_origin(made.origin())[0].size == 2
    assert all(len(path.name) < 80 and path.name.isascii() for path in state.directory.iterdir())


def test_a_larger_checkpoint_takes_the_place_and_the_smaller_stays_known(run, state):
    state.refresh(note(run, 5), run.origin(), "here", FIRST)
    state.refresh(note(run, 9), run.origin(), "there", SECOND)
    smaller, newest = state.for_origin(run.origin())

    assert (newest.size, newest.seen, newest.place) == (9, SECOND, "there")
    assert (smaller.size, smaller.seen, smaller.root) == (5, FIRST, tree(run.lines[:5]))
    assert state.all() == [newest]


def test_the_same_checkpoint_keeps_the_time_it_was_first_seen(run, state):
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    held = state.refresh(note(run, 5), run.origin(), None, SECOND)

    assert held.seen == FIRST
    assert [one.seen for one in state.for_origin(run.origin())] == [FIRST]


def test_the_size_never_falls(run, state):
    state.refresh(note(run, 9), run.origin(), None, FIRST)
    with pytest.raises(TrustError, match="size 5 is less than 9") as caught:
        state.refresh(note(run, 5), run.origin(), None, SECOND)

    assert caught.value.code == "rollback"
    assert state.all()[0].size == 9


def test_another_root_at_the_same_size_is_refused(run, state):
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    forked = checkpoint.make(run.origin(), 5, bytes(32), run.key)
    with pytest.raises(TrustError) as caught:
        state.refresh(forked, run.origin(), None, SECOND)

    assert caught.value.code == "fork"
    assert state.all()[0].root == tree(run.lines[:5])


def test_each_key_of_a_log_has_its_own_file_and_all_count(run, state):
    state.refresh(note(run, 9), run.origin(), None, FIRST)
    other = checkpoint.make(run.origin(), 5, tree(run.lines[:5]), PrivateKey.generate())
    state.refresh(other, run.origin(), None, SECOND)

    assert [one.size for one in state.for_origin(run.origin())] == [5, 9]
    assert len(list(state.directory.glob("*.anchor"))) == 2


def test_what_is_about_another_origin_or_signed_by_nobody_is_not_kept(run, state):
    with pytest.raises(TrustError) as caught:
        state.refresh(note(run, 5), run.origin() + "1", None, FIRST)
    assert caught.value.code == "wrong-run"

    foreign = note(run, 5).replace(f"\u2014 {run.origin()} ".encode(), "\u2014 witness.example ".encode())
    with pytest.raises(TrustError) as caught:
        state.refresh(foreign, run.origin(), None, FIRST)
    assert caught.value.code == "bad-signature"
    assert state.all() == []


def test_a_time_that_is_none_is_not_kept(run, state):
    with pytest.raises(InputError):
        state.refresh(note(run, 5), run.origin(), None, "today")
    assert state.all() == []


def test_anchors_are_found_by_the_place_where_they_were_seen(run, state):
    other = sealed([3], store="f" * 32)
    state.refresh(note(run, 5), run.origin(), "/data/journal", FIRST)
    state.refresh(note(other, 3), other.origin(), "/data/journal", FIRST)
    elsewhere = sealed([3], run="run-3")
    state.refresh(note(elsewhere, 3), elsewhere.origin(), "/other", FIRST)

    assert {one.origin for one in state.at_place("/data/journal")} == {run.origin(), other.origin()}
    assert state.at_place("/nowhere") == []


def test_a_place_whose_name_is_no_text_is_found_again(run, state, tmp_path):
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    state.refresh(note(run, 5), run.origin(), place, FIRST)

    assert [one.size for one in state.at_place(place)] == [5]
    assert state.at_place(str(tmp_path)) == []


def test_an_anchor_is_forgotten_on_request_and_that_is_written_down(run, state):
    state.refresh(note(run, 9), run.origin(), "here", FIRST)
    other = sealed([3], run="run-3")
    state.refresh(note(other, 3), other.origin(), None, FIRST)

    assert state.reset(run.origin(), SECOND) == 1
    assert [one.origin for one in state.all()] == [other.origin()]
    assert state.reset(run.origin(), SECOND) == 0
    (written,) = (state.directory / "resets.log").read_bytes().splitlines()
    told = json.loads(written)
    assert (told["origin"], told["reset"]) == (run.origin(), SECOND)
    assert note(run, 9) in canonical.tagged_bytes(told["held"])
    assert state.refresh(note(run, 5), run.origin(), None, SECOND).size == 5


def test_a_file_that_was_damaged_can_be_forgotten_too(run, state):
    state.refresh(note(run, 9), run.origin(), None, FIRST)
    (path,) = state.directory.glob("*.anchor")
    path.write_bytes(b"\xff")

    assert state.reset(run.origin(), SECOND) == 1
    assert state.all() == []


def test_many_sizes_are_thinned_and_the_newest_and_oldest_stay(run, state):
    made = sealed([1] * 59)
    lines = losses(200)
    for size in range(1, 200):
        text = checkpoint.make(made.origin(), size, tree(lines[:size]), made.key)
        state.refresh(text, made.origin(), None, f"2026-03-01T10:{size // 60:02d}:{size % 60:02d}Z")
    sizes = [one.size for one in state.for_origin(made.origin())]

    assert sizes[-20:] == list(range(180, 200))
    assert len(sizes) <= anchor_files.MOST_EARLIER + 2
    assert sizes[0] < 20


def test_a_bare_checkpoint_is_an_anchor_without_a_time(run, tmp_path):
    path = tmp_path / "held"
    path.write_bytes(note(run, 5))

    assert read(path) == Anchor(run.origin(), 5, tree(run.lines[:5]), note(run, 5), None, str(path))


def test_a_file_of_a_state_directory_is_an_anchor_with_its_time(run, state):
    state.refresh(note(run, 5), run.origin(), "here", FIRST)
    (path,) = state.directory.glob("*.anchor")

    assert (read(path).seen, read(path).place, read(path).source) == (FIRST, "here", str(path))


def test_a_missing_file_is_the_users_mistake(tmp_path):
    with pytest.raises(InputError, match="anchor: No such file"):
        read(tmp_path / "gone")
    with pytest.raises(InputError):
        read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{", b"{}", b"{}\n", b"\xff\xfe", b"x" * (200 * 1024), b"[" * 100_000, b"a\nb\nc\n\n", b"\x00" * 10],
)
def test_hostile_content_is_refused_cleanly(state, run, content):
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    (path,) = state.directory.glob("*.anchor")
    path.write_bytes(content)

    for ask in (lambda: read(path), state.all, lambda: state.for_origin(run.origin()), lambda: state.at_place("x")):
        with pytest.raises(TrustError):
            ask()
    with pytest.raises(TrustError):
        state.refresh(note(run, 9), run.origin(), None, SECOND)


def changed(path, **members):
    head, text = path.read_bytes().split(b"\n", 1)
    said = {name: value for name, value in (json.loads(head) | members).items() if value != "gone"}
    path.write_bytes(json.dumps(said, sort_keys=True, separators=(",", ":")).encode() + b"\n" + text)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"seen": None}, "envelope-malformed"),
        ({"seen": "today"}, "envelope-malformed"),
        ({"seen": 5}, "envelope-malformed"),
        ({"place": 5}, "envelope-malformed"),
        ({"place": "gone"}, "envelope-malformed"),
        ({"extra": 1}, "envelope-malformed"),
        ({"origin": "elsewhere"}, "envelope-malformed"),
        ({"schema": 2}, "unknown-schema"),
        ({"schema": True}, "unknown-schema"),
        ({"earlier": {}}, "envelope-malformed"),
        ({"earlier": [1]}, "envelope-malformed"),
        ({"earlier": [{"root": "0" * 63, "seen": FIRST, "size": 1}]}, "envelope-malformed"),
        ({"earlier": [{"root": "0" * 64, "seen": "x", "size": 1}]}, "envelope-malformed"),
        ({"earlier": [{"root": "0" * 64, "seen": FIRST, "size": 9}]}, "envelope-malformed"),
        ({"earlier": [{"root": "0" * 64, "seen": FIRST, "size": True}]}, "envelope-malformed"),
        ({"earlier": [{"root": "0" * 64, "seen": FIRST, "size": 1, "x": 1}]}, "envelope-malformed"),
        ({"earlier": [{"root": "0" * 64, "seen": FIRST, "size": 1}] * 66}, "envelope-malformed"),
    ],
)
def test_a_head_that_is_not_the_one_written_is_refused(state, run, members, code):
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    (path,) = state.directory.glob("*.anchor")
    changed(path, **members)

    with pytest.raises(TrustError) as caught:
        state.for_origin(run.origin())
    assert caught.value.code == code


def test_an_anchor_under_the_name_of_another_is_refused(state, run):
    other = sealed([3], run="run-3")
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    (path,) = state.directory.glob("*.anchor")
    state.refresh(note(other, 3), other.origin(), None, FIRST)
    (moved,) = set(state.directory.glob("*.anchor")) - {path}
    path.write_bytes(moved.read_bytes())

    with pytest.raises(TrustError, match="belongs to another origin"):
        state.for_origin(run.origin())


def test_a_bare_checkpoint_in_the_state_directory_is_refused(state, run):
    state.refresh(note(run, 5), run.origin(), None, FIRST)
    (path,) = state.directory.glob("*.anchor")
    path.write_bytes(note(run, 5))

    with pytest.raises(TrustError, match="does not say when"):
        state.all()


def test_a_directory_that_cannot_be_written_is_told(tmp_path, run):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="anchors: "):
        AnchorState(tmp_path / "file" / "anchors").refresh(note(run, 5), run.origin(), None, FIRST)


def test_a_lock_that_is_a_link_is_refused(state, run, tmp_path):
    state.directory.mkdir()
    (state.directory / ".lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError):
        state.refresh(note(run, 5), run.origin(), None, FIRST)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_what_was_held(state, run, monkeypatch, step):
    state.refresh(note(run, 5), run.origin(), None, FIRST)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    from pathlib import Path

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    with pytest.raises(StoreError, match="No space left"):
        state.refresh(note(run, 9), run.origin(), None, SECOND)
    monkeypatch.undo()

    assert [one.size for one in state.for_origin(run.origin())] == [5]
    assert not list(state.directory.glob(".*.tmp"))


def test_nothing_is_forgotten_before_it_is_written_down(state, run, monkeypatch):
    state.refresh(note(run, 5), run.origin(), None, FIRST)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError):
        state.reset(run.origin(), SECOND)
    assert state.all()[0].size == 5


def test_writers_at_the_same_time_leave_the_largest(state):
    made = sealed([1])
    lines = losses(40)
    texts = [checkpoint.make(made.origin(), size, tree(lines[:size]), made.key) for size in range(1, 41)]

    def write(part):
        for text in part:
            with contextlib.suppress(TrustError):
                state.refresh(text, made.origin(), None, FIRST)

    threads = [threading.Thread(target=write, args=(texts[at::4],)) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert state.all()[0].size == 40


def test_an_empty_directory_holds_nothing(state):
    assert state.all() == []
    assert state.for_origin("x") == []
    assert not state.directory.exists()


@pytest.mark.parametrize("run", ["run-1", "", "a/b", "100%", "ü", "%"])
def test_an_origin_tells_what_it_is_about(run):
    assert scope_of(checkpoint.origin(ORG, STORE, run, 3)) == Scope(ORG, STORE, run, 3)


@pytest.mark.parametrize(
    "origin", ["", "a/b/c", "a/b/c/d/e", "a/b/c/x", "a/b/c/01", "a/b/c/-1", "a/b/%zz/1", "a/b/%41/1", "a/b/%ff/1"]
)
def test_an_origin_in_another_spelling_tells_nothing(origin):
    assert scope_of(origin) is None


def test_an_anchor_in_a_directory_is_told_from_one_beside_it(tmp_path, run):
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / "link").symlink_to(store)
    held = run.anchor(3)

    assert lies_within(Anchor(held.origin, 3, held.root, b"", None, str(store / "a" / "b")), store)
    assert lies_within(Anchor(held.origin, 3, held.root, b"", None, str(tmp_path / "link" / "a")), store)
    assert not lies_within(Anchor(held.origin, 3, held.root, b"", None, str(tmp_path / "store-2" / "a")), store)
    assert not lies_within(Anchor(held.origin, 3, held.root, b"", None, "state"), store)


def test_a_state_directory_inside_the_store_is_told_from_one_outside(tmp_path, run):
    for directory, is_inside in ((tmp_path / "store" / "anchors", True), (tmp_path / "anchors", False)):
        state = AnchorState(directory)
        state.refresh(note(run, 3), run.origin(), None, FIRST)
        state.refresh(note(run, 5), run.origin(), None, SECOND)

        assert {lies_within(one, tmp_path / "store") for one in state.for_origin(run.origin())} == {is_inside}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1969-12-31T23:59:59.9Z", -100_000_000),
        ("2001-09-09T01:46:40Z", 10**18),
        ("2016-12-31T23:59:60Z", 1_483_228_800 * 10**9),
    ],
)
def test_a_moment_is_read_to_the_nanosecond(text, moment):
    assert nanoseconds(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00+00:00",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00.0000000001Z",
        "2026-01-01T00:00:00.Z",
        "٢٠٢٦-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
    ],
)
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(InputError):
        nanoseconds(text)


def test_the_run_of_these_tests_has_a_plain_origin(run):
    assert run.origin() == f"provstore/{STORE}/{RUN}/0"


def test_a_directory_that_cannot_be_looked_into_does_not_pass_for_an_empty_one(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    # By one or the other, as the release of Python has it, pathlib lists a directory.
    monkeypatch.setattr("os.listdir", refuse)
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        AnchorState(tmp_path).all()
