"""A TCP proxy that treats connections badly: late, in single bytes, cut at a byte, or silent while they look open."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Treatment:
    """What happens to the bytes."""

    latency_seconds: float = 0.0
    """Added to every piece, in each direction."""
    chunk_bytes: int = 65536
    cut_after: int | None = None
    """Bytes of one direction of one connection that pass before it is cut."""
    direction: str = "down"
    """``up`` to the server, ``down`` from it: which one is counted."""
    half_open_seconds: float = 0.0
    """The connection says nothing for so long before it is cut."""


class FaultProxy:
    """Passes bytes between clients and a server; a context manager.

    Args:
        uri: Address of the server, ``bolt://host:port``.
        treatment: What is done to connections.
        cuts: So many connections are cut; later ones live.
    """

    def __init__(self, uri: str, treatment: Treatment, cuts: int = 0) -> None:
        parts = urlsplit(uri)
        self._server = (parts.hostname, parts.port)
        self._treatment, self.cuts = treatment, cuts
        self.connections = 0
        self._mutex = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"bolt://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *given: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                return
            self.connections += 1
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for name, source, sink in (("up", client, server), ("down", server, client)):
                threading.Thread(target=self._pass, args=(name, source, sink), daemon=True).start()

    def _pass(self, name: str, source: socket.socket, sink: socket.socket) -> None:
        treatment, passed = self._treatment, 0
        with contextlib.suppress(OSError):
            while data := source.recv(treatment.chunk_bytes):
                if treatment.latency_seconds:
                    time.sleep(treatment.latency_seconds)
                if name == treatment.direction and treatment.cut_after is not None:
                    if passed + len(data) > treatment.cut_after and self._may_cut():
                        sink.sendall(data[: max(0, treatment.cut_after - passed)])
                        time.sleep(treatment.half_open_seconds)
                        break
                    passed += len(data)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _may_cut(self) -> bool:
        with self._mutex:
            self.cuts -= 1
            return self.cuts >= 0
