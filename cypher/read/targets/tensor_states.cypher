// The gradients, activations and inputs of modules that a rank recorded.
// params: run, attempt, rank
// returns: iri, name, kind, step
MATCH (t:TensorState {run: $run, attempt: $attempt, rank: $rank})
RETURN t.iri AS iri, t.name AS name, t.kind AS kind, t.step AS step
ORDER BY iri
