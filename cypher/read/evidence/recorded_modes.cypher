// What was recorded in which mode and why: records by mode, reason, kind and rank, with their range in the run tree.
// params: run, attempt
// returns: policy_mode, policy_reason, kind, rank, records, first_index, last_index
// none: this attempt has no records: provstore seal makes those of ingested files
MATCH (r:Record {run: $run, attempt: $attempt})
WITH r.policy_mode AS policy_mode, r.policy_reason AS policy_reason, r.kind AS kind, r.rank AS rank, count(r) AS records,
     min(r.leaf_index) AS first_index, max(r.leaf_index) AS last_index
RETURN policy_mode, policy_reason, kind, rank, records, first_index, last_index
ORDER BY policy_mode, policy_reason, kind, rank
