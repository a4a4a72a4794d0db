"""Prometheus: answers to instant queries, held against thresholds, series by series."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import orjson

from provstore.errors import ConfigError, InputError
from provstore.model.recording import ExternalSignal, SignalProblem
from provstore.sources.signals.devices import Devices, gpu_uuid, pci_address, scopes
from provstore.sources.signals.exposition import Sample, number_of
from provstore.sources.signals.http_client import FetchError, Token, checked_url, fetched
from provstore.sources.signals.promql import may_be_empty

SOURCE = "prometheus"
URL, POLL_INTERVAL, TIMEOUT, TOKEN = (
    "PROMETHEUS_QUERY_URL",
    "PROMETHEUS_POLL_INTERVAL",
    "PROMETHEUS_TIMEOUT",
    "PROMETHEUS_BEARER_TOKEN",
)
"""Names of the settings in the environment."""
EMPTY_POLLS = 5
"""After so many polls without any series it is said; a series missing for so long no longer escalates."""

RANK_LABELS = ("rank",)
HOST_LABELS = ("Hostname", "hostname", "host", "node", "nodename", "instance")
_SHOWN = 512


@dataclass(frozen=True, slots=True)
class Settings:
    """Where Prometheus is and how often it is asked."""

    url: str
    """Of the instant-query endpoint, such as ``http://prometheus:9090/api/v1/query``."""
    interval_seconds: float = 30.0
    timeout_seconds: float = 10.0
    token: Token | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Limit:
    """A query and from where on its values are unusual.

    Raises:
        ConfigError: A limit is no finite number, or the clear threshold lies beyond the threshold.
    """

    name: str
    threshold: float
    clear: float | None = None
    """Where an escalation may end; the threshold itself when not given."""
    query: str | None = None
    """None where the address holds it."""
    is_upper: bool = True
    """Whether values above the threshold are unusual, else those below."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot be crossed back."""
        if not math.isfinite(self.threshold) or (self.clear is not None and not math.isfinite(self.clear)):
            raise ConfigError(f"{self.name}: threshold: is no finite number")
        if self.clear is not None and (self.clear > self.threshold if self.is_upper else self.clear < self.threshold):
            raise ConfigError(f"{self.name}: clear threshold: {self.clear:g} lies beyond {self.threshold:g}")

    def is_crossed(self, value: float) -> bool:
        """Return whether a value is beyond the threshold."""
        return value > self.threshold if self.is_upper else value < self.threshold

    def is_clear(self, value: float) -> bool:
        """Return whether a value is back below the clear threshold."""
        clear = self.threshold if self.clear is None else self.clear
        return value <= clear if self.is_upper else value >= clear


@dataclass(frozen=True, slots=True)
class Answer:
    """What an instant query gave."""

    samples: tuple[Sample, ...]
    """Finite values, one a series."""
    non_finite: int = 0
    odd: int = 0
    """Series without a readable value."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll brought."""

    signals: tuple[ExternalSignal, ...] = ()
    """Series that crossed their threshold."""
    cleared: tuple[str, ...] = ()
    """Scopes in which no series is beyond its clear threshold any more."""
    problems: tuple[SignalProblem, ...] = ()
    is_without_series: bool = False
    """Whether the query should have a series and had none: then nothing was seen."""


def settings(environment: Mapping[str, str]) -> Settings | None:
    """Return what the environment says; None where it names no address.

    Raises:
        ConfigError: A setting is not usable; the message never holds the token.
    """
    url = environment.get(URL)
    if not url:
        return None
    token = environment.get(TOKEN)
    return Settings(
        checked_url(url),
        _seconds(environment, POLL_INTERVAL, 30.0),
        _seconds(environment, TIMEOUT, 10.0),
        Token(token) if token else None,
    )


def address(url: str, query: str | None) -> str:
    """Return the address that asks a query, beside what the address holds already."""
    if query is None:
        return url
    parts = urlsplit(url)
    said = f"query={quote(query, safe='')}"
    return urlunsplit(parts._replace(query=f"{parts.query}&{said}" if parts.query else said))


