// Elements by their ids with all their properties.
// params: iris
// returns: labels, facts
UNWIND $iris AS iri
MATCH (e:Element {iri: iri})
RETURN labels(e) AS labels, properties(e) AS facts
ORDER BY e.iri
