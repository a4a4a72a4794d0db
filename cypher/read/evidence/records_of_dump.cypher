// Which records cover a dump: those that name its bytes and the facts read from them, with bundle and key.
// params: iri
// returns: record, leaf_index, kind, sha256, size_bytes, reader, facts_sha256, facts_rows, journal_batch, epoch, bundle, keyid
// none: no record covers it: it was not sealed yet, or it is no dump
MATCH (r:Record)-[:WAS_DERIVED_FROM]->(d:Element {iri: $iri})
OPTIONAL MATCH (b:EvidenceBundle)-[:HAD_MEMBER]->(r)
OPTIONAL MATCH (b)-[:WAS_ATTRIBUTED_TO]->(k:SigningKey)
RETURN r.iri AS record, r.leaf_index AS leaf_index, r.kind AS kind, r.sha256 AS sha256, r.size_bytes AS size_bytes,
       r.reader AS reader, r.facts_sha256 AS facts_sha256, r.facts_rows AS facts_rows, r.journal_batch AS journal_batch,
       b.epoch AS epoch, b.iri AS bundle, k.keyid AS keyid
ORDER BY leaf_index, record, epoch, bundle, keyid
