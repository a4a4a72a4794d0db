"""Twelve secrets and two of our own: none of them is in any byte that is stored, exported or said (matrix row 19).

All are made for one run. They lie where secrets of a training job lie: environment, command line, addresses, files
beside the dumps, the repository and home of the user, and the text of an exception that a signer raises. The two of
our own are the private key and its passphrase.

Not searched: the folder of files that is given to ingest, and what is kept of it. What stands inside a dump, such as
the name of a tensor, is the evidence itself: it is kept byte for byte, and nothing of it is masked afterwards. The
last test states that, so that nobody takes it for a promise.
"""

from __future__ import annotations

import base64
import os
import secrets
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import provstore
from provstore.evidence import key_files, keys
from provstore.model.evidence import Observation
from provstore.stores import open_store
from provstore.stores.dump import canonical_dump
from tests.fr_files import Entry, ring, table, write_pickle

ROOT = Path(__file__).parents[2]
SOURCE_SUFFIX = ".zst"


def token(length: int) -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))


def pem(body: str) -> str:
    line = "PRIVATE KEY"
    return f"-----BEGIN {line}-----\n{body}\n-----END {line}-----\n"


@pytest.fixture(scope="module")
def canaries() -> dict[str, str]:
    """The secret part of each: what must not be found anywhere."""
    return {
        "cloud access key": token(16),
        "code host token": token(36),
        "model hub token": token(34),
        "experiment tracker key": secrets.token_hex(20),
        "password in an address": token(20),
        "password on the command line": token(20),
        "private key in a YAML file": base64.b64encode(secrets.token_bytes(36)).decode(),
        "text of an exception": token(24),
        "password of a store": token(24),
        "password in a git remote": token(30),
        "host name": f"h{token(12).lower()}",
        "password in .netrc": token(22),
        "passphrase": token(26),
    }


class Job:
    """A user's home, repository, environment and files, full of secrets; and everything that provstore says there."""

    def __init__(self, root: Path, canaries: dict[str, str]) -> None:
        self.root, self.canaries = root, canaries
        self.home, self.work, self.dumps = root / "home", root / "work", root / "given"
        for folder in (self.home, self.work / ".git", self.dumps):
            folder.mkdir(parents=True)
        self.said: list[bytes] = []
        get = canaries.__getitem__
        (self.home / ".netrc").write_text(f"machine example.org login me password {get('password in .netrc')}\n")
        remote = f"https://me:{get('password in a git remote')}@example.org/repo.git"
        (self.work / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
        (self.work / "config.yaml").write_text(f"key: |\n{pem(get('private key in a YAML file'))}")
        (self.dumps / "config.yaml").write_text(f"key: |\n{pem(get('private key in a YAML file'))}")
        for rank in range(2):
            write_pickle(self.dumps / f"rank_{rank}", table("2.10", ring(4), {"0": ("default_pg", (0, 1))}))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_STATE_HOME": str(root / "state"),
            "PYTHONPATH": str(ROOT),
            "AWS_SECRET_ACCESS_KEY": get("cloud access key"),
            "GITHUB_TOKEN": f"ghp_{get('code host token')}",
            "HF_TOKEN": f"hf_{get('model hub token')}",
            "WANDB_API_KEY": get("experiment tracker key"),
            "DATABASE_URL": f"postgres://me:{get('password in an address')}@example.org/db",
            "HOSTNAME": get("host name"),
            "PROVSTORE_NEO4J_PASSWORD": get("password of a store"),
            "PROVSTORE_STORE": f"embedded:{root / 'store'}",
            "PROVSTORE_KEY_PASSPHRASE": get("passphrase"),
        }

    def run(self, *arguments: str, code: int | None = 0) -> None:
        command = [sys.executable, "-m", "provstore", *arguments]
        done = subprocess.run(command, capture_output=True, cwd=self.work, env=self.environment, check=False)
        assert code is None or done.returncode == code, (arguments, done)
        self.said += [done.stdout, done.stderr]


