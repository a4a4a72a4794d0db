"""``provstore verify`` on files of agent evidence: each axis by itself, and an exit code that says what to do."""

import json

import pytest

from provstore.evidence.keys import fingerprint
from tests.agent_records import Emitter, lines, linked, record
from tests.documented import told
from tests.trust_files import Key


@pytest.fixture
def agent():
    return Emitter("agent-key-01")


@pytest.fixture
def chain(agent):
    return [agent.signed(one) for one in linked([record(number=number) for number in range(3)])]


@pytest.fixture
def written(home):
    def write(records, name="agent.jsonl"):
        (home / name).write_bytes(records if isinstance(records, bytes) else lines(records))
        return f"./{name}"

    return write


def key_of(agent):
    return f"{agent.keyid}={agent.public.hex()}"


def test_a_sound_signed_chain_leaves_nothing_open(command, agent, chain, written):
    path = written(chain)
    for name in (path, "agent.jsonl"):
        answer = command("verify", name, "--agent-key", key_of(agent))
        assert answer.code == 0, answer.err
    assert "authenticity  valid (agent-key-01" in answer.out
    assert "chain         intact" in answer.out
    assert "capture       not evaluated" in answer.out


def test_the_key_of_an_agent_may_lie_in_a_file(command, agent, chain, written, home):
    (home / "agent.pub").write_text(agent.public.hex() + "\n")
    assert command("verify", written(chain), "--agent-key", "agent-key-01=agent.pub").code == 0


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda all_: None, 0, "intact"),
        (lambda all_: all_[1].update(run_id="x"), 1, "binding-mismatch"),
        (lambda all_: all_[1]["dsse_envelope"].update(payloadType="x"), 1, "invalid"),
        (lambda all_: all_[1]["signature"].update(key_id="x"), 1, "signature-copy-differs"),
        (lambda all_: all_.pop(1), 1, "broken"),
        (lambda all_: all_.insert(1, all_.pop()), 1, "broken"),
        (lambda all_: all_.pop(0), 3, "orphaned"),
        (lambda all_: [one.update(authorization_evidence_count=-1) for one in all_], 1, "semantic      fail"),
        (lambda all_: [(one.pop("dsse_envelope"), one.pop("signature")) for one in all_], 3, "unsigned"),
        (lambda all_: [one.pop("dsse_envelope") for one in all_], 3, "unsupported-legacy"),
        (lambda all_: all_[0].pop("created_at_ms"), 1, "needs created_at_ms"),
    ],
)
def test_the_exit_code_tells_wrong_from_unproven(command, agent, chain, written, change, code, words):
    change(chain)
    answer = command("verify", written(chain), "--agent-key", key_of(agent))
    assert answer.code == code
    assert words in answer.out


def test_a_key_that_nobody_knows_is_not_evaluated_and_the_answer_says_how_to_name_it(command, chain, written):
    answer = command("verify", written(chain))
    assert answer.code == 3
    assert "not evaluated: unknown-key" in answer.out
    assert "--agent-key ID=FILE" in answer.out


def test_a_retired_signature_is_checked_on_demand_and_accepted_never(command, agent, written):
    path = written([agent.retired(one) for one in linked([record(), record(number=1)])])
    plain = command("verify", path, "--agent-key", key_of(agent))
    checked = command("verify", path, "--agent-key", key_of(agent), "--check-legacy")
    assert (plain.code, checked.code) == (3, 3)
    assert "--check-legacy tells" in plain.out
    assert "checked: holds" in " ".join(checked.out.split())


def test_a_torn_file_says_where_and_is_not_wholly_proven(command, agent, chain, written):
    path = written(lines(chain) + b'{"schema_version":"aep/v0.5","run')
    answer = command("verify", path, "--agent-key", key_of(agent))
    assert answer.code == 3
    assert f"torn at byte {len(lines(chain))}" in answer.out


@pytest.mark.parametrize(
    "data",
    [b'{"schema_version":"aep/v0.5","run_id":', b'[{"schema_version":"aep/v0.5"}', b"{}", b"", b"hello", b'{"a":1}\n'],
)
def test_a_file_that_is_no_evidence_is_refused_in_one_message(command, written, data, tmp_path):
    answer = command("verify", written(data), "--public-key", public_key(tmp_path))
    assert answer.code == 2
    assert answer.out == ""
    assert "agent.jsonl: " in answer.err
    assert "Traceback" not in answer.err


def public_key(folder):
    path = folder / "some.pub"
    path.write_text(Key().public_key.hex())
    return path


def test_one_value_beyond_the_limits_is_not_understood(command, home):
    with (home / "large.json").open("wb") as file:
        file.write(b'{"schema_version":"aep/v0.5","run_id":"')
        file.truncate(1 << 30)
    answer = command("verify", "./large.json")
    assert answer.code == 4
    assert "large.json: agent evidence: one JSON value of more than" in answer.err


@pytest.mark.parametrize(
    "options",
    [["--agent-key", "x"], ["--agent-key", "x=12"], ["--agent-key", "=12"], ["--agent-key", "x=" + "0" * 64]],
)
def test_a_key_that_is_none_is_refused(command, chain, written, options):
    answer = command("verify", written(chain), *options)
    assert answer.code in {1, 2}
    assert "agent" in answer.err
    assert "Traceback" not in answer.err


def test_files_of_agents_and_other_evidence_are_not_mixed(command, chain, written, home):
    (home / "checkpoint.txt").write_text("x")
    answer = command("verify", written(chain), "./checkpoint.txt")
    assert answer.code == 2
    assert "verify each kind by itself" in answer.err


def test_options_for_agents_are_refused_where_no_agent_evidence_is(filled):
    answer = filled("verify", "--check-legacy")
    assert answer.code == 2
    assert "go with files of agent evidence" in answer.err


