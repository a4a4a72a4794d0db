"""What evidence list and show say for people: two kinds of epochs are told apart, positions are no counts."""

from __future__ import annotations

import pytest
from captures import healthy

from provstore.api.recording import record
from provstore.evidence.keys import PrivateKey


@pytest.fixture
def shown(command, home, tmp_path):
    store = f"embedded:{tmp_path / 's'}"
    record([healthy(tmp_path / "c")], store=store, signer=PrivateKey.generate())

    def call(*arguments):
        answer = command("evidence", *arguments, "--store", store)
        assert (answer.code, answer.err) == (0, "")
        return " ".join(answer.out.split())

    return call


def test_a_list_heads_evidence_epochs_and_training_epochs_each_by_its_name(shown):
    text = shown("list")
    assert text.index("evidence epoch") < text.index("training epoch")
    assert "first record" in text


def test_positions_of_a_rank_are_told_from_numbers_of_actions(shown):
    assert "first and last are positions in the order of that rank" in shown("show", "recorded:job:0")
    assert "first and last are positions" not in shown("show", "record:job:0")
