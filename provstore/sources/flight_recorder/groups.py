"""Process groups of one dump: who is in them, what the recorder's status says of them, and whether this rank fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from provstore.sources.flight_recorder.entries import Entries
from provstore.sources.flight_recorder.faults import Odd, Refused, shown
from provstore.sources.flight_recorder.shapes import ABSENT, SEND, Caps, text

_STATUS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
_FIRST_MADE = 0


class Declared:
    """One group as ``pg_config`` or a sidecar states it."""

    __slots__ = ("backends", "desc", "name", "ranks", "source")

    def __init__(self, name: str, desc: str, ranks: list[int] | None, source: str, backends: str = "") -> None:
        self.name = name
        self.desc = desc
        self.ranks = ranks
        self.source = source
        self.backends = backends


def parse_ranks(value: object, place: str, caps: Caps) -> list[int]:
    """Return the ranks of a group from a list, or from its text ``"[0, 1]"``, which is read and never evaluated.

    Raises:
        Refused: Not a list of distinct ranks, or a longer one than any group can have.
    """
    most = caps.ranks
    if isinstance(value, str):
        if len(value) > 9 * most:
            raise Refused(f"{place}: a text of {len(value)} characters: no group has more than {most} ranks")
        body = value.strip()
        if not (body.isascii() and body.startswith("[") and body.endswith("]")):
            raise Refused(f"{place}: {shown(value)} is not a list of ranks")
        parts = [part.strip(" ") for part in body[1:-1].split(",")] if body[1:-1].strip() else []
        if not all(part.isdigit() and len(part) <= 19 for part in parts):
            raise Refused(f"{place}: {shown(value)} is not a list of ranks")
        ranks = list(map(int, parts))
    elif isinstance(value, list | tuple) and {*map(type, value)} <= {int}:
        ranks = list(value)
    else:
        raise Refused(f"{place}: {shown(value)} is not a list of ranks")
    if len(ranks) > most or (ranks and not 0 <= min(ranks) <= max(ranks) < most):
        raise Refused(f"{place}: {shown(value)}: ranks lie between 0 and {most - 1}")
    if len({*ranks}) != len(ranks):
        raise Refused(f"{place}: {shown(value)} names a rank twice")
    return ranks


def read_config(value: object, caps: Caps) -> list[Declared]:
    """Return the groups of ``pg_config``; format 1.4 has ``{pg_id: [ranks]}``.

    Raises:
        Refused: Not a table of groups.
    """
    if value is None:
        return []
    if not isinstance(value, dict) or len(value) > caps.groups:
        raise Refused(f"pg_config: {shown(value)} is not a table of at most {caps.groups} groups")
    groups = []
    for key, stated in value.items():
        place = f"pg_config[{shown(key)}]"
        if isinstance(stated, list | tuple | str):
            groups.append(
                Declared(_text(str(key)[:32], place, caps), "", parse_ranks(stated, place, caps), "pg_config")
            )
            continue
        if not isinstance(stated, dict):
            raise Refused(f"{place}: {shown(stated)} is not a group")
        name = _text(stated.get("name", key), f"{place}.name", caps)
        desc = _text(stated.get("desc", ""), f"{place}.desc", caps)
        ranks = parse_ranks(stated.get("ranks", "[]"), f"{place}.ranks", caps)
        groups.append(Declared(name, desc, ranks, "pg_config"))
    return groups


def _text(value: object, place: str, caps: Caps) -> str:
    try:
        return text(value, place, caps.string)
    except Odd as odd:
        raise Refused(str(odd)) from odd


def read_status(value: object, warnings: list[str]) -> dict[int, tuple[int, int, int]]:
    """Return ``pg_status`` by pg_id: last enqueued, started and completed; JSON has the counters as strings."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        warnings.append(f"pg_status: {shown(value)} is not a table: ignored")
        return {}
    table = {}
    for key, stated in value.items():
        pg_id = _number(key)
        counters = [_number(stated.get(name, ABSENT)) for name in _STATUS] if isinstance(stated, dict) else [None]
        if pg_id is None or None in counters:
            warnings.append(f"pg_status[{shown(key)}]: {shown(stated)} is not a set of counters: ignored")
            continue
        table[pg_id] = counters[0], counters[1], counters[2]
    return table  # type: ignore[return-value]


