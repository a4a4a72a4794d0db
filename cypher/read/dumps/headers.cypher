// Every dump of an attempt with what it states about itself.
// params: run, attempt
// returns: iri, rank, backend, sha256, file, size_bytes, extra
MATCH (d:Dump {run: $run, attempt: $attempt})
RETURN d.iri AS iri, d.rank AS rank, d.backend AS backend, d.sha256 AS sha256, d.file AS file, d.size_bytes AS size_bytes,
       d.extra AS extra
ORDER BY iri