def searched(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file that provstore wrote, also unpacked, and the graph in words."""
    for folder in ("store", "config", "state", "export", "document"):
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file():
                continue
            yield str(path.relative_to(root)), path.read_bytes()
            if path.suffix == SOURCE_SUFFIX:
                import pyarrow as pa

                with pa.OSFile(str(path), "rb") as raw, pa.CompressedInputStream(raw, "zstd") as file:
                    yield f"{path.relative_to(root)} unpacked", file.read()
            elif path.suffix == ".parquet":
                import pyarrow.parquet as pq

                yield f"{path.relative_to(root)} in words", str(pq.read_table(path).to_pydict()).encode()
    graph = open_store(f"embedded:{root / 'store'}", writable=False)
    yield "graph in words", "\n".join(canonical_dump(graph)).encode()
    graph.close()


def forms(secret: bytes) -> dict[str, bytes]:
    """Return a secret as it may be hidden: plain, hex, UTF-16, and base64 at each of the three alignments."""
    found = {"plain": secret, "hex": secret.hex().encode(), "HEX": secret.hex().upper().encode()}
    for shift in range(3):
        # Only the digits that depend on nothing but the secret.
        digits = base64.b64encode(b"\0" * shift + secret)
        found[f"base64, shifted by {shift}"] = digits[(0, 2, 3)[shift] : len(digits) - 4]
    try:
        text = secret.decode("ascii")
    except UnicodeDecodeError:
        return found
    return found | {"UTF-16LE": text.encode("utf-16-le"), "UTF-16BE": text.encode("utf-16-be")}


def test_the_search_finds_each_form(canaries: dict[str, str]) -> None:
    for secret in canaries.values():
        data = secret.encode()
        for before in (b"", b"a", b"ab"):
            hidden = base64.b64encode(before + data + b"behind")
            assert any(form in hidden for form in forms(data).values())
        assert forms(data)["UTF-16LE"] in f"..{secret}..".encode("utf-16-le")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, canaries: dict[str, str]) -> tuple[Job, bytes]:
    """A job that was ingested, recorded, sealed, verified and exported; and the seed of its key."""
    made = Job(tmp_path_factory.mktemp("canaries"), canaries)
    root, get = made.root, canaries.__getitem__
    made.run("keys", "generate", "alice")
    made.run("keys", "trust", "alice", "--role", "run")
    made.run("ingest", str(made.dumps), "--run", "job")
    made.run("ingest", str(made.dumps), "-p", get("password on the command line"), code=2)
    made.run("ingest", str(made.dumps), "--password", get("password on the command line"), code=2)
    made.run("store", "info", "--store", f"bolt://me:{get('password in an address')}@127.0.0.1:1", code=2)
    made.run("store", "info", "--store", "bolt://127.0.0.1:1", "--verbose", code=7)
    (key_file,) = [path for path in (root / "config").rglob("*") if path.is_file() and _is_private(path)]
    key = key_files.load(key_file, get("passphrase").encode)

    class Unlucky:
        public_key = key.public_key

        def sign(self, message: bytes) -> bytes:
            raise RuntimeError(f"the signing service refused {get('text of an exception')}")

    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        with provstore.open(f"embedded:{root / 'store'}", signer=Unlucky()) as store:
            store.record([Observation("loss", {"value": 0.5}, rank=0, step=1)], run="job")
    made.run("seal", "job", "--key", "alice")
    public = root / "alice.pub"
    public.write_bytes(public_line(key))
    made.run("verify", "job", "--public-key", str(public), code=3)
    made.run("verify", "job", "--json", "--public-key", str(public), code=3)
    made.run("evidence", "export", "job", "--output", str(root / "export"), "--public-key", str(public))
    made.run("evidence", "list", "--json")
    (root / "document").mkdir()
    made.run("export", "prov-json", "--run", "job", "--output", str(root / "document" / "prov.json"))
    made.run("seal", "job", "--key", f"file:{key_file}", "--close", "finished", "--verbose")
    return made, _seed(key)


def public_line(key: keys.PrivateKey) -> bytes:
    from provstore.evidence import public_forms

    return bytes(public_forms.FORMS["openssh"](key.public_key))


def _is_private(path: Path) -> bool:
    return path.name != "trust.json" and b"kdf" in path.read_bytes()


def _seed(key: keys.PrivateKey) -> bytes:
    """Return the secret of a key by the one door there is: its export for other programs."""
    import tempfile

    from cryptography.hazmat.primitives import serialization

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "key.pem"
        key_files.export(path, key, "pkcs8")
        loaded = serialization.load_pem_private_key(path.read_bytes(), None)
    return loaded.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )


def test_no_secret_is_in_any_byte_that_is_stored_exported_or_said(
    job: tuple[Job, bytes], canaries: dict[str, str]
) -> None:
    made, seed = job
    secret = {name: value.encode() for name, value in canaries.items()} | {"private key": seed}
    assert len(secret) == 14
    places = [*searched(made.root), *((f"said {at}", data) for at, data in enumerate(made.said))]
    assert len(places) > 30
    found = [
        (name, form, place)
        for name, value in secret.items()
        for form, text in forms(value).items()
        for place, data in places
        if text in data
    ]
    assert found == []


def test_what_stands_inside_a_given_file_is_evidence_and_kept_as_it_is(tmp_path: Path) -> None:
    """Stated, not hidden: a secret in the name of a call is in the dump, so it is in the store."""
    inside = token(20)
    (tmp_path / "given").mkdir()
    entry = Entry(name=f"nccl:{inside}")
    write_pickle(tmp_path / "given" / "rank_0", table("2.10", [entry], {"0": ("default_pg", (0, 1))}))
    with provstore.open(f"embedded:{tmp_path / 'store'}") as store:
        store.ingest(tmp_path / "given", run="job")
    where = {place.split("/")[1] for place, data in searched_store(tmp_path) if inside.encode() in data}
    assert where <= {"journal", "graph.kgl"} | {"graph in words"}
    assert where


def searched_store(root: Path) -> Iterator[tuple[str, bytes]]:
    for place, data in searched(root):
        yield (place if "/" in place else f"graph/{place}"), data
