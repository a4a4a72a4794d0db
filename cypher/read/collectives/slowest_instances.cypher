// Instances by how long the first rank waited for the last to enter, the longest first; clocks of hosts may differ.
// params: run, attempt
// returns: backend, group, seq, ranks, wait_ns, last_rank, device_ms, instance
MATCH (a:Collective {run: $run, attempt: $attempt})-[:USED]->(c:Call)
WITH a, c
ORDER BY c.created_ns, c.rank
WITH a, count(c) AS ranks, max(c.created_ns) - min(c.created_ns) AS wait_ns, collect(c.rank) AS entrants, max(c.duration_ms) AS device_ms
WHERE ranks > 1
RETURN a.backend AS backend, a.group AS group, a.seq AS seq, ranks, wait_ns, entrants[size(entrants) - 1] AS last_rank, device_ms,
       a.iri AS instance
ORDER BY wait_ns DESC, instance
