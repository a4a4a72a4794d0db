"""Evidence as the graph holds it: bundles and records byte by byte, and the nodes that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from provstore.cypher import query
from provstore.model import canonical
from provstore.model.canonical import Json
from provstore.model.evidence import BundleAt, RecordAt
from provstore.queries.rows import Row
from provstore.stores import GraphStore

PAGE = 5_000
_LAST = (1 << 63) - 1
_NOWHERE = "a node without an id"


def scopes(store: GraphStore) -> list[tuple[str, int]]:
    """Return every (run, attempt) of which the graph holds records or bundles, in order."""
    rows = store.run(query("read/evidence_bytes/scopes"))
    return sorted((row["run"], row["attempt"]) for row in rows if _is_scope(row))  # type: ignore[misc]


def stored_evidence(store: GraphStore, run: str, attempt: int, journal: str | None = None) -> GraphEvidence:
    """Return the evidence of one attempt from the graph alone.

    Args:
        store: The graph.
        run: The run.
        attempt: Its incarnation.
        journal: Id of the journal whose evidence it must be; as the graph states it when not given.
    """
    if journal is None:
        journals = [row["journal"] for row in store.run(query("read/store/applied"))]
        journal = str(journals[0]) if len(journals) == 1 else ""
    return GraphEvidence(run, attempt, journal, store)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A record as it is listed: by its id where it has one, else with its text."""

    index: int | None
    iri: str | None
    place: str
    text: object = None

    @staticmethod
    def of(row: Row, text: object) -> _Listed:
        index, iri = row["leaf_index"], row["iri"]
        is_found = row.get("is_element") is True and isinstance(iri, str)
        return _Listed(
            index if isinstance(index, int) and not isinstance(index, bool) else None,
            str(iri) if is_found else None,
            _place(row),
            text,
        )


@dataclass(frozen=True, slots=True)
class GraphEvidence:
    """The evidence about one attempt of one run in a graph; an ``EvidenceLog``, and the nodes behind it.

    Whoever can write to the graph can put anything there: nothing that is read here raises, it is passed on as bytes
    that no check accepts.
    """

    run: str
    attempt: int
    store: str
    """Id of the journal that the graph was made from; ``""`` when it was made from none or several."""
    graph: GraphStore

    def bundles(self) -> Iterator[BundleAt]:
        """Yield the bundles ordered by the number that their nodes state; those that state none come last."""
        rows = list(self.graph.run(query("read/evidence_bytes/bundles"), self._scope()))
        for row in sorted(rows, key=lambda row: (_number(row["epoch"], _LAST), str(row["iri"]))):
            note = row["checkpoint"]
            yield BundleAt(_envelope(row), note.encode() if isinstance(note, str) else None, _place(row))

    def records(self) -> Iterator[RecordAt]:
        """Yield the records ordered by the index that their nodes state; those that state none come last."""
        listed = [_Listed.of(row, None) for row in self.graph.run(query("read/evidence_bytes/indexes"), self._scope())]
        strays = self.graph.run(query("read/evidence_bytes/strays"), self._scope())
        known = [one for one in listed if one.iri is not None]
        known += [_Listed.of(row, row["record"]) for row in strays]
        known.sort(key=lambda one: (_LAST if one.index is None else one.index, one.place))
        for at in range(0, len(known), PAGE):
            page = known[at : at + PAGE]
            texts = self._texts([one.iri for one in page if one.iri is not None])
            for one in page:
                text = one.text if one.iri is None else texts.get(one.iri)
                yield RecordAt(one.index, text.encode() if isinstance(text, str) else b"", one.place)

    def listing(self) -> Iterator[str]:
        """Yield the id of every node of the attempt that is labelled as record or bundle, in order."""
        for row in self.graph.run(query("read/evidence_bytes/listing"), self._scope()):
            yield _place(row)

    def nodes(self, iris: Sequence[str]) -> Iterator[Row]:
        """Yield iri, labels and properties of the nodes with these ids."""
        yield from self.graph.run(query("read/evidence_bytes/nodes"), {"iris": sorted(set(iris))})

    def edges(self, iris: Sequence[str]) -> Iterator[Row]:
        """Yield source, relation, target and properties of every relationship that starts at one of these nodes.

        Those that lead to one of them from a node that is no evidence follow.
        """
        for name in ("edges", "edges_from_outside"):
            yield from self.graph.run(query(f"read/evidence_bytes/{name}"), {"iris": sorted(set(iris))})

    def _texts(self, iris: Iterable[str]) -> Mapping[object, object]:
        rows = self.graph.run(query("read/evidence_bytes/texts"), {"iris": list(iris)})
        return {row["iri"]: row["record"] for row in rows}

    def _scope(self) -> Mapping[str, object]:
        return {"run": self.run, "attempt": self.attempt}


def _envelope(row: Row) -> bytes:
    """Return the envelope in its one spelling; what a node lacks, or has of another type, the envelope has so too."""
    outer: dict[str, Json] = {"signatures": []}
    for name, column in (("payload", "payload"), ("payloadType", "payload_type")):
        if row[column] is not None:
            outer[name] = _plain(row[column])
    if row["sig"] is not None:
        signature: dict[str, Json] = {"sig": _plain(row["sig"])}
        if row["keyid"] is not None:
            signature["keyid"] = _plain(row["keyid"])
        outer["signatures"] = [signature]
    return canonical.encode(outer)


def _plain(value: object) -> Json:
    return value if isinstance(value, str) else f"not text: {value!r}"


def _is_scope(row: Row) -> bool:
    return isinstance(row["run"], str) and _number(row["attempt"], -1) >= 0


def _number(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _place(row: Row) -> str:
    return str(row["iri"]) if row["iri"] is not None else _NOWHERE
