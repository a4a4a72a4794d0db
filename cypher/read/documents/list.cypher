// Imported PROV documents.
// params:
// returns: document, records, content_hash
MATCH (b:Bundle)
WHERE b.isDocument = true
RETURN b.documentId AS document, b.recordCount AS records, b.contentHash AS content_hash
ORDER BY document
