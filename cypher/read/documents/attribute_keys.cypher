// Names of the attributes of imported records.
// params:
// returns: labels, key, facts
MATCH (a:AttributeKey)
RETURN labels(a) AS labels, a.key AS key, properties(a) AS facts
ORDER BY key
