"""Neo4j store (``neo4j://``, ``bolt://`` and their ``+s`` forms): a server of version 5.26 or a calendar release."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import neo4j
from neo4j.exceptions import AuthError, ClientError, ConfigurationError, DriverError, Neo4jError, ServiceUnavailable

from provstore import cypher
from provstore.cypher import Query, named
from provstore.errors import ConfigError, InputError, StoreError
from provstore.model.block import CAPTURED_RELATIONS, DERIVED_RELATIONS, STRUCTURE_RELATIONS, UNIQUE_KEY, Block
from provstore.stores import Rows, WriteReport, facts
from provstore.stores.patience import Patience

ENGINE = "neo4j"
OLDEST = (5, 26)
BATCH_ROWS = 10_000
CONNECT_SECONDS = 15.0
"""Longest wait for one connection, greeting and log-in included."""
RETRY_SECONDS = 60.0
"""What one operation (opening, a write, a query) may lose to failures that pass before it is given up.

Its last try begins within it: with ``CONNECT_SECONDS``, a server that is gone costs an operation 75 seconds at most. A
connection that falls silent while it looks open costs, once, as long as the server's own hint says (two minutes).
"""
FIRST_CONTACT_SECONDS = 3.0
"""Of these, what opening may lose before the server answered for the first time: a wrong address is told at once."""

_SINGLE_INDEXES = {
    "calls_of_attempt": ("Call", ["run", "attempt"]),
    "call_by_number": ("Call", ["run", "attempt", "rank", "seq"]),
    "groups_of_attempt": ("ProcessGroup", ["run", "attempt"]),
    "by_digest": ("Dump", ["sha256"]),
}
_INDEX_SECONDS = 300
_REPLAN_ROWS = 1_000
_NO_PARAMETERS: Mapping[str, object] = MappingProxyType({})
Answer = TypeVar("Answer")
_SIMPLE = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True, slots=True)
class _Step:
    """One statement of a write; ``expected`` rows must be written by it."""

    query: Query
    parameters: Mapping[str, object]
    expected: int | None = None


def connect(
    uri: str, *, writable: bool, user: str | None = None, password: str | None = None, database: str | None = None
) -> Neo4jStore:
    """Connect to the server at ``uri``; a writer creates the constraints and waits for them.

    Raises:
        ConfigError: The address is not one.
        StoreError: The server does not answer, refuses the log-in, or is of an unsupported version.
    """
    auth = None if user is None else neo4j.basic_auth(user, password or "")
    try:
        driver = neo4j.GraphDatabase.driver(
            uri,
            auth=auth,
            notifications_min_severity=neo4j.NotificationMinimumSeverity.OFF,
            connection_timeout=CONNECT_SECONDS,
            connection_acquisition_timeout=CONNECT_SECONDS,
            user_agent="provstore",
        )
    except (ConfigurationError, ValueError) as error:
        raise ConfigError(f"{uri}: store: not an address of a Neo4j server: {error}") from error
    patience = _patience()
    try:
        with _translated(uri):
            patience.of(lambda: _contact(driver, database), FIRST_CONTACT_SECONDS)
            store = Neo4jStore(driver, uri, database, writable=writable)
            store.prepare(patience)
    except ValueError as error:
        driver.close()
        raise ConfigError(f"{uri}: store: not an address of a Neo4j server: {error}") from error
    except BaseException:
        driver.close()
        raise
    return store


class Neo4jStore:
    """One database of one server."""

    def __init__(self, driver: neo4j.Driver, uri: str, database: str | None, *, writable: bool) -> None:
        self._driver: neo4j.Driver | None = driver
        self._uri = uri
        self._database = database
        self._writable = writable
        self._bookmarks = neo4j.GraphDatabase.bookmark_manager()
        self._unplanned_rows = 0
        self.about: dict[str, str] = {}
        """Engine, version and edition of the server."""

    def prepare(self, patience: Patience) -> None:
        """Check the server's version and, as a writer, create constraints and indexes and wait for them.

        Args:
            patience: What is left of opening's.

        Raises:
            StoreError: The version is not supported.
        """
        (server,) = self._read(cypher.query("schema/neo4j/server"), {}, patience)
        self.about = {"engine": "Neo4j", "version": str(server["version"]), "edition": str(server["edition"])}
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.about["version"])[:2])
        if numbers < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise StoreError(f"{self._uri}: Neo4j {self.about['version']}: not supported; {oldest} or newer is needed")
        if self._writable:
            self._create_schema(patience)

    def _create_schema(self, patience: Patience) -> None:
        rows = self._read(cypher.query("schema/neo4j/present"), {}, patience)
        present = {f"{row['names']} {row['properties']} {row['is_constraint']}" for row in rows}
        missing = [query for identity, query in _schema() if identity not in present]
        if missing:
            self._transact([_Step(query, {}) for query in missing], patience)
            await_indexes = _Step(cypher.query("schema/neo4j/await_indexes"), {"seconds": _INDEX_SECONDS})
            self._transact([await_indexes], patience)

    def write(self, block: Block, position: tuple[str, int] | None = None) -> WriteReport:
        """Add a block's facts; see ``GraphStore.write``.

        Batches are transactions of their own, the position goes with the last: a write that was cut short is repeated
        as a whole and adds what is missing.
        """
        if not self._writable:
            raise StoreError(f"{self._uri}: store: opened for reading only")
        facts.check(block)
        patience = _patience()
        self._check_ends(block, patience)
        transactions = list(_transactions(block))
        if position is not None:
            applied = _Step(cypher.query("write/applied"), {"journal": position[0], "jseq": position[1]})
            transactions = [*transactions[:-1], [*(transactions[-1] if transactions else []), applied]]
        with _translated(self._uri):
            for steps in transactions:
                self._transact(steps, patience)
        self._unplanned_rows += len(block)
        return WriteReport(sum(map(len, block.nodes)), sum(map(len, block.relations)))

    def run(self, query: Query, parameters: Mapping[str, object] = _NO_PARAMETERS) -> Rows:
        """Answer a reading query in a read transaction."""
        missing = sorted(set(query.params) - set(parameters))
        if missing:
            raise ConfigError(f"{query.name}: {missing[0]}: this parameter is missing")
        own = query if query.name == cypher.ADHOC else cypher.dialect(query, ENGINE)
        patience = _patience()
        with _translated(self._uri):
            if self._unplanned_rows >= _REPLAN_ROWS and self._writable:
                self._transact([_Step(cypher.query("schema/neo4j/replan"), {})], patience)
                self._unplanned_rows = 0
            try:
                rows = self._read(own, parameters, patience)
            except ClientError as error:
                if "TransactionTimedOut" in (error.code or ""):
                    return Rows((), "timeout")
                if query.name == cypher.ADHOC:
                    raise InputError(f"query: {error.message}") from error
                raise
        is_cut = query.max_rows is not None and len(rows) > query.max_rows
        return Rows(rows[: query.max_rows] if is_cut else rows, "max_rows" if is_cut else None)

    def alter(self, query: Query, parameters: Mapping[str, object] = _NO_PARAMETERS) -> None:
        """Run a writing query past the journal: to remove what nobody recorded, and for tests.

        Raises:
            StoreError: Opened for reading only, or the server refuses it.
        """
        if not self._writable:
            raise StoreError(f"{self._uri}: store: opened for reading only")
        with _translated(self._uri):
            self._transact([_Step(query, parameters)], _patience())

    def close(self) -> None:
        """Let go of the server."""
        driver, self._driver = self._driver, None
        if driver is None:
            return
        try:
            if self._unplanned_rows >= _REPLAN_ROWS:
                self._driver = driver
                with _translated(self._uri):
                    self._transact([_Step(cypher.query("schema/neo4j/replan"), {})], _patience())
        finally:
            self._driver = None
            driver.close()

    def _session(self, mode: str) -> neo4j.Session:
        if self._driver is None:
            raise StoreError(f"{self._uri}: store: closed already")
        return self._driver.session(
            database=self._database, default_access_mode=mode, bookmark_manager=self._bookmarks, fetch_size=10_000
        )

    def _transact(self, steps: Iterable[_Step], patience: Patience) -> None:
        """Run steps in one transaction, again from the start when a failure may pass."""
        held = list(steps)

        def work(transaction: neo4j.Transaction) -> None:
            for step in held:
                rows = transaction.run(step.query.text, dict(step.parameters)).data()
                if step.expected is not None and rows[0]["written"] != step.expected:
                    written = f"{rows[0]['written']} of {step.expected} facts were written; nothing of them is kept"
                    raise StoreError(f"{step.query.name}: {self._uri}: {written}")

        patience.of(lambda: self._once(neo4j.WRITE_ACCESS, work))

    def _read(self, query: Query, parameters: Mapping[str, object], patience: Patience) -> list[dict[str, object]]:
        """Return at most one row more than the query may have."""

        def work(transaction: neo4j.Transaction) -> list[dict[str, object]]:
            result = transaction.run(query.text, dict(parameters))
            names = result.keys()
            records = result if query.max_rows is None else result.fetch(query.max_rows + 1)
            return [dict(zip(names, map(_plain, record.values()))) for record in records]

        return patience.of(lambda: self._once(neo4j.READ_ACCESS, work, query.timeout_seconds))

    def _once(self, mode: str, work: Callable[[neo4j.Transaction], Answer], timeout: float | None = None) -> Answer:
        """Do work in one transaction, tried once: the driver's own repetition knows no bound of its waits."""
        with self._session(mode) as session, session.begin_transaction(timeout=timeout) as transaction:
            answer = work(transaction)
            transaction.commit()
            return answer

    def _check_ends(self, block: Block, patience: Patience) -> None:
        for label, keys in facts.outside_ends(block).items():
            absent = named(cypher.query("read/store/absent"), {"BASE_LABEL": label})
            for batch in facts.batches(sorted(keys), BATCH_ROWS):
                with _translated(self._uri):
                    rows = self._read(absent, {"keys": batch}, patience)
                if rows:
                    raise facts.missing_end(block, label, str(rows[0]["key"]))


