"""Hostile files of every kind: refused within their limits, and nothing else happens (matrix row 13).

Pickles and bombs for the dump reader are tested beside that reader too; here every reader of untrusted bytes runs
under an audit hook that sees programs, sockets, code and files opened for writing.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import evidence_seeds
import journal_seeds
import pytest
from scale import luck, times

from provstore.evidence import key_files, keys, public_forms
from provstore.evidence.dsse import parse
from provstore.journal import Journal, Origin
from provstore.model.block import Block
from tests.fr_files import ring, table, write_pickle
from tests.fresh import fresh
from tests.unit.sources.test_bad_input import BAD_FILES, system_call

MUTANTS = times("MUTANTS", 40, 400)
"""Altered copies of each good file."""
SECONDS, MEMORY_MB = 5, 512
TEXT_READERS = ("envelope", "foreign", "statement", "trust", "bundle", "checkpoint", "proof", "anchor", "key")


def good_files() -> dict[str, bytes]:
    """Return one good file a reader."""
    envelope, key = evidence_seeds.epoch_envelope(), evidence_seeds.signer()
    sigstore = {
        "dsseEnvelope": json.loads(envelope),
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "x"}, "tlogEntries": []},
    }
    return {
        "envelope": envelope,
        "foreign": envelope,
        "statement": parse(envelope).payload,
        "checkpoint": evidence_seeds.signed_note(),
        "proof": evidence_seeds.proof(),
        "trust": evidence_seeds.trust_bytes(),
        "anchor": evidence_seeds.signed_note(),
        "bundle": json.dumps(sigstore, sort_keys=True, separators=(",", ":")).encode(),
        "key": public_forms.FORMS["pem"](key.public_key),
        "prov-json": b'{"prefix":{"ex":"http://example.org/"},"entity":{"ex:a":{}}}',
        "prov-n": b"document\nprefix ex <http://example.org/>\nentity(ex:a)\nendDocument\n",
    }


def texts(good: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield what no reader of JSON, notes or keys may take, and what must not exhaust it."""
    yield from {
        "empty": b"",
        "zeros": b"\0" * 100_000,
        "deep lists": b"[" * 1_000_000,
        "deep tables": b'{"a":' * 300_000,
        "closed deep": b"[" * 200_000 + b"]" * 200_000,
        "one long line": b"x" * (8 << 20),
        "many lines": b"\n" * (4 << 20),
        "long string": b'{"payload":"' + b"A" * (8 << 20) + b'"}',
        "many signatures": b'{"payload":"e30=","payloadType":"t","signatures":['
        + b",".join([b'{"keyid":"k","sig":"AA=="}'] * 100_000)
        + b"]}",
        "many signature lines": good[: good.find(b"\n\n") + 2] + "— a AAAAAAAA\n".encode() * 200_000,
        "number of 5,000 digits": b'{"a":' + b"9" * 5_000 + b"}",
        "1e999": b'{"a":1e999}',
        "NaN": b'{"a":NaN,"b":Infinity}',
        "fraction": b'{"a":1.5}',
        "twice the same name": b'{"payload":"","payload":"","payloadType":"","signatures":[]}',
        "case of names": good.replace(b"payload", b"Payload", 1),
        "half a character": b'{"a":"\\ud800"}',
        "byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": good.decode("utf-8").encode("utf-16"),
        "Latin-1": b'{"a":"\xe9"}',
        "blank behind": good + b" ",
        "twice": good + good,
        "path for a name": good.replace(b"run", b"../../../../tmp/evil"),
        "NUL for a name": good.replace(b"run", b"r\\u0000n"),
        "script": good.replace(b"run", b"</script><img src=x onerror=alert(1)>"),
        "control characters": good.replace(b"run", b"\\u001b]0;x\\u0007\\u202e"),
        "code": good.replace(b"run", b"__import__('os').system('true')"),
        "base64 with a bit to spare": good.replace(b"A=", b"B="),
    }.items()


