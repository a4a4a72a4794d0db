"""The order of recorded actions: on each rank, and across ranks through the instances that they share; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from provstore.model.action import Action


class ActionOrder:
    """Actions with their order: by rank, and by the instance that several ranks share."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self.actions = actions
        self.by_id = {one.action_id: one for one in actions}
        self.ranks: dict[int, list[Action]] = defaultdict(list)
        self.instances: dict[str, list[Action]] = defaultdict(list)
        for one in actions:
            self.ranks[one.rank].append(one)
            if one.chain is not None:
                self.instances[one.chain].append(one)
        self._position: dict[str, int] = {}

    def after(self, names: Iterable[str]) -> set[str]:
        """Return the ids of the actions that come after some, on their ranks and through shared instances."""
        reached = self._reached(names)
        return {row.action_id for rank, at in reached.items() for row in self.ranks[rank][at:]}

    def ranks_after(self, name: str) -> set[int]:
        """Return the ranks of the actions that come after one."""
        return set(self._reached((name,), ranks_only=True))

    def _reached(self, names: Iterable[str], *, ranks_only: bool = False) -> dict[int, int]:
        """Return each rank that is reached from some actions, and the place in its order from which it is.

        Places may be too late where only the ranks are asked for: the search ends when all of them are found.
        """
        if not self._position:
            self._position = {one.action_id: at for rows in self.ranks.values() for at, one in enumerate(rows)}
        position, found, gone = self._position, dict[int, int](), dict[int, int]()
        waiting = [(self.by_id[name].rank, position[name]) for name in names if name in self.by_id]
        while waiting:
            rank, at = waiting.pop()
            rows = self.ranks[rank]
            until = gone.get(rank, len(rows))
            if at >= until:
                continue
            gone[rank], found[rank] = at, min(at, found.get(rank, at))
            for row in rows[at:until]:
                for other in self.instances[row.chain] if row.chain is not None else ():
                    place = position[other.action_id]
                    if other.rank != rank and place < found.get(other.rank, len(position)):
                        found[other.rank] = place
                        waiting.append((other.rank, place))
                if ranks_only and len(found) == len(self.ranks):
                    return found
        return found
