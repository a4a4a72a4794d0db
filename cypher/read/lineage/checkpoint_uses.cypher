// Who saved to these addresses of checkpoints, and who loaded from them, with the digests of the states.
// params: iris
// returns: iri, op, run, attempt, digest
UNWIND $iris AS iri
MATCH (a:Action)-[:USED]->(c:Checkpoint {iri: iri})
WHERE a.op = 'checkpoint.save' OR a.op = 'checkpoint.load'
RETURN DISTINCT c.iri AS iri, a.op AS op, a.run AS run, a.attempt AS attempt, coalesce(a.digest_out, '') AS digest
ORDER BY iri, op, run, attempt, digest