class _translated:  # noqa: N801 reads as a clause after ``with``
    """Turn the driver's errors into one clear error each."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the clear error in the driver's stead."""
        if isinstance(error, AuthError):
            hint = "set PROVSTORE_NEO4J_USER and PROVSTORE_NEO4J_PASSWORD"
            raise StoreError(f"{self._uri}: log-in: the server refuses it: {_short(error)}", hint=hint) from error
        if isinstance(error, ServiceUnavailable):
            raise StoreError(f"{self._uri}: server: it does not answer: {_short(error)}") from error
        if isinstance(error, (Neo4jError, DriverError)):
            raise StoreError(f"{self._uri}: server: {_short(error)}") from error


def _contact(driver: neo4j.Driver, database: str | None) -> None:
    driver.verify_connectivity(database=database) if database else driver.verify_connectivity()


def _patience() -> Patience:
    """Return what one operation may lose to failures that the driver calls passing."""
    return Patience(RETRY_SECONDS, lambda error: isinstance(error, (Neo4jError, DriverError)) and error.is_retryable())


def _short(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error)
    return text.splitlines()[0][:300] if text else type(error).__name__


def _schema() -> Iterator[tuple[str, Query]]:
    """Yield each constraint and index with the identity under which ``present`` lists it."""
    unique, record = cypher.query("schema/neo4j/unique_key"), cypher.query("schema/neo4j/record_key")
    for label, key in UNIQUE_KEY.items():
        yield f"{[label]} {[key]} True", named(unique, {"BASE_LABEL": label})
    for kind in (*CAPTURED_RELATIONS, *STRUCTURE_RELATIONS, *DERIVED_RELATIONS):
        yield f"{[kind]} {['recordKey']} True", named(record, {"RELATION_TYPE": kind})
    for kind in DERIVED_RELATIONS:
        yield f"{[kind]} {['scope']} False", named(cypher.query("schema/neo4j/derived_scope"), {"RELATION_TYPE": kind})
    for name, (label, properties) in _SINGLE_INDEXES.items():
        yield f"{[label]} {properties} False", cypher.query(f"schema/neo4j/{name}")


