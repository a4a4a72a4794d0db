"""The embedded store's file: one writer, readers beside it, saved whole or not at all, damage told clearly."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from provstore.cypher import adhoc, query
from provstore.errors import ConfigError, InputError, NotUnderstoodError, StoreError
from provstore.model.block import Block, Nodes, Relations
from provstore.stores import embedded_query, open_store
from provstore.stores.dump import canonical_dump


def block(name: str, size: int = 3) -> Block:
    keys = [f"urn:{name}:{at:05}" for at in range(size)]
    nodes = Nodes(("Element", "Entity"), keys, {"seq": list(range(size)), "text": [f"t{at}" for at in range(size)]})
    return Block("r", 0, (nodes,), (Relations("USED", keys[1:], keys[:-1]),))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"embedded:{tmp_path / 'store'}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store" / "graph.kgl"


def written(uri: str, *blocks: Block) -> None:
    store = open_store(uri, writable=True)
    for at, one in enumerate(blocks):
        store.write(one, ("journal", at + 1))
    store.close()


def counted(uri: str) -> int:
    store = open_store(uri, writable=False)
    try:
        return len(list(canonical_dump(store)))
    finally:
        store.close()


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    text = "import sys\nfrom provstore.stores import open_store\n" + textwrap.dedent(script)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", text, *arguments], **pipes)


def test_what_was_written_is_there_after_closing(uri):
    written(uri, block("a"), block("b"))
    assert counted(uri) == 10
    reader = open_store(uri, writable=False)
    assert list(reader.run(query("read/store/applied"))) == [{"journal": "journal", "jseq": 2}]
    reader.close()


def test_a_store_that_was_only_looked_at_is_not_written_again(uri, file):
    written(uri, block("a"))
    before = file.stat().st_mtime_ns
    open_store(uri, writable=True).close()
    assert file.stat().st_mtime_ns == before


def test_a_reader_sees_the_last_save_while_a_writer_works(uri):
    written(uri, block("a"))
    writer = open_store(uri, writable=True)
    writer.write(block("b"))
    assert counted(uri) == 5
    writer.close()
    assert counted(uri) == 10


def test_a_reader_neither_writes_nor_leaves_files(uri, file):
    written(uri, block("a"))
    before = sorted(file.parent.iterdir())
    reader = open_store(uri, writable=False)
    with pytest.raises(StoreError, match="opened for reading only"):
        reader.write(block("b"))
    reader.close()
    assert sorted(file.parent.iterdir()) == before


def test_a_second_writer_is_told_who_writes(uri):
    other = python("store = open_store(sys.argv[1], writable=True)\nprint('open', flush=True)\nsys.stdin.read()", uri)
    with other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match=rf"store: process {other.pid} is writing it"):
            open_store(uri, writable=True)
        other.stdin.close()
    open_store(uri, writable=True).close()


def test_a_writer_that_is_killed_leaves_the_last_save_and_no_lock(uri):
    written(uri, block("a"))
    script = """
        from provstore.model.block import Block, Nodes
        store = open_store(sys.argv[1], writable=True)
        store.write(Block("r", 0, (Nodes(("Element",), [f"urn:k{at}" for at in range(5000)]),)))
        print("written", flush=True)
        sys.stdin.read()
    """
    with python(script, uri) as other:
        assert other.stdout.readline() == "written\n"
        other.send_signal(signal.SIGKILL)
    assert counted(uri) == 5
    written(uri, block("b"))
    assert counted(uri) == 10


def test_two_processes_that_create_a_store_at_once_lose_nothing(uri):
    script = """
        import time
        from provstore.errors import StoreError
        from provstore.model.block import Block, Nodes
        for _ in range(200):
            try:
                store = open_store(sys.argv[1], writable=True)
                break
            except StoreError as error:
                assert "is writing it" in str(error), error
                time.sleep(0.05)
        store.write(Block("r", 0, (Nodes(("Element",), [sys.argv[2]]),)))
        store.close()
    """
    processes = [python(script, uri, f"urn:p{at}") for at in range(3)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert counted(uri) == 3


def test_reading_a_store_that_is_not_there_says_so(uri):
    with pytest.raises(StoreError, match="store: there is none here"):
        open_store(uri, writable=False)


@pytest.mark.parametrize("content", [b"", b"RGF\n", b"not a graph at all" * 100, b"\x00" * 4096])
@pytest.mark.parametrize("writable", [True, False])
def test_a_foreign_file_is_one_clear_error_that_offers_a_rebuild(uri, file, content, writable):
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"graph\.kgl: graph file: ") as refusal:
        open_store(uri, writable=writable)
    assert "provstore store rebuild" in refusal.value.hint
    assert file.read_bytes() == content


def test_a_damaged_file_is_never_read_as_if_it_were_whole(uri, file):
    written(uri, block("a", 2000))
    whole = file.read_bytes()
    reader = open_store(uri, writable=False)
    expected = list(canonical_dump(reader))
    reader.close()
    for place in range(40, len(whole), len(whole) // 40):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        for writable in (False, True):
            try:
                store = open_store(uri, writable=writable)
            except StoreError as error:
                hint = error.hint
                assert "provstore store rebuild" in hint
                continue
            assert list(canonical_dump(store)) == expected
            store.close()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(StoreError, match="graph file"):
            open_store(uri, writable=False)


def test_a_write_that_fails_half_way_is_never_saved(uri, monkeypatch):
    from provstore.stores import embedded

    written(uri, block("a"))
    store = open_store(uri, writable=True)
    monkeypatch.setattr(
        embedded.EmbeddedStore, "_write_relations", lambda *_: (_ for _ in ()).throw(StoreError("full"))
    )
    with pytest.raises(StoreError, match="full"):
        store.write(block("b"))
    with pytest.raises(StoreError, match="an earlier write failed half-way"):
        store.write(block("c"))
    store.close()
    assert counted(uri) == 5


def test_a_full_disk_is_a_store_error_and_the_last_save_stays(uri, file):
    written(uri, block("a"))
    script = """
        import resource, signal
        from provstore.errors import StoreError
        from provstore.model.block import Block, Nodes
        store = open_store(sys.argv[1], writable=True)
        keys = [f"urn:{at}:{'x' * 50}" for at in range(30000)]
        store.write(Block("r", 0, (Nodes(("Element",), keys, {"seq": list(range(30000))}),)))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        try:
            store.close()
        except StoreError as error:
            print(error, flush=True)
    """
    with python(script, uri) as other:
        told = other.stdout.read()
    assert "store: cannot be saved: " in told
    assert counted(uri) == 5
    written(uri, block("b"))
    assert counted(uri) == 10


def test_a_disk_too_full_to_name_the_writer_is_told_as_full_and_not_as_another_writer(uri, file):
    written(uri, block("a"))
    for left in file.parent.glob("graph.kgl.lock*"):
        left.unlink()
    script = """
        import resource, signal
        from provstore.errors import StoreError
        from provstore.model.block import Block, Nodes
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        store = open_store(sys.argv[1], writable=True)
        store.write(Block("r", 0, (Nodes(("Element",), ["urn:x"], {"seq": [1]}),)))
        try:
            store.close()
        except StoreError as error:
            print(error, flush=True)
    """
    with python(script, uri) as other:
        told = other.stdout.read()
    assert "store: cannot be saved: disk full" in told
    assert "another process" not in told


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="store: cannot be created"):
        open_store(f"embedded:{tmp_path / 'file' / 'store'}", writable=True)


@pytest.mark.parametrize("uri", ["", "graph", "http://x", "sqlite:x", ".provstore"])
def test_an_address_that_no_store_serves_is_refused_with_those_that_are_known(uri):
    with pytest.raises(ConfigError, match="not a store address; known are memory:, embedded:, neo4j:"):
        open_store(uri, writable=True)


@pytest.mark.parametrize("uri", ["foo", "~/foo", "./a:b", "/tmp/x"])
def test_a_bare_path_is_refused_with_the_address_that_was_meant(uri):
    with pytest.raises(ConfigError) as caught:
        open_store(uri, writable=True)
    assert caught.value.hint == f"did you mean embedded:{uri}"


def test_a_tilde_is_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store("embedded:~/store", writable=True).close()
    assert (tmp_path / "store" / "graph.kgl").is_file()


@pytest.mark.parametrize(
    "uri",
    ["neo4j://user:secret@host", "bolt+s://user:secret@host:7687/x", "neo4j:user:secret@host", "http://u:secret@host"],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(uri):
    with pytest.raises(ConfigError, match="neither user nor password") as caught:
        open_store(uri, writable=True)
    assert "secret" not in f"{caught.value} {caught.value.hint}"
    assert "PROVSTORE_NEO4J_PASSWORD" in str(caught.value.hint)


def test_a_folder_with_an_at_sign_is_an_address(tmp_path):
    open_store(f"embedded:{tmp_path / 'me@host'}", writable=True).close()
    assert (tmp_path / "me@host" / "graph.kgl").is_file()


def test_a_user_query_sees_what_this_store_has_just_written(uri):
    store = open_store(uri, writable=True)
    store.write(block("a"))
    assert [row["n"] for row in store.run(adhoc("MATCH (n:Entity) RETURN count(n) AS n"))] == [3]
    store.close()


def test_a_user_query_that_asks_for_too_much_memory_stops_alone(uri, monkeypatch):
    monkeypatch.setattr(embedded_query, "_SPARE_BYTES", 64 * 1024 * 1024)
    written(uri, block("a", 3000))
    reader = open_store(uri, writable=False)
    greedy = adhoc("MATCH (a:Entity), (b:Entity) RETURN collect(a.iri + b.iri) AS everything")
    with pytest.raises(NotUnderstoodError, match=r"query: memory: .* MiB"):
        list(reader.run(replace(greedy, timeout_seconds=120.0)))
    assert [row["n"] for row in reader.run(adhoc("MATCH (n:Entity) RETURN count(n) AS n"))] == [3000]
    reader.close()


@pytest.mark.parametrize(
    ("code", "told"), [("import os; os.abort()", "signal 6"), ("raise SystemExit('broken')", "exit code 1: broken")]
)
def test_a_child_that_ends_for_another_reason_than_memory_says_so(uri, tmp_path, monkeypatch, code, told):
    written(uri, block("a"))
    (tmp_path / "child.py").write_text(code)
    monkeypatch.setattr(embedded_query, "_CHILD", tmp_path / "child.py")
    reader = open_store(uri, writable=False)
    with pytest.raises(StoreError, match=f"query: its process ended with {told}"):
        reader.run(adhoc("RETURN 1 AS one"))
    reader.close()


@pytest.mark.parametrize("place", ["store", "memory"])
def test_a_parameter_beyond_64_bits_is_the_callers_mistake(uri, place):
    address = uri if place == "store" else "memory:"
    written(uri, block("a"))
    store = open_store(address, writable=True)
    with pytest.raises(InputError, match="64-bit"):
        store.run(adhoc("MATCH (n:Entity) WHERE n.seq = $n RETURN n.iri AS iri"), {"n": 1 << 70})
    store.close()


def test_a_user_query_that_will_not_stop_is_killed(uri, monkeypatch):
    written(uri, block("a"))
    monkeypatch.setattr(embedded_query, "_CHILD", Path(__file__).with_name("stuck_child.py"))
    monkeypatch.setattr(embedded_query, "_START_SECONDS", 0.2)
    reader = open_store(uri, writable=False)
    begun = time.monotonic()
    rows = reader.run(replace(adhoc("RETURN 1 AS one"), timeout_seconds=0.3))
    assert (list(rows), rows.reason) == ([], "timeout")
    assert time.monotonic() - begun < 10
    reader.close()


def test_an_answer_that_is_too_large_is_cut_and_says_so(uri, monkeypatch):
    monkeypatch.setattr(embedded_query, "MAX_ANSWER_BYTES", 1000)
    written(uri, block("a", 500))
    reader = open_store(uri, writable=False)
    rows = reader.run(adhoc("MATCH (n:Entity) RETURN n.iri AS iri"))
    assert 0 < len(list(rows)) < 500
    assert rows.reason == "max_bytes"
    reader.close()


def test_the_child_of_a_user_query_can_open_no_file_once_the_graph_is_loaded(uri, file):
    written(uri, block("a"))
    # Past the guard on purpose: what would be left if the guard had a hole.
    hole = replace(adhoc("RETURN 1 AS one"), text=f"LOAD CSV FROM 'file://{__file__}' AS line RETURN line")
    reader = open_store(uri, writable=False)
    with pytest.raises(InputError, match="query: "):
        list(reader.run(hole))
    write = replace(hole, text="CREATE (n:Element {iri: 'urn:evil'}) RETURN n.iri AS iri")
    with pytest.raises((InputError, StoreError), match="query: "):
        list(reader.run(write))
    reader.close()
    assert counted(uri) == 5


def test_a_small_write_needs_no_pandas(uri):
    script = """
        from provstore.model.block import Block, Nodes
        store = open_store(sys.argv[1], writable=True)
        store.write(Block("r", 0, (Nodes(("Element",), ["urn:a"]),)))
        store.close()
        print("pandas" in sys.modules, "neo4j" in sys.modules, flush=True)
    """
    with python(script, uri) as other:
        assert other.stdout.read() == "False False\n"
