// Relationships that lead to some nodes of evidence from nodes that are none.
// params: iris
// returns: source, relation, target, properties
UNWIND $iris AS iri
MATCH (n:Element {iri: iri})<-[e]-(m)
WHERE NOT (m:Record OR m:EvidenceBundle OR m:SigningKey)
RETURN coalesce(m.iri, m.recordKey, m.key) AS source, type(e) AS relation, n.iri AS target, properties(e) AS properties
ORDER BY source, relation, target
