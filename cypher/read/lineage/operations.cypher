// What the members of each instance asked for: one operation an instance, the first in alphabetical order.
// params: iris
// returns: iri, op
UNWIND $iris AS iri
MATCH (a:Activity {iri: iri})-[:USED]->(c:Call)
WITH iri, coalesce(c.signature, c.captured) AS signature
MATCH (s:Signature {key: signature})
RETURN iri, min(s.op) AS op
ORDER BY iri
