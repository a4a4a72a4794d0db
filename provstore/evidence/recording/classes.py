"""Side-effect classes: what an operation does to the state of the rank that calls it, as a table with a digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from provstore.errors import ConfigError
from provstore.model import canonical
from provstore.model.recording import CLASSES, MUTATE_EXTERNAL, MUTATE_LOCAL, NETWORK_EGRESS, READ, UNKNOWN

SOURCE, DESTINATION, OTHER = "source", "destination", "other"
ROLES = (SOURCE, DESTINATION, OTHER)
"""Of a rank in an operation that has a root: it gives what the others get, gets what the others give, or neither."""

_LIBRARY = re.compile(r"[a-z0-9_.+-]{1,64}::?(?=.)")
_RANKS = re.compile(r"(i?(?:send|recv)(?:_?any_?source)?) [0-9]{1,9}(?:->|<-)[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table: an operation, how it is spelled, and its class."""

    name: str
    side_effect_class: str
    """Where the role is not known: the strongest of its classes."""
    spellings: tuple[str, ...] = ()
    """Further names, as :func:`spelling` gives them."""
    by_role: Mapping[str, str] = field(default_factory=dict)
    without_tensors: str | None = None
    """Class of a call that was made without tensors, where that makes a difference."""


@dataclass(frozen=True, slots=True)
class Change:
    """A class that configuration set, and what it was before."""

    op: str
    side_effect_class: str
    was: str
    reason: str | None
    """Why it may be lower than it was."""


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Operations with their classes; what is not in it is unknown."""

    version: int
    operations: tuple[Operation, ...]
    changes: tuple[Change, ...] = ()
    """What configuration made of the table of this version."""
    _rows: Mapping[str, Operation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Lay out the rows by each of their spellings."""
        rows = {text: one for one in self.operations for text in (one.name, *one.spellings)}
        object.__setattr__(self, "_rows", rows)

    def row(self, op: object) -> Operation | None:
        """Return the row of an operation by any of its spellings; None for what is not known."""
        return self._rows.get(op) or self._rows.get(spelling(op)) if type(op) is str else None

    def document(self) -> bytes:
        """Return the table as canonical JSON."""
        operations: list[canonical.Json] = [
            {
                "by_role": {role: one.by_role[role] for role in ROLES if role in one.by_role},
                "class": one.side_effect_class,
                "name": one.name,
                "spellings": [*one.spellings],
                "without_tensors": one.without_tensors,
            }
            for one in self.operations
        ]
        changes: list[canonical.Json] = [
            {"class": one.side_effect_class, "op": one.op, "reason": one.reason, "was": one.was} for one in self.changes
        ]
        return canonical.encode({"changes": changes, "operations": operations, "schema": 1, "version": self.version})

    @property
    def digest(self) -> str:
        """SHA-256 of :meth:`document`, in hex."""
        return hashlib.sha256(self.document()).hexdigest()


