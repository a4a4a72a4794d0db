"""Flight Recorder records as the readers give them: one ``Dump`` a file, its calls in columns, one row a call.

Columns are ``array.array`` so that a worker can send them as bytes and numpy can view them without a copy. ``ABSENT``
(−1) stands for "not stated" in every integer column: no stated value of these columns is negative.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ABSENT = -1

SCHEDULED, STARTED, COMPLETED = 0, 1, 2
STATE_NAMES = ("scheduled", "started", "completed")

COLLECTIVE, SEND, RECV = 0, 1, 2
CHANNEL_NAMES = ("collective", "send", "recv")

INTEGER_COLUMNS = (
    "record_id",
    "last_record_id",
    "group",
    "seq",
    "p2p_seq",
    "op_id",
    "channel",
    "peer",
    "signature",
    "stack",
    "state",
    "retired",
    "created_ns",
    "started_ns",
    "completed_ns",
    "pg_id",
    "thread",
    "batch",
    "parts",
)


def _integers() -> array[int]:
    return array("q")


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one dump, oldest first, one row a call; all columns have the same length.

    A coalesced collective is one row (its inner operations are ``parts``); every send and receive is a row of its own.
    """

    record_id: array[int] = field(default_factory=_integers)
    """This rank's recorder counter of the call's first entry; program order. The list index where none is stated."""
    last_record_id: array[int] = field(default_factory=_integers)
    """``record_id`` of the call's last entry (its closing entry); equal to ``record_id`` unless coalesced."""
    group: array[int] = field(default_factory=_integers)
    """Index into ``Dump.groups``."""
    seq: array[int] = field(default_factory=_integers)
    """``collective_seq_id`` (formats below 2.1: ``seq_id``); on a p2p row the number of the last collective."""
    p2p_seq: array[int] = field(default_factory=_integers)
    op_id: array[int] = field(default_factory=_integers)
    channel: array[int] = field(default_factory=_integers)
    """``COLLECTIVE``, ``SEND`` or ``RECV``."""
    peer: array[int] = field(default_factory=_integers)
    """Global rank of the other end of a send or receive; ``ABSENT`` when the group's members are not declared."""
    signature: array[int] = field(default_factory=_integers)
    """Index into ``Dump.signatures``."""
    stack: array[int] = field(default_factory=_integers)
    """Index into ``Dump.stacks``, or ``ABSENT``."""
    state: array[int] = field(default_factory=_integers)
    """``SCHEDULED``, ``STARTED`` or ``COMPLETED``; of the closing entry for a coalesced call and its parts."""
    retired: array[int] = field(default_factory=_integers)
    """0 or 1."""
    created_ns: array[int] = field(default_factory=_integers)
    started_ns: array[int] = field(default_factory=_integers)
    completed_ns: array[int] = field(default_factory=_integers)
    pg_id: array[int] = field(default_factory=_integers)
    """The process-local number of the group; comparable on one rank only."""
    thread: array[int] = field(default_factory=_integers)
    """Index into ``Dump.threads``, or ``ABSENT``."""
    batch: array[int] = field(default_factory=_integers)
    """``record_id`` of the closing entry of the batched p2p group the row belongs to, else ``ABSENT``."""
    parts: array[int] = field(default_factory=_integers)
    """How many entries were folded into the row, closing entry not counted; 1 for a plain call."""
    duration_ms: array[float] = field(default_factory=lambda: array("d"))
    """GPU time; NaN when not stated."""

    def __len__(self) -> int:
        return len(self.record_id)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call asked for; equal calls share one."""

    raw_name: str
    """``profiling_name`` as recorded, such as ``nccl:send 0->3``."""
    library: str
    """Prefix of ``raw_name``, such as ``nccl``; ``unknown`` when there is none."""
    op: str
    """Operation without prefix and without ranks: ``all_reduce``, ``send``; common respellings folded."""
    input_sizes: tuple[tuple[int, ...], ...]
    output_sizes: tuple[tuple[int, ...], ...]
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    timeout_ms: int = ABSENT


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame."""

    name: str
    filename: str
    line: int


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as one dump or sidecar states it."""

    name: str
    desc: str
    ranks: tuple[int, ...] | None
    """Global ranks in group-local order; ``None`` when nothing declares them."""
    backend: str
    """Library prefix of the group's calls; of the dump's only backend for a group without calls; else ``""``."""
    declared_by: str = "nothing"
    """``pg_config``, ``sidecar`` or ``nothing``."""
    pg_id: int = ABSENT
    batched_p2p: bool = False
    """Some entries of this file belong to a batch of sends and receives in this group."""
    last_enqueued: int = ABSENT
    """From ``pg_status``, in the recorder's own unit (gloo: ``op_id``); ``ABSENT`` when the table cannot be linked."""
    last_started: int = ABSENT
    last_completed: int = ABSENT


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One entry that was set aside, with its raw value kept."""

    index: int
    field: str
    reason: str
    raw: str
    """JSON or ``repr`` text of the entry, cut at 4 KiB."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What the capture helper, or a bare list of groups, states beside a dump."""

    digest: str
    rank: int
    run: str | None = None
    attempt: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    torch_version: str | None = None
    reason: str | None = None
    still_ns: int | None = None
    """For how long nothing had moved, where the capture helper's watcher dumped because of that."""
    still_limit_ns: int | None = None
    """After how long the watcher was told to dump."""
    dumped_at_ns: int | None = None
    monotonic_ns: int | None = None
    device: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    errors: tuple[str, ...] = ()
    file: str = ""
    path: str = ""
    """As in :class:`Dump`."""


