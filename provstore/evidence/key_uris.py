"""Where a signing key comes from: a file, the environment, a descriptor, the system's key ring, or a program.

No key, seed or passphrase is ever taken from the command line, and no text of an error shows one.
"""

from __future__ import annotations

import getpass
import os
import re
import selectors
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from provstore import config
from provstore.errors import ConfigError, InputError
from provstore.evidence import key_files
from provstore.evidence.keys import PrivateKey

PASSPHRASE = "PROVSTORE_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
PASSPHRASE_FILE = "PROVSTORE_KEY_PASSPHRASE_FILE"  # noqa: S105
SCHEMES = ("file:PATH", "env:NAME", "fd:NUMBER", "keyring:SERVICE/USER", "cmd:PROGRAM ARGUMENT…")
COMMAND_SECONDS = 120
KEY_SUFFIX = ".key"

_URI = re.compile(r"([a-z]+):(.*)", re.DOTALL)
_KEY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_SEED_LIKE = re.compile(r"[0-9a-fA-F]{64}|[0-9a-fA-F]{128}|[A-Za-z0-9+/_-]{43}=?")


def open_signer(uri: str, *, insecure_mode: bool = False, ask: Callable[[], bytes] | None = None) -> PrivateKey:
    """Return the private key at a key URI; a bare name is a key of the user's, anything with a slash a file.

    Args:
        uri: One of :data:`SCHEMES`, a path, or a name in the user's directory of keys.
        insecure_mode: Also read files that others can read.
        ask: Called for the passphrase of an encrypted key; :func:`passphrase` when None.

    Raises:
        ConfigError: No such kind of URI, nothing there, or no passphrase to be had.
        InputError: What is there is no private key that can be read.
        TrustError: Its public part is not that of its private part.
    """
    ask = ask or (lambda: passphrase(_shown(uri), insecure_mode=insecure_mode))
    match = _URI.fullmatch(uri)
    scheme = match[1] if match else ""
    if match is None or scheme == "file":
        path = key_path(uri)
        _require_there(path)
        return key_files.load(path, ask, insecure_mode=insecure_mode)
    read = {"env": _from_environment, "fd": _from_descriptor, "keyring": _from_key_ring, "cmd": _from_program}.get(
        scheme
    )
    if read is None:
        raise ConfigError(f"{scheme}: signer: not a kind of key URI; known are {', '.join(SCHEMES)}")
    rest = match[2]
    return key_files.shielded(lambda: key_files.opened(read(rest), _shown(uri), ask))


def key_path(uri: str) -> Path:
    """Return the file of a ``file:`` URI, a path, or a bare name; a name is never looked up in the working directory.

    Raises:
        ConfigError: Neither a path nor a name.
    """
    text = uri.removeprefix("file:")
    # file:///tmp/key has an empty host.
    text = text[2:] if uri.startswith("file:///") else text
    if _SEED_LIKE.fullmatch(text) or "\n" in text or text.startswith("{"):
        raise ConfigError(
            "signer: a key is never taken from the command line",
            hint=f"put it into a file or a variable; known are {', '.join(SCHEMES)}",
        )
    if "/" in text or text in {".", ".."} or text.startswith("~") or (uri != text and text):
        # pathlib's way raises RuntimeError for a user who does not exist; that name may be a folder's.
        return Path(os.path.expanduser(text))  # noqa: PTH111
    if not _KEY_NAME.fullmatch(text):
        raise ConfigError(f"{text[:40]!r}: signer: neither a path nor the name of a key (letters, digits, . _ -)")
    return config.keys_directory() / f"{text}{KEY_SUFFIX}"


def _require_there(path: Path) -> None:
    """Say what helps when a named key is not there; a path is left to the error of opening it."""
    if os.path.lexists(path) or path.parent != config.keys_directory():
        return
    raise InputError(
        f"{path}: key file: No such file or directory",
        hint=f"provstore keys list shows your keys; provstore keys generate {path.stem} makes this one",
    )


def passphrase(what: str = "the key", *, confirm: bool = False, insecure_mode: bool = False) -> bytes:
    """Return the passphrase from ``PROVSTORE_KEY_PASSPHRASE``, else the file that ``…_FILE`` names, else the terminal.

    The variable is removed as it is read, so that no program started later inherits it.

    Args:
        what: Named in the prompt.
        confirm: Ask twice, for a new key.
        insecure_mode: Also read a file that others can read.

    Raises:
        ConfigError: None of the three is there, it is empty, or the two answers differ.
        InputError: The file is missing, or others can read it.
    """
    stated, file = os.environ.pop(PASSPHRASE, None), os.environ.get(PASSPHRASE_FILE)
    if stated is not None:
        answer = os.fsencode(stated)
    elif file:
        data = key_files.guarded_bytes(Path(file), "passphrase file", insecure_mode=insecure_mode)
        answer = data.removesuffix(b"\n").removesuffix(b"\r")
    else:
        answer = _asked(what, confirm=confirm)
    if not answer:
        unlocked = "; --unencrypted makes a key without" if confirm else ""
        raise ConfigError(f"{what}: passphrase: empty", hint=f"give one of at least one character{unlocked}")
    return answer


