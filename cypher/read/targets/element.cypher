// One element by its id.
// params: iri
// returns: iri, labels, facts
MATCH (e:Element {iri: $iri})
RETURN e.iri AS iri, labels(e) AS labels, properties(e) AS facts
ORDER BY iri
