// Sends to which no receive of the peer was found, and receives without a send.
// params: run, attempt
// returns: backend, group, rank, peer, channel, op_id, is_completed, created_ns, user_frame, iri
MATCH (c:Call {run: $run, attempt: $attempt})
MATCH (s:Signature {key: c.signature})
WHERE s.channel IN ['send', 'recv']
OPTIONAL MATCH (c)<-[:USED]-(u:PointToPoint)
OPTIONAL MATCH (c)-[:CALL_OF]->(o:PointToPoint)
WITH c, s, coalesce(u.iri, o.iri) AS activity
MATCH (p:PointToPoint {iri: activity})
WHERE NOT EXISTS { MATCH (p)-[:DERIVED_MESSAGE]->(:PointToPoint) }
  AND NOT EXISTS { MATCH (p)<-[:DERIVED_MESSAGE]-(:PointToPoint) }
OPTIONAL MATCH (k:Stack {key: c.stack})
RETURN s.backend AS backend, s.group AS group, c.rank AS rank, c.peer AS peer, s.channel AS channel, c.op_id AS op_id,
       coalesce(c.is_completed, false) AS is_completed, c.created_ns AS created_ns, k.user_frame AS user_frame, c.iri AS iri
ORDER BY backend, group, rank, op_id, iri
