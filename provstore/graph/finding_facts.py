"""A saved diagnosis as facts: one entity a finding, derived from the dumps it was found in."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from provstore.graph.dump_facts import dump_key, run_nodes
from provstore.model import ids
from provstore.model.block import Block, Nodes, Relations
from provstore.model.dump import Dump
from provstore.model.finding import Diagnosis


def finding_block(diagnosis: Diagnosis, dumps: Sequence[Dump]) -> Block:
    """Return the findings of a diagnosis with links to the dumps that hold their evidence.

    Args:
        diagnosis: Of one stored attempt.
        dumps: The dumps of that attempt as stored.
    """
    run, attempt = diagnosis.run, diagnosis.attempt
    findings = diagnosis.findings
    keys = [f"{ids.attempt_iri(run, attempt)}/finding/{ids.component(finding.key)}" for finding in findings]
    as_json = {found["id"]: orjson.dumps(found).decode() for found in diagnosis.finding_dicts()}
    nodes = Nodes(
        ("Element", "Entity", "Finding"),
        keys,
        {
            "run": [run] * len(keys),
            "attempt": [attempt] * len(keys),
            "code": [finding.code for finding in findings],
            "finding_class": [finding.kind for finding in findings],
            "confidence": [finding.confidence for finding in findings],
            "summary": [finding.summary for finding in findings],
            "culprits": [[culprit.rank for culprit in finding.culprits] for finding in findings],
            "rule_version": [finding.rule_version for finding in findings],
            "extra": [as_json[finding.key] for finding in findings],
        },
    )
    of_digest = {dump.digest: dump_key(dump, run, attempt) for dump in dumps}
    links = {
        (key, of_digest[one.digest]): None
        for key, finding in zip(keys, findings, strict=True)
        for one in finding.evidence
        if one.digest in of_digest
    }
    derived = Relations("WAS_DERIVED_FROM", [source for source, _ in links], [target for _, target in links])
    return Block(run, attempt, (run_nodes(run, attempt), nodes), (derived,) if links else ())
