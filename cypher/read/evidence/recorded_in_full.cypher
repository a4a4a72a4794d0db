// Which actions of an attempt were recorded in full, and why that was demanded.
// params: run, attempt
// returns: rank, train_epoch, step, op, group, seq, policy_reason, escalations, action_id, iri
// none: no action of this attempt was recorded in full
MATCH (a:Action {run: $run, attempt: $attempt, recorded_mode: 'full'})
RETURN a.rank AS rank, a.train_epoch AS train_epoch, a.step AS step, a.op AS op, a.group AS group, a.seq AS seq,
       a.policy_reason AS policy_reason, a.escalations AS escalations, a.action_id AS action_id, a.iri AS iri
ORDER BY rank, train_epoch, step, action_id
