"""The page about the bytes of evidence says what the code does."""

import re
from pathlib import Path

import pytest

from provstore.evidence import checkpoint, dsse, merkle, record_shapes, statement
from provstore.evidence.keys import PrivateKey
from provstore.evidence.trust import document
from provstore.evidence.trust import keys as trust_keys
from provstore.exports.evidence import MAX_EPOCH_BYTES
from provstore.journal import frames
from provstore.model import canonical

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "evidence-format.md").read_text(encoding="utf-8")


def section(title):
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text):
    """First two cells of the rows of the tables in ``text``, without their heads."""
    cells = [line.strip("|").split(" | ", 1) for line in text.splitlines() if line.startswith("| ")]
    return [(left.strip(), right.strip()) for left, right in (row for row in cells if len(row) == 2)]


def names(text):
    return set(re.findall(r"`([^`]+)`", text))


def test_every_kind_of_record_is_listed_with_its_members():
    listed = {
        left.strip("`"): names(right) for left, right in rows(section("Records").split("and those of their kind")[1])
    }
    listed.pop("kind", None)

    assert listed == {kind: set(own) for kind, own in record_shapes.OWN.items()}


def test_the_members_that_all_records_have_are_listed():
    common = section("Records").split("and those of their kind")[0]
    listed = set().union(*(names(left) for left, _ in rows(common)))

    assert listed == set(record_shapes.KINDS["gap"]) - set(record_shapes.OWN["gap"])


def test_every_member_of_the_predicate_is_listed():
    table = section("Statement").split("| predicate member |")[1]
    listed = set().union(*(names(left) for left, _ in rows(table)))

    assert listed == statement._PREDICATE


@pytest.mark.parametrize(
    "word", [statement.STATEMENT_TYPE, statement.PREDICATE_EPOCH, dsse.INTOTO, checkpoint.PROOF_HEAD]
)
def test_the_page_names_each_type_as_it_is_signed(word):
    assert word in PAGE


def test_the_members_of_a_trust_file_and_its_keys_are_listed():
    text = section("Trust file")
    listed = set().union(*(names(left) for left, _ in rows(text)))
    in_key = set(re.findall(r'"(\w+)"', text.split("A key is", 1)[1].split("}", 1)[0]))

    assert listed - {"member"} == document._MEMBERS
    assert in_key == {
        "alg", "alias", "keyid", "namespaces", "notAfter", "notBefore", "public", "role", "runs", "status",
    }  # fmt: skip
    assert names(text) >= set(trust_keys.ROLES) | set(trust_keys.STATUSES)


def test_the_limits_are_the_ones_that_are_checked():
    said = dict(rows(section("Limits")))

    assert said["record"] == f"{canonical.MAX_RECORD_BYTES:,} bytes"
    assert said["payload, envelope"] == f"{dsse.MAX_PAYLOAD_BYTES >> 20} MiB, {dsse.MAX_TEXT_BYTES >> 20} MiB"
    assert (
        said["checkpoint"] == f"{checkpoint.MAX_NOTE_BYTES >> 10} KiB, {checkpoint.MAX_SIGNATURE_LINES} signature lines"
    )
    assert said["proof"] == f"{merkle.MAX_PROOF_HASHES} hashes"
    assert said["epoch file"] == f"{MAX_EPOCH_BYTES >> 20} MiB"
    assert said["journal frame"] == f"{frames.MAX_PAYLOAD_BYTES >> 20} MiB"
    assert f"{document.MAX_KEYS:,} keys; {trust_keys.MAX_CANDIDATES} of them" in said["trust file"]


def test_a_checkpoint_and_a_proof_have_the_lines_of_the_page():
    note = checkpoint.make(checkpoint.origin("provstore", "s", "", 0), 1, bytes(32), PrivateKey.generate()).decode()
    proof = checkpoint.tlog_proof(0, [bytes(32)], note.encode()).decode()

    assert re.fullmatch(r"provstore/s/%/0\n1\n[A-Za-z0-9+/]{43}=\n\n— provstore/s/%/0 [A-Za-z0-9+/]{91}=\n", note)
    assert proof == f"c2sp.org/tlog-proof@v1\nindex 0\n{'A' * 43}=\n\n{note}"
