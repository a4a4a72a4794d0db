// Which records, dumps and refused files of an attempt nobody has signed.
// params: run, attempt
// returns: what, rank, leaf_index, kind, file, sha256, iri
// none: the graph holds nothing of this attempt that nobody has signed
MATCH (e:Record|Dump|RefusedDump {run: $run, attempt: $attempt})
WHERE NOT EXISTS { MATCH (:EvidenceBundle)-[:HAD_MEMBER]->(e) }
  AND NOT EXISTS { MATCH (:EvidenceBundle)-[:HAD_MEMBER]->(:Record)-[:WAS_DERIVED_FROM]->(e) }
RETURN CASE WHEN e:Record THEN 'record' WHEN e:Dump THEN 'dump' ELSE 'refused file' END AS what, e.rank AS rank,
       e.leaf_index AS leaf_index, e.kind AS kind, e.file AS file, e.sha256 AS sha256, e.iri AS iri
ORDER BY what, rank, leaf_index, iri
