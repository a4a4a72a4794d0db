// What was seen beside the job of an attempt, how many escalations came of it, and how many actions those cover.
// Errors of GPUs, metrics beyond limits, hangs, disagreeing ranks, sources that gave nothing, orders of operators.
// params: run, attempt
// returns: kind, source, trigger, code, xid, host, device, ranks, step, at_ns, seen_ns, summary, escalations, actions, iri
// none: nobody watched this attempt, or watch.jsonl was not recorded with it
MATCH (s:ExternalSignal {run: $run, attempt: $attempt})
OPTIONAL MATCH (e:Escalation)-[:WAS_DERIVED_FROM]->(s)
OPTIONAL MATCH (a:Action)-[:WAS_INFLUENCED_BY]->(e)
WITH s, count(DISTINCT e) AS escalations, count(DISTINCT a) AS actions
RETURN s.kind AS kind, s.source AS source, s.trigger AS trigger, s.code AS code, s.xid AS xid, s.host AS host,
       s.device AS device, s.ranks AS ranks, s.step AS step, s.at_ns AS at_ns, s.seen_ns AS seen_ns,
       s.summary AS summary, escalations, actions, s.iri AS iri
ORDER BY seen_ns, iri
