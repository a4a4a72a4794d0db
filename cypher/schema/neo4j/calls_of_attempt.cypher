// Finds the calls of one attempt.
// params:
// returns:
CREATE INDEX IF NOT EXISTS FOR (c:Call) ON (c.run, c.attempt)