def _number(value: object) -> int | None:
    if type(value) is str and len(value) < 20 and value.removeprefix("-").isdecimal() and value.isascii():
        value = int(value)
    return value if type(value) is int and ABSENT <= value < 1 << 63 else None


class GroupTable:
    """All groups of one dump: first those of its entries, in the order of their first entry, then the others."""

    def __init__(self, entries: Entries, rank: int, config: Sequence[Declared], sidecar: Sequence[Declared]) -> None:
        self.rank = rank
        self.used = list(entries.shapes.groups)
        """(name, desc, pg_id) of the groups that have entries."""
        self.warnings: list[str] = []
        config = _usable(config, self.used)
        self._declared = _first_by_name([*config, *sidecar], self.warnings)
        newest: dict[str, int] = {}
        for name, _, pg_id in self.used:
            newest[name] = max(pg_id, newest.get(name, ABSENT))
        self.declared = [self._declared_for(name, is_newest=newest[name] == pg_id) for name, _, pg_id in self.used]
        named = {group.name for group in self.declared if group}
        self.unused = [group for group in self._declared.values() if group.name not in named]
        self._order = sorted(config or sidecar, key=_creation) if _are_numbers(config or sidecar) else []

    def _declared_for(self, name: str, *, is_newest: bool) -> Declared | None:
        """Return who declares a group; of several groups with one name only the newest is the declared one."""
        if not is_newest:
            self.warnings.append(
                f"group {shown(name)}: several groups of this rank have this name: only the last is declared"
            )
            return None
        return self._declared.get(name)

    def check_rank(self) -> None:
        """Hold the rank against every declared group.

        Raises:
            Refused: The rank is not a member; the message says which ranks would fit.
        """
        declared = [group for group in [*self.declared, *self.unused] if group and group.ranks]
        for group in declared:
            if self.rank not in group.ranks:  # type: ignore[operator]
                fitting = set.intersection(*[{*other.ranks} for other in declared])  # type: ignore[misc]
                raise Refused(
                    f"rank {self.rank} is expected from the file's name, but its group {shown(group.name)} "
                    f"({group.source}) has the ranks {_ranks_text(group.ranks)}; {_fitting_text(fitting)}"
                )

    def peers(self, entries: Entries) -> list[int]:
        """Return the global rank of the other end of each shape's send or receive.

        Raises:
            Refused: A send or receive that another rank must have recorded.
        """
        peers = []
        for shape in entries.shapes.shapes:
            group = self.declared[shape.group]
            if shape.local is None or group is None or not group.ranks:
                peers.append(ABSENT)
                continue
            own, peer = shape.local
            ranks = group.ranks
            what = f"{'send' if shape.channel == SEND else 'recv'} of position {own} in group {shown(group.name)}"
            if max(own, peer) >= len(ranks):
                raise Refused(f"{what}: position {max(own, peer)} does not exist: the group has {len(ranks)} members")
            if ranks[own] != self.rank:
                raise Refused(
                    f"rank {self.rank} is expected from the file's name, but a {what} is rank {ranks[own]}'s; "
                    f"{_fitting_text({ranks[own]})}"
                )
            peers.append(ranks[peer])
        return peers

    def rows(
        self, libraries: Mapping[int, str], backend: str, status: Mapping[int, tuple[int, int, int]], batched: set[int]
    ) -> list[list[object]]:
        """Return the fields of ``model.dump.Group``, one list a group, without status where it cannot be linked.

        Args:
            libraries: Index of a group with entries → library prefix of its calls.
            backend: The dump's only library, or ``""``.
            status: As :func:`read_status` gives it.
            batched: Indexes of the groups with batched sends or receives.
        """
        guessed = self._pg_ids_in_creation_order(status)
        rows: list[list[object]] = []
        for at, (name, desc, pg_id) in enumerate(self.used):
            group = self.declared[at]
            ranks, source = (group.ranks, group.source) if group and group.ranks else (None, "nothing")
            counters = status.get(pg_id, (ABSENT,) * 3)
            # Every entry of a group may have been set aside; then nothing states its library.
            library = libraries.get(at, backend)
            rows.append([name, desc, ranks, library, source, pg_id, at in batched, *counters])
        for group in self.unused:
            pg_id = guessed.get(group.name, ABSENT)
            counters = status.get(pg_id, (ABSENT,) * 3)
            source = group.source if group.ranks else "nothing"
            library = backend if _may_use(group.backends, backend) else ""
            rows.append([group.name, group.desc, group.ranks or None, library, source, pg_id, False, *counters])
        return rows

    def _pg_ids_in_creation_order(self, status: Mapping[int, tuple[int, int, int]]) -> dict[str, int]:
        """Return pg_ids by name: the i-th name in numeric order is the i-th pg_id, if the entries do not contradict."""
        if len(self._order) != len(status):
            return {}
        guessed = {group.name: pg_id for group, pg_id in zip(self._order, sorted(status))}
        agrees = all(guessed.get(name, pg_id) == pg_id for name, _, pg_id in self.used if pg_id in status)
        return guessed if agrees else {}


