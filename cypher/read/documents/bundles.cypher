// The bundles of an imported document, the document itself among them.
// params: document
// returns: labels, key, facts
MATCH (b:Bundle)
WHERE b.documentId = $document
RETURN labels(b) AS labels, b.key AS key, properties(b) AS facts
ORDER BY key
