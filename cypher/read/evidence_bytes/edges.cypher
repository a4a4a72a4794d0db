// Relationships that start at some nodes, each as often as it stands there.
// params: iris
// returns: source, relation, target, properties
UNWIND $iris AS iri
MATCH (n:Element {iri: iri})-[e]->(m)
RETURN n.iri AS source, type(e) AS relation, coalesce(m.iri, m.recordKey, m.key) AS target, properties(e) AS properties
ORDER BY source, relation, target
