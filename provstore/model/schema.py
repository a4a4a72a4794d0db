"""The vocabulary of the graph: every captured property, its type and what it means.

The journal's Parquet schema, the reference pages and the stores' column types are made from this table. No property is
named ``id``, ``title`` or ``type``: the embedded engine keeps those names for itself.
"""

from __future__ import annotations

from collections.abc import Mapping

PROPERTIES: Mapping[str, tuple[str, str]] = {
    "run": ("string", "run the fact belongs to"),
    "attempt": ("int64", "incarnation of the run, from 0"),
    "rank": ("int64", "global rank"),
    "backend": ("string", "library prefix of the calls: nccl, gloo, …"),
    "group": ("string", "process group as it stands in ids: name@ranks"),
    "seq": ("int64", "collective sequence number in the group"),
    "side": ("string", "in, out, or call for a call without tensors"),
    "record_id": ("int64", "recorder counter of the call's first entry; program order on one rank"),
    "last_record_id": ("int64", "counter of the call's last entry, when it has several"),
    "op_id": ("int64", "operation counter of this rank in the group"),
    "p2p_seq": ("int64", "send/receive counter of this rank in the group"),
    "after_seq": ("int64", "on a send or receive: number of the group's last collective before it"),
    "batch": ("int64", "record_id of the closing entry of a batched send/receive group"),
    "parts": ("int64", "entries folded into the call, when more than one"),
    "peer": ("int64", "global rank of the other end of a send or receive"),
    "signature": ("string", "key of the :Signature node: what was asked for"),
    "stack": ("string", "key of the :Stack node: where it was asked"),
    "created_ns": ("int64", "host wall clock when the call was enqueued, nanoseconds since 1970"),
    "started_ns": ("int64", "when the start was noticed"),
    "completed_ns": ("int64", "when the completion was noticed"),
    "duration_ms": ("double", "time on the device"),
    "is_started": ("bool", "true once a dump shows the start"),
    "is_completed": ("bool", "true once a dump shows the completion"),
    "is_retired": ("bool", "true once the call left the recorder's work list"),
    "thread": ("string", "id and name of the thread, when it is not the dump's usual one"),
    "raw_name": ("string", "operation as recorded"),
    "library": ("string", "prefix of the recorded name"),
    "op": ("string", "operation without prefix"),
    "channel": ("string", "collective, send or recv"),
    "input_sizes": ("string", "JSON list of shapes"),
    "output_sizes": ("string", "JSON list of shapes"),
    "input_dtypes": ("string", "JSON list of element types"),
    "output_dtypes": ("string", "JSON list of element types"),
    "timeout_ms": ("int64", "configured timeout"),
    "frames": ("string", "JSON list of [function, file, line], innermost first"),
    "user_frame": ("string", "file:line function of the innermost frame outside torch and the standard library"),
    "name": ("string", "name of a process group or file"),
    "desc": ("string", "description of a process group"),
    "ranks": ("list<int64>", "members of a process group, in group order"),
    "declared_by": ("string", "what states the members: pg_config, sidecar, nothing"),
    "sha256": ("string", "SHA-256 of a file's bytes"),
    "file": ("string", "path below the ingested folder, for display"),
    "size_bytes": ("int64", "size of a file"),
    "form": ("string", "pickle or json"),
    "version": ("string", "format version a file states"),
    "host": ("string", "host name, when a sidecar or file name states it"),
    "status": ("string", "ok, partial or refused"),
    "reason": ("string", "why a file was refused"),
    "dumped_at_ns": ("int64", "wall clock at the dump, from a sidecar"),
    "extra": ("string", "JSON of what has no column of its own"),
    "scope": ("string", "run/attempt of a derived relationship"),
    "basis": ("string", "how a derived relationship was found: exact, aligned, inferred, declared"),
    "jseq": ("int64", "position in a journal up to which the graph holds its facts"),
    "key": ("string", "unique key of a node outside :Element"),
    "iri": ("string", "unique key of an :Element"),
    "declared": ("bool", "false for an element that is only referred to"),
}
"""Property → (type, meaning). Types: string, int64, double, bool, list<int64>, list<string>."""
