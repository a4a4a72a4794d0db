// Everything known about what a rank put into, or got from, a call: the call, its signature, its stack, its activity.
// params: iri
// returns: iri, run, attempt, rank, side, seq, op, backend, group, input_sizes, input_dtypes, output_sizes, output_dtypes, record_id, op_id, created_ns, completed_ns, is_completed, is_retired, timeout_ms, user_frame, activity, generated_by
MATCH (t:Element {iri: $iri})
OPTIONAL MATCH (t)<-[:USED]-(u:Activity)
OPTIONAL MATCH (t)-[:CALL_OF]->(o:Activity)
OPTIONAL MATCH (t)-[:WAS_GENERATED_BY|DERIVED_GENERATED_BY]->(g:Activity)
WITH t, coalesce(u.iri, o.iri, g.iri) AS activity, g.iri AS generated_by
OPTIONAL MATCH (a:Activity {iri: activity})-[:USED]->(c:Call)
WHERE c.rank = t.rank
WITH t, activity, generated_by, coalesce(c.signature, t.signature, c.captured, t.captured) AS signature, coalesce(c.stack, t.stack) AS stack,
     coalesce(c.record_id, t.record_id) AS record_id, coalesce(c.op_id, t.op_id) AS op_id,
     coalesce(c.created_ns, t.created_ns) AS created_ns, coalesce(c.completed_ns, t.completed_ns) AS completed_ns,
     coalesce(c.is_completed, t.is_completed, false) AS is_completed,
     coalesce(c.is_retired, t.is_retired, false) AS is_retired
OPTIONAL MATCH (s:Signature {key: signature})
OPTIONAL MATCH (k:Stack {key: stack})
RETURN t.iri AS iri, t.run AS run, t.attempt AS attempt, t.rank AS rank, t.side AS side, t.seq AS seq, s.op AS op,
       s.backend AS backend, s.group AS group, s.input_sizes AS input_sizes, s.input_dtypes AS input_dtypes,
       s.output_sizes AS output_sizes, s.output_dtypes AS output_dtypes, record_id, op_id, created_ns, completed_ns,
       is_completed, is_retired, s.timeout_ms AS timeout_ms, k.user_frame AS user_frame, activity, generated_by
ORDER BY iri, activity, generated_by
