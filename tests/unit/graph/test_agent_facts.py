"""Files of agent evidence in the graph: ids made from content, relations as PROV has them, no order matters."""

import json

import pytest

import provstore
from provstore.errors import InputError
from provstore.graph import agent_facts
from provstore.graph.agent_facts import action_iri, emitter_iri, record_iri, reference_iri, run_iri
from provstore.stores.dump import canonical_dump
from tests.agent_records import Emitter, action, canon, lines, linked, sha256, unsigned

TRACE = "463ac35c9f6413ad48485a3953bb6124"


def record(number=0, run="agent-run-7", **more):
    said = {"schema_version": "aep/v0.5", "run_id": run, "trace_id": TRACE, "created_at_ms": 1796031810000 + number}
    return {**said, "actions": [action(place) for place in range(number + 1)], **more}


def chain(count=3, **more):
    return linked([record(number, **more) for number in range(count)])


def digest(one):
    return sha256(canon(unsigned(one)))


def iri(one, number):
    return action_iri(digest(one), f"action-{number}", sha256(canon(one["actions"][number])))


@pytest.fixture
def store():
    with provstore.open("memory:") as opened:
        yield opened


@pytest.fixture
def ingest(store, tmp_path):
    def take_in(records, name="agent.jsonl", **options):
        path = tmp_path / name
        path.write_bytes(records if isinstance(records, bytes) else lines(records))
        (file,) = store.ingest(path, **options).files
        return file

    return take_in


def related(store, kind):
    text = f"MATCH (a)-[r:{kind}]->(b) RETURN a.iri AS a, b.iri AS b ORDER BY a, b"
    return {(row["a"], row["b"]) for row in store.cypher(text).rows}


def nodes(store, label):
    text = f"MATCH (n:{label}) RETURN n.iri AS iri, properties(n) AS p ORDER BY iri"
    return {row["iri"]: row["p"] for row in store.cypher(text).rows}


def graph(store):
    return [line for line in canonical_dump(store._graph) if '"Applied"' not in line]


def test_an_action_stands_at_the_first_record_of_its_chain(store, ingest):
    told = chain()
    assert ingest(told).records == 3
    assert set(nodes(store, "AgentAction")) == {iri(told[number], number) for number in range(3)}
    assert set(nodes(store, "AgentRecord")) == {record_iri(digest(one)) for one in told}
    assert related(store, "WAS_INFLUENCED_BY") >= {
        (record_iri(digest(told[number])), iri(told[number], number)) for number in range(3)
    }
    links = {(record_iri(digest(told[at + 1])), record_iri(digest(told[at]))) for at in range(2)}
    assert links <= related(store, "WAS_DERIVED_FROM")
    assert {one["chain"] for one in nodes(store, "AgentAction").values()} == {digest(told[0])}


def test_what_a_record_states_of_an_action_is_shown_as_stated(store, ingest):
    one = record(actions=[action(0, "train", side_effect_class="read", recording_mode="full", evidence_refs=["x:y"])])
    ingest([one])
    (shown,) = nodes(store, "AgentAction").values()
    expected = {
        "agent_run": "agent-run-7",
        "action_id": "action-0",
        "tool_name": "train",
        "trace_id": TRACE,
        "side_effect_class": "read",
        "claimed_mode": "full",
        "at_ns": 1796031810000 * 10**6,
        "body_digest": sha256(canon(one["actions"][0])),
        "refs": ["x:y"],
    }
    assert {name: shown[name] for name in expected} == expected


def test_relations_are_those_of_prov(store, ingest):
    emitter = Emitter("key-1")
    one = record(
        run_context={"agent_id": "launcher", "delegation_chain": ["gateway"]},
        input_refs=[{"uri": "dataset://c4", "digest": "sha256:ab"}],
        output_refs=[{"uri": "train-run://run-42"}],
        actions=[action(0, result_digest="sha256:cd")],
    )
    signed = emitter.signed(one)
    ingest([signed])
    key, act = record_iri(digest(signed)), iri(signed, 0)
    agent = emitter_iri("launcher", "key-1")
    assert (key, run_iri("agent-run-7")) in related(store, "WAS_GENERATED_BY")
    assert (reference_iri("train-run://run-42"), act) in related(store, "WAS_GENERATED_BY")
    assert (f"{act}/result", act) in related(store, "WAS_GENERATED_BY")
    assert related(store, "USED") == {(act, reference_iri("dataset://c4", "sha256:ab"))}
    assert related(store, "WAS_ATTRIBUTED_TO") == {(key, agent)}
    assert related(store, "WAS_ASSOCIATED_WITH") == {(act, agent)}
    assert {source for source, _ in related(store, "ACTED_ON_BEHALF_OF")} == {agent}


def test_an_action_is_informed_by_its_parent_of_an_earlier_record(store, ingest):
    first = record(0)
    later = [*first["actions"], action(1, parent_action_id="action-0")]
    told = linked([first, record(1, actions=later)])
    ingest(told)
    assert related(store, "WAS_INFORMED_BY") == {(iri(told[1], 1), iri(told[0], 0))}


