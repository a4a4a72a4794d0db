// Makes a call that never ended look completed: what anyone who can write to a graph can do, here for the demonstration.
// params: iri
// returns: iri
MATCH (c:Element {iri: $iri})
SET c.is_completed = true
RETURN c.iri AS iri
