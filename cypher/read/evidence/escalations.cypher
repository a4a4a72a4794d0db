// When an attempt was recorded more deeply: what opened it, for whom, how long, and how many actions it covers.
// params: run, attempt
// returns: source, trigger, escalated, rule, opened_step, closed_step, close_reason, reason, actions, iri
// none: nothing escalated in this attempt
MATCH (e:Escalation {run: $run, attempt: $attempt})
OPTIONAL MATCH (a:Action)-[:WAS_INFLUENCED_BY]->(e)
WITH e, count(a) AS actions
RETURN e.source AS source, e.trigger AS trigger, e.escalated AS escalated, e.rule AS rule, e.opened_step AS opened_step,
       e.closed_step AS closed_step, e.close_reason AS close_reason, e.reason AS reason, actions, e.iri AS iri
ORDER BY opened_step, iri
