// Relationships that start at an element of one attempt.
// params: run, attempt
// returns: source, relation, target, facts
MATCH (a:Element)-[r]->(b:Element)
WHERE a.run = $run AND a.attempt = $attempt
RETURN a.iri AS source, type(r) AS relation, b.iri AS target, properties(r) AS facts
ORDER BY source, relation, target
