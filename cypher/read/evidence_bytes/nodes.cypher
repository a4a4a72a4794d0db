// Nodes by their ids, with all that stands on them.
// params: iris
// returns: iri, labels, properties
UNWIND $iris AS iri
MATCH (n:Element {iri: iri})
RETURN n.iri AS iri, labels(n) AS labels, properties(n) AS properties
ORDER BY iri
