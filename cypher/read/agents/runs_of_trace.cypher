// The runs that give this trace id, spelled exactly so: agents' runs with their records, training runs with attempts.
// params: trace_id
// returns: kind, run, attempt, records, iri
// none: nobody gives this trace id in this spelling: provstore join knows the others
MATCH (n:AgentRecord|TrainingRun {trace_id: $trace_id})
OPTIONAL MATCH (n)-[:WAS_GENERATED_BY]->(g:AgentRun)
WITH CASE WHEN n:TrainingRun THEN 'training' ELSE 'agent' END AS kind, coalesce(g, n) AS one, count(n) AS records
RETURN kind, coalesce(one.agent_run, one.run) AS run, one.attempt AS attempt,
       CASE WHEN kind = 'agent' THEN records ELSE null END AS records, one.iri AS iri
ORDER BY kind, run, attempt, iri
