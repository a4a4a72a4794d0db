"""Finds the foreign verifiers; builds what must be built, once a version, into a cache outside the checkout."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
# These may not be missing where tests decide about a change.
MANDATORY = frozenset({"openssl", "securesystemslib", "in-toto", "in-toto-attestation", "@sigstore/verify", "node"})
_NAMES = {"signify": ("signify-openbsd", "signify"), "in-toto": ("in-toto-verify",)}
_BUILD_SECONDS = 300


class MissingError(Exception):
    """A foreign tool cannot be had here; the text says why."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(f"foreign tool {tool}: {reason}")
        self.tool = tool


# A registry that does not answer is asked once a process, not once a test.
_failed: dict[Path, MissingError] = {}


def cache() -> Path:
    """Return the folder of what was fetched or built, outside the checkout."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "provstore-tests"
    root.mkdir(parents=True, exist_ok=True)
    return root


def program(tool: str) -> str:
    """Return the path of an installed program: of this Python's environment first, then of the system.

    Raises:
        MissingError: It is not installed.
    """
    for name in _NAMES.get(tool, (tool,)):
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.is_file() else shutil.which(name)
        if found is not None:
            return found
    raise MissingError(tool, "not installed")


def python_package(tool: str, module: str) -> None:
    """Check that a Python package is installed.

    Raises:
        MissingError: It is not.
    """
    if importlib.util.find_spec(module) is None:
        raise MissingError(tool, f"the Python package with the module {module} is not installed")


@functools.cache
def npm_packages(folder: Path = HERE / "node", tool: str = "@sigstore/verify") -> Path:
    """Return ``node_modules`` with exactly what the lock file in ``folder`` names.

    Raises:
        MissingError: No npm, or the registry cannot be reached at the first use.
    """

    def install(fresh: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(folder / name, fresh / name)
        _build(tool, [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"], fresh)

    npm = program("npm")
    return _once("npm", _digest([folder / "package.json", folder / "package-lock.json"]), install) / "node_modules"


def node(*arguments: str) -> list[str]:
    """Return the command that runs Node with the packages of ``npm_packages`` in reach of ``require``."""
    return ["env", f"NODE_PATH={npm_packages()}", program("node"), *arguments]


@functools.cache
def go_program(folder: Path = HERE / "go", tool: str = "go") -> Path:
    """Return the program built from the Go module in ``folder``; its ``go.sum`` fixes every dependency.

    Raises:
        MissingError: No Go, a Go that is too old, or the module proxy cannot be reached at the first use.
    """

    def install(fresh: Path) -> None:
        order = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", str(fresh / "program"), "."]
        _build(tool, order, folder)

    go = program("go")
    sources = [folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))]
    return _once("go", _digest(sources), install) / "program"


@functools.cache
def java_program(source: Path, tool: str = "java") -> list[str]:
    """Return the command that runs a single-file Java program (its class is named as the file).

    Raises:
        MissingError: No Java, or no compiler for it.
    """

    def install(fresh: Path) -> None:
        _build(tool, [compiler, "--release", "17", "-d", str(fresh), str(source)], fresh)

    java, compiler = program("java"), program("javac")
    classes = _once("java", _digest([source]), install)
    return [java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", str(classes), source.stem]


def run(
    command: Sequence[str | Path], *, stdin: bytes | None = None, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a foreign program without a network, where this system lets a process give it up."""
    return subprocess.run(
        [*_cut_off(), *map(str, command)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        cwd=folder,
        env={**os.environ, **environment} if environment else None,
        timeout=120,
        check=False,
    )


@functools.cache
def _cut_off() -> tuple[str, ...]:
    """Return the command that takes the network away, or nothing where it is not allowed."""
    unshare = shutil.which("unshare")
    for prefix in ((unshare, "-n"), (unshare, "-r", "-n")):
        if unshare and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    return ()


def _once(kind: str, digest: str, install: Callable[[Path], None]) -> Path:
    """Return the cached folder, filled by ``install`` on first use; several processes may ask at once."""
    folder = cache() / f"{kind}-{digest}"
    if folder.is_dir():
        return folder
    if folder in _failed:
        raise _failed[folder]
    with _locked(cache() / f"{folder.name}.lock"):
        if not folder.is_dir():
            fresh = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=cache()))
            try:
                install(fresh)
                fresh.rename(folder)
            except MissingError as error:
                _failed[folder] = error
                raise
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(files: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode() + content)
    return whole.hexdigest()[:16]


def _build(tool: str, order: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(order, cwd=folder, capture_output=True, timeout=_BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise MissingError(tool, f"not made within {_BUILD_SECONDS} s") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
        raise MissingError(tool, f"cannot be made here: {said[:300]}")


def prepare() -> Mapping[str, str]:
    """Fetch and build everything; return why each missing tool is missing."""
    wanted: dict[str, Callable[[], object]] = {
        "@sigstore/verify": npm_packages,
        "go": go_program,
        **{f"java {path.stem}": functools.partial(java_program, path) for path in sorted(HERE.glob("java/*.java"))},
    }
    for tool in ("openssl", "node", "ssh-keygen", "minisign", "signify", "in-toto"):
        wanted[tool] = functools.partial(program, tool)
    missing = {}
    for tool, find in wanted.items():
        try:
            find()
        except MissingError as error:
            missing[tool] = str(error)
    return missing


if __name__ == "__main__":
    for line in prepare().values():
        print(line, file=sys.stderr)