@functools.cache
def archives() -> tuple[tuple[str, bytes], ...]:
    """Return archives and bombs; nobody here unpacks archives, and nobody must begin to."""
    bomb = gzip.compress(b"\0" * (64 << 20))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", b"\0" * (64 << 20))
        for name in ("../../evil", "/abs", "C:\\x", "a/../../b", "%2e%2e/x", "n" * 300):
            archive.writestr(name, "evil")
        for number in range(2_000):
            archive.writestr(f"{number}", b"")
    rolled = io.BytesIO()
    with tarfile.open(fileobj=rolled, mode="w") as tape:
        for kind, name in ((tarfile.CHRTYPE, "device"), (tarfile.LNKTYPE, "hard"), (tarfile.SYMTYPE, "../../soft")):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tape.addfile(member)
    return ("gzip bomb", bomb), ("zip bomb with paths", packed.getvalue()), ("tar with links", rolled.getvalue())


def mutants(good: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield copies with bytes flipped, cut out, repeated or exchanged."""
    for number in range(MUTANTS):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
            what = chance.choice(("flip", "cut", "repeat", "end"))
            if what == "flip" and at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            elif what == "cut":
                del data[at : min(end, at + 64)]
            elif what == "repeat":
                data[at:at] = data[at:end] * chance.randrange(1, 9)
            else:
                data = data[: max(1, end)]
        yield f"mutant {number}", bytes(data)


def fill(folder: Path) -> None:
    """Write every hostile file, and a good one for each reader."""
    chance = luck("hostile files")
    good = good_files()
    for reader, data in good.items():
        put(folder / reader / "good-file", data)
        for name, hostile in [*texts(data), *archives(), *mutants(data, chance)]:
            if reader not in TEXT_READERS and len(hostile) > 1 << 20:
                continue
            put(folder / reader / name.replace(" ", "-"), hostile)
    key_files.save(folder / "key" / "good-private", keys.PrivateKey.generate(), None)
    greedy = json.loads((folder / "key" / "good-private").read_bytes())
    put(
        folder / "key" / "all-of-the-memory", json.dumps(greedy | {"kdf": {"memory": 1 << 40, "ops": 1 << 40}}).encode()
    )
    (folder / "dump").mkdir()
    write_pickle(folder / "dump" / "good-dump", table("2.10", ring(2), {}))
    for name, (hostile, _) in BAD_FILES.items():
        put(folder / "dump" / name.replace(" ", "-").replace("/", "-"), hostile)
    for name, hostile in [*system_call("touch executed").items(), *archives()]:
        put(folder / "dump" / name.replace(" ", "-"), hostile)
    journals(folder / "journal", chance)
    exports(folder / "exported", good)


_large: dict[str, Path] = {}


def put(path: Path, data: bytes) -> None:
    """Write a file; a large one that was written before is linked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(data) > 1 << 18:
        digest = hashlib.sha256(data).hexdigest()
        if digest in _large and _large[digest].exists():
            os.link(_large[digest], path)
            return
        _large[digest] = path
    path.write_bytes(data)


def journals(folder: Path, chance: random.Random) -> None:
    """Write journals with a hostile segment, marker, blob or name."""
    source = folder.parent / "source"
    source.write_bytes(b"dump")
    origin = Origin(hashlib.sha256(b"dump").hexdigest(), 4, "flight_recorder", "1", source)
    with Journal.open(folder / "good-journal", writable=True) as journal:
        (segment,) = journal_seeds.fill(journal)
        journal.append(Block("run", 0), origin)
    whole = segment.read_bytes()

    def altered(name: str) -> Path:
        return Path(shutil.copytree(folder / "good-journal", folder / name))

    for name, data in mutants(whole, chance):
        (altered(name.replace(" ", "-")) / segment.name).write_bytes(data)
    (altered("huge-length") / segment.name).write_bytes(whole + b"\xff\xff\xff\x7f" + bytes(9))
    (altered("tail-of-zeros") / segment.name).write_bytes(whole + bytes(8 << 20))
    (altered("heads-all-over") / segment.name).write_bytes(whole + b"\x10\0\0\0\x02\x09\0\0\0\0\0\0\0" * 300_000)
    (altered("hostile-marker") / "journal.json").write_bytes(b"[" * 1_000_000)
    blob = next((folder / "good-journal" / "blobs").rglob("*.zst")).relative_to(folder / "good-journal")
    import pyarrow as pa

    bomb = pa.Codec("zstd").compress(bytes(32 << 20), asbytes=True)
    (altered("zstd-bomb") / blob).write_bytes(bomb * 128)
    (altered("blob-is-a-link") / blob).unlink()
    (folder / "blob-is-a-link" / blob).symlink_to("/etc/passwd")
    (altered("blob-is-a-folder") / blob).unlink()
    (folder / "blob-is-a-folder" / blob).mkdir()


def exports(folder: Path, good: dict[str, bytes]) -> None:
    """Write exported folders with hostile content and names."""
    lines = [evidence_seeds.observation(at // 2, at % 2) for at in range(6)]

    def export(name: str) -> Path:
        place = folder / name
        put(place / "epoch-0.jsonl", b"\n".join(lines) + b"\n")
        put(place / "epoch-0.dsse.json", good["envelope"])
        put(place / "epoch-0.checkpoint", good["checkpoint"])
        return place

    export("good-export")
    (export("long-line") / "epoch-0.jsonl").write_bytes(b"x" * (16 << 20))
    (export("no-end") / "epoch-0.jsonl").write_bytes(b"{}\n" * 2_000_000)
    (export("hostile-envelope") / "epoch-0.dsse.json").write_bytes(b"[" * 1_000_000)
    (export("hostile-checkpoint") / "epoch-0.checkpoint").write_bytes(b"\n" * 1_000_000)
    place = export("link")
    (place / "epoch-0.jsonl").unlink()
    (place / "epoch-0.jsonl").symlink_to("/dev/zero")
    place = export("pipe")
    (place / "epoch-0.jsonl").unlink()
    os.mkfifo(place / "epoch-0.jsonl")
    place = export("many-names")
    for number in range(3_000):
        put(place / f"epoch-{number}.jsonl", b"")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as on Linux")
def test_hostile_files_are_refused_within_limits_and_cause_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "files")
    child = [sys.executable, str(Path(__file__).with_name("hostile_child.py")), str(tmp_path / "files")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OPENBLAS_NUM_THREADS": "1"}
    (tmp_path / "work").mkdir()
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    done = subprocess.run(
        fresh(child), capture_output=True, text=True, cwd=tmp_path / "work", env=environment, check=False, timeout=900
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (said[-1] if said else None, done.stderr[-2000:])
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    slowest, most = max(one["seconds"] for one in said), max(one["peak_mb"] for one in said)
    print(f"{len(said)} files, slowest {slowest} s, most memory {most} MB")
    assert [one for one in said if one["events"]] == []
    assert [one for one in said if one["outcome"].startswith("FAILED")] == []
    assert [one for one in said if one["seconds"] >= SECONDS] == []
    assert most < MEMORY_MB + 200
    # The bytes of none of the altered signed files are read as sound unless they are the same.
    taken = [one["file"] for one in said if one["outcome"].startswith("read") and one["file"].startswith("envelope/")]
    same = evidence_seeds.epoch_envelope()
    for name in taken:
        data = (tmp_path / "files" / name).read_bytes()
        assert base64.b64decode(json.loads(data)["payload"]), (name, data == same)


def test_the_watch_sees_what_it_is_there_for(tmp_path: Path) -> None:
    """The test above proves something only if the events can appear."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hostile_child as child, os, socket, subprocess;"
        "sys.addaudithook(child.watch); os.system('true'); socket.socket(); subprocess.run(['true']);"
        "open('made', 'w').close(); eval('1'); print(len(child.seen), *child.seen, sep='\\n')"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    for event in ("os.system", "socket.", "subprocess.Popen", "open 'made'", "exec"):
        assert event in done.stdout
