"""Which runs share a trace, found by the spellings of its id instead of by comparing every run with every other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

from provstore.analysis.join.trace_ids import ORDER, STRENGTH, WEAK, aliases

MOST_IN_PAIRS = 500
"""Runs of one trace that are each joined with every other; of more, whose pairs nobody reads, each with the next."""


class TraceIndex:
    """Runs by every spelling of the trace ids that they give.

    Args:
        said: Names of runs, each once, with their ids.
    """

    def __init__(self, said: Iterable[tuple[str, Sequence[str]]]) -> None:
        self._keys = {name: spellings(ids) for name, ids in said}
        self._runs: dict[str, list[str]] = {}
        self._surely: set[str] = set()
        """Spellings that some run has by a rule that is no hint."""
        for name, keys in self._keys.items():
            for key, rule in keys.items():
                self._runs.setdefault(key, []).append(name)
                if STRENGTH[rule] != WEAK:
                    self._surely.add(key)

    def keys(self, name: str) -> dict[str, str]:
        """Return the spellings of a run's ids, each with the strongest rule that makes it."""
        return self._keys[name]

    def runs(self, key: str) -> Sequence[str]:
        """Return the runs of which an id has this spelling."""
        return self._runs.get(key, ())

    def meeting(self, keys: dict[str, str]) -> dict[str, str]:
        """Return the runs that have any of some spellings, each with the strongest rule by which they meet."""
        found: dict[str, str] = {}
        for key, rule in keys.items():
            for name in self.runs(key):
                met = weaker(rule, self._keys[name][key])
                found[name] = min(found.get(name, met), met, key=ORDER.index)
        return found

    def meets_surely(self, keys: dict[str, str]) -> bool:
        """Return whether any run meets some spellings by more than a hint."""
        return any(STRENGTH[rule] != WEAK and key in self._surely for key, rule in keys.items())

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs of runs that share a trace, in the order of their names, each once.

        Where a trace has very many runs, each is paired with one that has the id by a rule that is no weaker, so that
        they hold together by the same rules as if all pairs were there.
        """
        seen: set[tuple[str, str]] = set()
        for key, names in self._runs.items():
            if len(names) <= MOST_IN_PAIRS:
                found: Iterable[tuple[str, str]] = combinations(names, 2)
            else:
                ranked = sorted((ORDER.index(self._keys[name][key]), name) for name in names)
                found = pairwise(name for _, name in ranked)
            for one, other in found:
                pair = (one, other) if one < other else (other, one)
                if pair not in seen:
                    seen.add(pair)
                    yield pair


def spellings(ids: Iterable[str]) -> dict[str, str]:
    """Return every spelling of some trace ids, each with the strongest rule that makes it of any."""
    found: dict[str, str] = {}
    for raw in ids:
        for alias in aliases(raw):
            found[alias.key] = min(found.get(alias.key, alias.rule), alias.rule, key=ORDER.index)
    return found


def best(left: dict[str, str], right: dict[str, str]) -> str | None:
    """Return the strongest rule by which any two ids with these spellings mean one trace."""
    rules = [weaker(rule, right[key]) for key, rule in left.items() if key in right]
    return min(rules, key=ORDER.index, default=None)


def weaker(one: str, other: str) -> str:
    """Return the weaker of two rules: a join is worth as much as that."""
    return max(one, other, key=ORDER.index)
