// The record at an index of an attempt's tree, the bundle that signs it, and its key.
// params: run, attempt, index
// returns: iri, kind, rank, rank_count, name, step, at_ns, policy_mode, policy_reason, leaf, record, epoch, bundle, keyid
// none: no record of this attempt has this index: evidence/recorded_modes gives the first and the last
MATCH (r:Record {run: $run, attempt: $attempt, leaf_index: $index})
OPTIONAL MATCH (b:EvidenceBundle)-[:HAD_MEMBER]->(r)
OPTIONAL MATCH (b)-[:WAS_ATTRIBUTED_TO]->(k:SigningKey)
RETURN r.iri AS iri, r.kind AS kind, r.rank AS rank, r.rank_count AS rank_count, r.name AS name, r.step AS step, r.at_ns AS at_ns,
       r.policy_mode AS policy_mode, r.policy_reason AS policy_reason, r.leaf AS leaf, r.record AS record,
       b.epoch AS epoch, b.iri AS bundle, k.keyid AS keyid
ORDER BY iri, epoch, bundle, keyid
