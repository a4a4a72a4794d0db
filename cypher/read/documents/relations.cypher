// Relation records of some bundles.
// params: bundles
// returns: source, relation, target, facts
MATCH (a:Element)-[r]->(b:Element)
WHERE r.bundleKey IN $bundles
RETURN a.iri AS source, type(r) AS relation, b.iri AS target, properties(r) AS facts
ORDER BY source, relation, target, r.recordKey
