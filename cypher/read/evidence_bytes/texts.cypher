// The exact texts of records by their ids.
// params: iris
// returns: iri, record
UNWIND $iris AS iri
MATCH (r:Element {iri: iri})
RETURN r.iri AS iri, r.record AS record
ORDER BY iri
