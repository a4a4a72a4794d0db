// Which records cover an element: a dump's own, a record itself, else those of every dump of the ranks that state it.
// Whether the element still is what they cover is what a verification answers.
// params: iri
// returns: dump, record, leaf_index, journal_batch, epoch, bundle, keyid
// none: no record covers it: what it derives from was taken in and not sealed yet, or is not there
MATCH (e:Element {iri: $iri})
OPTIONAL MATCH (e)-[:USED|WAS_GENERATED_BY|CALL_OF]-(c:Call)
WITH e, collect(DISTINCT coalesce(e.rank, c.rank)) AS ranks
MATCH (d:Record|Dump|RefusedDump {run: e.run, attempt: e.attempt})
WHERE d.iri = e.iri OR (d:Dump AND d.rank IN ranks AND NOT e:Record AND NOT e:Dump AND NOT e:RefusedDump)
OPTIONAL MATCH (o:Record)-[:WAS_DERIVED_FROM]->(d)
WITH d, CASE WHEN d:Record THEN d ELSE o END AS r
OPTIONAL MATCH (b:EvidenceBundle)-[:HAD_MEMBER]->(r)
OPTIONAL MATCH (b)-[:WAS_ATTRIBUTED_TO]->(k:SigningKey)
RETURN DISTINCT CASE WHEN d:Record THEN null ELSE d.iri END AS dump, r.iri AS record, r.leaf_index AS leaf_index,
       r.journal_batch AS journal_batch, b.epoch AS epoch, b.iri AS bundle, k.keyid AS keyid
ORDER BY dump, leaf_index, record, epoch, bundle, keyid
