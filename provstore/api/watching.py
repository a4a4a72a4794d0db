"""Watching beside a running job, for errors of GPUs, metrics, hangs and ranks that disagree."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep

from provstore.errors import ConfigError
from provstore.ingest.watching import Polled, Sources, Watch
from provstore.model.finding import Finding
from provstore.sources.signals import prometheus

DEFAULT_INTERVAL_SECONDS = 30.0


def sources(
    *,
    kernel_log: str | None = None,
    dcgm: str | None = None,
    gcm: str | None = None,
    metrics: Sequence[str] = (),
    above: Sequence[str] = (),
    below: Sequence[str] = (),
    dumps: str | Path | None = None,
    replicas: bool = True,
) -> Sources:
    """Return what to watch.

    Args:
        kernel_log: ``journalctl``, ``dmesg``, or the path of a file that grows.
        dcgm: Address that dcgm-exporter serves its metrics under.
        gcm: Command line of GCM's check, such as ``health_checks check-syslogs xid …``; no shell reads it.
        metrics: ``NAME=QUERY``: queries that Prometheus is asked; ``PROMETHEUS_QUERY_URL`` says where it is.
        above: ``NAME=THRESHOLD[:CLEAR]``: values above it are unusual, until they are at most CLEAR.
        below: The same for values below it.
        dumps: Folder into which the job leaves Flight Recorder dumps.
        replicas: Compare the digests of the ranks as they are written.

    Raises:
        ConfigError: An option does not fit.
    """
    queries = dict(_pair(text, "--metric") for text in metrics)
    limits = [*_limits(above, queries, is_upper=True), *_limits(below, queries, is_upper=False)]
    unused = sorted(set(queries) - {limit.name for limit in limits})
    if unused:
        raise ConfigError(
            f"{unused[0]}: --metric: needs --above {unused[0]}=THRESHOLD or --below {unused[0]}=THRESHOLD"
        )
    settings = prometheus.settings(os.environ)
    if limits and settings is None:
        raise ConfigError(f"{limits[0].name}: {prometheus.URL} is not set: it says where Prometheus is")
    if len({limit.name for limit in limits}) < len(limits):
        raise ConfigError("--above, --below: one name stands twice")
    command = tuple(shlex.split(gcm)) if gcm else ()
    place = None if dumps is None else Path(dumps)
    return Sources(kernel_log, dcgm, command, settings if limits else None, tuple(limits), place, replicas)


def watch(
    directory: str | Path, what: Sources, *, interval_seconds: float = DEFAULT_INTERVAL_SECONDS
) -> Iterator[Polled]:
    """Yield what each round brings, for ever; the caller stops it.

    Raises:
        InputError: There is no such capture directory.
        StoreError: Orders could not be made durable.
    """
    watcher = Watch(Path(directory), what, _diagnosed)
    while True:
        yield watcher.poll()
        sleep(interval_seconds)


def look(directory: str | Path, what: Sources) -> Polled:
    """Look once; a later look goes on where this one ends.

    Raises:
        InputError: There is no such capture directory.
        StoreError: Orders could not be made durable.
    """
    return Watch(Path(directory), what, _diagnosed).poll()


def _diagnosed(folder: Path) -> Sequence[Finding]:
    from provstore.api.functions import diagnose

    return diagnose(folder).findings


def _limits(given: Sequence[str], queries: dict[str, str], *, is_upper: bool) -> Iterator[prometheus.Limit]:
    option = "--above" if is_upper else "--below"
    for text in given:
        name, said = _pair(text, option)
        threshold, _, clear = said.partition(":")
        try:
            values = float(threshold), float(clear) if clear else None
        except ValueError:
            raise ConfigError(f"{text}: {option}: is no NAME=THRESHOLD[:CLEAR]") from None
        yield prometheus.Limit(name, *values, query=queries.get(name), is_upper=is_upper)


def _pair(text: str, option: str) -> tuple[str, str]:
    name, mark, said = text.partition("=")
    if not (mark and name and said):
        raise ConfigError(f"{text}: {option}: is no NAME=VALUE")
    return name, said
