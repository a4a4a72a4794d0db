// Which runs and attempts are in the store.
// params:
// returns: run, attempt
MATCH (r:Run)
RETURN r.run AS run, r.attempt AS attempt
ORDER BY run, attempt