TABLE = ClassTable(
    version=1,
    operations=(
        # NCCL has no barrier of its own: it is an all_reduce of one element that belongs to the library.
        Operation("barrier", READ, ("all_reduce_barrier",)),
        Operation("monitored_barrier", READ, ("monitoredbarrier",)),
        Operation("send", READ),
        Operation("isend", READ),
        Operation("recv", MUTATE_LOCAL, ("recv_anysource", "recv_any_source", "recvanysource")),
        Operation("irecv", MUTATE_LOCAL),
        Operation("broadcast", MUTATE_LOCAL, by_role={SOURCE: READ}),
        # Out of place: the root writes an output of its own too.
        Operation("_broadcast_oop", MUTATE_LOCAL),
        Operation(
            "gather", MUTATE_LOCAL, ("gather_into_tensor", "gather_single"), by_role={SOURCE: READ, OTHER: READ}
        ),
        Operation("scatter", MUTATE_LOCAL),
        # What the buffers of the ranks other than the root hold after it is not defined.
        Operation("reduce", MUTATE_LOCAL, ("_reduce_oop",)),
        Operation(
            "all_reduce",
            MUTATE_LOCAL,
            ("allreduce", "all_reduce_sparse", "allreduce_sparse", "_allreduce_sparse", "sparse_all_reduce",
             "_allreduce_base", "allreduce_base"),
        ),
        Operation("all_reduce_coalesced", MUTATE_LOCAL, ("allreduce_coalesced",)),
        Operation("all_gather", MUTATE_LOCAL, ("allgather",)),
        Operation(
            "all_gather_into_tensor",
            MUTATE_LOCAL,
            ("_all_gather_base", "all_gather_base", "_allgather_base", "allgather_base", "allgather_into_tensor",
             "all_gather_single", "all_gather_into_tensor_out"),
        ),
        Operation("all_gather_coalesced", MUTATE_LOCAL, ("allgather_coalesced",)),
        Operation(
            "all_gather_into_tensor_coalesced",
            MUTATE_LOCAL,
            ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"),
        ),
        Operation("reduce_scatter", MUTATE_LOCAL, ("reducescatter",)),
        Operation(
            "reduce_scatter_tensor",
            MUTATE_LOCAL,
            ("_reduce_scatter_base", "reduce_scatter_base", "_reducescatter_base", "reducescatter_base",
             "reduce_scatter_single", "reduce_scatter_tensor_out"),
        ),
        Operation("reduce_scatter_coalesced", MUTATE_LOCAL, ("reducescatter_coalesced",)),
        Operation(
            "reduce_scatter_tensor_coalesced",
            MUTATE_LOCAL,
            ("reducescatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
        ),
        Operation("all_to_all", MUTATE_LOCAL, ("alltoall",)),
        Operation(
            "all_to_all_single", MUTATE_LOCAL, ("alltoall_base", "all_to_all_base", "alltoall_single", "_alltoall_base")
        ),
        Operation("coalesced", MUTATE_LOCAL, without_tensors=READ),
        Operation("data.next_batch", READ),
        Operation("eval.step", READ),
        Operation("tensor.grad", READ),
        Operation("tensor.activation", READ),
        Operation("tensor.input", READ),
        Operation("optimizer.step", MUTATE_LOCAL),
        Operation("checkpoint.load", MUTATE_LOCAL),
        Operation("checkpoint.save", MUTATE_EXTERNAL),
        Operation("artifact.upload", NETWORK_EGRESS),
        Operation("model.push", NETWORK_EGRESS),
        Operation("metrics.push", NETWORK_EGRESS, ("metric.push",)),
        Operation("logs.push", NETWORK_EGRESS, ("log.push",)),
    ),
)  # fmt: skip
"""The classes of this version of the package."""


def spelling(op: str) -> str:
    """Return a recorded name as the table spells it: lower case, without library, ranks and the ``_`` of in place.

    A name that is not ASCII stays as it is: lower case joins letters that are not the same.
    """
    if not op.isascii():
        return op
    name = op.lower()
    library = _LIBRARY.match(name)
    name = name if library is None else name[library.end() :]
    ranks = _RANKS.fullmatch(name)
    name = name if ranks is None else ranks[1]
    return name.rstrip("_") or name


def side_effect_class(
    op: object,
    *,
    role: str | None = None,
    has_tensors: bool | None = None,
    leaves_run: bool = False,
    table: ClassTable = TABLE,
) -> str:
    """Return the class of an operation as this rank calls it.

    Args:
        op: Recorded name, with or without library; anything but a known name is unknown.
        role: One of :data:`ROLES`; None where no root was recorded, which gives the stronger class.
        has_tensors: Whether the call has tensors; None where that is not known.
        leaves_run: The call's group has a member that is no rank of this run.
        table: The table in force.

    Raises:
        ConfigError: There is no such role.
    """
    if role is not None and role not in ROLES:
        raise ConfigError(f"{role}: role: is none of {', '.join(ROLES)}")
    row = table.row(op)
    if row is None:
        return UNKNOWN
    if has_tensors is False and row.without_tensors is not None:
        found = row.without_tensors
    else:
        found = row.by_role.get(role, row.side_effect_class) if role is not None else row.side_effect_class
    return stronger(found, MUTATE_EXTERNAL) if leaves_run else found


def stronger(one: str, other: str) -> str:
    """Return the stronger of two classes."""
    return max(one, other, key=CLASSES.index)


def strongest(classes: Iterable[str]) -> str | None:
    """Return the strongest of some classes; None where there is none."""
    return max(classes, key=CLASSES.index, default=None)


def group_leaves_run(
    members: Iterable[int],
    run_ranks: Collection[int],
    *,
    names: Iterable[str] = (),
    external_groups: Collection[str] = (),
) -> bool:
    """Return whether calls on a group act outside the run.

    Args:
        members: Ranks of the group, in the numbering of the run.
        run_ranks: All ranks of the run.
        names: What the group is called: name, description.
        external_groups: Groups that the operator says lead out of the run.
    """
    return any(rank not in run_ranks for rank in members) or any(name in external_groups for name in names)


def extended(table: ClassTable, overrides: Mapping[str, str | Mapping[str, str]]) -> ClassTable:
    """Return the table with the classes that configuration sets, and a note of each.

    A class holds for every role of its operation. An operation that the table does not know is unknown, the strongest
    class, so that to know it is to lower it.

    Args:
        table: What is changed; it stays as it is.
        overrides: Operation → class, or ``{"class": …, "reason": …}``; a lower class needs the reason.

    Raises:
        ConfigError: A name, class or reason is missing or not known; the message names the operation.
    """
    operations = {one.name: one for one in table.operations}
    changes = list(table.changes)
    for op, said in overrides.items():
        wanted, reason = _stated(op, said)
        row = operations.get(known.name) if (known := table.row(op)) is not None else operations.get(spelling(op))
        present = [UNKNOWN] if row is None else _classes(row)
        if reason is None and any(CLASSES.index(wanted) < CLASSES.index(one) for one in present):
            raise ConfigError(
                f"{op}: side-effect class: {wanted} is lower than {max(present, key=CLASSES.index)}",
                hint="a lower class needs a written reason, which is stored",
            )
        name = spelling(op) if row is None else row.name
        plain = Operation(name, wanted) if row is None else replace(row, by_role={}, without_tensors=None)
        operations[name] = replace(plain, side_effect_class=wanted)
        changes.append(Change(name, wanted, max(present, key=CLASSES.index), reason))
    return ClassTable(table.version, tuple(operations.values()), tuple(changes))


def _classes(row: Operation) -> list[str]:
    without = [] if row.without_tensors is None else [row.without_tensors]
    return [row.side_effect_class, *row.by_role.values(), *without]


def _stated(op: str, said: str | Mapping[str, str]) -> tuple[str, str | None]:
    given = {"class": said} if isinstance(said, str) else dict(said)
    wanted, reason = given.pop("class", None), given.pop("reason", None)
    if not spelling(op) or op != op.strip():
        raise ConfigError(f"{op!r}: side-effect class: is no name of an operation")
    if given:
        raise ConfigError(f"{op}: side-effect class: {', '.join(map(repr, given))} is neither class nor reason")
    if wanted not in CLASSES:
        raise ConfigError(f"{op}: side-effect class: {wanted!r} is none of {', '.join(CLASSES)}")
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise ConfigError(f"{op}: side-effect class: the reason is empty")
    return wanted, reason
