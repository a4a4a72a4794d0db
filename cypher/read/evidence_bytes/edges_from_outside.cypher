// Relationships that lead to some records and bundles from nodes that are no evidence.
// To actions, epochs and signals anything may lead.
// params: iris
// returns: source, relation, target, properties
UNWIND $iris AS iri
MATCH (n:Element {iri: iri})<-[e]-(m)
WHERE NOT (m:Record OR m:EvidenceBundle OR m:SigningKey OR n:Action OR n:EpochBundle OR n:ExternalSignal)
RETURN coalesce(m.iri, m.recordKey, m.key) AS source, type(e) AS relation, n.iri AS target, properties(e) AS properties
ORDER BY source, relation, target
