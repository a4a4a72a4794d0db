"""Records: one builder a kind that gives the canonical line, and the strict reading of any line.

A builder takes what varies; run, attempt and ``n`` come first. ``n`` counts the records of that rank (or of the
collector, rank ``None``) in this attempt, from 0, without gaps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from provstore.errors import InputError, NotUnderstoodError, TrustError
from provstore.evidence import keys, record_shapes, stated
from provstore.evidence.shape_checks import is_values
from provstore.model import canonical, evidence
from provstore.model.canonical import Json
from provstore.model.evidence import AgreedDigest, Observation, Scalar
from provstore.model.recording import Escalation
from provstore.model.signals import SeenSignal

MAX_LINE_BYTES = canonical.MAX_RECORD_BYTES

# The common members are checked at once, and lists of named values are right by the way they are built.
_OWN_CHECKS = {
    kind: tuple((name, holds) for name, holds in checks.items() if holds is not is_values)
    for kind, checks in record_shapes.OWN.items()
}


def ingest(
    run: str,
    attempt: int,
    n: int,
    *,
    batch: int,
    source: Mapping[str, Json] | None,
    facts: Mapping[str, Json],
    quarantined: int = 0,
    mode: str = evidence.MODES[0],
    reason: str = "",
    rank: int | None = None,
    at_ns: int | None = None,
) -> bytes:
    """Return the record of an ingested file.

    Args:
        run: The run.
        attempt: Its incarnation.
        n: Number among the records of the rank, or of the collector.
        batch: Number of the journal batch that holds the facts.
        source: ``element`` (id of the node that describes the file), ``kept``, ``reader``, ``sha256``, ``size``,
            ``version``; ``None`` when there was no file.
        facts: ``encoding``, ``rows``, ``sha256`` of the batch.
        quarantined: Entries of the file that were set aside.
        mode: Recording mode of the policy in force.
        reason: Why it is in force.
        rank: Whose file it is, when it is one rank's.
        at_ns: Wall clock, nanoseconds since 1970.

    Raises:
        InputError: A value that no record can hold.
    """
    own: dict[str, Json] = {
        "batch": batch,
        "facts": dict(facts),
        "policy": {"mode": mode, "reason": reason},
        "quarantined": quarantined,
        "source": None if source is None else dict(source),
    }
    return _line(evidence.INGEST, (run, attempt, n), rank, at_ns, own)


def observation(run: str, attempt: int, n: int, said: Observation) -> bytes:
    """Return the record of something the run states about itself."""
    own: dict[str, Json] = {"name": said.name, "step": said.step, "values": _named(said.values)}
    return _line(evidence.OBSERVATION, (run, attempt, n), said.rank, said.at_ns, own)


def digest(run: str, attempt: int, n: int, said: AgreedDigest) -> bytes:
    """Return the record of a digest that several ranks must agree on."""
    own: dict[str, Json] = {
        "name": said.name,
        "ranks": [*sorted(said.ranks)],
        "sha256": said.sha256,
        "step": said.step,
    }
    return _line(evidence.DIGEST, (run, attempt, n), said.rank, said.at_ns, own)


def policy(
    run: str,
    attempt: int,
    n: int,
    *,
    mode: str,
    reason: str,
    document: Mapping[str, Scalar],
    rank: int | None = None,
    at_ns: int | None = None,
) -> bytes:
    """Return the record of a recording policy that is in force from here."""
    own: dict[str, Json] = {"document": _named(document), "mode": mode, "reason": reason}
    return _line(evidence.POLICY, (run, attempt, n), rank, at_ns, own)


def rank_certificate(
    run: str, attempt: int, n: int, *, certified: int, public: bytes, at_ns: int | None = None
) -> bytes:
    """Return the record by which the run's key names the key of a rank."""
    own: dict[str, Json] = {"certified": certified, "keyid": keys.fingerprint(public), "public": public.hex()}
    return _line(evidence.RANK_CERTIFICATE, (run, attempt, n), None, at_ns, own)


def key_rotation(run: str, attempt: int, n: int, *, old: bytes, new: bytes, at_ns: int | None = None) -> bytes:
    """Return the record that announces another signing key; both are public keys."""
    own: dict[str, Json] = {"new": keys.fingerprint(new), "old": keys.fingerprint(old), "public": new.hex()}
    return _line(evidence.KEY_ROTATION, (run, attempt, n), None, at_ns, own)


def recovery(
    run: str,
    attempt: int,
    n: int,
    *,
    cause: str,
    details: Mapping[str, Scalar],
    rank: int | None = None,
    at_ns: int | None = None,
) -> bytes:
    """Return the record of a recovery after an accident."""
    own: dict[str, Json] = {"cause": cause, "details": _named(details)}
    return _line(evidence.RECOVERY, (run, attempt, n), rank, at_ns, own)


