// What the members of each instance asked for: one operation an instance, the first in alphabetical order.
// params: iris
// returns: iri, op
UNWIND $iris AS iri
MATCH (a:Activity {iri: iri})-[:USED]->(c:Call)
MATCH (s:Signature {key: c.signature})
RETURN iri, min(s.op) AS op
ORDER BY iri
