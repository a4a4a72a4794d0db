// Records of an attempt that no id finds: somebody made them by hand.
// params: run, attempt
// returns: leaf_index, iri, record
MATCH (r:Record {run: $run, attempt: $attempt})
WHERE r.iri IS NULL OR NOT r:Element
RETURN r.leaf_index AS leaf_index, r.iri AS iri, r.record AS record
ORDER BY leaf_index, iri, record
