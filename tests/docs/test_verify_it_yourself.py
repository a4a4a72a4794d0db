"""What `docs/howto/verify-it-yourself.md` says is enough to find any change of an exported run."""

import shutil
from pathlib import Path

import console
import pytest

from provstore.evidence.keys import PrivateKey, fingerprint
from provstore.exports.evidence.writer import export
from tests.signed_logs import signed_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "verify-it-yourself.md"
HOLDS = ("epoch-0.pae.bin: signed by the key in pub.pem", "epoch-1.pae.bin: signed by the key in pub.pem")
CHECKPOINT_HOLDS = "checkpoint: signed by the key in pub.pem"
SIGNED = [f"epoch-{n}.{form}" for n in (0, 1) for form in ("jsonl", "dsse.json", "pae.bin", "sig.raw")]


@pytest.fixture(scope="module")
def work():
    with console.scratch_folder(PAGE) as folder:
        for command in console.commands(console.blocks(PAGE)[0]):
            assert console.fits(command.expected, console.output(command, folder))
        yield folder


@pytest.fixture
def evidence(work):
    """A fresh copy, under the name that the page uses."""
    kept = work / "pristine"
    if not kept.exists():
        shutil.copytree(work / "evidence", kept)
    shutil.rmtree(work / "evidence")
    shutil.copytree(kept, work / "evidence")
    return work / "evidence"


def shown(work, *parts):
    """Output of the page's commands that hold all ``parts``."""
    found = [one for block in console.blocks(PAGE) for one in console.commands(block)]
    return "\n".join(console.output(one, work) for one in found if all(part in one.text for part in parts))


def signed(work):
    """What the page's commands say of the bundles and of the checkpoint."""
    bundles = shown(work, "openssl pkeyutl", "epoch-*")
    return bundles, "\n".join(shown(work, part) for part in ("> note.txt", "> note.sig", "-in note.txt")).strip()


def holds(work):
    signatures, checkpoint = signed(work)
    checked = shown(work, "check.py")
    return (
        signatures.split("\n") == list(HOLDS)
        and checkpoint.strip() == CHECKPOINT_HOLDS
        and "DOES NOT HOLD" not in checked
        and "Error" not in checked
        and checked.endswith("closed by its signer")
    )


def flipped(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_an_untouched_export_holds(work, evidence):
    assert holds(work)


@pytest.mark.parametrize("name", [*SIGNED, "checkpoint"])
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_flipped_bit_in_any_signed_file_is_found(work, evidence, name, share):
    path = evidence / name
    flipped(path, int(path.stat().st_size * share))

    assert not holds(work)


def test_a_missing_last_epoch_is_found_by_the_checkpoint(work, evidence):
    for path in evidence.glob("epoch-1.*"):
        path.unlink()

    assert "it covers more records than are here" in shown(work, "check.py")


def test_a_missing_first_epoch_is_found(work, evidence):
    for path in evidence.glob("epoch-0.*"):
        path.unlink()

    assert "there is no epoch-0" in shown(work, "check.py")


def test_an_older_checkpoint_shows_a_run_that_was_cut_behind_it(work, evidence):
    kept = work / "kept-since-monday"
    before = kept.read_bytes()
    kept.write_bytes((evidence / "checkpoint").read_bytes())
    try:
        for path in evidence.glob("epoch-1.*"):
            path.unlink()
        shutil.copy(evidence / "epoch-0.checkpoint", evidence / "checkpoint")

        assert "kept-since-monday: it covers more records than are here" in shown(work, "check.py")
    finally:
        kept.write_bytes(before)


def test_every_record_has_a_proof_and_none_proves_another_record(work, evidence):
    for index in range(9):
        for other in range(9):
            command = console.Command(
                f"cd evidence && python3 ../included.py record-{index}.json record-{other}.tlog-proof", ""
            )
            assert ("DOES NOT HOLD" in console.output(command, work)) == (index != other)


def test_a_flipped_bit_in_a_proof_is_found(work, evidence):
    path = evidence / "record-5.tlog-proof"
    text = path.read_bytes()
    flipped(path, text.index(b"\n", text.index(b"index")) + 4)

    assert "DOES NOT HOLD" in shown(work, "included.py record-5.json")


def test_after_a_change_of_keys_each_epoch_is_held_against_every_key(work, evidence):
    keys = [PrivateKey.generate() for _ in range(2)]
    log = signed_run(sizes=[3, 2], keys=keys, closed=True)
    shutil.rmtree(evidence)
    export(log, evidence, log.publics)

    fingerprints = shown(work, "SHA256:'").split("\n")
    assert [one.rstrip("=") for one in fingerprints] == [
        f"{file} {fingerprint(key.public_key)}" for file, key in zip(("pub-2.pem", "pub.pem"), reversed(keys))
    ]
    bundles, checkpoint = signed(work)
    assert bundles.split("\n") == [HOLDS[0], "epoch-1.pae.bin: signed by the key in pub-2.pem"]
    assert checkpoint == "checkpoint: signed by the key in pub-2.pem"

    (evidence / "pub-2.pem").unlink()
    bundles, checkpoint = signed(work)
    assert bundles.split("\n") == [HOLDS[0], "epoch-1.pae.bin: DOES NOT HOLD: signed by none of these keys"]
    assert checkpoint == "checkpoint: DOES NOT HOLD: signed by none of these keys"
