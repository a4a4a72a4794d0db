// What was recorded in which mode and why: records by mode, reason, kind and rank, with their range in the run tree.
// params: run, attempt
// returns: policy_mode, recorded_mode, policy_reason, kind, rank, records, first_index, last_index
// none: this attempt has no records: provstore seal makes those of ingested files
MATCH (r:Record|Action|EpochBundle {run: $run, attempt: $attempt})
WHERE r.leaf_index IS NOT NULL AND NOT (r:Record AND r.kind IN ['action', 'epoch-bundle'])
WITH r, CASE WHEN r:Action THEN 'action' WHEN r:EpochBundle THEN 'epoch-bundle' ELSE r.kind END AS kind
WITH r.policy_mode AS policy_mode, r.recorded_mode AS recorded_mode, r.policy_reason AS policy_reason, kind,
     r.rank AS rank, count(r) AS records, min(r.leaf_index) AS first_index, max(r.leaf_index) AS last_index
RETURN policy_mode, recorded_mode, policy_reason, kind, rank, records, first_index, last_index
ORDER BY policy_mode, recorded_mode, policy_reason, kind, rank
