// The last call of each rank and recorder, where it was made and whether it ended.
// params: run, attempt
// returns: rank, backend, group, op, seq, op_id, is_completed, is_retired, created_ns, user_frame, iri
// none: only dumps tell this, and none of this run is stored
MATCH (c:Call {run: $run, attempt: $attempt})
MATCH (s:Signature {key: c.signature})
WITH c.rank AS rank, s.backend AS backend, max(c.record_id) AS last
MATCH (d:Call {run: $run, attempt: $attempt})
WHERE d.rank = rank AND d.record_id = last
MATCH (t:Signature {key: d.signature})
WHERE t.backend = backend
OPTIONAL MATCH (k:Stack {key: d.stack})
RETURN rank, backend, t.group AS group, t.op AS op, d.seq AS seq, d.op_id AS op_id,
       coalesce(d.is_completed, false) AS is_completed, coalesce(d.is_retired, false) AS is_retired,
       d.created_ns AS created_ns, k.user_frame AS user_frame, d.iri AS iri
ORDER BY rank, backend, iri
