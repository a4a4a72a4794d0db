// The records of an attempt with the index that each states.
// params: run, attempt
// returns: leaf_index, iri, is_element
MATCH (r:Record {run: $run, attempt: $attempt})
RETURN r.leaf_index AS leaf_index, r.iri AS iri, r:Element AS is_element
ORDER BY leaf_index, iri
