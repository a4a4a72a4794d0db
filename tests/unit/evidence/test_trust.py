"""What a verifier believes about a trust file, given what it believed before: TUF's list of attacks, rebuilt."""

import json
import os
import shutil
import threading

import pytest

from provstore import config
from provstore.errors import ConfigError, InputError, NotUnderstoodError, StoreError, TrustError
from provstore.evidence.trust import changes as trust_changes
from provstore.evidence.trust import file as trust_file
from provstore.evidence.trust.document import parse
from provstore.evidence.trust.keys import Trust, TrustedKey
from tests.trust_files import LINEAGE, Key, document, entry, envelope, text

A, B, C, BOB = Key(), Key(), Key(), Key()
OTHER_LINEAGE = LINEAGE[::-1]


@pytest.fixture(params=["the user's own", "of somebody else"])
def path(tmp_path, monkeypatch, request):
    """Where the trust file lies: every rule holds for both kinds, which differ in where their pin is remembered."""
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / ("config" if "own" in request.param else "settings")))
    return tmp_path / "config" / "trust.json"


@pytest.fixture
def pin_file(path, tmp_path):
    is_own = config.own_trust_file() == path
    return path.with_name("trust.json.pin") if is_own else tmp_path / "state" / "trust" / f"{LINEAGE}.pin"


@pytest.fixture
def load(path, tmp_path):
    return lambda **given: trust_file.load(path, state=tmp_path / "state", **given)


@pytest.fixture
def put(path):
    def write(root, signers, /, **changes):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(envelope(document(root, **changes), signers))

    return write


def refused(load, code, **given):
    with pytest.raises(TrustError) as caught:
        load(**given)
    assert caught.value.code == code
    return str(caught.value)


def test_a_first_trust_file_needs_a_fingerprint_obtained_elsewhere(put, load):
    put([A], [A])

    with pytest.raises(ConfigError, match="nothing says whose root keys these are") as caught:
        load()
    assert "--pin" in caught.value.hint


def test_a_pinned_file_is_believed_from_then_on(put, load):
    put([A], [A])

    assert load(pin=A.keyid).first_use is False
    assert load().first_use is False


def test_a_pin_that_did_not_sign_is_refused(put, load):
    put([A], [A])

    assert A.keyid in refused(load, "untrusted-key", pin=B.keyid)
    with pytest.raises(ConfigError):
        load()


def test_a_pinned_key_that_is_listed_in_the_root_but_did_not_sign_vouches_for_nothing(put, load):
    put([A, B], [B])

    refused(load, "untrusted-key", pin=A.keyid)
    assert load(first_use=True).first_use is True
    refused(load, "untrusted-key", pin=A.keyid)


@pytest.mark.parametrize("pin", ["alice", "SHA256:short", "sha256:" + "A" * 43, "", "SHA256:" + "é" * 43])
def test_a_pin_that_is_no_fingerprint_is_a_wrong_option(put, load, pin):
    put([A], [A])

    with pytest.raises(ConfigError, match="no fingerprint"):
        load(pin=pin)


def test_trust_on_first_use_stays_visible_until_somebody_pins_it(put, load):
    put([A], [A])

    assert load(first_use=True).first_use is True
    assert load().first_use is True
    put([A], [A], version=2)
    assert load().first_use is True
    assert load(pin=A.keyid).first_use is False
    assert load().first_use is False


def test_another_trust_file_in_the_place_of_the_pinned_one_is_refused(put, load):
    put([A], [A])
    load(pin=A.keyid)
    put([B], [B], lineage=OTHER_LINEAGE)

    refused(load, "untrusted-key")
    refused(load, "untrusted-key", first_use=True)
    refused(load, "untrusted-key", pin=A.keyid)


def test_a_person_may_pin_another_trust_file(put, load):
    put([A], [A])
    load(pin=A.keyid)
    put([B], [B], lineage=OTHER_LINEAGE)

    assert [key.public for key in load(pin=B.keyid).root] == [B.public_key]
    assert load().version == 1


# Rollback


def test_an_older_version_is_refused_after_a_newer_one_was_seen(put, load):
    put([A], [A], version=5)
    load(pin=A.keyid)
    put([A], [A], version=4)

    assert "version 4 is older than version 5" in refused(load, "rollback")
    refused(load, "rollback", pin=A.keyid)
    refused(load, "rollback", first_use=True)


