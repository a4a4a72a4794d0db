"""Anchors that are given to a verification: which of them count, which do not, and what is said of those."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import kglite
import pytest

import provstore
from provstore.api.believing import Belief
from provstore.errors import InputError
from provstore.evidence import checkpoint
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust.keys import RANK, REVOKED, RUN, Revocation, Trust, TrustedKey
from provstore.model.evidence import Observation
from provstore.model.verification import Verification


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVSTORE_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PROVSTORE_ANCHORS", raising=False)


@dataclass
class Place:
    """A store with two sealed runs of three records."""

    directory: Path
    key: PrivateKey
    notes: dict[str, str]

    def judged(self, belief: Belief, run: str = "one", **more: bool) -> Verification:
        with provstore.open(f"embedded:{self.directory}") as store:
            (answer,) = store.verify(run, belief=belief, **more)
        return answer

    def believing(self, **more: object) -> Belief:
        path = self.directory.parent / "key.hex"
        path.write_text(self.key.public_key.hex())
        return provstore.belief(public_keys=[path], **more)  # type: ignore[arg-type]

    def kept(self, name: str, note: str | None = None) -> Path:
        path = self.directory.parent / name
        path.write_text(self.notes["one"] if note is None else note)
        return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    key = PrivateKey.generate()
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        for run in ("one", "two"):
            store.record([Observation("loss", {"value": n / 2}, rank=0, step=n) for n in range(3)], run=run)
        sealed = store.seal(signer=key).runs
    return Place(tmp_path / "store", key, {one.run: one.checkpoint for one in sealed})


def codes(answer: Verification) -> list[str]:
    return [one.code for one in answer.findings]


@pytest.mark.parametrize("changed", ["size", "root", "signature"])
def test_a_given_anchor_whose_own_signature_does_not_hold_accuses_nobody(place: Place, changed: str) -> None:
    lines = place.notes["one"].split("\n")
    if changed == "size":
        lines[1] = "4"
    elif changed == "root":
        lines[2] = "A" + lines[2][1:] if lines[2][0] != "A" else "B" + lines[2][1:]
    else:
        lines[4] = lines[4][:-10] + ("A" if lines[4][-10] != "A" else "B") + lines[4][-9:]
    forged = place.kept("forged", "\n".join(lines))
    answer = place.judged(place.believing(anchors=[forged]))

    assert codes(answer) == ["anchor-untrusted", "not-closed", "unanchored"]
    assert answer.findings[0].where == str(forged)
    assert (answer.verdict, answer.exit_code, answer.axes["anchor"]) == ("limited", 3, "unproven")


def test_an_untrusted_anchor_stays_said_where_the_verifiers_own_anchor_holds(place: Place) -> None:
    place.judged(place.believing())
    stranger = checkpoint.make(
        checkpoint.parse(place.notes["one"].encode()).origin, 9, bytes(32), PrivateKey.generate()
    )
    answer = place.judged(place.believing(anchors=[place.kept("forged", stranger.decode())], allow=["open"]))

    assert codes(answer) == ["anchor-untrusted", "not-closed"]
    assert (answer.exit_code, answer.anchor.size) == (3, 3)


def test_the_verifiers_own_anchor_counts_whatever_key_signed_it(place: Place) -> None:
    belief = place.believing()
    origin = checkpoint.parse(place.notes["one"].encode()).origin
    stranger = checkpoint.make(origin, 9, bytes(32), PrivateKey.generate())
    assert belief.state is not None
    belief.state.refresh(stranger, origin, None, "2026-01-01T00:00:00Z")

    assert place.judged(belief).exit_code == 5


def test_a_folder_of_anchors_that_somebody_gives_is_no_state_of_the_verifier(place: Place, tmp_path: Path) -> None:
    belief = place.believing(state=tmp_path / "theirs")
    origin = checkpoint.parse(place.notes["one"].encode()).origin
    stranger = checkpoint.make(origin, 9, bytes(32), PrivateKey.generate())
    assert belief.state is not None
    belief.state.refresh(stranger, origin, None, "2026-01-01T00:00:00Z")

    answer = place.judged(place.believing(anchors=[tmp_path / "theirs"]))
    assert codes(answer) == ["anchor-untrusted", "not-closed", "unanchored"]


@pytest.mark.parametrize("status", ["retired", REVOKED])
def test_an_anchor_of_a_key_that_is_retired_or_revoked_still_shows_a_rollback(place: Place, status: str) -> None:
    old = PrivateKey.generate()
    origin = checkpoint.parse(place.notes["one"].encode()).origin
    longer = place.kept("longer", checkpoint.make(origin, 9, bytes(32), old).decode())
    trust = Trust.of_keys([place.key.public_key, old.public_key], "test")
    first, second = trust.keys
    revoked = (Revocation(second.keyid, "2026-01-01T00:00:00Z", "lost"),) if status == REVOKED else ()
    trust = Trust(
        1, None, (), 0,
        (first, TrustedKey(second.keyid, second.alg, second.public, RUN, status=status)),
        revoked, "test", first_use=False,
    )  # fmt: skip
    given = place.believing(anchors=[longer]).anchors

    assert "rollback" in codes(place.judged(Belief(trust, given)))


def test_a_key_that_may_only_sign_for_ranks_vouches_for_no_anchor(place: Place) -> None:
    rank = PrivateKey.generate()
    origin = checkpoint.parse(place.notes["one"].encode()).origin
    longer = place.kept("longer", checkpoint.make(origin, 9, bytes(32), rank).decode())
    first, second = Trust.of_keys([place.key.public_key, rank.public_key], "test").keys
    keys = (first, TrustedKey(second.keyid, second.alg, second.public, RANK))
    trust = Trust(1, None, (), 0, keys, (), "test", first_use=False)

    answer = place.judged(Belief(trust, place.believing(anchors=[longer]).anchors))
    assert codes(answer) == ["anchor-untrusted", "not-closed", "unanchored"]


@pytest.mark.parametrize("text", ["", "{}", '{"payload":""}', "provstore/x/one/0\n3\n", "\x00\xff"])
def test_a_given_file_that_is_no_checkpoint_is_unusable_input(place: Place, text: str) -> None:
    path = place.kept("odd", text)
    with pytest.raises(InputError, match="odd") as refusal:
        place.believing(anchors=[path])
    assert refusal.value.exit_code == 2
    assert "checkpoint" in str(refusal.value.hint)


def test_an_anchor_of_another_run_or_store_is_said_not_to_be_used(place: Place) -> None:
    other = checkpoint.make(f"provstore/{'f' * 32}/one/0", 3, bytes(32), place.key).decode()
    given = [place.kept("of-two", place.notes["two"]), place.kept("elsewhere", other)]
    answer = place.judged(place.believing(anchors=given))

    assert f"{given[0]} is about run two, attempt 0: not used." in answer.limits
    assert f"{given[1]} is about run one, attempt 0 of another store" in "\n".join(answer.limits)
    assert codes(answer) == ["not-closed", "unanchored"]


def test_an_anchor_that_one_of_several_answers_used_is_not_called_unused(place: Place) -> None:
    belief = place.believing(anchors=[place.kept("of-two", place.notes["two"])])
    with provstore.open(f"embedded:{place.directory}") as store:
        answers = store.verify(belief=belief)
    assert not any("not used" in text for answer in answers for text in answer.limits)


def test_a_folder_without_anchors_is_said_to_hold_none(place: Place, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = place.judged(place.believing(anchors=[tmp_path / "empty"]))

    assert any(text.startswith(f"{tmp_path / 'empty'} holds no anchor") for text in answer.limits)


def test_own_anchors_inside_the_store_are_said_at_once_and_none_is_left_there(place: Place) -> None:
    inside = place.directory / "anchors"
    answer = place.judged(place.believing(state=inside))

    assert codes(answer) == ["anchor-not-independent", "not-closed", "unanchored"]
    assert not inside.exists()


def test_an_answer_is_given_although_the_next_anchor_cannot_be_kept(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = place.judged(place.believing(state=tmp_path / "file" / "anchors"))

    assert codes(answer) == ["not-closed", "unanchored"]
    assert answer.exit_code == 3
    assert "could not be kept" in answer.limits[-1]
    assert "--no-keep-anchor" in answer.limits[-1]


def _edit(place: Place, text: str) -> None:
    graph = kglite.open(str(place.directory / "graph.kgl"), storage="mapped", durable="off")
    graph.cypher(text)
    graph.close()


def test_where_one_of_two_places_has_a_fault_nothing_says_that_none_was_found(place: Place) -> None:
    _edit(place, "MATCH (b:EvidenceBundle {run: 'one'}) SET b.keyid = 'SHA256:other'")
    answer = place.judged(place.believing())

    assert answer.verdict == "fault"
    assert codes(answer).count("unanchored") == 1
    assert not any("No fault found" in text for text in [*answer.limits, *(one.text for one in answer.findings)])


def test_an_anchor_that_the_journal_holds_whole_is_not_called_partial_because_the_graph_lacks_a_record(
    place: Place,
) -> None:
    place.judged(place.believing())
    _edit(place, "MATCH (r:Record {run: 'one', leaf_index: 1}) DETACH DELETE r")
    answer = place.judged(place.believing())

    assert answer.verdict == "fault"
    assert (answer.anchor.size, answer.anchor.of) == (3, 3)
    assert not {"anchor-partial", "unanchored"} & set(codes(answer))
    assert not any("Anchored to 0" in text for text in answer.limits)