@dataclass(frozen=True, slots=True)
class Dump:
    """One dump of one recorder of one rank."""

    file: str
    """Path below the given folder; for display only, never part of an id."""
    digest: str
    """SHA-256 of the file's bytes, 64 hex digits."""
    size_bytes: int
    form: str
    """``pickle`` or ``json``."""
    version: str | None
    rank: int
    backend: str
    """Library prefix of its calls; ``""`` for a dump without entries."""
    calls: Calls
    groups: tuple[Group, ...]
    signatures: tuple[Signature, ...]
    stacks: Sequence[tuple[Frame, ...]]
    """Distinct stacks, innermost frame first; a reader may build them on first use."""
    threads: tuple[tuple[str, str], ...] = ()
    """(thread_id, thread_name)."""
    host: str | None = None
    comm_lib_version: str | None = None
    entry_count: int = 0
    wrapped: bool = False
    active_only: bool = False
    eventless: bool = False
    """The backend never reports completion events: only ``retired`` tells anything (FR 8.1)."""
    seq_comparable: bool = True
    """False for formats below 2.1, whose numbers must not be compared between ranks."""
    record_ids_stated: bool = True
    quarantined: tuple[Quarantined, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
    """Unknown top-level keys, and unknown entry keys as ``{"entries": {record_id: {...}}}``; JSON values."""
    sidecar: Sidecar | None = None
    path: str = ""
    """Where the file was read from; never stored and never part of an answer."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that was meant as evidence and could not be used, or a stray one that was skipped."""

    file: str
    reason: str
    digest: str | None = None
    size_bytes: int | None = None
    rank: int | None = None
    """When the file name tells it."""
    path: str = ""
    skipped: bool = False
    """True for a stray file that was never meant as a dump; it takes no part in the diagnosis."""
    is_understood: bool = True
    """False where it is of a version that is not known here."""


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """Whether the values one rank put into, or got from, one call were finite."""

    rank: int
    group: str
    """Group name."""
    seq: int
    side: str
    """``in`` or ``out``."""
    finite: bool
    nan_count: int = 0
    inf_count: int = 0


@dataclass(frozen=True, slots=True)
class DumpSet:
    """Everything one attempt of one run left behind: the input of a diagnosis."""

    run: str
    attempt: int
    dumps: Sequence[Dump]
    refusals: Sequence[Refusal] = ()
    tensors: Sequence[TensorRecord] = ()
