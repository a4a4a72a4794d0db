"""One HTTP GET with a limit on time and size: http and https only, and never to another host than the named one.

A token goes to that host alone. It is in no message, no log and no file.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urljoin, urlsplit

from provstore.errors import ConfigError, InputError

MAX_BYTES = 8 << 20
MOST_REDIRECTS = 3

_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_PATH = re.compile(r"[\x21-\x7e]*")
_REDIRECTS = (301, 302, 303, 307, 308)


class FetchError(InputError):
    """There is no usable answer.

    Args:
        message: ``thing: place: reason``; never the token.
        kind: ``unreachable``, ``timeout`` or ``malformed``.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token; how it is shown does not show it."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what no header can hold.

        Raises:
            ConfigError: It is empty, or holds blanks or characters outside ASCII.
        """
        if not _TOKEN.fullmatch(self.value):
            raise ConfigError("bearer token: header: is empty, too long, or has characters that no header can hold")


def checked_url(url: str) -> str:
    """Return an address that may be fetched.

    Raises:
        ConfigError: It is neither http nor https, has no host, or holds a user or password.
    """
    try:
        parts = urlsplit(url)
        has_place = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, has_place = SplitResult("", "", "", "", ""), False
    if "@" in parts.netloc:
        raise ConfigError(f"{parts.scheme}://…: address: holds a user or password")
    if not has_place or not _PATH.fullmatch(url):
        raise ConfigError(f"{url[:100]!r}: address: is no http or https address with a host")
    return url


def fetched(url: str, *, timeout: float = 10.0, token: Token | None = None, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the body of the answer to a GET.

    Args:
        url: http or https.
        timeout: Seconds for everything together: connection, redirects, answer.
        token: Sent as ``Authorization: Bearer``.
        max_bytes: The longest body.

    Raises:
        ConfigError: The address may not be fetched.
        FetchError: No answer in time, none at all, another status than 200, a redirect to another host, or too long.
    """
    deadline = time.monotonic() + timeout
    at = checked_url(url)
    for _ in range(MOST_REDIRECTS + 1):
        status, place, body = _once(at, deadline, timeout, token, max_bytes)
        if status not in _REDIRECTS or place is None:
            if status != 200:
                raise FetchError(f"{shown(at)}: answer: status {status}", "unreachable")
            return body
        at = _followed(at, place)
    raise FetchError(f"{shown(url)}: answer: more than {MOST_REDIRECTS} redirects", "unreachable")


def shown(url: str) -> str:
    """Return an address without its query, which may hold what is nobody's business."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _once(
    url: str, deadline: float, timeout: float, token: Token | None, max_bytes: int
) -> tuple[int, str | None, bytes]:
    parts, left = urlsplit(url), deadline - time.monotonic()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": "application/json, text/plain", "Accept-Encoding": "identity", "User-Agent": "provstore"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token.value}"
    if left <= 0:
        raise _late(url, timeout)
    connection = _connection(parts, left)
    try:
        connection.connect()
        with _ended(connection.sock, deadline):
            connection.request("GET", target, headers=headers)
            with contextlib.closing(connection.getresponse()) as answer:
                found = _body(url, answer, max_bytes)
        if time.monotonic() >= deadline:
            raise _late(url, timeout)
        return found
    except TimeoutError as error:
        raise _late(url, timeout) from error
    except FetchError as error:
        raise error if time.monotonic() < deadline else _late(url, timeout) from error
    except (OSError, http.client.HTTPException) as error:
        if time.monotonic() >= deadline:
            raise _late(url, timeout) from error
        # The text of some of these holds what was sent or received; its kind says enough.
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise FetchError(f"{shown(url)}: connection: {reason}", "unreachable") from None
    finally:
        connection.close()


def _body(url: str, answer: http.client.HTTPResponse, max_bytes: int) -> tuple[int, str | None, bytes]:
    """Return status, place of a redirect, and body."""
    if answer.status in _REDIRECTS:
        return answer.status, answer.getheader("Location"), b""
    body = answer.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise FetchError(f"{shown(url)}: answer: more than {max_bytes} bytes", "malformed")
    if answer.length:
        raise FetchError(f"{shown(url)}: answer: ends early", "malformed")
    return answer.status, None, body


@contextlib.contextmanager
def _ended(connected: socket.socket, deadline: float) -> Iterator[None]:
    """End a connection at a moment: a server that sends a byte now and then keeps every single wait short."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    watch = threading.Timer(max(0.0, deadline - time.monotonic()), cut)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _connection(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port or 443, timeout=timeout, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, parts.port or 80, timeout=timeout)


def _followed(url: str, place: str) -> str:
    """Return where a redirect leads, if that is the same host, port and scheme."""
    before = urlsplit(url)
    try:
        target = urljoin(url, place)
        after = urlsplit(target)
        is_same = (after.scheme, after.hostname, after.port) == (before.scheme, before.hostname, before.port)
    except ValueError:
        is_same, target = False, ""
    if not is_same or "@" in urlsplit(target).netloc or not _PATH.fullmatch(target):
        raise FetchError(f"{shown(url)}: answer: a redirect to another host is not followed", "unreachable")
    return target


def _late(url: str, timeout: float) -> FetchError:
    return FetchError(f"{shown(url)}: answer: none within {timeout:g} s", "timeout")
