// Every call of an attempt that a dump states.
// params: run, attempt
// returns: iri, rank, record_id, last_record_id, seq, after_seq, p2p_seq, op_id, peer, signature, stack, created_ns, started_ns, completed_ns, duration_ms, is_started, is_completed, is_retired, batch, parts, thread
MATCH (c:Call {run: $run, attempt: $attempt})
WHERE c.signature IS NOT NULL
RETURN c.iri AS iri, c.rank AS rank, c.record_id AS record_id, c.last_record_id AS last_record_id, c.seq AS seq, c.after_seq AS after_seq,
       c.p2p_seq AS p2p_seq, c.op_id AS op_id, c.peer AS peer, c.signature AS signature, c.stack AS stack, c.created_ns AS created_ns,
       c.started_ns AS started_ns, c.completed_ns AS completed_ns, c.duration_ms AS duration_ms, c.is_started AS is_started,
       c.is_completed AS is_completed, c.is_retired AS is_retired, c.batch AS batch, c.parts AS parts, c.thread AS thread
ORDER BY rank, record_id, iri
