// Elements of one attempt with all their properties.
// params: run, attempt
// returns: labels, facts
MATCH (e:Element)
WHERE e.run = $run AND e.attempt = $attempt
RETURN labels(e) AS labels, properties(e) AS facts
ORDER BY e.iri
