// All relationships with the keys of both ends.
// params:
// returns: type, source_labels, source, target_labels, target, properties
// order: none, whoever compares stores sorts the canonical lines
MATCH (a)-[r]->(b)
RETURN type(r) AS type, labels(a) AS source_labels, coalesce(a.iri, a.recordKey, a.key) AS source,
       labels(b) AS target_labels, coalesce(b.iri, b.recordKey, b.key) AS target, properties(r) AS properties
