// The actions of an agent's run in the order of their time, each with the record that first tells it.
// params: agent_run
// returns: action_id, tool_name, side_effect_class, claimed_mode, at_ns, trace_id, chain, record, refs, iri
// none: no record of this agent's run was taken in, or none has actions
MATCH (a:AgentAction {agent_run: $agent_run})
OPTIONAL MATCH (r:AgentRecord)-[:WAS_INFLUENCED_BY]->(a)
RETURN a.action_id AS action_id, a.tool_name AS tool_name, a.side_effect_class AS side_effect_class,
       a.claimed_mode AS claimed_mode, a.at_ns AS at_ns, a.trace_id AS trace_id, a.chain AS chain,
       r.record_digest AS record, a.refs AS refs, a.iri AS iri
ORDER BY at_ns, action_id, iri, record
