// Who launched this run: agents' actions that a reference names, and agents' runs that share its trace, with the rule.
// params: run, attempt
// returns: kind, agent_run, action_id, tool_name, at_ns, basis, agent_id, keyid, iri
// none: no agent's evidence is joined with this run: provstore join says what is missing
MATCH (t:TrainingRun {run: $run, attempt: $attempt})-[s:DERIVED_STARTED_BY|DERIVED_INFLUENCED_BY]->(a:Element)
OPTIONAL MATCH (a)-[:WAS_ASSOCIATED_WITH]->(e:Emitter)
RETURN CASE WHEN a:AgentAction THEN 'action' ELSE 'run' END AS kind, a.agent_run AS agent_run, a.action_id AS action_id,
       a.tool_name AS tool_name, a.at_ns AS at_ns, s.basis AS basis, e.agent_id AS agent_id, e.keyid AS keyid,
       a.iri AS iri
ORDER BY kind, agent_run, action_id, basis, iri, agent_id, keyid