def query_text(url: str, limit: Limit) -> str:
    """Return the query of a limit, which the address may hold."""
    return limit.query or (parse_qs(urlsplit(url).query).get("query") or [""])[0]


def answer(data: bytes) -> Answer:
    """Return the samples of an answer in Prometheus's JSON.

    Raises:
        InputError: It is no successful answer to an instant query.
    """
    try:
        said: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"prometheus: answer: no JSON: {error}") from error
    if not isinstance(said, dict) or not isinstance(said.get("status"), str):
        raise InputError("prometheus: answer: has no status")
    if said["status"] != "success":
        kind = said.get("errorType")
        raise InputError(f"prometheus: answer: status {said['status']!r:.40}, error {kind!r:.60}")
    body = said.get("data")
    kind, result = (body.get("resultType"), body.get("result")) if isinstance(body, dict) else (None, None)
    if kind == "scalar":
        result = [{"metric": {}, "value": result}]
    if kind not in ("vector", "scalar") or not isinstance(result, list):
        raise InputError(f"prometheus: answer: result of type {kind!r:.40} is no vector")
    read = [_series(one) for one in result]
    known = [one for one in read if one is not None]
    finite = tuple(one for one in known if math.isfinite(one.value))
    return Answer(finite, len(known) - len(finite), len(read) - len(known))


