// What is signed in an attempt, byte by byte: its bundles.
// params: run, attempt
// returns: epoch, iri, payload, payload_type, keyid, sig, checkpoint
MATCH (b:EvidenceBundle {run: $run, attempt: $attempt})
RETURN b.epoch AS epoch, b.iri AS iri, b.payload AS payload, b.payload_type AS payload_type, b.keyid AS keyid,
       b.sig AS sig, b.checkpoint AS checkpoint
ORDER BY epoch, iri, payload, sig
