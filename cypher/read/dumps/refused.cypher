// Files of an attempt that were refused.
// params: run, attempt
// returns: iri, file, reason, rank, sha256, size_bytes
MATCH (d:RefusedDump {run: $run, attempt: $attempt})
RETURN d.iri AS iri, d.file AS file, d.reason AS reason, d.rank AS rank, d.sha256 AS sha256, d.size_bytes AS size_bytes
ORDER BY iri
