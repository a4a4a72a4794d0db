"""Files of ``train-aep/v0.1``: what is kept of their claims, and which file is refused for which reason."""

import builtins
import copy
import hashlib
import json
import math

import cbor2
import pytest

import provstore
from provstore.errors import ConfigError, InputError
from provstore.sources import train_aep
from provstore.stores.dump import canonical_dump


def action(number, **more):
    return {
        "action_id": f"r0:seq{number}",
        "rank": 0,
        "step": number,
        "collective_type": "all_reduce",
        "recording_mode": "full",
        "tensor_input_digest": "0123456789abcdef",
        "tensor_output_digest": None,
        "delta_stats": {"mean": 0.1, "max": 3, "min": -0.0},
        "timestamp_ns": 1_796_031_812_000_123_456 + number,
        "causal_chain_id": None,
        "parent_action_id": f"r0:seq{number - 1}" if number else None,
        **more,
    }


def bundle(*actions, **more):
    head = {"schema_version": "train-aep/v0.1", "run_id": "old-run", "epoch": 3}
    return {**head, "actions": list(actions or (action(0), action(1, recording_mode="validation"))), **more}


@pytest.fixture
def write(tmp_path):
    def written(value, name="epoch.json"):
        path = tmp_path / name
        if name.endswith(".cbor"):
            path.write_bytes(cbor2.dumps(value))
        else:
            path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    return written


def rows(store):
    return store.query("agents/legacy_actions", run="old-run").rows


def test_json_and_cbor_of_the_same_data_are_the_same_actions(write, tmp_path):
    value = bundle(action(0, delta_stats={"mean": math.nan, "max": math.inf, "std": 1.5}), action(1), signature=None)
    files = [write(value), write(value, "epoch.cbor")]
    found = [train_aep.read(path) for path in files]
    assert found[0].actions == found[1].actions
    assert [one.form for one in found] == ["json", "cbor"]
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        for path in files:
            assert [file.status for file in store.ingest(path).files] == ["new"]
        assert len(rows(store)) == 2
        kept = [store.opened.journal.source(hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    assert kept == [path.read_bytes() for path in files]


def test_a_claimed_mode_stands_beside_what_is_true(write):
    with provstore.open("memory:") as store:
        report = store.ingest(write(bundle()))
        assert any("claim more than validation" in text for text in report.files[0].warnings)
        told = [(one["claimed_mode"], one["recorded_mode"], one["shortfall"]) for one in rows(store)]
        assert told == [("full", "validation", ["no-tensor-access"]), ("validation", "validation", None)]
        assert {(one["seq"], one["digest_in"], one["digest_kind"]) for one in rows(store)} == {
            (0, "0123456789abcdef", "legacy-f32-4k-16hex"),
            (1, "0123456789abcdef", "legacy-f32-4k-16hex"),
        }


def test_two_actions_with_one_id_are_both_kept(write):
    with provstore.open("memory:") as store:
        report = store.ingest(write(bundle(action(0), action(0, rank=1), action(0))))
        assert [(one["action_id"], one["ordinal"], one["rank"]) for one in rows(store)] == [
            ("r0:seq0", 0, 0), ("r0:seq0", 2, 0), ("r0:seq0", 1, 1)
        ]  # fmt: skip
    assert any(text.startswith("action-id-collision: ") for text in report.files[0].warnings)


def test_a_signature_of_the_format_is_never_accepted(write):
    found = train_aep.read(write(bundle(signature={"alg": "ed25519", "key_id": "k", "sig": "00"})))
    assert any("unsupported-legacy" in text for text in found.warnings)


def without(value, name):
    changed = copy.deepcopy(value)
    del changed["actions"][1][name]
    return changed


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, r"schema_version: missing"),
        ([], r"no object"),
        (bundle(schema_version="train-aep/v0.2"), r"schema_version: 'train-aep/v0.2', which is not train-aep/v0.1"),
        (bundle(epoch=-1), r"epoch: -1 is no number from 0"),
        (bundle(epoch=True), r"epoch: True is no number from 0"),
        (bundle(run_id=""), r"run_id: '' is no name"),
        (bundle(actions={}), r"actions: \{\} is no list"),
        (bundle(actions=[]), "actions: the list is empty"),
        (bundle(action(0), action(1, rank="0")), r"actions\[1\]\.rank: '0' is no number from 0"),
        (bundle(action(0), action(1, timestamp_ns=1.5)), r"actions\[1\]\.timestamp_ns: 1.5 is no number from 0"),
        (bundle(action(0), action(1, recording_mode="all")), r"actions\[1\]\.recording_mode: 'all' is none of"),
        (bundle(action(0), action(1, action_id=None)), r"actions\[1\]\.action_id: None is no text"),
        (bundle(action(0), action(1, delta_stats="x")), r"actions\[1\]\.delta_stats: 'x' is no object"),
        (bundle(action(0), 7), r"actions\[1\]: 7 is no object"),
        *((without(bundle(), name), rf"actions\[1\]\.{name}: missing") for name in action(0)),
        *(({k: v for k, v in bundle().items() if k != name}, rf"{name}: missing") for name in ("run_id", "epoch")),
        (b"Recorded 3 actions\n" + json.dumps(bundle()).encode(), r"text of a console, not JSON"),
        (json.dumps(bundle()).encode()[:400], r"byte \d+: the file is cut off"),
        (b"", r"the file is empty"),
        (b'{"schema_version": "train-aep/v0.1", "epoch": 1, "epoch": 2}', r"the name 'epoch' comes twice"),
        (b'{"a":' * 200_000, r"nests too deep"),
        (b'{"schema_version": "train-aep/v0.1\xff"}', r"not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_says_which_member_and_changes_nothing(write, value, said):
    path = write(value)
    with pytest.raises(InputError, match=said):
        train_aep.read(path)
    with provstore.open("memory:") as store:
        store.ingest(write(bundle(), "sound.json"))
        before = list(canonical_dump(store._graph)), store.opened.journal.position
        (refused,) = store.ingest(path, source="train-aep").files
        assert refused.status == "refused"
        assert (list(canonical_dump(store._graph)), store.opened.journal.position) == before


def test_a_cut_off_cbor_file_says_so(write):
    path = write(bundle(), "epoch.cbor")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"epoch\.cbor: train-aep: byte \d+: the file is cut off"):
        train_aep.read(path)


def test_bytes_behind_a_cbor_value_are_no_part_of_it(write):
    path = write(bundle(), "epoch.cbor")
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(InputError, match="something stands behind the value"):
        train_aep.read(path)


def test_without_the_extra_a_cbor_file_says_what_to_install(write, monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **named):
        if name == "cbor2":
            raise ImportError(name)
        return real(name, *rest, **named)

    path = write(bundle(), "epoch.cbor")
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ConfigError, match="cbor2 is not installed") as caught:
        train_aep.read(path)
    assert caught.value.hint == "pip install 'provstore[cbor]'"


def test_a_file_of_the_format_is_recognised_by_content(write):
    for path in (write(bundle()), write(bundle(), "epoch.cbor"), write(b"text\n" + json.dumps(bundle()).encode())):
        assert train_aep.recognises(path.read_bytes())
    assert not train_aep.recognises(b'{"schema_version": "aep/v0.5", "run_id": "train-aep/v0.1"}')
    assert not train_aep.recognises(b"\x80\x02}q\x00.")
