"""--agent-key FILE: one JSON object of key ids to public keys, as agents' publishers hand them out."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from agent_records import Emitter, lines, record

CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "aep"
OTHER = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
"""Public key of the first test of RFC 8032, section 7.1."""


@pytest.fixture
def agent():
    return Emitter("agent-key-01")


@pytest.fixture
def evidence(agent, home):
    (home / "agent.jsonl").write_bytes(lines([agent.signed(record("one"))]))
    return "./agent.jsonl"


@pytest.fixture
def keys_file(home):
    def write(text, name="keys.json"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return name

    return write


def test_the_keys_of_several_agents_may_lie_in_one_file(command, agent, evidence, keys_file):
    file = keys_file({"gateway-key-01": OTHER, "agent-key-01": agent.public.hex()})
    answer = command("verify", evidence, "--agent-key", file)
    assert answer.code == 0, answer.err
    assert "authenticity  valid (agent-key-01" in answer.out


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of agent evidence")
def test_the_keys_of_the_corpus_verify_its_records_as_they_are_handed_out(command, home):
    answer = command(
        "verify", CORPUS / "gateway.jsonl", CORPUS / "agent.jsonl", "--agent-key", CORPUS / "public_keys.json", "--json"
    )
    axes = [one["axes"]["authenticity"] for file in json.loads(answer.out)["answers"] for one in file["records"]]
    assert [one["status"] for one in axes] == ["valid"] * 4


@pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus of agent evidence")
def test_join_takes_the_same_file(command, home):
    for name in ("gateway.jsonl", "agent.jsonl"):
        assert command("ingest", CORPUS / name).code == 0
    unknown = command("join")
    known = command("join", "--agent-key", CORPUS / "public_keys.json")
    assert "unknown-key" in unknown.out
    assert "unknown-key" not in known.out


def test_a_key_in_another_form_that_tells_it_counts(command, agent, evidence, keys_file):
    # RFC 8410, section 4: the one prefix of every Ed25519 key.
    der = bytes.fromhex("302a300506032b6570032100") + agent.public
    pem = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
    assert command("verify", evidence, "--agent-key", keys_file({"agent-key-01": pem})).code == 0


def test_a_path_that_holds_the_sign_is_read_as_a_path(command, agent, evidence, keys_file):
    file = keys_file({"agent-key-01": agent.public.hex()}, "lr=0.1/keys.json")
    assert command("verify", evidence, "--agent-key", file).code == 0


def test_one_key_given_twice_is_one_key(command, agent, evidence, keys_file):
    file, same = keys_file({"agent-key-01": agent.public.hex()}), f"agent-key-01={agent.public.hex()}"
    assert command("verify", evidence, "--agent-key", file, "--agent-key", same).code == 0


def test_two_keys_for_one_id_are_refused(command, agent, evidence, keys_file):
    file, other = keys_file({"agent-key-01": agent.public.hex()}), f"agent-key-01={OTHER}"
    answer = command("verify", evidence, "--agent-key", file, "--agent-key", other)
    assert (answer.code, answer.err.strip()) == (
        2, "provstore: 'agent-key-01': --agent-key: two keys are given for this id",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON: "),
        ("", "no JSON: "),
        (OTHER, "no JSON: "),
        ("[]", "is no JSON object of key id to public key, with one key at least"),
        ("{}", "is no JSON object of key id to public key, with one key at least"),
        ('"text"', "is no JSON object of key id to public key, with one key at least"),
        (f'{{"a": "{OTHER}", "a": "{OTHER}"}}', "name: 'a' is repeated in one object"),
        ('{"a": 12}', "'a': is no text with a public key"),
        ('{"a": {"key": "12"}}', "'a': is no text with a public key"),
        ('{"a": "12"}', "'a': public key: "),
        (f'{{"": "{OTHER}"}}', "'': is no key id"),
    ],
)
def test_a_file_that_is_no_map_of_keys_is_named_with_the_reason(command, evidence, keys_file, text, reason):
    answer = command("verify", evidence, "--agent-key", keys_file(text))
    said = " ".join(answer.err.split())
    assert answer.code == 2
    assert said.startswith("provstore: keys.json: agent keys: ")
    assert reason in said


def test_a_file_of_one_key_alone_is_said_to_need_its_id(command, evidence, keys_file):
    # RFC 8037, appendix A.2.
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    answer = command("verify", evidence, "--agent-key", keys_file(jwk, "agent.jwk"))
    assert (answer.code, answer.err.splitlines()) == (
        2, ["provstore: agent.jwk: agent keys: is one public key, and its id is not given",
            "hint: give it as --agent-key ID=FILE"],
    )  # fmt: skip


def test_every_bad_key_of_a_file_is_named(command, evidence, keys_file):
    answer = command("verify", evidence, "--agent-key", keys_file({"a": "12", "b": OTHER, "c": None}))
    assert answer.code == 2
    assert "'a'" in answer.err
    assert "'c': is no text with a public key" in answer.err
    assert "'b'" not in answer.err


def test_a_key_that_is_not_safe_to_trust_is_refused_in_a_file_too(command, evidence, keys_file):
    answer = command("verify", evidence, "--agent-key", keys_file({"a": "0" * 64}))
    assert answer.code == 1
    assert "keys.json: agent keys: 'a'" in answer.err


def test_a_file_that_is_too_large_is_not_looked_at(command, evidence, keys_file):
    answer = command("verify", evidence, "--agent-key", keys_file('{"a":"' + "0" * (1 << 20) + '"}'))
    assert answer.code == 4
    assert "keys.json: agent keys: more than 1048576 bytes" in answer.err


@pytest.mark.parametrize("given", ["nowhere.json", "=keys.json", "agent-key-01="])
def test_what_is_neither_a_key_nor_a_file_is_said(command, evidence, given):
    answer = command("verify", evidence, "--agent-key", given)
    assert answer.code == 2
    assert "--agent-key: need ID=HEX, ID=FILE, or a file of a JSON object, id to key" in " ".join(answer.err.split())


def test_a_folder_is_said_to_be_no_file(command, evidence, home):
    (home / "keys").mkdir()
    answer = command("verify", evidence, "--agent-key", "keys")
    assert (answer.code, answer.err.strip()) == (
        2, "provstore: keys: agent keys: cannot be read: Is a directory",
    )  # fmt: skip