def _asked(what: str, *, confirm: bool) -> bytes:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            f"{what}: passphrase: none is set, and there is no terminal to ask on",
            hint=f"set {PASSPHRASE_FILE} to a file that only you can read, or {PASSPHRASE}",
        )
    try:
        answer = getpass.getpass(f"Passphrase of {what}: ")
        if confirm and getpass.getpass("The same again: ") != answer:
            raise ConfigError(f"{what}: passphrase: the two answers differ")
    except EOFError as error:
        raise ConfigError(f"{what}: passphrase: no answer") from error
    return answer.encode("utf-8", "surrogateescape")


def _shown(uri: str) -> str:
    """Return a key URI without what a program is called with, which may be secret."""
    if uri.startswith("cmd:"):
        return f"cmd:{uri.removeprefix('cmd:').split(maxsplit=1)[0][:60]}" if uri[4:].strip() else "cmd:"
    return uri[:200]


def _from_environment(name: str) -> bytes:
    value = os.environ.pop(name, None)
    if value is None:
        raise ConfigError(f"env:{name[:60]}: signer: the variable is not set; it is removed once it was read")
    return _text(os.fsencode(value))


def _from_descriptor(number: str) -> bytes:
    if not re.fullmatch(r"[0-9]{1,6}", number):
        raise ConfigError(f"fd:{number[:20]}: signer: not the number of a descriptor")
    try:
        data = key_files.all_of(int(number))
    except OSError as error:
        raise ConfigError(f"fd:{number}: signer: {error.strerror}") from error
    return _text(_bounded(data, f"fd:{number}"))


def _from_key_ring(name: str) -> bytes:
    service, _, user = name.partition("/")
    if not service or not user:
        raise ConfigError("keyring: signer: needs keyring:SERVICE/USER")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError as error:
        raise ConfigError(
            "keyring: signer: needs the package keyring", hint="pip install 'provstore[evidence]'"
        ) from error
    try:
        value = keyring.get_password(service, user)
    except (KeyringError, RuntimeError) as error:
        raise ConfigError(f"keyring:{name[:60]}: signer: the key ring gave nothing: {type(error).__name__}") from error
    if value is None:
        raise ConfigError(f"keyring:{name[:60]}: signer: the key ring has no such entry")
    return _text(_bounded(value.encode(), f"keyring:{name[:60]}"))


def _from_program(line: str) -> bytes:
    """Return what a program prints; it runs without a shell, without input, and without the passphrase."""
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"cmd: signer: {error}") from error
    if not arguments:
        raise ConfigError("cmd: signer: needs a program")
    place = f"cmd:{arguments[0][:60]}"
    environment = {name: value for name, value in os.environ.items() if name not in {PASSPHRASE, PASSPHRASE_FILE}}
    try:
        started = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, close_fds=True
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: signer: {getattr(error, 'strerror', None) or error}") from error
    deadline = time.monotonic() + COMMAND_SECONDS
    try:
        data = _printed(started, deadline)
        started.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{place}: signer: no end after {COMMAND_SECONDS} s") from error
    finally:
        # Not communicate(): a program of the program could hold the pipe open for ever.
        started.kill()
        if started.stdout is not None:
            started.stdout.close()
        started.wait()
    if started.returncode:
        raise ConfigError(f"{place}: signer: ended with {started.returncode}")
    return _text(data)


def _printed(started: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return what a program prints until its end.

    Raises:
        ConfigError: It prints more than a key file has.
        TimeoutExpired: Time is up.
    """
    assert started.stdout is not None  # noqa: S101 - asked for above
    descriptor, data = started.stdout.fileno(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(data) <= key_files.MAX_FILE_BYTES:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise subprocess.TimeoutExpired("cmd", COMMAND_SECONDS)
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return data
            data += piece
    raise ConfigError("cmd: signer: prints more than a key file has")


def _bounded(data: bytes, place: str) -> bytes:
    if len(data) > key_files.MAX_FILE_BYTES:
        raise InputError(f"{place}: signer: more than {key_files.MAX_FILE_BYTES} bytes")
    return data


def _text(data: bytes) -> bytes:
    """Return the data without the blanks that shells and password managers put around a text."""
    return data if data[:1] == b"\x30" else data.strip(b" \t\r\n")
