// Elements of one attempt with all their properties.
// params: run, attempt
// returns: labels, facts
MATCH (e:Element {run: $run, attempt: $attempt})
RETURN labels(e) AS labels, properties(e) AS facts
ORDER BY e.iri
