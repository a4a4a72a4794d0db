"""Agent records made by another hand: json and the cryptography package, nothing of the code under test."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

INTOTO = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://wasmagent.dev/attestations/aep/v0.4"
Record = dict[str, Any]


def canon(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pae(kind: str, body: bytes) -> bytes:
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(body)).encode(), body])


class Emitter:
    """One agent with its key."""

    def __init__(self, keyid: str = "agent-key") -> None:
        self.key, self.keyid = Ed25519PrivateKey.generate(), keyid
        self.public = self.key.public_key().public_bytes_raw()
        self.keys = {keyid: self.public}

    def sign(self, message: bytes) -> str:
        return base64.b64encode(self.key.sign(message)).decode()

    def statement(self, record: Record) -> dict[str, Any]:
        subject = {"name": f"urn:wasmagent:run:{record['run_id']}", "digest": {"sha256": sha256(canon(record))}}
        return {"_type": STATEMENT, "subject": [subject], "predicateType": PREDICATE, "predicate": record}

    def signed(
        self,
        record: Record,
        *,
        change: Callable[[dict[str, Any]], object] | None = None,
        payload_type: str = INTOTO,
        over_base64: bool = False,
    ) -> Record:
        """Return a record signed in the profile, or in it with one thing changed before it is signed."""
        said = self.statement(record)
        if change is not None:
            change(said)
        body = json.dumps(said, ensure_ascii=False).encode()
        text = base64.b64encode(body).decode()
        sig = self.sign(pae(payload_type, text.encode() if over_base64 else body))
        envelope = {"payloadType": payload_type, "payload": text, "signatures": [{"keyid": self.keyid, "sig": sig}]}
        return {**record, "dsse_envelope": envelope, "signature": {"alg": "ed25519", "key_id": self.keyid, "sig": sig}}

    def retired(self, record: Record) -> Record:
        """Return a record signed as JS did up to aep/v0.3: over its canonical form."""
        return {**record, "signature": {"alg": "ed25519", "key_id": self.keyid, "sig": self.sign(canon(record))}}


def action(number: int, tool: str = "read_config", **more: object) -> Record:
    return {
        "action_id": f"action-{number}",
        "tool_name": tool,
        "state_changing": False,
        "timestamp_ms": 1796031810000 + number,
        **more,
    }


def record(run: str = "agent-run", number: int = 0, **more: object) -> Record:
    return {
        "schema_version": "aep/v0.5",
        "run_id": run,
        "created_at_ms": 1796031810000 + number,
        "actions": [action(place) for place in range(number + 1)],
        **more,
    }


def unsigned(one: Record) -> Record:
    return {name: member for name, member in one.items() if name not in {"signature", "dsse_envelope"}}


def linked(records: list[Record]) -> list[Record]:
    """Return the records with the links of a sound chain, the first with none."""
    before, made = None, []
    for one in records:
        made.append({**one, "prev_record_hash": before})
        before = sha256(canon(made[-1]))
    return made


def lines(records: list[Record]) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in records)


def bundle(records: list[Record]) -> Record:
    """Return an ``aep-bundle/v0.1``."""
    manifest = {
        "schema_version": "aep-bundle/v0.1",
        "producer": "test",
        "created_at": "2026-01-01T00:00:00.000Z",
        "record_count": len(records),
        "run_ids": sorted({one["run_id"] for one in records}),
        "started_at_ms": min(one["created_at_ms"] for one in records),
        "ended_at_ms": max(one["created_at_ms"] for one in records),
        "records": [
            {"index": place, "digest": sha256(canon(unsigned(one))), "run_id": one["run_id"]}
            for place, one in enumerate(records)
        ],
    }
    manifest["bundle_digest"] = sha256(canon(manifest))
    return {"schema_version": "aep-bundle/v0.1", "manifest": manifest, "records": records}


def ledger(records: list[Record]) -> list[Record]:
    """Return the records of a ledger of JavaScript."""
    before, made = "", []
    for place, one in enumerate(records):
        wrapped = {"seq": place, "prevHash": before, "record": one}
        before = sha256(canon(wrapped))
        made.append({**wrapped, "hash": before})
    return made


def compacted(entries: list[Record]) -> Record:
    """Return what a ledger of JavaScript says of records that it left out."""
    return {
        "fromSeq": entries[0]["seq"],
        "toSeq": entries[-1]["seq"],
        "recordCount": len(entries),
        "proofHash": sha256("".join(one["hash"] for one in entries).encode()),
        "firstRecordHash": entries[0]["hash"],
        "firstRecordPrevHash": entries[0]["prevHash"],
        "lastRecordHash": entries[-1]["hash"],
        "toolRollups": [],
        "startedAtMs": 1,
        "endedAtMs": 2,
        "runIds": ["agent-run"],
        "compactedAtMs": 3,
    }
