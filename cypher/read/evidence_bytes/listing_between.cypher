// Ids of what is labelled as evidence of an attempt and says that it comes from records between two indexes.
// params: run, attempt, first, end
// returns: iri
MATCH (e:Record|Action|EpochBundle|ExternalSignal {run: $run, attempt: $attempt})
WHERE e.leaf_index >= $first AND e.leaf_index < $end
RETURN e.iri AS iri
ORDER BY iri
