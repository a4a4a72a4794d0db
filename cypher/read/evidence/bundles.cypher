// Which bundles sign the records of an attempt: their epochs, ranges, roots, keys and recording policy.
// params: run, attempt
// returns: epoch, first, size, records, root, keyid, closed, policy_mode, policy_reason, wall, store, payload_sha256, prev_sha256, iri
// none: nobody has signed anything of this attempt
MATCH (b:EvidenceBundle {run: $run, attempt: $attempt})
OPTIONAL MATCH (b)-[:HAD_MEMBER]->(r:Record)
WITH b, count(r) AS records
RETURN b.epoch AS epoch, b.first AS first, b.size AS size, records, b.root AS root, b.keyid AS keyid, b.closed AS closed,
       b.policy_mode AS policy_mode, b.policy_reason AS policy_reason, b.wall AS wall, b.store AS store,
       b.payload_sha256 AS payload_sha256, b.prev_sha256 AS prev_sha256, b.iri AS iri
ORDER BY epoch, iri
