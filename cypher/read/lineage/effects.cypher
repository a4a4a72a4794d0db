// One hop from causes to their direct effects.
// params: iris
// returns: source, relation, target
UNWIND $iris AS iri
MATCH (e:Element)-[r:WAS_GENERATED_BY|USED|WAS_DERIVED_FROM|WAS_INFORMED_BY|WAS_STARTED_BY|STARTED_BY_ACTIVITY|VIA_ACTIVITY|SPECIALIZATION_OF|MENTION_OF|HAD_MEMBER|WAS_INFLUENCED_BY|SAME_AS|DERIVED_MESSAGE|DERIVED_GENERATED_BY|DERIVED_PROGRAM_ORDER|DERIVED_STARTED_BY|DERIVED_INFLUENCED_BY]->(c:Element {iri: iri})
RETURN DISTINCT e.iri AS source, type(r) AS relation, c.iri AS target
ORDER BY source, relation, target
