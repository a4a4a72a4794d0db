// The send or receive with a given send/receive counter on a rank.
// params: run, attempt, rank, p2p_seq
// returns: iri, side, signature
MATCH (c:Call {run: $run, attempt: $attempt, rank: $rank, p2p_seq: $p2p_seq})
WHERE c.seq IS NULL
RETURN c.iri AS iri, c.side AS side, coalesce(c.signature, c.captured) AS signature
ORDER BY iri
