// What was recorded of each training epoch of an attempt: modes demanded and recorded, what is missing, the trace.
// params: run, attempt
// returns: train_epoch, part, actions, recorded_mode, policy_mode, policy_reason, shortfall, missing_ranks, is_ended, end_reason, bundle_digest, trace_id, iri
// none: no epoch of this attempt was recorded
MATCH (b:EpochBundle {run: $run, attempt: $attempt})
OPTIONAL MATCH (b)-[:WAS_GENERATED_BY]->(t:TrainingRun)
RETURN b.train_epoch AS train_epoch, b.part AS part, b.actions AS actions, b.recorded_mode AS recorded_mode,
       b.policy_mode AS policy_mode, b.policy_reason AS policy_reason, b.shortfall AS shortfall,
       b.missing_ranks AS missing_ranks, b.is_ended AS is_ended, b.end_reason AS end_reason,
       b.bundle_digest AS bundle_digest, t.trace_id AS trace_id, b.iri AS iri
ORDER BY train_epoch, part
