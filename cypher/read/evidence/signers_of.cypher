// Who signed what this element derives from: its causes by run and rank, the dumps they stand in, and who signed those.
// params: iri
// returns: run, attempt, rank, elements, dump, record, leaf_index, epoch, bundle, keyid
// none: nothing that it derives from stands in a dump
MATCH (t:Element {iri: $iri})-[:WAS_GENERATED_BY|USED|WAS_DERIVED_FROM|WAS_INFORMED_BY|WAS_STARTED_BY|STARTED_BY_ACTIVITY|VIA_ACTIVITY|SPECIALIZATION_OF|MENTION_OF|HAD_MEMBER|WAS_INFLUENCED_BY|SAME_AS|DERIVED_MESSAGE|DERIVED_GENERATED_BY|DERIVED_PROGRAM_ORDER|DERIVED_STARTED_BY|DERIVED_INFLUENCED_BY*0..1000000]->(x)
WITH collect(DISTINCT x) AS causes
UNWIND causes AS x
WITH x.run AS run, x.attempt AS attempt, x.rank AS rank, count(x) AS elements
WHERE rank IS NOT NULL
OPTIONAL MATCH (d:Dump {run: run, attempt: attempt, rank: rank})
OPTIONAL MATCH (r:Record)-[:WAS_DERIVED_FROM]->(d)
OPTIONAL MATCH (b:EvidenceBundle)-[:HAD_MEMBER]->(r)
OPTIONAL MATCH (b)-[:WAS_ATTRIBUTED_TO]->(k:SigningKey)
RETURN DISTINCT run, attempt, rank, elements, d.iri AS dump, r.iri AS record, r.leaf_index AS leaf_index, b.epoch AS epoch,
       b.iri AS bundle, k.keyid AS keyid
ORDER BY run, attempt, rank, dump, leaf_index, record, epoch, bundle, keyid
