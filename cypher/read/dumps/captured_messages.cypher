// Sends and receives of an attempt that a live recording saw, in the order of each rank's program.
// params: run, attempt
// returns: iri, rank, peer, op_id, side, captured
MATCH (c:Call {run: $run, attempt: $attempt})
WHERE c.captured IS NOT NULL AND c.seq IS NULL AND c.op_id IS NOT NULL
RETURN c.iri AS iri, c.rank AS rank, c.peer AS peer, c.op_id AS op_id, c.side AS side, c.captured AS captured
ORDER BY rank, op_id, iri
