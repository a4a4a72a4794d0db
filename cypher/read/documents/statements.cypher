// Relation records of some bundles that lack an argument.
// params: bundles
// returns: labels, key, facts
MATCH (s:Statement)
WHERE s.bundleKey IN $bundles
RETURN labels(s) AS labels, s.recordKey AS key, properties(s) AS facts
ORDER BY key