def test_an_older_version_is_refused_under_another_name_too(put, load, tmp_path):
    put([A], [A], version=5)
    load(pin=A.keyid)
    copy = tmp_path / "copy.json"
    copy.write_bytes(envelope(document([A], version=4), [A]))

    with pytest.raises(TrustError, match="older"):
        trust_file.load(copy, pin=A.keyid, state=tmp_path / "state")


def test_an_older_version_is_refused_although_the_pin_was_removed(put, load, pin_file):
    put([A], [A], version=5)
    load(pin=A.keyid)
    put([A], [A], version=4)
    pin_file.unlink()

    refused(load, "rollback", pin=A.keyid)


def test_a_second_file_of_the_same_version_is_refused(put, load):
    put([A], [A], version=5)
    load(pin=A.keyid)
    put([A], [A], version=5, expires="2099-01-01T00:00:00Z")

    refused(load, "fork")


def test_a_refused_file_changes_nothing_that_is_remembered(put, load, path, tmp_path):
    put([A], [A], version=5)
    load(pin=A.keyid)
    kept = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file() and one != path}
    put([B], [B], version=9)

    refused(load, "untrusted-key")
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file() and one != path} == kept


def test_an_older_version_is_refused_by_the_pin_alone_when_the_highest_version_is_lost(put, load, tmp_path):
    put([A], [A], version=5)
    load(pin=A.keyid)
    (tmp_path / "state" / "trust" / f"{LINEAGE}.json").unlink()
    put([A], [A], version=4)

    refused(load, "rollback")


# Freeze


def test_an_expired_file_is_refused(put, load):
    put([A], [A], expires="2026-01-31T00:00:00Z")

    assert "expired at 2026-01-31T00:00:00Z" in refused(load, "untrusted-key", pin=A.keyid)
    refused(load, "untrusted-key", pin=A.keyid, at="2026-01-31T00:00:01Z")


def test_a_file_holds_up_to_the_moment_that_it_states(put, load):
    put([A], [A], expires="2026-01-31T00:00:00Z")

    assert load(pin=A.keyid, at="2026-01-31T00:00:00Z").expires == "2026-01-31T00:00:00Z"
    assert load(at="2026-01-31T01:00:00+01:00").version == 1


# Fast-forward


def test_a_version_number_beyond_the_format_is_refused(put, load):
    put([A], [A], version=2**53)

    refused(load, "payload-noncanonical", pin=A.keyid)


def test_after_a_fast_forward_a_new_trust_file_can_be_pinned(put, load):
    put([A], [A], version=2**53 - 1)
    load(pin=A.keyid)
    put([A], [A], version=3)
    refused(load, "rollback")
    put([A], [A], version=1, lineage=OTHER_LINEAGE)

    assert load(pin=A.keyid).version == 1


# New root keys


def test_versions_of_one_root_may_be_skipped(put, load):
    put([A], [A], version=1)
    load(pin=A.keyid)
    put([A], [A], version=7)

    assert load().version == 7


def test_a_new_root_signed_by_old_and_new_is_believed(put, load):
    put([A], [A])
    load(pin=A.keyid)
    put([B], [A, B], version=2)

    assert [key.public for key in load().root] == [B.public_key]
    put([B], [B], version=3)
    assert load().version == 3
    put([A], [A], version=4)
    refused(load, "untrusted-key")


@pytest.mark.parametrize(
    ("signers", "version"),
    [([A], 2), ([B], 2), ([A, B], 3), ([A, B], 1), ([C, B], 2)],
    ids=["only the old root", "only the new root", "version N+2", "version N", "a stranger for the old root"],
)
def test_a_rotation_that_breaks_a_rule_is_refused_and_the_old_file_stays_in_force(put, load, signers, version):
    put([A], [A])
    load(pin=A.keyid)
    put([B], signers, version=version)

    with pytest.raises(TrustError):
        load()
    put([A], [A])
    assert [key.public for key in load().root] == [A.public_key]


@pytest.mark.parametrize(
    ("signers", "holds"),
    [
        ([A, B, C, BOB], True),
        ([A, B, C], True),
        ([A, C, BOB], False),
        ([A, B, BOB], True),
        ([A, BOB], False),
        ([B, A], False),
    ],
    ids=[
        "all",
        "2 old, 2 new",
        "1 old, 2 new",
        "2 old, 1 of them new too, and another",
        "1 old, 1 new",
        "2 old, 1 new",
    ],
)
def test_a_rotation_needs_the_threshold_of_the_old_root_and_of_the_new(put, load, signers, holds):
    put([A, B], [A, B], threshold=2)
    load(pin=A.keyid)
    put([B, C, BOB], signers, threshold=2, version=2)

    if holds:
        assert load().version == 2
    else:
        with pytest.raises(TrustError):
            load()