def _usable(config: Sequence[Declared], used: Sequence[tuple[str, str, int]]) -> list[Declared]:
    """Return the groups of ``pg_config`` that can be trusted.

    Gloo writes one group with an empty name: the last one that was made. Its ranks are those of the default group, the
    first that a process makes, only if the file knows no other group.
    """
    if len(used) != 1 or used[0][2] != _FIRST_MADE:
        return [group for group in config if group.name]
    name, desc, _ = used[0]
    return [
        group if group.name else Declared(name, desc, group.ranks, group.source)
        for group in config
        if group.name or group.ranks
    ]


def _first_by_name(groups: Iterable[Declared], warnings: list[str]) -> dict[str, Declared]:
    """Return groups by name: ``pg_config`` before the sidecar, an empty list of ranks giving way to a stated one."""
    table: dict[str, Declared] = {}
    for group in groups:
        known = table.get(group.name)
        if known is None or not known.ranks or known.source == group.source:
            table[group.name] = group
        elif group.ranks and {*group.ranks} != {*known.ranks}:
            warnings.append(
                f"group {shown(group.name)}: pg_config and the sidecar name different ranks: sidecar ignored"
            )
    return table


def _are_numbers(groups: Iterable[Declared]) -> bool:
    return all(group.name.isdecimal() and group.name.isascii() and len(group.name) < 19 for group in groups)


def _creation(group: Declared) -> int:
    return int(group.name)


def _may_use(backend_config: str, backend: str) -> bool:
    """Return whether ``cpu:gloo,cuda:nccl`` may be recorded by ``backend``; nothing stated may be anything."""
    libraries = [part.rpartition(":")[2] for part in backend_config.lower().split(",") if part]
    return not libraries or any(library.startswith(backend) or backend.startswith(library) for library in libraries)


def _ranks_text(ranks: list[int] | None) -> str:
    ranks = ranks or []
    return shown(ranks) if len(ranks) <= 8 else f"[{ranks[0]}, {ranks[1]}, … {ranks[-1]}] ({len(ranks)} ranks)"


def _fitting_text(fitting: set[int]) -> str:
    if len(fitting) == 1:
        return f"it is the dump of rank {min(fitting)}"
    if 1 < len(fitting) <= 8:
        return f"it is the dump of one of the ranks {shown(sorted(fitting))}"
    return "no rank is in all its groups" if not fitting else "it is another rank's dump"


class Libraries:
    """Library prefixes of the calls of one dump."""

    def __init__(self, entries: Entries) -> None:
        times: dict[tuple[int, str], int] = {}
        rows = entries.shapes.signatures.rows
        for shape, count in zip(entries.shapes.shapes, entries.shape_counts()):
            key = shape.group, rows[shape.signature][1]
            times[key] = times.get(key, 0) + count
        total: Counter[str] = Counter()
        for (_, library), count in times.items():
            total[library] += count
        self.all = sorted(total)
        self.main = max(self.all, key=total.__getitem__, default="")
        """The most frequent prefix."""
        self.by_group: dict[int, str] = {}
        """Index of a group → the most frequent prefix of its calls."""
        for (group, library), _ in sorted(times.items(), key=lambda item: (item[1], item[0])):
            self.by_group[group] = library