def gap(
    run: str,
    attempt: int,
    n: int,
    *,
    cause: str,
    lost: int,
    since: int | None = None,
    rank: int | None = None,
    at_ns: int | None = None,
) -> bytes:
    """Return the record of records that could not be kept; ``since`` is the first that is lost, where known."""
    own: dict[str, Json] = {"cause": cause, "from": since, "lost": lost}
    return _line(evidence.GAP, (run, attempt, n), rank, at_ns, own)


def run_close(
    run: str, attempt: int, n: int, *, reason: str, records: int, batches: int, at_ns: int | None = None
) -> bytes:
    """Return the last record of a run: why it ended, and the records and batches before this one."""
    own: dict[str, Json] = {"batches": batches, "reason": reason, "records": records}
    return _line(evidence.RUN_CLOSE, (run, attempt, n), None, at_ns, own)


def epoch_bundle(run: str, attempt: int, n: int, *, at_ns: int | None, own: Mapping[str, Json]) -> bytes:
    """Return the record of a training epoch; ``own`` comes from :mod:`provstore.evidence.epoch_bundles`."""
    return _line(evidence.EPOCH_BUNDLE, (run, attempt, n), None, at_ns, dict(own))


def epoch_link(
    run: str,
    attempt: int,
    n: int,
    *,
    bundle: str,
    prev: str | None,
    epochs: Sequence[tuple[int, str]] = (),
    aep: bytes | None = None,
    aep_prev: str | None = None,
) -> bytes:
    """Return the record that says where an epoch's bundle stands.

    Args:
        run: The run.
        attempt: Its incarnation.
        n: Number among the records of the collector.
        bundle: Digest of the bundle.
        prev: Digest of the bundle of this run that was recorded before it.
        epochs: Number and SHA-256 of the epoch file of the signed evidence epochs that hold its records, where they
            were signed before this record.
        aep: The agent record of the epoch, byte for byte; kept as a blob.
        aep_prev: What that record is chained to.
    """
    own: dict[str, Json] = {
        "aep": None if aep is None else hashlib.sha256(aep).hexdigest(),
        "aep_bytes": 0 if aep is None else len(aep),
        "aep_prev": aep_prev,
        "bundle": bundle,
        "evidence_epochs": [{"number": number, "sha256": sha256} for number, sha256 in epochs],
        "prev": prev,
    }
    return _line(evidence.EPOCH_LINK, (run, attempt, n), None, None, own)


def escalation(
    run: str, attempt: int, n: int, said: Escalation, *, event: str, rank: int | None, at_ns: int | None = None
) -> bytes:
    """Return the record of an escalation that was opened, extended or closed."""
    own: dict[str, Json] = {
        "close_reason": said.close_reason,
        "closed_ns": None if said.closed_ns is None else canonical.tag_integer(said.closed_ns),
        "closed_step": said.closed_step,
        "event": event,
        "evidence": list(said.evidence),
        "latched": said.latched,
        "number": said.number,
        "opened_ns": canonical.tag_integer(said.opened_ns),
        "opened_step": said.opened_step,
        "reason": said.reason,
        "rule": said.rule,
        "scope": said.scope,
        "source": said.source,
        "threshold": None if said.threshold is None else canonical.tag_double(said.threshold),
        "trigger": said.trigger,
        "value": None if said.value is None else canonical.tag_double(said.value),
    }
    return _line(evidence.ESCALATION, (run, attempt, n), rank, at_ns, own)


def capture_fault(
    run: str, attempt: int, n: int, *, rank: int, place: str, error: str, count: int, at_ns: int | None
) -> bytes:
    """Return the record of something that failed while a run was recorded; ``count`` times so far."""
    own: dict[str, Json] = {"count": count, "error": error, "place": place}
    return _line(evidence.CAPTURE_FAULT, (run, attempt, n), rank, at_ns, own)


def external_signal(run: str, attempt: int, n: int, said: SeenSignal, *, file: tuple[str, int]) -> bytes:
    """Return the record of what was seen beside a job; ``file`` is SHA-256 and size of the bytes that hold its line."""
    own: dict[str, Json] = {
        "because": said.because,
        "code": said.code,
        "device": said.device,
        "file": {"bytes": file[1], "sha256": file[0]},
        "host": said.host,
        "line": said.line,
        "offset": said.offset,
        "opens": said.opens,
        "ranks": None if said.ranks is None else [*said.ranks],
        "scope": said.scope,
        "seen_ns": canonical.tag_integer(said.seen_ns),
        "source": said.source,
        "step": said.step,
        "text": said.text,
        "trigger": said.trigger,
        "values": _named(said.values),
        "what": said.what,
    }
    return _line(evidence.EXTERNAL_SIGNAL, (run, attempt, n), None, said.at_ns, own)