def test_a_lower_threshold_is_a_new_root(put, load):
    put([A, B], [A, B], threshold=2)
    load(pin=A.keyid)
    put([A, B], [A], threshold=1, version=2)

    refused(load, "untrusted-key")
    put([A, B], [A, B], threshold=1, version=2)
    assert load().threshold == 1


def test_a_pin_of_the_first_root_leads_over_later_ones_while_the_versions_lie_beside(put, load, path):
    put([A], [A])
    load(pin=A.keyid)
    path.rename(path.with_name("trust.json.v1"))
    put([B], [A, B], version=2)
    path.rename(path.with_name("trust.json.v2"))
    put([C], [B, C], version=3)

    assert [key.public for key in load().root] == [C.public_key]


def test_a_new_reader_with_the_first_fingerprint_is_led_over_the_versions_that_lie_beside(put, load, path):
    for version, (root, signers) in enumerate([([A], [A]), ([B], [A, B]), ([C], [B, C])], 1):
        put(root, signers, version=version)
        path.rename(path.with_name(f"trust.json.v{version}"))
    put([C], [C], version=9)

    assert load(pin=A.keyid).version == 9
    assert load(pin=A.keyid).version == 9
    put([C], [C], version=10)
    assert load(pin=A.keyid).version == 10


@pytest.mark.parametrize("between", ["missing", "of only the new root", "of another trust file", "garbage"])
def test_a_version_in_between_that_does_not_hold_leads_nowhere(put, load, path, between):
    put([A], [A])
    load(pin=A.keyid)
    if between == "of only the new root":
        put([B], [B], version=2)
    elif between == "of another trust file":
        put([B], [A, B], version=2, lineage=OTHER_LINEAGE)
    else:
        path.write_bytes(b"garbage")
    path.rename(path.with_name("trust.json.v2" if between != "missing" else "elsewhere"))
    put([C], [B, C], version=3)

    refused(load, "untrusted-key")


# Publishing


def test_publishing_signs_keeps_the_old_version_and_remembers_the_new_one(path, load, tmp_path):
    first = trust_changes.first([A.public_key])
    trust_file.publish(path, first, [A], old=None, state=tmp_path / "state")
    before = path.read_bytes()
    bob = TrustedKey(BOB.keyid, "ed25519", BOB.public_key, "run", "exp-*")
    trust_file.publish(
        path, trust_changes.with_keys(first, [bob]), [A], old=trust_file.read(path), state=tmp_path / "state"
    )

    assert load() == Trust(
        2, None, (trust_changes.root_key(A.public_key),), 1, (bob,), (), str(path), False, first.lineage
    )
    assert path.with_name("trust.json.v1").read_bytes() == before
    path.write_bytes(before)
    refused(load, "rollback")


def test_files_have_the_modes_of_their_kind(path, load, tmp_path):
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=tmp_path / "state")
    modes = {str(one.relative_to(tmp_path)): one.stat().st_mode & 0o777 for one in tmp_path.rglob("*")}

    assert modes.pop("config/trust.json") in {0o644, 0o600, 0o640}
    assert modes.pop("config") == modes.pop("state") == modes.pop("state/trust") == 0o700
    assert modes.pop("state/trust/places", 0o700) == 0o700
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("signers", [[A], [B]], ids=["only the old root", "only the new root"])
def test_a_rotation_with_one_root_is_not_written(path, load, tmp_path, signers):
    state = tmp_path / "state"
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=state)
    held = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    old = trust_file.read(path)

    with pytest.raises(TrustError):
        trust_file.publish(path, trust_changes.rotated(old.trust, A.keyid, B.public_key), signers, old=old, state=state)
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file() and one.suffix != ".lock"} == {
        one: data for one, data in held.items() if one.suffix != ".lock"
    }
    assert load().version == 1


def test_a_version_that_skips_one_is_not_written(path, load, tmp_path):
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=tmp_path / "state")
    old = trust_file.read(path)
    skipping = trust_changes.expiring(trust_changes.expiring(old.trust, None), None)

    with pytest.raises(TrustError, match="version 2 is next, not 3"):
        trust_file.publish(path, skipping, [A], old=old, state=tmp_path / "state")
    assert load().version == 1