def _transactions(block: Block) -> Iterator[list[_Step]]:
    """Yield the steps of each transaction; replaced relationships go in the first, with the first new ones."""
    first: list[_Step] = []
    if block.replaces is not None:
        forget = cypher.query("write/forget_derived")
        scope = {"scope": block.replaces}
        first = [_Step(named(forget, {"RELATION_TYPE": kind}), scope) for kind in DERIVED_RELATIONS]
    for step in _steps(block):
        yield [*first, step]
        first = []
    if first:
        yield first


def _steps(block: Block) -> Iterator[_Step]:
    for nodes in block.nodes:
        labels = nodes.labels[1:] or nodes.labels
        text = named(cypher.query("write/nodes"), {"BASE_LABEL": nodes.labels[0], "LABELS": labels})
        for batch in facts.batches(facts.node_rows(nodes), BATCH_ROWS):
            yield _Step(text, {"rows": batch}, len(batch))
    for relations in block.relations:
        file = "write/records" if facts.is_record(relations) else "write/relations"
        names = {"SOURCE_LABEL": relations.source_label, "TARGET_LABEL": relations.target_label}
        text = named(cypher.query(file), {"RELATION_TYPE": relations.type, **names})
        for batch in facts.batches(facts.relation_rows(relations), BATCH_ROWS):
            yield _Step(text, {"rows": batch}, len(batch))


def _plain(value: Any) -> object:
    if value.__class__ in _SIMPLE:
        return value
    if isinstance(value, neo4j.graph.Node):
        return {"labels": sorted(value.labels), "properties": dict(value.items())}
    if isinstance(value, neo4j.graph.Relationship):
        return {"type": value.type, "properties": dict(value.items())}
    if isinstance(value, neo4j.graph.Path):
        return {"nodes": _plain(list(value.nodes)), "relationships": _plain(list(value.relationships))}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)
