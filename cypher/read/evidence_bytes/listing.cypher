// Ids of everything of an attempt that is labelled as evidence.
// params: run, attempt
// returns: iri
MATCH (e:Record|EvidenceBundle|Action|EpochBundle|ExternalSignal {run: $run, attempt: $attempt})
RETURN e.iri AS iri
ORDER BY iri