def control(
    run: str,
    attempt: int,
    n: int,
    *,
    what: str,
    state: str,
    scope: str | None = None,
    reason: str | None = None,
    who: str | None = None,
    at_ns: int | None = None,
) -> bytes:
    """Return the record of what an operator ordered.

    Args:
        run: The run; ``""`` for an order about the whole store.
        attempt: Its incarnation.
        n: Number among the records of the collector.
        what: ``safe-mode``, ``escalation``, …
        state: ``on``, ``off``, ``opened``, ``closed``, …
        scope: What it is about.
        reason: As the operator wrote it.
        who: User and host.
        at_ns: Wall clock, nanoseconds since 1970.
    """
    own: dict[str, Json] = {"reason": reason, "scope": scope, "state": state, "what": what, "who": who}
    return _line(evidence.CONTROL, (run, attempt, n), None, at_ns, own)


def parse(line: bytes) -> dict[str, Any]:
    """Return the members of a record line, which has no line end.

    Raises:
        TrustError: ``payload-noncanonical`` (not canonical, or members and types are not those of its kind),
            ``unknown-schema`` (another version, or a kind nobody here knows) or ``cap-exceeded``.
    """
    try:
        value = canonical.parse(line)
    except NotUnderstoodError as error:
        raise TrustError(str(error), code="cap-exceeded") from error
    except InputError as error:
        raise TrustError(str(error), code="payload-noncanonical") from error
    if not isinstance(value, dict):
        raise _malformed("is no object")
    _require_known(value)
    fault = record_shapes.fault(value)
    if fault:
        raise _malformed(fault)
    return value


def _line(kind: str, numbers: tuple[str, int, int], rank: int | None, at_ns: int | None, own: dict[str, Json]) -> bytes:
    """Return the line of a record; ``numbers`` are run, attempt and n."""
    run, attempt, n = numbers
    for name, holds in _OWN_CHECKS[kind]:
        if not holds(own[name]):
            raise InputError(f"record: {kind}: {name}: {stated.shown(own[name])} cannot stand there")
    if type(run) is not str or not _is_number(attempt) or not _is_number(n) or not (rank is None or _is_number(rank)):
        said = ", ".join(map(stated.shown, (run, attempt, n, rank)))
        raise InputError(f"record: {kind}: {said} are no run, attempt, number and rank")
    if at_ns is not None and type(at_ns) is not int:
        raise InputError(f"record: {kind}: at: {stated.shown(at_ns)} is no integer of 64 bits")
    own["at"] = None if at_ns is None else canonical.tag_integer(at_ns)
    own["attempt"] = attempt
    own["kind"] = kind
    own["n"] = n
    own["rank"] = rank
    own["run"] = run
    own["schema"] = evidence.RECORD_SCHEMA
    line = canonical.encode(own)
    if len(line) > MAX_LINE_BYTES:
        raise InputError(f"record: {kind}: {len(line)} bytes are more than {MAX_LINE_BYTES}")
    return line


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= canonical.MAX_INTEGER


def _named(values: Mapping[str, Scalar]) -> list[Json]:
    """Return named values in their one order; strings compare by code points, and so do their UTF-8 bytes."""
    rows: list[Json] = []
    try:
        names = sorted(values)
    except TypeError:
        names = list(values)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"record: values: the name {stated.shown(name)} is no text")
        value = values[name]
        if type(value) is float:
            # The spelling of tag_double, which asks for NaN with a call.
            spelled = f"f64:{value.hex()}" if value == value else canonical.tag_double(value)  # noqa: PLR0124
            rows.append({"n": name, "t": "f", "v": spelled})
        elif type(value) is str:
            rows.append({"n": name, "t": "s", "v": value})
        else:
            try:
                rows.append(evidence.tag(name, stated.scalar(value)))
            except InputError as error:
                raise InputError(f"record: value {name[:40]!a}: {error}") from error
    return rows


def _require_known(value: Mapping[str, Any]) -> None:
    schema, kind = value.get("schema"), value.get("kind")
    if type(schema) is not int or not isinstance(kind, str):
        raise _malformed("schema, kind: are missing, or of another type")
    if schema != evidence.RECORD_SCHEMA:
        raise TrustError(f"record: schema: {schema} is not known here", code="unknown-schema")
    if kind not in record_shapes.KINDS:
        raise TrustError(f"record: kind: {kind[:40]!a} is not known here", code="unknown-schema")


def _malformed(reason: str) -> TrustError:
    return TrustError(f"record: {reason}", code="payload-noncanonical")
