// Relationships that start at one of the given elements.
// params: iris
// returns: source, relation, target, facts
UNWIND $iris AS iri
MATCH (a:Element {iri: iri})-[r]->(b:Element)
RETURN a.iri AS source, type(r) AS relation, b.iri AS target, properties(r) AS facts
ORDER BY source, relation, target
