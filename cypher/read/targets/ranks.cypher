// The ranks of an attempt.
// params: run, attempt
// returns: rank, host, iri
MATCH (r:Rank {run: $run, attempt: $attempt})
RETURN r.rank AS rank, r.host AS host, r.iri AS iri
ORDER BY rank, iri
