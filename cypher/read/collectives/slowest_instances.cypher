// Instances by how long the first rank waited for the last to enter, the longest first; clocks of hosts may differ, and the first instance includes start-up.
// params: run, attempt
// returns: group, seq, op, ranks, wait_us, last_rank, user_frame, device_ms, backend, instance
MATCH (a:Collective {run: $run, attempt: $attempt})-[:USED]->(c:Call)
WHERE c.signature IS NOT NULL
WITH a, c
ORDER BY c.created_ns, c.rank
WITH a, count(c) AS ranks, (max(c.created_ns) - min(c.created_ns)) / 1000 AS wait_us, collect(c.rank) AS entrants,
     collect(c.signature) AS signatures, collect(c.stack) AS stacks, max(c.duration_ms) AS device_ms
WHERE ranks > 1
MATCH (s:Signature {key: signatures[size(signatures) - 1]})
OPTIONAL MATCH (k:Stack {key: stacks[size(stacks) - 1]})
RETURN a.group AS group, a.seq AS seq, s.op AS op, ranks, wait_us, entrants[size(entrants) - 1] AS last_rank,
       k.user_frame AS user_frame, device_ms, a.backend AS backend, a.iri AS instance
ORDER BY wait_us DESC, instance