def test_a_file_that_somebody_else_changed_meanwhile_is_not_overwritten(path, tmp_path):
    state = tmp_path / "state"
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=state)
    old = trust_file.read(path)
    trust_file.publish(path, trust_changes.expiring(old.trust, "2099-01-01T00:00:00Z"), [A], old=old, state=state)

    with pytest.raises(ConfigError, match="changed meanwhile"):
        trust_file.publish(path, trust_changes.expiring(old.trust, None), [A], old=old, state=state)
    with pytest.raises(ConfigError, match="there is one already"):
        trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=state)


def test_of_many_writers_at_once_each_version_has_one(path, tmp_path, load):
    state = tmp_path / "state"
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=state)
    old, done = trust_file.read(path), []

    def change(number):
        try:
            new = trust_changes.expiring(old.trust, f"2099-01-01T00:00:{number:02d}Z")
            trust_file.publish(path, new, [A], old=old, state=state)
            done.append(number)
        except ConfigError:
            pass

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert len(done) == 1
    assert load().expires == f"2099-01-01T00:00:{done[0]:02d}Z"


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fails_leaves_the_old_file_in_force(path, tmp_path, load, monkeypatch, call):
    state = tmp_path / "state"
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=state)
    old = trust_file.read(path)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        if call == "fsync":
            broken.setattr(os, "fsync", fail)
        else:
            broken.setattr("pathlib.Path.replace", fail)
        with pytest.raises(StoreError, match="No space left on device"):
            trust_file.publish(path, trust_changes.expiring(old.trust, None), [A], old=old, state=state)

    assert load().version == 1
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_version_of_another_trust_file_is_not_written(path, load, tmp_path):
    trust_file.publish(path, trust_changes.first([A.public_key]), [A], old=None, state=tmp_path / "state")
    other = trust_changes.expiring(trust_changes.first([A.public_key]), None)

    with pytest.raises(TrustError, match="another trust file"):
        trust_file.publish(path, other, [A], old=trust_file.read(path), state=tmp_path / "state")
    assert load().version == 1


# What is remembered


def test_a_pin_that_others_can_write_to_is_refused(put, load, pin_file):
    put([A], [A])
    load(pin=A.keyid)
    pin_file.chmod(0o666)

    assert "mode 0666" in refused(load, "untrusted-key")


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"\xff", b'{"schema":1}', b"x" * 100_000])
@pytest.mark.parametrize("which", ["pin", "state"])
def test_a_memory_that_cannot_be_read_is_not_taken_for_none(put, load, pin_file, tmp_path, which, content):
    put([A], [A])
    load(pin=A.keyid)
    place = pin_file if which == "pin" else tmp_path / "state" / "trust" / f"{LINEAGE}.json"
    place.write_bytes(content)

    with pytest.raises(Exception, match=str(place)) as caught:
        load()
    assert isinstance(caught.value, (TrustError, InputError))


@pytest.mark.parametrize("which", ["pin", "state"])
def test_a_memory_of_another_schema_is_not_understood(put, load, pin_file, tmp_path, which):
    put([A], [A])
    load(pin=A.keyid)
    place = pin_file if which == "pin" else tmp_path / "state" / "trust" / f"{LINEAGE}.json"
    place.write_bytes(place.read_bytes().replace(b'"schema":1', b'"schema":2'))

    with pytest.raises(NotUnderstoodError, match=str(place)):
        load()


def test_a_memory_or_a_lock_that_cannot_be_opened_is_an_error(put, load, pin_file, tmp_path):
    put([A], [A])
    load(pin=A.keyid)
    pin_file.unlink()
    pin_file.symlink_to(pin_file)
    with pytest.raises(StoreError, match=str(pin_file)):
        load()
    lock = tmp_path / "state" / "trust" / f"{LINEAGE}.lock"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(StoreError, match=str(lock)):
        load()


def test_a_state_directory_that_cannot_be_written_is_an_error(put, path, tmp_path):
    put([A], [A])
    (tmp_path / "state").write_text("a file")

    with pytest.raises(StoreError, match="cannot be written"):
        trust_file.load(path, pin=A.keyid, state=tmp_path / "state")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_named(path, load, kind):
    path.parent.mkdir()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)

    with pytest.raises(InputError, match=str(path)):
        load(first_use=True)


# What a folder that was handed over may bring along


