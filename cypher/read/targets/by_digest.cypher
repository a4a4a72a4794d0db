// Files known by the SHA-256 of their bytes.
// params: sha256
// returns: iri
MATCH (e:Element)
WHERE e.sha256 = $sha256
RETURN e.iri AS iri
ORDER BY iri
