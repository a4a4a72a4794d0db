// What comes from this element? All its effects, itself included, over captured lineage and the derived layer.
// params: iri
// returns: iri
MATCH (t:Element {iri: $iri})<-[:WAS_GENERATED_BY|USED|WAS_DERIVED_FROM|WAS_INFORMED_BY|WAS_STARTED_BY|STARTED_BY_ACTIVITY|VIA_ACTIVITY|SPECIALIZATION_OF|MENTION_OF|HAD_MEMBER|WAS_INFLUENCED_BY|SAME_AS|DERIVED_MESSAGE|DERIVED_GENERATED_BY|DERIVED_PROGRAM_ORDER*0..1000000]-(x)
RETURN DISTINCT x.iri AS iri
ORDER BY iri
