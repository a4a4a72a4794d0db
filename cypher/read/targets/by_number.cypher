// What a rank put into, or got from, the collective with a given number, in any process group.
// params: run, attempt, rank, seq
// returns: iri, side, signature
MATCH (c:Call {run: $run, attempt: $attempt, rank: $rank, seq: $seq})
RETURN c.iri AS iri, c.side AS side, coalesce(c.signature, c.captured) AS signature
ORDER BY iri
