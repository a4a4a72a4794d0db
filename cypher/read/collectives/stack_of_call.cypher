// The stack from which a call was made, innermost frame first.
// params: call
// returns: iri, rank, user_frame, frames
MATCH (c:Call {iri: $call})
MATCH (k:Stack {key: c.stack})
RETURN c.iri AS iri, c.rank AS rank, k.user_frame AS user_frame, k.frames AS frames
ORDER BY iri
