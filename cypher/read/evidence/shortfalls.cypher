// Where less was recorded than demanded: how many actions of each rank and operation, and why.
// params: run, attempt
// returns: rank, op, policy_mode, recorded_mode, shortfall, actions
// none: everything that was demanded of this attempt was recorded
MATCH (a:Action {run: $run, attempt: $attempt})
WHERE a.shortfall IS NOT NULL
RETURN a.rank AS rank, a.op AS op, a.policy_mode AS policy_mode, a.recorded_mode AS recorded_mode,
       a.shortfall AS shortfall, count(a) AS actions
ORDER BY rank, op, policy_mode, recorded_mode, shortfall
