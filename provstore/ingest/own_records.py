"""Agent records that name provstore as their maker: whether a journal really holds what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from provstore.errors import ConfigError, StoreError
from provstore.evidence import aep_record
from provstore.evidence.aep import emit
from provstore.ingest import recording
from provstore.journal import Journal
from provstore.model.action import Action


class OwnRecords:
    """Tells records that were made from a journal from those that only say so."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._stored: dict[str, set[bytes]] = {}
        self._actions: dict[tuple[str, int], dict[int, list[Action]]] = {}

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Return whether the journal holds everything that a record says, whoever signed it.

        Raises:
            StoreError: The journal is damaged where it would be.
        """
        run = record.get("run_id")
        bare = _canonical(record)
        if not isinstance(run, str) or bare is None:
            return False
        if run not in self._stored:
            self._stored[run] = set(self._records_of(run))
        return bare in self._stored[run] or bare == self._made_again(run, record)

    def _records_of(self, run: str) -> Iterator[bytes]:
        for bundle in recording.stored_bundles(self._journal, run):
            try:
                data = recording.agent_record(self._journal, bundle)
            except StoreError:
                continue
            if data is not None and (bare := _canonical(orjson.loads(data))) is not None:
                yield bare

    def _made_again(self, run: str, record: Mapping[str, Any]) -> bytes | None:
        """Return the record over the same actions, made from the journal."""
        said, listed, prev = record.get("training"), record.get("actions"), record.get("prev_record_hash")
        if not isinstance(said, dict) or not isinstance(listed, list) or not (prev is None or isinstance(prev, str)):
            return None
        attempt, first = said.get("attempt"), said.get("first")
        rank = _rank_of(listed)
        if type(attempt) is not int or type(first) is not int or first < 0 or rank is None:
            return None
        part = self._of_rank(run, attempt, rank)[first : first + len(listed)]
        if len(part) != len(listed):
            return None
        made = aep_record.action_records_of(
            part,
            run,
            attempt,
            created_ms=max(one.at_ns for one in part) // 1_000_000,
            prev=prev,
            producer=str(record.get("runtime_version")),
            first=first,
        )
        return _canonical(made)

    def _of_rank(self, run: str, attempt: int, rank: int) -> list[Action]:
        if (run, attempt) not in self._actions:
            found: dict[int, list[Action]] = {}
            if (run, attempt) in self._journal.scopes():
                for action in recording.actions(self._journal, run, attempt):
                    found.setdefault(action.rank, []).append(action)
            self._actions[run, attempt] = found
        return self._actions[run, attempt].get(rank, [])


def _canonical(record: Mapping[str, Any]) -> bytes | None:
    """Return the canonical bytes of a record without its signature, or nothing where provstore would not write it."""
    try:
        return emit.canonical_record({n: v for n, v in record.items() if n not in emit.SIGNATURE_MEMBERS})
    except (ConfigError, orjson.JSONEncodeError):
        return None


def _rank_of(listed: list[Any]) -> int | None:
    said = listed[0].get("training") if listed and isinstance(listed[0], dict) else None
    rank = said.get("rank") if isinstance(said, dict) else None
    return rank if type(rank) is int else None
