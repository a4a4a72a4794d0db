"""Signals from outside a job, as text of others → typed signals: kernel log, DCGM, GCM health checks, Prometheus."""

from __future__ import annotations


def recognises(head: bytes, name: str) -> bool:  # noqa: ARG001 - the contract of sources
    """Return ``False``: signals are watched beside a job, not ingested as files."""
    return False