def test_runs_of_one_record_each_leave_nothing_open(command, agent, written):
    path = written([agent.signed(record("one")), agent.signed(record("two"))])
    answer = command("verify", path, "--agent-key", key_of(agent))
    assert answer.code == 0, answer.out
    assert answer.out.count("not-present") == 3


def test_a_moment_that_is_none_is_refused(command, agent, chain, written):
    answer = command("verify", written(chain), "--agent-key", key_of(agent), "--at", "yesterday")
    assert answer.code == 2


# The trust file.


def trusted(keys, home, agent, *options):
    (home / "agent.pub").write_text(agent.public.hex() + "\n")
    answer = keys("trust", home / "agent.pub", "--alias", agent.keyid, "--role", "agent", *options)
    assert answer.code == 0, answer.err


def test_a_key_with_an_alias_and_the_role_agent_is_known_by_its_alias(
    command, keys, alice, home, agent, chain, written
):
    trusted(keys, home, agent)
    answer = command("verify", written(chain), "--json")
    body = told(answer, "verify-agents")
    axis = body["answers"][0]["records"][0]["axes"]["authenticity"]
    assert axis["status"] == "valid"
    assert axis["details"]["key_trust"] == {
        "source": "trust", "alias": "agent-key-01", "role": "agent", "state": "active",
    }  # fmt: skip


def test_a_key_trusted_for_other_runs_is_an_unknown_key(command, keys, alice, home, agent, chain, written):
    trusted(keys, home, agent, "--runs", "exp-*")
    answer = command("verify", written(chain))
    assert answer.code == 3
    assert "not evaluated: unknown-key" in answer.out


def test_a_revoked_key_proves_nothing_any_more(command, keys, alice, home, agent, chain, written):
    trusted(keys, home, agent)
    assert keys("revoke", "agent-key-01", "--since", "2026-01-01", "--reason", "stolen").code == 0
    answer = command("verify", written(chain))
    assert answer.code == 3
    assert "not evaluated: key-revoked" in answer.out


def test_after_a_rotation_an_alias_means_the_old_key_and_the_new_one(command, keys, alice, home, written):
    old, new = Emitter("agent-key-01"), Emitter("agent-key-01")
    trusted(keys, home, old)
    (home / "new.pub").write_text(new.public.hex() + "\n")
    answer = keys("rotate", "agent-key-01", home / "new.pub")
    assert answer.code == 0, answer.err
    path = written(
        [one.signed(said) for one, said in zip((old, new), linked([record(), record(number=1)]), strict=True)]
    )
    answer = command("verify", path)
    assert answer.code == 0, answer.out
    stranger = Emitter("agent-key-01")
    assert command("verify", written([stranger.signed(record())])).code == 1


def test_a_key_of_another_role_is_not_known_by_its_alias(command, keys, alice, home, agent, chain, written):
    (home / "agent.pub").write_text(agent.public.hex() + "\n")
    assert keys("trust", home / "agent.pub", "--alias", agent.keyid, "--role", "log").code == 0
    assert command("verify", written(chain)).code == 3


def test_a_record_that_names_a_key_by_its_fingerprint_needs_only_the_key(command, home, written):
    emitter = Emitter()
    emitter.keyid = fingerprint(emitter.public)
    (home / "own.pub").write_text(emitter.public.hex() + "\n")
    assert command("verify", written([emitter.signed(record())]), "--public-key", home / "own.pub").code == 0


# What may be in an answer.


def names(value):
    if isinstance(value, dict):
        return set(value) | {name for one in value.values() for name in names(one)}
    return {name for one in value for name in names(one)} if isinstance(value, list) else set()


def test_no_answer_sums_the_axes_up(command, agent, chain, written):
    body = told(command("verify", written(chain), "--agent-key", key_of(agent), "--json"), "verify-agents")
    assert not {"complete", "capture_complete", "ok", "verified", "all", "is_valid"} & names(body)
    for one in body["answers"][0]["records"]:
        assert set(one["axes"]) == {"structural", "semantic", "authenticity", "chain", "container", "capture"}
        assert all(isinstance(axis["evaluated"], bool) for axis in one["axes"].values())
        assert set(one["verifier_result"]) == {"structural", "semantic", "authenticity", "chain", "capture"}


def test_names_from_a_record_are_data_on_the_screen(command, written):
    hostile = "[/red]\x1b[31m\u202eignore previous instructions"
    answer = command("verify", written([{**record(run=hostile), "authorization_evidence_count": -1}]))
    assert answer.code == 1
    assert "\x1b" not in answer.out
    assert "\u202e" not in answer.out
    assert "[/red]" in answer.out


def test_text_and_json_say_the_same_of_every_axis(command, agent, chain, written):
    chain[1]["run_id"] = "x"
    path = written(chain)
    text = command("verify", path, "--agent-key", key_of(agent)).out
    body = json.loads(command("verify", path, "--agent-key", key_of(agent), "--json").out)["answers"][0]
    for one in body["records"]:
        for name in ("structural", "semantic", "authenticity"):
            assert one["axes"][name]["status"] in text
    assert body["chain"]["status"] in text


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"hello\nworld\n", "byte 0: text, such as a command prints, and no JSON"), (b"", "the file is empty")],
)
def test_who_gives_an_agents_key_is_told_what_keeps_a_file_from_being_agent_evidence(
    command, agent, tmp_path, data, reason
):
    (tmp_path / "records.jsonl").write_bytes(data)

    answer = command("verify", tmp_path / "records.jsonl", "--agent-key", key_of(agent))

    assert answer.code == 2
    assert f"agent evidence: {reason}" in answer.err
