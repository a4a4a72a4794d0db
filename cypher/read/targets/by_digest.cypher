// Files known by the SHA-256 of their bytes; the records that state the digest are none.
// params: sha256
// returns: iri
MATCH (e:Element)
WHERE e.sha256 = $sha256 AND NOT e:Record
RETURN e.iri AS iri
ORDER BY iri