class Prometheus:
    """Follows one query, poll by poll.

    Args:
        limit: The query and its thresholds.
        query: Its text, where the address holds it.
        devices: The GPUs of the run's ranks, to which labels lead.
        rank_labels: Labels that hold a rank of the run.
        host_labels: Labels that hold a host of the run.
        state: What :meth:`state` gave before a restart.
    """

    def __init__(
        self,
        limit: Limit,
        devices: Devices | None = None,
        *,
        query: str | None = None,
        rank_labels: tuple[str, ...] = RANK_LABELS,
        host_labels: tuple[str, ...] = HOST_LABELS,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._limit, self._devices = limit, devices or Devices()
        self._may_be_empty = may_be_empty(query or limit.query or "")
        self._rank_labels, self._host_labels = rank_labels, host_labels
        said = state or {}
        self._beyond: dict[str, list[str]] = {key: [*at] for key, at in said.get("beyond", {}).items()}
        """Series beyond its threshold → its scopes."""
        self._missing: dict[str, int] = dict(said.get("missing", {}))
        self._empty: int = said.get("empty", 0)

    def state(self) -> dict[str, Any]:
        """Return what a later process goes on from, as JSON values."""
        return {"beyond": self._beyond, "empty": self._empty, "missing": self._missing}

    def poll(self, fetch: Callable[[], bytes], at_ns: int | None = None) -> Poll:
        """Ask once, and return what is new; an answer that is none is a problem and changes nothing."""
        try:
            return self.take(answer(fetch()), at_ns)
        except FetchError as error:
            return Poll(problems=(SignalProblem(SOURCE, error.kind, f"{self._limit.name}: {error}"),))
        except InputError as error:
            return Poll(problems=(SignalProblem(SOURCE, "malformed", f"{self._limit.name}: {error}"),))

    def take(self, said: Answer, at_ns: int | None = None) -> Poll:
        """Judge every series of an answer."""
        before = self._scopes()
        signals, seen = [], set()
        for sample in said.samples:
            key = _key(sample.labels)
            seen.add(key)
            if self._limit.is_crossed(sample.value):
                signal = self._signal(sample, at_ns)
                if key not in self._beyond:
                    self._beyond[key] = [*scopes(signal, self._devices)]
                    signals.append(signal)
            elif self._limit.is_clear(sample.value):
                self._beyond.pop(key, None)
        is_empty = not (said.samples or said.non_finite or said.odd or self._may_be_empty)
        self._empty = self._empty + 1 if is_empty else 0
        self._forget(seen)
        cleared = tuple(sorted(before - self._scopes()))
        return Poll(tuple(signals), cleared, tuple(self._problems(said)), is_empty)

    def _forget(self, seen: set[str]) -> None:
        """Let go of series that have not been there for some polls."""
        self._missing = {key: self._missing.get(key, 0) + 1 for key in self._beyond if key not in seen}
        for key in [key for key, polls in self._missing.items() if polls >= EMPTY_POLLS]:
            del self._beyond[key], self._missing[key]

    def _scopes(self) -> set[str]:
        return {scope for at in self._beyond.values() for scope in at}

    def _problems(self, said: Answer) -> list[SignalProblem]:
        name, found = self._limit.name, []
        if said.non_finite:
            text = f"{name}: answer: {said.non_finite} series have no finite value"
            found.append(SignalProblem(SOURCE, "non-finite", text, said.non_finite))
        if said.odd:
            text = f"{name}: answer: {said.odd} series cannot be read"
            found.append(SignalProblem(SOURCE, "malformed", text, said.odd))
        if self._empty == EMPTY_POLLS:
            text = f"{name}: answer: no series in {EMPTY_POLLS} polls, so nothing is known"
            found.append(SignalProblem(SOURCE, "empty", text, self._empty))
        return found

    def _signal(self, sample: Sample, at_ns: int | None) -> ExternalSignal:
        labels = sample.labels
        pci, uuid = pci_address(labels.get("pci_bus_id", "")), gpu_uuid(labels.get("UUID", ""))
        signal = ExternalSignal(
            "prometheus",
            SOURCE,
            f"{_key(labels)} {sample.value:g}"[:_SHOWN],
            host=self._host(labels),
            device=pci or uuid,
            at_ns=at_ns if sample.at_ns is None else sample.at_ns,
            value=sample.value,
            threshold=self._limit.threshold,
            name=self._limit.name,
        )
        rank = self._rank(labels)
        placed = self._devices.placed(signal, pci=pci, uuid=uuid)
        return placed if rank is None else replace(placed, ranks=(rank,))

    def _rank(self, labels: Mapping[str, str]) -> int | None:
        for name in self._rank_labels:
            text = labels.get(name, "")
            if text.isascii() and text.isdecimal() and len(text) < 10 and self._devices.has_rank(int(text)):
                return int(text)
        return None

    def _host(self, labels: Mapping[str, str]) -> str | None:
        """Return the host of the run that a label names, with or without a port."""
        for name in self._host_labels:
            text = labels.get(name, "")
            host = self._devices.host(text) or self._devices.host(text.rpartition(":")[0])
            if host is not None:
                return host
        return None


def asked(settings: Settings, limit: Limit) -> Callable[[], bytes]:
    """Return what asks Prometheus for a query."""
    url = address(settings.url, limit.query)
    return lambda: fetched(url, timeout=settings.timeout_seconds, token=settings.token)


def _series(one: object) -> Sample | None:
    if not isinstance(one, dict) or not isinstance(one.get("metric"), dict):
        return None
    labels, pair = one["metric"], one.get("value")
    if not all(isinstance(value, str) for value in labels.values()):
        return None
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
        return None
    value = number_of(pair[1])
    at = pair[0] if type(pair[0]) in (int, float) and math.isfinite(pair[0]) else None
    if value is None or at is None or not 0 <= at < 1e11:
        return None
    return Sample(labels.get("__name__", ""), labels, value, round(at * 1000) * 10**6)


def _key(labels: Mapping[str, str]) -> str:
    rest = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels) if name != "__name__")
    return f"{labels.get('__name__', '')}{{{rest}}}"


def _seconds(environment: Mapping[str, str], name: str, otherwise: float) -> float:
    text = environment.get(name)
    if not text:
        return otherwise
    value = number_of(text)
    if value is None or not 0 < value <= 86_400:
        raise ConfigError(f"{name}: {text[:40]!r}: is no number of seconds from above 0 to a day")
    return value
