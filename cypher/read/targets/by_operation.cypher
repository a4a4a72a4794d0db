// The send or receive with a given operation counter on a rank.
// params: run, attempt, rank, op_id
// returns: iri, side, signature
MATCH (c:Call {run: $run, attempt: $attempt, rank: $rank, op_id: $op_id})
WHERE c.seq IS NULL
RETURN c.iri AS iri, c.side AS side, coalesce(c.signature, c.captured) AS signature
ORDER BY iri