@pytest.fixture
def handed(tmp_path, monkeypatch):
    """A trust file made, pinned and packed by somebody else, with all that lay beside it."""
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "theirs"))
    made = tmp_path / "theirs" / "trust.json"
    trust_file.publish(made, trust_changes.first([A.public_key]), [A], old=None, state=tmp_path / "their-state")
    assert made.with_name("trust.json.pin").exists()
    shutil.copytree(tmp_path / "theirs", tmp_path / "handed")
    monkeypatch.setenv("PROVSTORE_CONFIG_HOME", str(tmp_path / "mine"))
    return tmp_path / "handed" / "trust.json"


def test_a_pin_that_was_handed_over_with_a_trust_file_vouches_for_nothing(handed, tmp_path):
    with pytest.raises(ConfigError, match=r"trust\.json\.pin beside it counts for nothing") as caught:
        trust_file.load(handed, state=tmp_path / "state")
    assert "--pin" in caught.value.hint
    assert trust_file.load(handed, first_use=True, state=tmp_path / "state").first_use is True
    assert trust_file.load(handed, state=tmp_path / "state").first_use is True


def test_what_one_person_believed_makes_no_other_believe(handed, tmp_path):
    before = {one: one.read_bytes() for one in handed.parent.iterdir()}
    trust_file.load(handed, first_use=True, state=tmp_path / "state")

    with pytest.raises(ConfigError, match="nothing says whose"):
        trust_file.load(handed, state=tmp_path / "of another")
    assert trust_file.load(handed, pin=A.keyid, state=tmp_path / "of another").first_use is False
    assert {one: one.read_bytes() for one in handed.parent.iterdir()} == before


def test_a_pinned_trust_file_is_known_again_in_another_place(handed, tmp_path):
    trust_file.load(handed, pin=A.keyid, state=tmp_path / "state")
    moved = handed.rename(tmp_path / "moved.json")

    assert trust_file.load(moved, state=tmp_path / "state").first_use is False


def test_a_known_trust_file_in_the_place_of_another_is_refused(handed, tmp_path):
    other = tmp_path / "other.json"
    other.write_bytes(envelope(document([B], lineage=OTHER_LINEAGE), [B]))
    for one, key in ((handed, A), (other, B)):
        trust_file.load(one, pin=key.keyid, state=tmp_path / "state")
    shutil.copy(other, handed)

    for first_use in (False, True):
        with pytest.raises(TrustError, match="another trust file than the one that was pinned here"):
            trust_file.load(handed, first_use=first_use, state=tmp_path / "state")
    assert trust_file.load(handed, pin=B.keyid, state=tmp_path / "state").first_use is False
    assert trust_file.load(handed, state=tmp_path / "state").first_use is False


def test_a_known_trust_file_is_noticed_as_another_although_it_was_believed_elsewhere_first(handed, tmp_path):
    trust_file.load(handed, pin=A.keyid, state=tmp_path / "state")
    copy = tmp_path / "copy.json"
    shutil.copy(handed, copy)
    trust_file.load(copy, state=tmp_path / "state")
    copy.write_bytes(envelope(document([B], lineage=OTHER_LINEAGE), [B]))

    with pytest.raises(TrustError, match="another trust file"):
        trust_file.load(copy, first_use=True, state=tmp_path / "state")


def test_a_trust_file_that_takes_the_name_of_a_pinned_one_is_not_it(handed, tmp_path):
    known = trust_file.load(handed, pin=A.keyid, state=tmp_path / "state")
    forged = tmp_path / "forged.json"
    forged.write_bytes(envelope(document([B], lineage=known.lineage, version=2), [B]))

    with pytest.raises(TrustError, match="signed by 0 of the old ones"):
        trust_file.load(forged, first_use=True, state=tmp_path / "state")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"lineage":"../../x","schema":1}', b'{"lineage":7,"schema":1}'])
def test_a_place_that_cannot_be_read_is_not_taken_for_none(handed, tmp_path, content):
    trust_file.load(handed, pin=A.keyid, state=tmp_path / "state")
    (place,) = (tmp_path / "state" / "trust" / "places").iterdir()
    place.write_bytes(content)

    with pytest.raises((TrustError, NotUnderstoodError), match=str(place)):
        trust_file.load(handed, state=tmp_path / "state")


# The place


