// Which actions of an attempt were recorded in full, for which escalation, and what beside the job had opened that.
// An action under several has a row for each.
// params: run, attempt
// returns: rank, train_epoch, step, op, group, seq, policy_reason, trigger, escalated, signal, xid, host, device, seen_ns, summary, action_id, escalation, iri
// none: no action of this attempt was recorded in full
MATCH (a:Action {run: $run, attempt: $attempt, recorded_mode: 'full'})
OPTIONAL MATCH (a)-[:WAS_INFLUENCED_BY]->(e:Escalation)
OPTIONAL MATCH (e)-[:WAS_DERIVED_FROM]->(s:ExternalSignal)
RETURN a.rank AS rank, a.train_epoch AS train_epoch, a.step AS step, a.op AS op, a.group AS group, a.seq AS seq,
       a.policy_reason AS policy_reason, e.trigger AS trigger, e.escalated AS escalated, s.source AS signal, s.xid AS xid,
       s.host AS host, s.device AS device, s.seen_ns AS seen_ns, s.summary AS summary, a.action_id AS action_id,
       e.iri AS escalation, s.iri AS iri
ORDER BY rank, train_epoch, step, action_id, escalation, iri