def test_equal_actions_of_two_chains_make_their_records_alternates(store, ingest):
    left, right = record(0), record(0, model_id="other")
    ingest([left, right])
    first, second = sorted((digest(left), digest(right)))
    assert related(store, "ALTERNATE_OF") == {(record_iri(second), record_iri(first))}


def test_a_file_that_was_read_is_known_and_adds_nothing(store, ingest):
    ingest(chain())
    before = graph(store)
    assert ingest(chain(), "copy.jsonl").status == "known"
    assert graph(store) == before


def test_a_chain_of_which_a_file_holds_the_end_belongs_to_it_whichever_comes_first(tmp_path):
    told, graphs = chain(), []
    files = {"whole.jsonl": told, "end.jsonl": told[1:], "first.jsonl": told[:1]}
    for order in (list(files), list(files)[::-1]):
        with provstore.open("memory:") as store:
            for name in order:
                (tmp_path / name).write_bytes(lines(files[name]))
                store.ingest(tmp_path / name)
            graphs.append(graph(store))
    assert graphs[0] == graphs[1]


def test_a_torn_last_line_is_told_and_the_rest_is_taken(store, ingest):
    data = lines(chain())
    told = ingest(data[:-30])
    assert (told.status, told.records) == ("new", 2)
    assert told.warnings[0].startswith(f"the last line is torn at byte {len(lines(chain()[:2]))}")


def test_a_line_that_is_no_record_is_set_aside_and_its_bytes_stay(store, ingest):
    data = lines(chain(1)) + b'{"run_id": 1e999999, "run_id": 2}\n' + lines([record(0, run="other")])
    told = ingest(data)
    assert (told.records, told.set_aside) == (2, 1)
    assert "comes twice" in told.warnings[0]
    assert store.opened.journal.source(sha256(data)) == data


@pytest.mark.parametrize("data", [b"", b"{}", b"[1, 2]", b'{"schema_version": "aep-bundle/v9"', b"\x00\x01"])
def test_a_file_that_nobody_can_read_is_refused_and_changes_nothing(store, ingest, data):
    ingest(chain())
    before = graph(store), store.opened.journal.position
    told = ingest(data, "bad.json", source="aep")
    assert (told.status, bool(told.reason)) == ("refused", True)
    assert (graph(store), store.opened.journal.position) == before


def test_what_is_no_agent_evidence_is_not_taken_for_it(store, tmp_path):
    (tmp_path / "x.json").write_text('{"nothing": "of this"}')
    assert store.ingest(tmp_path / "x.json", source="evidence").files[0].status == "refused"
    with pytest.raises(InputError):
        store.ingest(tmp_path / "absent.json", source="evidence")


def test_a_record_that_only_names_provstore_as_its_maker_is_kept_as_anothers(store, ingest):
    own = record(0, run="run-42", run_context={"agent_id": "provstore-recorder"})
    told = ingest([own])
    assert told.status == "new"
    assert "does not hold what they say" in told.warnings[0]
    assert store.opened.journal.source(sha256(lines([own]))) == lines([own])


def test_evidence_of_another_kind_is_kept_and_stands_beside_its_run(store, ingest):
    said = {"schema_version": "aep/v0.2", "run_id": "agent-run-7", "seed": 1, "output_digest": "sha256:ab"}
    data = json.dumps(said, indent=1).encode()
    assert ingest(data, "replay.json").status == "new"
    (shown,) = nodes(store, "AgentRecord").values()
    assert (shown["kind"], shown["agent_run"]) == ("replay-evidence", "agent-run-7")
    assert {target for _, target in related(store, "WAS_GENERATED_BY")} == {run_iri("agent-run-7")}
    assert store.opened.journal.source(sha256(data)) == data


def test_bytes_are_kept_even_when_sources_are_not(store, ingest):
    told = ingest(chain(), keep_source=False)
    assert any("kept all the same" in text for text in told.warnings)
    assert store.opened.journal.source(sha256(lines(chain()))) == lines(chain())


@pytest.mark.parametrize(
    "text",
    [
        '"extra": 1.0, "zero": -0, "big": 1e21, "wide": 12345678901234567890123',
        '"__proto__": {"a": 1}, "10": 1, "9": 2, "a": 3',
        '"\U0001f600": 1, "\uffee": 2, "name": "[/red]\\u001b[31m"',
    ],
)
def test_odd_values_are_taken_in_and_the_bytes_come_back(store, ingest, text):
    base = json.dumps(record(), ensure_ascii=False)
    data = f"{base[:-1]} ,  {text} }}".encode() + b"\n"
    assert ingest(data).records == 1
    assert store.opened.journal.source(sha256(data)) == data


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, 0), (1796031810000, 1796031810000 * 10**6), (0.5, 500_000), (-1, -(10**6)), (True, None), ("1", None)],
)
def test_milliseconds_become_nanoseconds_where_64_bits_hold_them(value, shown):
    assert agent_facts._nanoseconds(value) == shown
    assert agent_facts._nanoseconds(1e300) is None