def test_a_trust_file_inside_the_store_that_it_judges_is_refused(tmp_path):
    store = tmp_path / "store"
    (store / "deep").mkdir(parents=True)
    (tmp_path / "outside.json").touch()
    (store / "link.json").symlink_to(tmp_path / "outside.json")
    (store / "inside.json").touch()
    (tmp_path / "into.json").symlink_to(store / "link.json")
    (tmp_path / "other").symlink_to(store, target_is_directory=True)

    for inside in ("inside.json", "link.json", "deep/not-there.json", "../into.json", "../other/inside.json"):
        with pytest.raises(TrustError, match="inside the store") as caught:
            trust_file.require_outside(store / inside, store)
        assert caught.value.code == "untrusted-key"
    with pytest.raises(TrustError):
        trust_file.require_outside(store / "inside.json", tmp_path / "other")
    trust_file.require_outside(tmp_path / "outside.json", store)
    trust_file.require_outside(tmp_path / "store-2.json", store)


# Candidates


def listed(*entries):
    return parse(envelope(document([A], list(entries)), [A]), "trust.json").trust


def test_the_named_key_is_the_first_candidate_and_a_wrong_name_hides_none():
    both = listed(entry(B), entry(C))

    for hint in (B, C):
        assert both.candidates(hint.keyid, "r", {"run"})[0].keyid == hint.keyid
    for hint in (None, "", "SHA256:nobody"):
        assert {key.keyid for key in both.candidates(hint, "r", {"run"})} == {B.keyid, C.keyid}


def test_a_key_is_a_candidate_only_for_its_role_and_its_runs():
    given = listed(entry(A, "log"), entry(B, "run", runs="exp-*"), entry(C, "rank"), entry(BOB, "file"))

    def names(run, *roles):
        return {key.keyid for key in given.candidates(None, run, roles)}

    assert names("exp-1", "run") == {B.keyid}
    assert names("EXP-1", "run") == names("other", "run") == set()
    assert names("exp-1", "run", "log") == {A.keyid, B.keyid}
    assert names("exp-1", "rank") == {C.keyid}
    assert names("exp-1", "root") == names("exp-1") == set()


def test_a_revoked_and_a_retired_key_stay_candidates_so_that_anchors_can_decide():
    revocation = {"keyid": B.keyid, "reason": "stolen", "since": "2026-01-31T00:00:00Z"}
    rows = [entry(B, status="revoked"), entry(C, status="retired")]
    given = parse(envelope(document([A], rows, revocations=[revocation]), [A]), "trust.json").trust

    assert {key.keyid for key in given.candidates(None, "r", {"run"})} == {B.keyid, C.keyid}
    assert given.revocation(B.keyid).since == "2026-01-31T00:00:00Z"
    assert given.revocation(C.keyid) is None


@pytest.mark.parametrize("count", [63, 64, 65])
def test_at_most_64_candidates_are_tried_the_named_one_among_them(count):
    keys = [Key() for _ in range(count)]
    given = listed(*(entry(key) for key in keys))
    last = max(key.keyid for key in keys)
    found = given.candidates(last, "r", {"run"})

    assert (len(found), found[0].keyid) == (min(count, 64), last)


def test_keys_given_by_hand_are_trusted_for_all_runs_as_run_keys():
    given = Trust.of_keys([B.public_key, C.public_key, B.public_key], "--public-key")

    assert [(key.keyid, key.role, key.runs) for key in given.keys] == [(B.keyid, "run", "*"), (C.keyid, "run", "*")]
    assert (given.source, given.first_use, given.root) == ("--public-key", False, ())


@pytest.mark.parametrize("public", [b"", bytes(32), b"\x01" + bytes(31), b"x" * 33])
def test_a_key_given_by_hand_that_is_not_safe_is_refused(public):
    with pytest.raises(TrustError):
        Trust.of_keys([public], "--public-key")


def test_the_window_of_a_key_holds_its_ends():
    key = TrustedKey("", "ed25519", b"", "run", not_before="2026-01-01T00:00:00Z", not_after="2026-12-31T23:59:59Z")

    assert [key.is_valid_at(f"2026-{day}Z") for day in ("01-01T00:00:00", "12-31T23:59:59")] == [True, True]
    assert [key.is_valid_at(one) for one in ("2025-12-31T23:59:59Z", "2027-01-01T00:00:00Z")] == [False, False]


def test_what_is_remembered_is_canonical_json(put, load, pin_file, tmp_path):
    put([A], [A])
    load(pin=A.keyid)

    places = list((tmp_path / "state" / "trust" / "places").glob("*"))
    for one in (pin_file, tmp_path / "state" / "trust" / f"{LINEAGE}.json", *places):
        assert one.read_bytes() == text(json.loads(one.read_bytes())) + b"\n"
