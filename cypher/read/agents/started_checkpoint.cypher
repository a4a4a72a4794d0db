// Which agent action started the run that made this checkpoint, by which rule that is known, and whose chain of records tells it: of two chains, two rows.
// params: iri
// returns: run, attempt, agent_run, action_id, tool_name, at_ns, basis, chain, action
// none: no checkpoint has this id, its run was not recorded, or no agent's action is joined with it; where only a trace is shared, agents/launchers tells the agent's run
MATCH (c:Checkpoint {iri: $iri})-[:WAS_GENERATED_BY]->(t:TrainingRun)-[s:DERIVED_STARTED_BY]->(a:Element)
RETURN t.run AS run, t.attempt AS attempt, a.agent_run AS agent_run, a.action_id AS action_id, a.tool_name AS tool_name,
       a.at_ns AS at_ns, s.basis AS basis, a.chain AS chain, a.iri AS action
ORDER BY run, attempt, agent_run, action_id, action
