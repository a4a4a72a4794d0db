// Element records of some bundles.
// params: bundles
// returns: labels, key, facts
MATCH (d:Description)
WHERE d.bundleKey IN $bundles
RETURN labels(d) AS labels, d.recordKey AS key, properties(d) AS facts
ORDER BY key
