// One shortest path from an effect to one of its causes.
// params: iri, target
// returns: iris, relations
MATCH (a:Element {iri: $iri}), (b:Element {iri: $target})
MATCH p = shortestPath((a)-[:WAS_GENERATED_BY|USED|WAS_DERIVED_FROM|WAS_INFORMED_BY|WAS_STARTED_BY|STARTED_BY_ACTIVITY|VIA_ACTIVITY|SPECIALIZATION_OF|MENTION_OF|HAD_MEMBER|WAS_INFLUENCED_BY|SAME_AS|DERIVED_MESSAGE|DERIVED_GENERATED_BY|DERIVED_PROGRAM_ORDER|DERIVED_STARTED_BY|DERIVED_INFLUENCED_BY*1..1000000]->(b))
RETURN [n IN nodes(p) | n.iri] AS iris, [r IN relationships(p) | type(r)] AS relations
ORDER BY iris
